package observe

import (
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/sim"
)

func TestFullTimelineStaysAsItIs(t *testing.T) {
	dev, err := reprise.Open(t.Context(), sim.Wormhole())
	devtest.Must(t, err)
	defer func() {
		if err := dev.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	buf, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64})
	devtest.Must(t, err)
	line, err := StartTimeline(t.Context(), dev)
	devtest.Must(t, err)
	line.most = 4
	write := func(n int) {
		for range n {
			devtest.Must(t, dev.Queue(0).Write(t.Context(), buf, 0, make([]byte, 64)))
		}
	}
	write(2) // a span of the host and a stamp each
	clocks, spans := len(line.clocks), len(line.Spans())
	write(5)
	devtest.Must(t, errors.Join(dev.Queue(0).Wait(t.Context()), buf.Release()))
	if len(line.clocks) != clocks || len(line.begin) != 0 || line.Dropped() != 7 {
		t.Errorf("%d readings of the clock, %d before; %d calls begun, %d dropped", len(line.clocks), clocks, len(line.begin), line.Dropped())
	}
	devtest.Must(t, line.Stop(t.Context()))
	if n := len(line.Spans()); n < spans || n > 4 {
		t.Errorf("%d spans, %d when it was full", n, spans)
	}
}
