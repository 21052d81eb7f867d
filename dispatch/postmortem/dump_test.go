package postmortem

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/internal/expect"
)

func sampleDump(tb testing.TB) *Dump {
	tb.Helper()
	b := cq.NewBuilder(cq.Blackhole, nil)
	b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream, Stream: 48, Count: 130})
	stream, err := b.Finish()
	must(tb, err)
	pre, core, worker := chip.Core{X: 13}, chip.Core{X: 13, Y: 1}, chip.Core{X: 2, Y: 1}
	ring := make([]byte, memmap.DispatchPages*memmap.PageSize)
	copy(ring[2*memmap.PageSize:], stream[cq.AtRelayed:])
	waits := CoreState{Core: core, Kind: Dispatch, Go: SignalGo << 24}
	waits.Processors[chip.BRISC] = ProcessorState{Waypoint: "WRKR", Detail: 48<<24 | 130, Kernels: 1}
	busy := CoreState{Core: worker, Kind: Worker, Go: SignalGo << 24}
	busy.Processors[chip.TRISC1] = ProcessorState{Waypoint: "SEMW", Detail: 0x1234, Kernels: 1,
		Engine: "SEMWAIT waits while semaphore 1 is 0"}
	stuck := live.Snapshot{Core: worker, PC: 0x197B4, Registers: make([]uint32, 32), Memory: []byte{1, 2, 3}}
	stuck.Frames = []stack.Frame{{PC: 0x197B4, Function: "wait\x1b", File: "wait.c", Line: 8,
		Args: []stack.Argument{{Name: "addr", Value: "0x1234"}}}}
	sampled := live.Snapshot{Core: worker, Stack: live.Stack{Processor: chip.NCRISC, Note: "only pc is known"}, PC: 0x100}
	return &Dump{
		Stacks: []live.Snapshot{stuck, sampled}, StacksNote: "those of 1 of 2 busy workers",
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Target: "a card", Arch: "blackhole",
		Harvesting: chip.Harvesting{Tensix: 1}, Waiting: "data of a read", Last: "dense", Cause: "no progress for 10s",
		Queues: []QueueDump{{
			Prefetch: pre, Dispatch: core, Last: "dense", Pending: []string{"64 B of data"},
			Host: HostRings{FetchPut: 1, FetchTaken: 1, Expected: 130, CompletionRd: memmap.ToggleBit | 0x100},
			Device: DeviceRings{Read: true, DispatchReset: 1 << 11, DispatchCredits: memmap.DispatchPages, DispatchPages: 3,
				SubordinateCredits: memmap.SubordinatePages, Streams: []uint32{129}, FirstStream: 48},
			Programs: []TraceProgram{{Trace: "decode", Step: 7, Program: "dense", Loops: []int{0, 2}}},
			Entries:  []FetchState{{Taken: true, Size: uint32(len(stream))}},
		}},
		Cores: []CoreState{busy, {Core: pre, Kind: Prefetch}, waits, {Kind: Worker, Unreadable: "lost"}},
		Regions: []Region{
			{Name: RegionIssue, Core: pre, Host: true, Size: len(stream), Data: stream},
			{Name: RegionDispatchRing, Core: core, Addr: 0x1A000, Size: len(ring), Data: ring},
			{Name: RegionTrace, Core: pre, Host: true, Size: len(stream), Data: stream},
		},
	}
}

func encode(tb testing.TB, d *Dump) []byte {
	tb.Helper()
	var b bytes.Buffer
	n, err := d.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		tb.Fatalf("wrote %d of %d B: %v", n, b.Len(), err)
	}
	return b.Bytes()
}

func TestDumpRoundTrip(t *testing.T) {
	want := sampleDump(t)
	got, err := ReadDump(bytes.NewReader(encode(t, want)))
	must(t, err)
	expect.NoDiff(t, got, want, "got")
}

func TestDumpPrint(t *testing.T) {
	var b strings.Builder
	must(t, sampleDump(t).Print(&b))
	rest := b.String()
	for _, part := range []string{
		"a card (blackhole) at 2026-01-02 03:04:05 UTC: queue 0 waited for data of a read; last submitted: dense",
		"1 of 1 entries taken", "host at 0x100+toggle", "expected          64 B of data", "3 pages published, 0 returned",
		"130 of workers expected by the host; stream 48 counts 129",
		`in its trace      perhaps waiting for program "dense" (step 7 of trace "decode", in loop 2, in loop 0)`,
		"core (13,1) (dispatch): held in reset: BRISC",
		"waits for workers: completion stream 48 to reach 130", "entry 0 (taken last)", "WAIT flags=stream stream=48",
		"dispatch ring, newest commands last", "page   2", "<- waits here",
		"the trace that was replayed last has 1 commands", "<- waits here",
		"core (2,1) (worker)", "TRISC1  SEMW after 1 kernels: waits for a word to have a value, the word is at L1 address 0x1234",
		"its engines: SEMWAIT waits while semaphore 1 is 0",
		"unreadable: lost",
		"call stacks of busy workers: those of 1 of 2 busy workers\n  (2,1) BRISC\n    #0 wait�(addr=0x1234) at wait.c:8, pc 0x197b4\n  (2,1) NCRISC (only pc is known)\n",
	} {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Fatalf("the text doesn't say %q in its place:\n%s", part, b.String())
		}
		rest = after
	}
}

func TestReadDumpRefuses(t *testing.T) {
	whole := encode(t, sampleDump(t))
	change := func(f func([]byte) []byte) []byte { return f(bytes.Clone(whole)) }
	for _, tt := range []struct {
		name string
		file []byte
		is   error
		says string
	}{
		{"empty", nil, ErrNotDump, "doesn't begin with"},
		{"something else", bytes.Repeat([]byte("hello"), 100), ErrNotDump, "doesn't begin with"},
		{"cut in its head", whole[:30], ErrDamaged, "in its head"},
		{"cut in its body", whole[:len(whole)-1], ErrDamaged, "its head, which says"},
		{"longer than it says", append(bytes.Clone(whole), 0), ErrDamaged, "its head, which says"},
		{"another version", change(func(b []byte) []byte { b[8]++; return b }), ErrDumpVersion, "it is 2, this program reads 1"},
		{"a flipped bit", change(func(b []byte) []byte { b[len(b)/2] ^= 4; return b }), ErrDamaged, "checksum"},
		{"no JSON in its description", seal(described(`{"Arch":"wormhole",]`)), ErrDamaged, "its description: byte 20: "},
		{"another form of description", seal(described(`{"Arch":5}`)), ErrDamaged, "its description: byte 9: "},
		{"a huge size", change(func(b []byte) []byte { b[19] = 0x7F; return b }), ErrDamaged, "at most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := ReadDump(bytes.NewReader(tt.file))
			if d != nil || !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, %v, want one that is %v and says %q", d, err, tt.is, tt.says)
			}
		})
	}
}

func described(text string) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
}

func seal(body []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(body)
	_ = w.Close()
	out := binary.LittleEndian.AppendUint32([]byte(DumpMagic), dumpVersion)
	out = binary.LittleEndian.AppendUint64(out, uint64(z.Len()))
	sum := sha256.Sum256(z.Bytes())
	return append(append(out, sum[:]...), z.Bytes()...)
}

func FuzzReadDump(f *testing.F) {
	body := func(file []byte) []byte {
		z, err := gzip.NewReader(bytes.NewReader(file[dumpHead:]))
		must(f, err)
		b, err := io.ReadAll(z)
		must(f, err)
		return b
	}
	small := sampleDump(f)
	ring := &small.Regions[1]
	ring.Size, ring.Data = 4*memmap.PageSize, ring.Data[:4*memmap.PageSize]
	f.Add(body(encode(f, small)))
	f.Add(body(encode(f, &Dump{Arch: "wormhole", Queues: []QueueDump{{Device: DeviceRings{Read: true}}}})))
	f.Add([]byte{2, 0, 0, 0, '{', '}'})
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ReadDump(bytes.NewReader(seal(b)))
		if err != nil {
			return
		}
		must(t, d.Print(io.Discard))
	})
}

func TestRingCommandsOfNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ring := make([]byte, memmap.DispatchPages*memmap.PageSize)
	for round := range 4 {
		for i := range ring {
			ring[i] = byte(r.Uint32())
		}
		for p := range memmap.DispatchPages {
			ring[p*memmap.PageSize] = byte(r.Uint32N(24)) // ids of commands
		}
		for _, c := range ringCommands(ring, memmap.PageSize, uint32(round*37), memmap.DispatchPages, func(uint32) bool { return false }) {
			if c.page >= memmap.DispatchPages || c.command == nil {
				t.Errorf("page %d: %v", c.page, c.command)
			}
		}
	}
}

var must = expect.Must

func TestExplainWaitsForOtherQueues(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		ctl := memmap.Own(abi.Own(arch))
		for _, tt := range []struct {
			addr uint32
			want string
		}{
			{ctl.LastEvent[0], "waits for an event of queue 0, the word is at "},
			{ctl.LastEvent[1], "waits for an event of queue 1, the word is at "},
			{ctl.EdgeWord[1], "waits for queue 1's part of a trace, the word is at "},
			{0x100000, "waits for a word of its L1 to reach a value, the word is at "},
		} {
			s := CoreState{Kind: Dispatch}
			s.Processors[chip.BRISC] = ProcessorState{Waypoint: "WMEM", Detail: tt.addr}
			if got := s.Explain(chip.BRISC); len(got) < len(tt.want) || got[:len(tt.want)] != tt.want {
				t.Errorf("%v, word at %#x: %q, want %q", arch, tt.addr, got, tt.want)
			}
		}
	}
}

func TestMetalStates(t *testing.T) {
	for _, tc := range []struct {
		p    chip.Processor
		word uint32 // go message
		sync [4]byte
		want string
	}{
		{chip.BRISC, SignalInit << 24, [4]byte{}, "sets itself up after reset"},
		{chip.BRISC, SignalDone << 24, [4]byte{}, "waits for work"},
		{chip.BRISC, SignalGo << 24, [4]byte{}, "runs a kernel"},
		{chip.NCRISC, 0, [4]byte{0x80}, "runs a kernel"},
		{chip.NCRISC, 0, [4]byte{1}, "loads a kernel's data"},
		{chip.NCRISC, 0, [4]byte{2}, "waits for BRISC to restart it in its instruction RAM"},
		{chip.TRISC0, 0, [4]byte{0x80, 3}, "waits for the coprocessor to become idle"},
		{chip.TRISC2, 0, [4]byte{0x80, 3, 0, 0x40}, "sets itself up after reset"},
		{chip.TRISC2, 0, [4]byte{0x80, 3, 0, 0x77}, "has not started"},
	} {
		s := CoreState{Firmware: "0.65.1"}
		s.Processors[tc.p].Waypoint = metalState(tc.p, tc.word, tc.sync[:])
		expect.Equal(t, s.Explain(tc.p), tc.want, "%v with %#x, % x", tc.p, tc.word, tc.sync)
	}
	for bytes, want := range map[string]string{"GW\x00\x00": "waits for work",
		"NTW\x00": "is through with its kernel and waits for the other processors", "CRBW": "waits for room in a circular buffer",
		"XYZ\x00": "is at a waypoint of its kernel's own"} {
		s := CoreState{Firmware: "0.65.1"}
		s.Processors[chip.BRISC].Waypoint = waypoint([]byte(bytes))
		expect.Equal(t, s.Explain(chip.BRISC), want, "%q", bytes)
	}
}

func TestBusyCores(t *testing.T) {
	grid := func(kind string, r chip.Range, busy ...chip.Range) []CoreState {
		var out []CoreState
		for c := range r.Cores() {
			s := CoreState{Core: c, Kind: kind}
			for _, b := range busy {
				if b.Contains(c) {
					s.Go = 0x80 << 24
				}
			}
			out = append(out, s)
		}
		return out
	}
	workers := chip.Grid(8, 4)
	row := chip.Range{Start: chip.Core{Y: 4}, End: chip.Core{X: 7, Y: 4}}
	for _, c := range []struct {
		cores []CoreState
		want  string
	}{
		{grid(Worker, workers), "0 of 32 cores busy"},
		{grid(Worker, workers, chip.Single(2, 1)), "1 of 32 cores busy (workers (2,1))"},
		{grid(Worker, workers, workers), "32 of 32 cores busy (workers (0,0)-(7,3))"},
		{grid(Worker, workers, chip.Grid(2, 2), chip.Single(5, 1), chip.Single(5, 2)), "6 of 32 cores busy (workers (0,0)-(1,1), (5,1)-(5,2))"},
		{append(grid(Worker, workers, chip.Grid(1, 1)), grid(Prefetch, row, chip.Single(3, 4))...), "2 of 40 cores busy (workers (0,0), prefetch (3,4))"},
		{
			grid(Worker, workers, chip.Single(0, 0), chip.Single(2, 0), chip.Single(4, 0), chip.Single(6, 0), chip.Single(0, 2),
				chip.Single(2, 2)),
			"6 of 32 cores busy (workers (0,0), (2,0), (4,0), (6,0), 2 more)",
		},
		{[]CoreState{{Unreadable: "the chip has stopped"}, {Go: 0}}, "0 of 2 cores busy, 1 unreadable"},
	} {
		expect.Equal(t, busyCores(c.cores), c.want, "got")
	}
}
