package postmortem

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

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
		if got := s.Explain(tc.p); got != tc.want {
			t.Errorf("%v with %#x, % x: %s, want %s", tc.p, tc.word, tc.sync, got, tc.want)
		}
	}
	for bytes, want := range map[string]string{"GW\x00\x00": "waits for work",
		"NTW\x00": "is through with its kernel and waits for the other processors", "CRBW": "waits for room in a circular buffer",
		"XYZ\x00": "is at a waypoint of its kernel's own"} {
		s := CoreState{Firmware: "0.65.1"}
		s.Processors[chip.BRISC].Waypoint = waypoint([]byte(bytes))
		if got := s.Explain(chip.BRISC); got != want {
			t.Errorf("%q: %s, want %s", bytes, got, want)
		}
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
		if got := busyCores(c.cores); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
