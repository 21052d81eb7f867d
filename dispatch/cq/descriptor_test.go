package cq

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var goNames = map[string]string{
	"mcast": "McastDests", "start": "StartPage", "log2_page": "LogPageSize", "memory": "DRAM", "unicasts": "NumUnicast",
	"RELAY_RINGBUFFER start": "Start",
}

func TestDescriptors(t *testing.T) {
	v := own()
	test := func(f *form, id uint8, fetch bool) {
		t.Run(fmt.Sprintf("%s_%d", f.name, id), func(t *testing.T) {
			if (f.prefetch != nil) != fetch || (f.dispatch != nil) == fetch {
				t.Fatal("no function makes the command")
			}
			if f.data == dataRelay || f.data == dataForward || f.data == dataCommands {
				return // TestAll has them
			}
			rapid.Check(t, func(t *rapid.T) {
				b := genForm(t, f, id, false)
				it := item{form: f, raw: b}
				must(t, it.measure())
				var c any
				if fetch {
					c = f.prefetch(&it, nil)
				} else {
					c = RelayInline{Master, f.dispatch(&it, nil)}
				}
				got := value(appendCommand(nil, Blackhole, c.(PrefetchCommand)))(t)
				if r, ok := c.(RelayInline); ok {
					c, got = r.Command, got[AtRelayed:AtRelayed+len(b)]
				} else {
					put(b, f.fields, "stride", uint64(len(got)))
					b = append(b, make([]byte, len(got)-len(b))...)
				}
				if !bytes.Equal(got, b) {
					t.Fatalf("encodes to other bytes\n% x\n% x", got, b)
				}
				sameFields(t, f, f.fields, it.raw, reflect.ValueOf(c))
				for _, name := range []string{"Subs", "Rects", "Targets"} {
					if l := reflect.ValueOf(c).FieldByName(name); l.IsValid() {
						for i := range l.Len() {
							sameFields(t, f, it.list.fields, it.entry(i), l.Index(i))
						}
					}
				}
			})
		})
	}
	for _, id := range ids(&v.prefetch) {
		test(v.prefetch.by(id), id, true)
	}
	for _, id := range ids(&v.dispatch) {
		test(v.dispatch.by(id), id, false)
	}
}

func sameFields(t *rapid.T, f *form, slots []slot, b []byte, c reflect.Value) {
	for _, s := range slots {
		name := strings.ReplaceAll(s.name, "_", "")
		if n := goNames[s.name]; n != "" {
			name = n
		}
		if n := goNames[f.name+" "+s.name]; n != "" {
			name = n
		}
		g := c.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, name) })
		var v uint64
		switch {
		case s.as == asPaged, s.as == asPacked, s.as == asBranch, s.name == "count" && !g.IsValid(), s.name == "total",
			s.name == "stride" && !g.IsValid(), f.data == dataSized && s.name == "size":
			continue
		case !g.IsValid():
			t.Fatalf("%s: no Go field for %s", f.name, s.name)
		case g.Kind() == reflect.Bool:
			v = bit(g.Bool())
		default:
			v = g.Uint()
		}
		if want := s.get(b); v != want {
			t.Fatalf("%s: %s is %#x in Go, %#x in the stream", f.name, s.name, v, want)
		}
	}
}

func TestUnknownCommand(t *testing.T) {
	v := own()
	for id := range 256 {
		b := make([]byte, 2*64)
		b[64] = byte(id)
		b[0] = byte(PrefetchTerminate)
		want := "at +0x40: "
		if v.prefetch.by(uint8(id)) != nil {
			copy(b[64:], []byte{byte(PrefetchRelayInline), 0, 0, 0, HeaderSize, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, byte(id)})
			want = "at +0x50: "
			if v.dispatch.by(uint8(id)) != nil {
				continue
			}
		}
		err := Check(Blackhole, DefaultLimits(0), b)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("id %d: %v, want an error %s", id, err, want)
		}
	}
}

func TestReadDispatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := genDispatch(t, false, false)
		c, n := ReadDispatch(append(slices.Clone(b), genBytes(40).Draw(t, "after")...))
		if n != len(b) || c == nil || c.ID() != DispatchID(b[0]) {
			t.Fatalf("%v of %d bytes, want %v of %d", c, n, DispatchID(b[0]), len(b))
		}
	})
}

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
	got := value(os.ReadFile(headerFile))(t)
	if string(got) != header() {
		t.Errorf("%s is not what the descriptors give: run go generate ./dispatch/cq", headerFile)
	}
}
