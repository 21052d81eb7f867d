package cq

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/expect"
	"pgregory.net/rapid"
)

func rows(t testing.TB, commands ...string) []byte {
	t.Helper()
	var out []byte
	for _, c := range commands {
		for r := range strings.SplitSeq(strings.TrimSpace(c), "\n") {
			b := value(hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(r), " ", "")))(t)
			out = append(out, append(b, make([]byte, -len(b)&15)...)...)
		}
		out = append(out, make([]byte, -len(out)&63)...)
	}
	return out
}

// Commands of one program, by hand from the structs of each revision: write offsets, a write,
// kernels from DRAM, a wait, a go signal, the end of the trace.
func revisionStreams(t testing.TB) map[string][]byte {
	const (
		offsets = "05000000 1c000000 40000000\n 0c030700 00000000\n 00000000 809b0000 c09b0000"
		short   = "05000000 20000000 40000000\n 01000000 42000000 00100000 10000000\n 01020304"
		linear  = "05000000 30000000 40000000\n 01000000 42000000 00100000 00000000\n 10000000\n 01020304"
		large   = "06000000 20000000 40000000\n 06020100 40000200\n 812c0100 00000000 ff070401"
		unicast = "06000000 20000000 40000000\n 12020100 40000200\n 42000000 00000000 00080000"
		relay   = "04000100 00080000 40000000\n 03000b00 00001000 00080000"
		notify  = "05000000 10000000 40000000\n 0f010100"
		wait    = "05000000 10000000 40000000\n 07083000 00000000 76000000"
		start   = "05010000 10000000 40000000\n 0e000e03 80000000 76000000 30000000"
		aligned = "05010000 10000000 40000000\n 0e000200 000e0380 76000000 30000000" // two unicasts
		simple  = "05010000 10000000 40000000\n 0e000000 000e0380 76000000 30000000"
		end     = "08000000 10000000 40000000\n 0b"
	)
	ids := func(s string) string {
		return map[string]string{"04": "03", "05": "04", "06": "05", "08": "07"}[s[:2]] + s[2:]
	}
	whole := strings.Replace(large, "ff070401", "00080401", 1) // length 2048, not less one
	later := strings.Replace(wait, "07083000", "07103000", 1)  // WAIT_STREAM is 0x10
	return map[string][]byte{
		"0.60.1": rows(t, ids(offsets), ids(short), ids(whole), ids(relay), ids(notify), ids(wait), ids(start), ids(end)),
		"0.63.0": rows(t, offsets, short, whole, relay, notify, wait, start, end),
		"0.64.0": rows(t, offsets, linear, whole, relay, notify, wait, start, end),
		Pinned:   rows(t, offsets, linear, large, relay, notify, wait, start, end),
		"0.67.0": rows(t, offsets, linear, large, relay, unicast, relay, notify, wait, start, end),
		"0.74.0": rows(t, offsets, linear, large, relay, notify, later, start, end),
		"0.79.0": rows(t, offsets, linear, large, relay, notify, later, aligned, end),
		"0.81.1": rows(t, offsets, linear, large, relay, strings.Replace(unicast, "1202", "1102", 1), relay, notify, later, simple, end),
	}
}

func TestDetectTellsRevisionsApart(t *testing.T) {
	streams := revisionStreams(t)
	for _, v := range Revisions() {
		t.Run(v.Name, func(t *testing.T) {
			stream := append(streams[v.Name], make([]byte, 256)...)
			got, readings, err := Detect(Blackhole, stream)
			must(t, err)
			equal(t, got.Name, v.Name, "detected as")
			var names []string
			for i := range readings {
				names = append(names, readings[i].Name)
			}
			want := []string{"SET_WRITE_OFFSET", "WRITE_LINEAR", "WRITE_PACKED_LARGE", "RELAY_PAGED_PACKED"}
			if v.Name == "0.67.0" || v.Name == "0.81.1" {
				want = append(want, "WRITE_PACKED_LARGE_UNICAST", "RELAY_PAGED_PACKED")
			}
			want = append(want, "NOTIFY_SUBORDINATE_GO_SIGNAL", "WAIT", "SEND_GO_SIGNAL", "EXEC_BUF_END")
			expect.NoDiff(t, names, want, "names")
			named := func(name string) *Reading { return &readings[slices.Index(names, name)] }
			if id, ok := readings[0].Value("host_id"); !ok || id != 7 {
				t.Errorf("host id %d, want 7: %s", id, readings[0].String())
			}
			equal(t, named("WRITE_PACKED_LARGE").Fields[6].Text, "2048", "length")
			if s := named("WAIT").String(); !strings.Contains(s, "WAIT flags=stream stream=48") {
				t.Errorf("wait: %s", s)
			}
			r := named("SEND_GO_SIGNAL")
			n, _ := r.Value("wait_stream")
			if g, _ := r.Value("go"); n != 48 || g != 0x80030e00 {
				t.Errorf("go: %s", r)
			}
		})
	}
}

func TestDetectRefuses(t *testing.T) {
	golden := func(name string) []byte {
		return value(os.ReadFile(filepath.Join("testdata", "golden", name+".bin")))(t)
	}
	for _, name := range []string{"wait", "write_packed_8x64", "write_linear_4k", "exec_buf_end", "exec_trace", "exec_buf"} {
		if v, _, err := Detect(Blackhole, golden(name)); err != nil || v.Name != Pinned { // others read it alike
			t.Errorf("%s is of %v, %v", name, v, err)
		}
	}
	for _, c := range []struct {
		name   string
		stream []byte
	}{
		{"nothing", nil},
		{"zeros", make([]byte, 4096)},
		{"noise", slices.Repeat([]byte{0xA5, 3, 9}, 999)},
		{"after the end", append(golden("exec_buf_end"), 1)},
		{"cut", golden("write_packed_8x64")[:128]},
		{"a go signal of no signal", bytes.Replace(revisionStreams(t)[Pinned], []byte{0xe, 0, 0xe, 3, 0x80}, []byte{0xe, 0, 0xe, 3, 0x81}, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Detect(Blackhole, c.stream)
			var e *RevisionError
			if !errors.As(err, &e) || !errors.Is(err, ErrRevision) {
				t.Fatalf("error is %v", err)
			}
			if len(e.Accepted) > 0 || len(e.Refused) != len(Revisions()) {
				t.Errorf("%v accepted, %d refused", e.Accepted, len(e.Refused))
			}
			for _, r := range e.Refused {
				expect.Says(t, err, nil, "not "+r.Name)
			}
		})
	}
}

func TestRevisionNames(t *testing.T) {
	for i, v := range Revisions() {
		if got := RevisionByName(v.Name); got != v {
			t.Errorf("revision %d %q isn't found", i, v.Name)
		}
	}
	if RevisionByName("2024") != nil {
		t.Error("a revision that doesn't exist was found")
	}
}

func FuzzDetect(f *testing.F) {
	for _, s := range revisionStreams(f) {
		f.Add(true, s)
	}
	f.Fuzz(func(t *testing.T, blackhole bool, stream []byte) {
		l := Wormhole
		if blackhole {
			l = Blackhole
		}
		for _, v := range Revisions() {
			readings, err := v.Read(l, stream)
			at := 0
			for i := range readings {
				if readings[i].Offset != at || readings[i].Size < HeaderSize {
					t.Fatalf("reading %d lies at %d with %d B, want it at %d", i, readings[i].Offset, readings[i].Size, at)
				}
				at += readings[i].Size
				_ = readings[i].String()
			}
			if err == nil && slices.ContainsFunc(stream[at:], func(b byte) bool { return b != 0 }) {
				t.Fatalf("%s accepts bytes after the end", v.Name)
			}
		}
	})
}

// tt-metal's packed-large writes of arguments, semaphores and kernels are whole words; the next
// block is aligned all the same. Source: tt-metal impl/program/dispatch.cpp (size_commands: size is
// the end of the last transfer less the start).
func TestPackedLargeOfWords(t *testing.T) {
	l := Blackhole
	b := NewBuilder(l, nil)
	noc := l.NOCRect(1, 2, 2, 3)
	b.WritePackedLarge(WritePackedLarge{Type: LargeConfig, Alignment: 16, OffsetIndex: 1, Subs: []LargeSub{
		{NOC: noc, Addr: 0x20, Length: 4, Dests: 4}, {NOC: noc, Addr: 0x60, Length: 28, Dests: 4, Unlink: true}}})
	stream, err := b.Finish()
	must(t, err)
	_, r, err := Detect(l, stream)
	if err != nil || len(r) != 1 || r[0].Data != 48 {
		t.Errorf("%v, want one command with 48 B of data: %v", r, err)
	}
}

type metalStruct struct{ name, fields string }

// readStructs reads testdata/structs.txt.
func readStructs(t *testing.T) map[string]metalStruct {
	text := value(os.ReadFile("testdata/structs.txt"))(t)
	all := map[string]metalStruct{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] != "#" {
			all[f[0]] = metalStruct{f[1], strings.Join(f[2:], " ")}
		}
	}
	return all
}

// Each wheel has a revision whose ids, fields and flags are those of the wheel's header.
func TestWheels(t *testing.T) {
	text := value(os.ReadFile("testdata/wheels.json"))(t)
	table := value(abi.ReadTable(text))(t)
	structs := readStructs(t)
	for arch, releases := range table {
		for _, r := range releases {
			for _, wheel := range r.Wheels {
				v := revisionOf(wheel)
				checkIDs(t, structs, arch+" "+wheel, &v.prefetch, r.Facts, "CQ_PREFETCH_CMD_")
				checkIDs(t, structs, arch+" "+wheel, &v.dispatch, r.Facts, "CQ_DISPATCH_CMD_", "CQ_DISPATCH_")
				for name, want := range map[string]uint64{"WAIT_MEMORY": v.wait.memory, "CLEAR_MEMORY": v.wait.clearMemory,
					"WAIT_STREAM": v.wait.stream, "CLEAR_STREAM": v.wait.clearStream} {
					equal(t, uint64(r.Facts["CQ_DISPATCH_CMD_WAIT_FLAG_"+name]), want, "%s %s: flag %s of WAIT", arch, wheel, name)
				}
				length := v.dispatch[DispatchWritePackedLarge].list.fields[2]
				if _, less := r.Facts["CQDispatchWritePackedLargeSubCmd.length_minus1"]; less != (length.as == asLess1) {
					t.Errorf("%s %s: lengths less one: %v", arch, wheel, less)
				}
			}
		}
	}
}

func revisionOf(wheel string) *Revision {
	version := func(s string) (out []int) {
		for part := range strings.SplitSeq(s, ".") {
			n, _ := strconv.Atoi(part)
			out = append(out, n)
		}
		return out
	}
	all := Revisions()
	for _, v := range slices.Backward(all) {
		first := v.Name
		if first == Pinned {
			first = "0.65.0"
		}
		if slices.Compare(version(first), version(wheel)) <= 0 {
			return v
		}
	}
	return all[0]
}

func checkIDs(t *testing.T, structs map[string]metalStruct, wheel string, fs *forms, facts abi.Facts, prefixes ...string) {
	t.Helper()
	for id := range stockIDs {
		f := &fs[id]
		if f.name == "" || strings.HasSuffix(f.name, "_PACKED_H") {
			continue
		}
		known := false
		for _, prefix := range prefixes {
			if got, ok := facts[prefix+f.name]; ok {
				known = true
				equal(t, got, uint32(id), "%s: %s is %d", wheel, f.name, id)
			}
		}
		later := f.name == "SET_SUB_DEVICE_WORKER_COUNTS" || f.name == "RT_PROFILER_FLUSH" // came within a revision
		if !known && !later {
			t.Errorf("%s: %s isn't in the header", wheel, f.name)
		}
		s, ok := structs[f.name]
		if !ok || !known {
			continue
		}
		for _, pair := range strings.Fields(s.fields) {
			field, cField, _ := strings.Cut(pair, "=")
			want, has := facts[s.name+"."+cField]
			if slot := find(f.fields, field); has != (slot != nil) || has && slot.at != int(want)+1 {
				t.Errorf("%s: %s of %s: %+v, want an offset of %d (%v)", wheel, field, f.name, slot, want+1, has)
			}
		}
		if size, want := f.size(), 1+facts[s.name]; int(want) > size || want > HeaderSize && size == HeaderSize {
			t.Errorf("%s: %s has %d B, its metalStruct %d", wheel, f.name, size, want)
		}
	}
}

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
		expect.Says(t, err, nil, want)
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
	slots = slices.SortedFunc(slices.Values(slots), func(a, b slot) int { return a.at - b.at })
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
	expect.NoDiff(t, string(got), header(), "%s is not what the descriptors give: run go generate ./dispatch/cq", headerFile)
}
