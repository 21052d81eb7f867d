package dispatch

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/sim"
)

func TestEventRecords(t *testing.T) {
	for _, card := range []*sim.Card{sim.Wormhole(), sim.Blackhole()} {
		t.Run(card.String(), func(t *testing.T) {
			d := started(t, card, Options{Queues: 2, FirstEvent: 0x2A})
			for id := range 2 {
				words := make([]byte, 0x20)
				must(t, d.read(d.Queue(id).tiles.dispatch, d.ctl.LastEvent[0], words))
				if diff := cmp.Diff([]uint32{0x2A, 0, 0, 0, 0x2A, 0, 0, 0}, wordsOf(words)); diff != "" {
					t.Errorf("words of the dispatch core of queue %d (-want +got)\n%s", id, diff)
				}
			}
			q := d.Queue(1)
			plain, timed := d.NewEvent("plain", false), d.NewEvent("timed", true)
			for _, e := range []*Event{plain, timed} {
				must(t, q.Record(t.Context(), e, 0))
				must(t, e.Wait(t.Context(), 0))
			}
			want := []uint32{3 | 1<<8 | 1<<16, 0, 32, 0, 0x2B, 0, 0, 0}
			if diff := cmp.Diff(want, wordsOf(q.comp.ring.mem[:32])); diff != "" {
				t.Errorf("plain record (-want +got)\n%s", diff)
			}
			got := wordsOf(q.comp.ring.mem[memmap.PageSize : memmap.PageSize+32])
			cycles, ok := timed.DeviceTime()
			if !ok || cycles == 0 {
				t.Errorf("the timed event has the time %d, %v", cycles, ok)
			}
			want[4], want[5], want[6], want[7] = 0x2C, 1, uint32(cycles), uint32(cycles>>32)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("timed record (-want +got)\n%s", diff)
			}
		})
	}
}

func wordsOf(b []byte) []uint32 {
	var out []uint32
	for ; len(b) > 0; b = b[4:] {
		out = append(out, binary.LittleEndian.Uint32(b))
	}
	return out
}

// The dispatcher compares ids by their signed 32-bit difference.
func TestWaitForALongGoneRecording(t *testing.T) {
	d := started(t, sim.Blackhole(), Options{Queues: 2})
	old := d.NewEvent("old", false)
	must(t, d.Queue(0).Record(t.Context(), old, 0))
	for range 3 { // as if there had been 2^30 recordings in between, three times
		must(t, d.Queue(0).Wait(t.Context()))
		d.Queue(0).stream.event += 1 << 30
	}
	must(t, d.Queue(0).Wait(t.Context()))
	must(t, d.Queue(1).WaitEvent(t.Context(), old, 0))
	must(t, d.Queue(1).Wait(t.Context()))
}

func TestRecordingTakesReportsOut(t *testing.T) {
	d := started(t, sim.Blackhole(), Options{QueueMemory: 1 << 20})
	q, e := d.Queue(0), d.NewEvent("e", false)
	for range 200 {
		must(t, q.Record(t.Context(), e, 0))
		for int(q.comp.ring.available()) < q.comp.count()*memmap.PageSize { // until the device has reported all
			if t.Context().Err() != nil || q.comp.count() > tidyFrom+8 {
				break
			}
		}
	}
	if n := q.comp.count(); n > tidyFrom {
		t.Errorf("%d reports are outstanding, want at most %d", n, tidyFrom)
	}
}

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
				must(t, q.Write(t.Context(), &iv, 0, want))
				if err := q.Wait(t.Context()); err != nil {
					t.Fatalf("event %d: %v", q.stream.event, err)
				}
				if err := q.Read(t.Context(), &iv, 0, got); err != nil || !bytes.Equal(want, got) {
					t.Fatalf("after event %d: %v", q.stream.event, err)
				}
				at := make([]byte, 4)
				must(t, d.read(q.tiles.dispatch, d.ctl.LastEvent[0], at))
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
