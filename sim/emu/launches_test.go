package emu

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// A kernel may be entered before its go message, and a tile's clocks don't go back.
func TestLaunches(t *testing.T) {
	const firmware, kernel, done = 0x100, 0x9000, 0
	clock, ended := uint64(0), false
	w := launches{of: &Launches{Go: 4, Entries: 2, Code: 0x8000, Ended: func(*Launch, ReadCore) { ended = true }},
		clock: func(chip.Processor) uint64 { return clock }}
	signal := func(index uint32, s uint32, want bool) {
		t.Helper()
		ended = false
		l1 := []uint32{index, 0, 0}
		if index < 2 {
			l1[1+index] = s<<24 | 7
		}
		if w.signalled(l1); ended != want {
			t.Errorf("signal %#x: ended is %v", s, ended)
		}
	}
	at := func(p chip.Processor, pc uint32, now uint64) { clock = now; w.at(p, pc) }
	signal(1, done, false)
	at(chip.TRISC1, kernel, 90)
	signal(1, goSignal, false)
	at(chip.BRISC, firmware, 100)
	at(chip.BRISC, kernel, 120)
	at(chip.NCRISC, kernel, 115) // behind BRISC
	at(chip.TRISC1, firmware, 130)
	at(chip.BRISC, firmware, 140)
	at(chip.NCRISC, firmware, 150)
	signal(1, 0xC0, true)
	signal(1, done, false)
	want := [chip.NumProcessors][2]uint64{chip.BRISC: {120, 140}, chip.NCRISC: {120, 150}, chip.TRISC1: {100, 130}}
	if w.now.Start != 100 || w.now.Index != 1 || w.now.Kernels != want {
		t.Errorf("%+v", w.now)
	}
	signal(0, goSignal, false)
	at(chip.BRISC, firmware, 200)
	at(chip.TRISC0, kernel, 210)
	if want = [chip.NumProcessors][2]uint64{chip.TRISC0: {210, 0}}; w.now.Kernels != want || w.now.Start != 200 {
		t.Errorf("the next program: %+v", w.now)
	}
	signal(9, done, false)
}
