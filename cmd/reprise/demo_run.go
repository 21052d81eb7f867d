package main

import (
	"context"
	"errors"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/deploy"
	"github.com/reprise-tt/reprise/pipeline"
)

// demoRun is what the passes of the demo over all batches share.
type demoRun struct {
	dev     *reprise.Device
	net     *digits.Network
	bar     *progress
	room    int // images of a batch
	batches [][]digits.Image
	check   checker
	span    func(string) func() // of the timeline; nil without one
}

// pass sends all batches through a pipeline: queue 1 writes them, queue 0 runs the network, with or without a trace, and
// reads the scores. got is called for each batch in order, then, if it isn't nil, done. The times are what submitting the
// programs or the replay of each batch took the host.
func (r *demoRun) pass(ctx context.Context, what string, trace bool, got func(int, [][digits.Classes]int32), done func(*reprise.Trace, *deploy.Deployment) error) (times []time.Duration, err error) {
	end := func() {}
	if r.span != nil {
		end = r.span(what)
	}
	var dep *deploy.Deployment
	input := reprise.BufferConfig{Kind: allocator.DRAM, Size: r.room * digits.PageBytes, PageSize: digits.PageBytes, Name: "input"}
	pipe, err := pipeline.New(r.dev, pipeline.Config{Name: "digits", Trace: trace, Queues: 2, Input: &input},
		func(ctx context.Context, b *pipeline.Buffers) (*pipeline.Stages, error) {
			var err error
			if dep, err = deploy.NewWithInput(ctx, b.Device, r.net, r.room, b.Device.Grid(), b.Input); err != nil {
				return nil, err
			}
			layers := dep.Layers()
			return &pipeline.Stages{Body: layers, Outputs: []*reprise.Buffer{dep.Pages(len(layers))}, Close: dep.Close}, nil
		})
	if err != nil {
		return nil, err
	}
	// The first error counts, and what was canceled is still cleaned up.
	defer func() { err = errors.Join(err, pipe.Release(context.WithoutCancel(ctx))) }()
	if err := pipe.Compile(ctx, deploy.Bytes(r.batches[0], r.room)); err != nil {
		return nil, err
	}
	r.bar.begin(what, len(r.batches))
	var clock submitTimes
	stop := r.dev.Observe(&clock)
	i := 0
	for out, err := range pipe.Run(ctx, func(yield func([]byte) bool) {
		for _, b := range r.batches {
			if !yield(deploy.Bytes(b, r.room)) {
				return
			}
		}
	}) {
		if err != nil {
			stop()
			return nil, err
		}
		got(i, deploy.Scores(out[0])[:len(r.batches[i])])
		r.bar.step()
		i++
	}
	stop()
	end()
	if done != nil {
		if err := done(pipe.Trace(), dep); err != nil {
			return nil, err
		}
	}
	return clock.batches(len(r.batches)), nil
}

// submitTimes is an Observer that adds up what submitting work to run takes.
type submitTimes struct{ calls []time.Duration }

// Begin implements reprise.Observer.
func (s *submitTimes) Begin(context.Context, *reprise.Call) {}

// End implements reprise.Observer.
func (s *submitTimes) End(_ context.Context, c *reprise.Call) {
	if c.Kind == reprise.CallRun || c.Kind == reprise.CallReplay {
		s.calls = append(s.calls, c.End.Sub(c.Start))
	}
}

// batches returns the time of each of n batches, which all take as many calls.
func (s *submitTimes) batches(n int) []time.Duration {
	out := make([]time.Duration, n)
	for i, t := range s.calls {
		out[i*n/len(s.calls)] += t
	}
	return out
}
