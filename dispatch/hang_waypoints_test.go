package dispatch

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

// A dispatcher that waits for another queue says for what, whatever the architecture.
func TestExplainWaitsForOtherQueues(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		ctl := newControlBlock(abi.Own(arch))
		for _, tt := range []struct {
			addr uint32
			want string
		}{
			{ctl.LastEvent[0], "waits for an event of queue 0, the word is at "},
			{ctl.LastEvent[1], "waits for an event of queue 1, the word is at "},
			{ctl.edgeWord[1], "waits for queue 1's part of a trace, the word is at "},
			{0x100000, "waits for a word of its L1 to reach a value, the word is at "},
		} {
			s := CoreState{Kind: kindDispatch}
			s.Processors[chip.BRISC] = ProcessorState{Waypoint: "WMEM", Detail: tt.addr}
			if got := s.Explain(chip.BRISC); len(got) < len(tt.want) || got[:len(tt.want)] != tt.want {
				t.Errorf("%v, word at %#x: %q, want %q", arch, tt.addr, got, tt.want)
			}
		}
	}
}
