package reprise_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim"
)

type heard struct{ calls []string }

func (h *heard) Begin(_ context.Context, c *reprise.Call) {
	h.calls = append(h.calls, fmt.Sprintf("%v %s", c.Kind, c.Name))
}

func (h *heard) End(_ context.Context, c *reprise.Call) {
	if c.Err != nil {
		h.calls = append(h.calls, "failed")
	}
}

func TestObserver(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	var h, second heard
	stop := b.dev.Observe(&h)
	stopSecond := b.dev.Observe(&second)
	b.dev.Observe(nil)()
	in := b.pages("in", 2)
	x := b.load(b.adder("add", chip.Core{}, in, in, 1))
	tr := b.capture("adds", x)
	b.write(in, 1)
	b.must(b.queue.Run(b.ctx, x))
	stopSecond()
	b.must(tr.Replay(b.ctx))
	b.holds(in, 3)
	e := b.dev.NewEvent("e")
	if err := b.queue.WaitEvent(b.ctx, e); err == nil {
		t.Error("a wait for what was never recorded")
	}
	b.must(b.queue.Record(b.ctx, e))
	b.must(b.queue.Wait(b.ctx))
	b.must(tr.Release(b.ctx))
	b.must(x.Release(b.ctx))
	b.must(in.Release())
	stop()
	b.pages("later", 1)
	want := []string{
		"allocate in", "load add", "capture adds", "write in", "run add", "replay adds", "read in", "pending wait in", "wait event e", "failed",
		"record e", "queue wait ", "release trace adds", "release executable add", "release buffer in",
	}
	if diff := cmp.Diff(want, h.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:5], second.calls); diff != "" {
		t.Errorf("calls that the second one heard (-want +got):\n%s", diff)
	}
}

type stamper struct {
	stamps []*reprise.Event
	errs   []error
	first  *reprise.Call
}

func (s *stamper) Begin(ctx context.Context, c *reprise.Call) {
	if s.first == nil {
		s.first = c
		for _, q := range c.Queues {
			_, err := c.Stamp(ctx, q)
			s.errs = append(s.errs, err)
		}
	}
}

func (s *stamper) End(ctx context.Context, c *reprise.Call) {
	for _, q := range c.Queues {
		e, err := c.Stamp(ctx, q)
		if err != nil {
			s.errs = append(s.errs, err)
			continue
		}
		s.stamps = append(s.stamps, e)
	}
}

func TestStamps(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithQueues(2))
	in := b.pages("in", 2)
	x := b.load(b.adder("add", chip.Core{}, in, in, 1))
	var s stamper
	var h heard
	defer b.dev.Observe(&s)()
	defer b.dev.Observe(&h)()
	b.write(in, 1)
	b.must(b.queue.Run(b.ctx, x))
	b.must(b.queue.Wait(b.ctx))
	b.must(b.dev.Queue(1).Wait(b.ctx))
	if want := []string{"write in", "run add", "queue wait ", "queue wait "}; !cmp.Equal(want, h.calls) {
		t.Errorf("observers heard of %q, want %q", h.calls, want)
	}
	if len(s.stamps) != 2 || len(s.errs) != 3 {
		t.Fatalf("%d stamps, %d refused: %v", len(s.stamps), len(s.errs), s.errs)
	}
	for _, err := range s.errs {
		b.says(err, "reprise: stamp", "not in an Observer's End")
	}
	wrote, okWrote := s.stamps[0].DeviceTime()
	ran, okRan := s.stamps[1].DeviceTime()
	if !okWrote || !okRan || wrote >= ran {
		t.Errorf("written at %d (%v), run at %d (%v)", wrote, okWrote, ran, okRan)
	}
	if _, err := s.first.Stamp(b.ctx, b.queue); err == nil {
		t.Error("a stamp after the end of the call")
	}
}
