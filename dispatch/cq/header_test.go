package cq

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the firmware's header instead of comparing it")

const headerFile = "../firmware/src/cq/cq_table.h"

var constants = []struct {
	name string
	v    any
}{
	{"RELAY_PAGED_DRAM", 1 << 15}, {"RELAY_PAGED_LENGTH_ADJUST", maxLengthAdjust},
	{"RINGBUFFER_RESET", 1},
	{"DISPATCHER_MASTER", Master}, {"DISPATCHER_SUBORDINATE", Subordinate},
	{"PACKED_MULTICAST", packedMulticast}, {"PACKED_NO_STRIDE", packedNoStride}, {"PACKED_LARGE_UNLINK", 1},
	{"WAIT_BARRIER", WaitBarrier}, {"WAIT_NOTIFY_PREFETCH", NotifyFetch}, {"WAIT_MEMORY", WaitMemory}, {"WAIT_STREAM", WaitStream},
	{"WAIT_CLEAR_STREAM", ClearStream},
	{"FLOW_LIMITED", flagLimited}, {"FLOW_LEAVE", flagLeave}, {"FLOW_SAME", flagSame},
	{"NEVER", Never}, {"EQUAL", Equal}, {"NOT_EQUAL", NotEqual}, {"LESS", Less}, {"LESS_EQUAL", LessEqual}, {"GREATER", Greater},
	{"GREATER_EQUAL", GreaterEqual}, {"ANY_SET", AnySet}, {"NONE_SET", NoneSet},
	{"TURN_LOOP", TurnLoop}, {"TURN_NEXT", TurnNext}, {"TURN_LEAVE", TurnLeave}, {"TURN_TAKE", TurnTake}, {"TURN_ELSE", TurnElse},
	{"TURN_JOIN", TurnJoin}, {"TURN_CALL", TurnCall}, {"TURN_RETURN", TurnReturn}, {"TURN_ABORT", TurnAbort},
	{"GO_NO_MULTICAST", NoMulticast}, {"GO_NOC_DATA_WORDS", DefaultLimits(0).GoNOCEntries},
	{"LOOPS", MaxLoops}, {"CALLS", MaxCalls}, {"READ_ARGS", MaxReadArgs}, {"READ_ARG_BYTES", MaxReadArgBytes},
}

func header() string {
	var s strings.Builder
	s.WriteString(`// Code generated from the descriptors in dispatch/cq/commands.go by "go generate ./dispatch/cq"; DO NOT EDIT.
//
// Fields that are misaligned are byte arrays; those of 8 bytes are otherwise two words.
#ifndef REPRISE_CQ_TABLE_H
#define REPRISE_CQ_TABLE_H

#include <stdint.h>

#include "reprise/abi.h"

`)
	v := own()
	fmt.Fprintf(&s, "#define CQ_HEADER_BYTES %du\n#define CQ_LARGE_HEADER_BYTES %du\n\n", HeaderSize, LargeHeaderSize)
	for _, c := range constants {
		fmt.Fprintf(&s, "#define CQ_%s %du\n", c.name, c.v)
	}
	tables := []struct {
		who   string
		forms *forms
	}{{"prefetch", &v.prefetch}, {"dispatch", &v.dispatch}}
	for _, t := range tables {
		fmt.Fprintf(&s, "\nenum cq_%s_id {\n", t.who)
		for _, id := range ids(t.forms) {
			fmt.Fprintf(&s, "    CQ_%s_%s = %d,\n", strings.ToUpper(t.who), t.forms.by(id).name, id)
		}
		s.WriteString("};\n")
	}
	seen := map[*slot]bool{}
	for _, t := range tables {
		for _, id := range ids(t.forms) {
			f := t.forms.by(id)
			if len(f.fields) == 0 || seen[&f.fields[0]] {
				continue // as one before
			}
			seen[&f.fields[0]] = true
			name := strings.ToLower(f.name)
			structure(&s, name, f.fields, f.size(), 1)
			if f.list != nil {
				fmt.Fprintf(&s, "#define CQ_%s_MAX %du\n", f.name, f.list.most)
			}
			if f.list != nil && len(f.list.fields) > 1 {
				structure(&s, name+"_sub", f.list.fields, f.list.size, 0)
			}
		}
	}
	s.WriteString("\n#endif\n")
	return s.String()
}

func structure(s *strings.Builder, name string, slots []slot, size, at int) {
	fmt.Fprintf(s, "\nstruct cq_%s {\n", name)
	if at == 1 {
		s.WriteString("    uint8_t id;\n")
	}
	pad := func(to int) {
		if to > at {
			fmt.Fprintf(s, "    uint8_t pad%d[%d];\n", at, to-at)
		}
		at = to
	}
	slots = slices.SortedFunc(slices.Values(slots), func(a, b slot) int { return cmp.Compare(a.at, b.at) })
	for _, f := range slots {
		pad(f.at)
		field := f.name
		switch {
		case f.name == "else": // a word of C
			field = "otherwise"
		case f.as == asLess1:
			field += "_minus1"
		}
		switch aligned := f.at%min(f.size, 4) == 0; {
		case !aligned:
			fmt.Fprintf(s, "    uint8_t %s[%d];\n", field, f.size)
		case f.size == 8:
			fmt.Fprintf(s, "    uint32_t %s_lo, %s_hi;\n", field, field)
		default:
			fmt.Fprintf(s, "    uint%d_t %s;\n", 8*f.size, field)
		}
		at += f.size
	}
	pad(size)
	fmt.Fprintf(s, "};\nRP_STATIC_ASSERT(sizeof(struct cq_%s) == %d, \"cq_%s\");\n", name, size, name)
}

func TestFirmwareHeader(t *testing.T) {
	if *update {
		must(t, os.WriteFile(headerFile, []byte(header()), 0o644))
	}
	got, err := os.ReadFile(headerFile)
	must(t, err)
	if string(got) != header() {
		t.Errorf("%s is not what the descriptors give: run go generate ./dispatch/cq", headerFile)
	}
}
