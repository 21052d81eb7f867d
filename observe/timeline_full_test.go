package observe

import (
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/sim"
)

// A timeline that is full grows no more, whatever the calls are that it has no room for, and says
// how many there were.
func TestFullTimelineStaysAsItIs(t *testing.T) {
	dev, err := reprise.Open(t.Context(), sim.Wormhole())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dev.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	buf, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64})
	if err != nil {
		t.Fatal(err)
	}
	line, err := StartTimeline(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	line.most = 4
	write := func(n int) {
		for range n {
			if err := dev.Queue(0).Write(t.Context(), buf, 0, make([]byte, 64)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(2) // a span of the host and a stamp each
	clocks, spans := len(line.clocks), len(line.Spans())
	write(5)
	if err := errors.Join(dev.Queue(0).Wait(t.Context()), buf.Release()); err != nil {
		t.Fatal(err)
	}
	if len(line.clocks) != clocks || len(line.begin) != 0 || line.Dropped() != 7 {
		t.Errorf("%d readings of the clock, %d before; %d calls begun, %d dropped", len(line.clocks), clocks, len(line.begin), line.Dropped())
	}
	if err := line.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(line.Spans()); n < spans || n > 4 {
		t.Errorf("%d spans, %d when it was full", n, spans)
	}
}
