package cq

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func rows(t testing.TB, commands ...string) []byte {
	t.Helper()
	var out []byte
	for _, c := range commands {
		for r := range strings.SplitSeq(strings.TrimSpace(c), "\n") {
			b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(r), " ", ""))
			must(t, err)
			out = append(out, append(b, make([]byte, -len(b)&15)...)...)
		}
		out = append(out, make([]byte, -len(out)&63)...)
	}
	return out
}

// Commands of one program, by hand from the structs of each revision: write offsets, kernels from
// DRAM, a wait, a go signal, the end of the trace.
func revisionStreams(t testing.TB) map[string][]byte {
	const (
		offsets = "05000000 1c000000 40000000\n 0c030700 00000000\n 00000000 809b0000 c09b0000"
		large   = "06000000 20000000 40000000\n 06020100 40000200\n 812c0100 00000000 ff070401"
		relay   = "04000100 00080000 40000000\n 03000b00 00001000 00080000"
		notify  = "05000000 10000000 40000000\n 0f010100"
		wait    = "05000000 10000000 40000000\n 07083000 00000000 76000000"
		start   = "05010000 10000000 40000000\n 0e000e03 80000000 76000000 30000000"
		end     = "08000000 10000000 40000000\n 0b"
	)
	ids := func(s string) string {
		return map[string]string{"04": "03", "05": "04", "06": "05", "08": "07"}[s[:2]] + s[2:]
	}
	whole := func(s string) string { return strings.Replace(s, "ff070401", "00080401", 1) } // length 2048, not less one
	later := func(s string) string { return strings.Replace(s, "07083000", "07103000", 1) } // WAIT_STREAM is 0x10
	return map[string][]byte{
		"2025-early": rows(t, "04000000 10000000 40000000\n 0c000700 00000000 809b0000 c09b0000",
			ids(whole(large)), ids(relay), ids(notify), ids(wait), ids(start), ids(end)),
		"2025-mid":    rows(t, ids(offsets), ids(whole(large)), ids(relay), ids(notify), ids(wait), ids(start), ids(end)),
		"2025-autumn": rows(t, offsets, whole(large), relay, notify, wait, start, end),
		Pinned:        rows(t, offsets, large, relay, notify, wait, start, end),
		"newer-a": rows(t, strings.Replace(offsets, "0c030700 00000000", "0c030000 07000000", 1),
			large, relay, notify, later(wait), start, end),
		"newer-b": rows(t, offsets, large, relay, notify, later(wait),
			"05010000 10000000 40000000\n 0e000e03 80000000 07000476 00000030", end),
	}
}

func TestDetectTellsRevisionsApart(t *testing.T) {
	streams := revisionStreams(t)
	for _, v := range Revisions() {
		t.Run(v.Name, func(t *testing.T) {
			stream := append(streams[v.Name], make([]byte, 256)...)
			got, readings, err := Detect(Blackhole, stream)
			must(t, err)
			if got.Name != v.Name || got.About == "" {
				t.Errorf("detected as %s (%s)", got.Name, got.About)
			}
			var names []string
			for i := range readings {
				names = append(names, readings[i].Name)
			}
			want := []string{"SET_WRITE_OFFSET", "WRITE_PACKED_LARGE", "RELAY_PAGED_PACKED", "NOTIFY_SUBORDINATE_GO_SIGNAL", "WAIT",
				"SEND_GO_SIGNAL", "EXEC_BUF_END"}
			if diff := cmp.Diff(want, names); diff != "" {
				t.Error(diff)
			}
			if id, ok := readings[0].Value("host_id"); !ok || id != 7 {
				t.Errorf("host id %d, want 7: %s", id, readings[0].String())
			}
			if n := readings[1].Fields[6].Text; n != "2048" {
				t.Errorf("length %s, want 2048: %s", n, readings[1].String())
			}
			if s := readings[4].String(); !strings.Contains(s, "WAIT flags=stream stream=48") {
				t.Errorf("wait: %s", s)
			}
			if n, _ := readings[5].Value("wait_stream"); n != 48 {
				t.Errorf("go: %s", readings[5].String())
			}
		})
	}
}

func TestDetectRefuses(t *testing.T) {
	golden := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("testdata", "golden", name+".bin"))
		must(t, err)
		return b
	}
	after := []string{"2025-autumn", Pinned, "newer-a", "newer-b"} // the id of RELAY_INLINE moved
	all := []string{"2025-early", "2025-mid", "2025-autumn", Pinned, "newer-a", "newer-b"}
	for _, c := range []struct {
		name     string
		stream   []byte
		accepted []string
	}{
		{"wait", golden("wait"), after[:2]}, // stream and clear
		{"write_packed", golden("write_packed_8x64"), after},
		{"write_linear", golden("write_linear_4k"), after},
		{"exec_buf_end", golden("exec_buf_end"), after},
		{"exec_trace", golden("exec_trace"), after[:2]},
		{"exec_buf", golden("exec_buf"), after},
		{"nothing", nil, nil},
		{"zeros", make([]byte, 4096), nil},
		{"noise", slices.Repeat([]byte{0xA5, 3, 9}, 999), nil},
		{"after the end", append(golden("exec_buf_end"), 1), nil},
		{"cut", golden("write_packed_8x64")[:128], nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Detect(Blackhole, c.stream)
			var e *RevisionError
			if !errors.As(err, &e) || !errors.Is(err, ErrRevision) {
				t.Fatalf("error is %v", err)
			}
			if diff := cmp.Diff(c.accepted, e.Accepted); diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
			if len(e.Accepted)+len(e.Refused) != len(all) {
				t.Errorf("%d accepted, %d refused", len(e.Accepted), len(e.Refused))
			}
			for _, r := range e.Refused {
				if !strings.Contains(err.Error(), "not "+r.Name) {
					t.Errorf("the error doesn't say why not %s: %v", r.Name, err)
				}
			}
		})
	}
}

func TestRevisionNames(t *testing.T) {
	for i, v := range Revisions() {
		if got := RevisionByName(v.Name); got == nil || got.About != v.About {
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
	var several *RevisionError
	if errors.As(err, &several) { // later revisions have the same command
		if diff := cmp.Diff([]string{Pinned, "newer-a", "newer-b"}, several.Accepted); diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		r, err = RevisionByName(Pinned).Read(l, stream)
	}
	if err != nil || len(r) != 1 || r[0].Data != 48 {
		t.Errorf("%v, want one command with 48 B of data: %v", r, err)
	}
}
