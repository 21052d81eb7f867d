package mesh_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func TestReleaseOfASpanHoldsNoOthersUp(t *testing.T) {
	workers := func(id, first, last int) reprise.Option {
		return reprise.WithQueueWorkers(id, chip.Range{Start: chip.Core{X: first}, End: chip.Core{X: last, Y: 3}})
	}
	b := open(t, sim.P300(), mesh.Shape{1, 2}, mesh.WithDevice(reprise.WithQueues(2), workers(0, 0, 3), workers(1, 4, 7),
		reprise.WithHangTimeout(5*time.Minute)))
	in, out, last := b.pages("in", 4), b.pages("out", 4), b.pages("last", 4)
	x := b.load("x", b.adder("add", in, out, always(1)))
	second := b.adder("second", out, last, always(1))
	y := b.load("y", mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
		p, err := second.Program(c)
		cores := []chip.Range{chip.Single(5, 1)}
		for i := range p.Kernels {
			p.Kernels[i].Cores = cores
		}
		for i := range p.CircularBuffers {
			p.CircularBuffers[i].Cores = cores
		}
		return p, err
	}})
	other := b.capture("other", x)
	part, err := b.subset(other, mesh.At(0, 0))
	b.must(err)
	qs := []*mesh.Queue{b.mesh.Queue(0), b.mesh.Queue(1)}
	done := b.mesh.NewEvent("done")
	trace, err := qs[0].Capture(b.ctx, "both", func(_ context.Context, r *mesh.Recorder) error {
		second := r.Queue(qs[1])
		return errors.Join(r.Run(x), r.Record(done), second.WaitEvent(done), second.Run(y))
	}, qs[1])
	b.must(err)
	b.must(trace.Replay(b.ctx))
	release := b.held(b.mesh.Chip(0, 1))
	released, replayed := make(chan error, 1), make(chan error, 1)
	go func() { released <- trace.Release(b.ctx) }()
	for b.part(trace, b.mesh.Chip(0, 0)).Extents != nil { // then only the held chip is left
		time.Sleep(time.Millisecond)
	}
	go func() { replayed <- part.Replay(b.ctx) }()
	select {
	case err := <-replayed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("a trace of another chip waits for the release")
	}
	select {
	case err := <-released:
		t.Errorf("released before its queues were done: %v", err)
	default:
	}
	release()
	b.must(<-released)
	b.must(b.mesh.Queue(0).Wait(b.ctx))
}
