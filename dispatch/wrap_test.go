package dispatch

import (
	"bytes"
	"testing"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/sim"
)

// Event ids are compared for equality alone, so they may wrap at 32 bits between any two of them.
func TestEventsWrap(t *testing.T) {
	for _, card := range []*sim.Card{sim.Wormhole(), sim.Blackhole()} {
		t.Run(card.String(), func(t *testing.T) {
			d := started(t, card, Options{})
			q := d.Queue(0)
			const start = 0xFFFFFFF8
			q.stream.event = start
			iv := Interleaved{DRAM: true, Addr: 1 << 20, PageSize: 64, HostPage: 64, Pages: 16, Banks: len(d.ch.DRAMBanks())}
			for i := range 16 {
				want, got := bytes.Repeat([]byte{byte(i + 1)}, iv.Bytes()), make([]byte, iv.Bytes())
				if err := q.Write(t.Context(), &iv, 0, want); err != nil {
					t.Fatal(err)
				}
				if err := q.Wait(t.Context()); err != nil {
					t.Fatalf("event %d: %v", q.stream.event, err)
				}
				if err := q.Read(t.Context(), &iv, 0, got); err != nil || !bytes.Equal(want, got) {
					t.Fatalf("after event %d: %v", q.stream.event, err)
				}
				at := make([]byte, 4)
				if err := d.read(q.tiles.dispatch, d.ctl.LastEvent[0], at); err != nil {
					t.Fatal(err)
				}
				if want := cq.Seq(start) + cq.Seq(i) + 1; cq.Seq(at[0])|cq.Seq(at[1])<<8|cq.Seq(at[2])<<16|cq.Seq(at[3])<<24 != want {
					t.Errorf("the dispatch core has seen event % x, want %#x", at, want)
				}
			}
			if q.stream.event != 8 {
				t.Errorf("the last event is %d", q.stream.event)
			}
		})
	}
}
