package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/convnet"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/pipeline"
)

const barWidth = 40

func progress(what string, done, all int) string {
	pos := barWidth * done / all
	return fmt.Sprintf("%-7s %s%s %d/%d batches", what, strings.Repeat("█", pos), strings.Repeat("░", barWidth-pos), done, all)
}

type demoRun struct {
	dev     *reprise.Device
	ops     *ops.Device
	net     *convnet.Network
	status  func(string) // shows the progress
	room    int
	batches [][]digits.Image
	check   mismatches
	span    func(string) func() // of the timeline; nil without one
}

type passed struct {
	times                  []time.Duration
	programs, cores, bytes int
}

// pass sends all batches through a pipeline: queue 1 writes, queue 0 runs and reads.
func (r *demoRun) pass(ctx context.Context, what string, trace bool, got func(int, []convnet.Scores),
	done func(*reprise.Trace, *convnet.Model) error) (p passed, err error) {
	end := func() {}
	if r.span != nil {
		end = r.span(what)
	}
	input, err := r.net.InputSpec(r.room).BufferConfig("input")
	if err != nil {
		return p, err
	}
	inputs := make([][]byte, len(r.batches))
	for i, b := range r.batches {
		if inputs[i], err = r.net.EncodeImages(b, r.room); err != nil {
			return p, err
		}
	}
	var on *convnet.Model
	var clock submitTimes
	pipe, err := pipeline.New(r.dev, pipeline.Config{Name: "digits", Trace: trace, Queues: 2, Input: &input},
		func(ctx context.Context, b *pipeline.Buffers) (_ *pipeline.Stages, err error) {
			if on, err = load(ctx, r.ops, r.net, b.Input, r.room); err != nil {
				return nil, err
			}
			return &pipeline.Stages{
				Run: func(ctx context.Context) error { return clock.run(ctx, on.Run) },
				Capture: func(ctx context.Context, name string) (*reprise.Trace, error) {
					return r.dev.Queue(0).Capture(ctx, name, on.Record)
				},
				Outputs: []*reprise.Buffer{scoresOf(on)}, Close: on.Close,
			}, nil
		})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, pipe.Release(context.WithoutCancel(ctx))) }()
	if err := pipe.Compile(ctx, inputs[0]); err != nil {
		return p, err
	}
	r.status(progress(what, 0, len(r.batches)))
	clock = submitTimes{}
	stop := r.dev.Observe(&clock)
	err = r.stream(ctx, what, pipe, inputs, got)
	stop()
	end()
	if err == nil && done != nil {
		err = done(pipe.Trace(), on)
	}
	return clock.passed(len(r.batches)), err
}

func (r *demoRun) stream(ctx context.Context, what string, pipe *pipeline.Pipeline, inputs [][]byte,
	got func(int, []convnet.Scores)) error {
	i := 0
	for out, err := range pipe.Run(ctx, slices.Values(inputs)) {
		if err != nil {
			return err
		}
		all, err := r.net.DecodeScores(out[0], r.room)
		if err != nil {
			return err
		}
		got(i, all[:len(r.batches[i])])
		i++
		r.status(progress(what, i, len(r.batches)))
	}
	return nil
}

type submitTimes struct {
	times    []time.Duration
	programs []*reprise.Executable
}

func (s *submitTimes) run(ctx context.Context, f func(context.Context) error) error {
	start := time.Now()
	err := f(ctx)
	s.times = append(s.times, time.Since(start))
	return err
}

func (s *submitTimes) Begin(context.Context, *reprise.Call) {}

func (s *submitTimes) End(_ context.Context, c *reprise.Call) {
	switch c.Kind {
	case reprise.CallReplay:
		s.times = append(s.times, c.End.Sub(c.Start))
	case reprise.CallRun:
		s.programs = append(s.programs, c.Object.(*reprise.Executable))
	}
}

// passed sums up n batches, which all run the same programs.
func (s *submitTimes) passed(n int) passed {
	p := passed{times: s.times, programs: len(s.programs) / n}
	for _, x := range s.programs[:p.programs] {
		p.cores, p.bytes = max(p.cores, x.Cores()), p.bytes+x.Commands().Bytes
	}
	return p
}

// load returns a network that reads the images of an input buffer with room for so many.
func load(ctx context.Context, d *ops.Device, net *convnet.Network, input *reprise.Buffer, room int) (*convnet.Model, error) {
	t, err := d.FromBuffer(input, net.InputSpec(room))
	if err != nil {
		return nil, err
	}
	return convnet.Load(ctx, d, net, room, t)
}

// scoresOf is the buffer of the scores, which the last layer makes.
func scoresOf(m *convnet.Model) *reprise.Buffer {
	all := m.Results()
	return all[len(all)-1].Buffer()
}
