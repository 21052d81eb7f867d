package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/pipeline"
)

// progress draws a bar on a terminal, and nothing elsewhere.
type progress struct {
	w         io.Writer
	on        bool
	what      string
	done, all int
	drawn     int
}

const barWidth = 40

func newProgress(w io.Writer, on bool) *progress { return &progress{w: w, on: on} }

// begin starts a stage of n steps.
func (p *progress) begin(what string, n int) {
	p.what, p.done, p.all = what, 0, n
	p.draw()
}

// step finishes one step of the stage.
func (p *progress) step() {
	p.done++
	p.draw()
}

// end removes the bar.
func (p *progress) end() {
	if p.on && p.drawn > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.drawn))
		p.drawn = 0
	}
}

func (p *progress) draw() {
	if !p.on || p.all == 0 {
		return
	}
	pos := barWidth * p.done / p.all
	line := fmt.Sprintf("%-7s %s%s %d/%d batches", p.what, strings.Repeat("█", pos), strings.Repeat("░", barWidth-pos), p.done, p.all)
	fmt.Fprintf(p.w, "\r%s", line)
	p.drawn = max(p.drawn, len([]rune(line)))
}

// demoRun is what the passes of the demo over all batches share.
type demoRun struct {
	dev     *reprise.Device
	ops     *ops.Device
	net     network
	bar     *progress
	room    int // images of a batch
	batches [][]digits.Image
	check   checker
	span    func(string) func() // of the timeline; nil without one
}

// passed is what a pass found out: what submitting the programs or the replay of each batch took
// the host and, without a trace, what was submitted for a batch.
type passed struct {
	times                  []time.Duration
	programs, cores, bytes int
}

// pass sends all batches through a pipeline: queue 1 writes them, queue 0 runs the network, with or
// without a trace, and reads the scores. got is called for each batch in order, then, if it isn't
// nil, done.
func (r *demoRun) pass(ctx context.Context, what string, trace bool, got func(int, []scores),
	done func(*reprise.Trace, deployed) error) (p passed, err error) {
	end := func() {}
	if r.span != nil {
		end = r.span(what)
	}
	input, err := r.net.input(r.room)
	if err != nil {
		return p, err
	}
	inputs := make([][]byte, len(r.batches))
	for i, b := range r.batches {
		if inputs[i], err = r.net.encode(b, r.room); err != nil {
			return p, err
		}
	}
	var on deployed
	var clock submitTimes
	pipe, err := pipeline.New(r.dev, pipeline.Config{Name: "digits", Trace: trace, Queues: 2, Input: &input},
		func(ctx context.Context, b *pipeline.Buffers) (*pipeline.Stages, error) {
			var err error
			if on, err = r.net.load(ctx, r.ops, b.Input, r.room); err != nil {
				return nil, err
			}
			run := func(ctx context.Context) error { return clock.run(ctx, on.run) }
			capture := func(ctx context.Context, name string) (*reprise.Trace, error) {
				return r.dev.Queue(0).Capture(ctx, name, on.record)
			}
			return &pipeline.Stages{Run: run, Capture: capture, Outputs: on.results[len(on.results)-1:], Close: on.close}, nil
		})
	if err != nil {
		return p, err
	}
	// The first error counts, and what was canceled is still cleaned up.
	defer func() { err = errors.Join(err, pipe.Release(context.WithoutCancel(ctx))) }()
	if err := pipe.Compile(ctx, inputs[0]); err != nil {
		return p, err
	}
	r.bar.begin(what, len(r.batches))
	clock = submitTimes{}
	stop := r.dev.Observe(&clock)
	err = r.stream(ctx, pipe, inputs, got)
	stop()
	end()
	if err == nil && done != nil {
		err = done(pipe.Trace(), on)
	}
	return clock.passed(len(r.batches)), err
}

// stream sends the inputs of all batches through a pipeline.
func (r *demoRun) stream(ctx context.Context, pipe *pipeline.Pipeline, inputs [][]byte, got func(int, []scores)) error {
	i := 0
	for out, err := range pipe.Run(ctx, slices.Values(inputs)) {
		if err != nil {
			return err
		}
		all, err := r.net.decode(out[0], r.room)
		if err != nil {
			return err
		}
		got(i, all[:len(r.batches[i])])
		r.bar.step()
		i++
	}
	return nil
}

// submitTimes is an Observer that notes what submitting work to run takes, and what it is.
type submitTimes struct {
	times    []time.Duration // of each batch
	programs []*reprise.Executable
}

// run runs the network for a batch.
func (s *submitTimes) run(ctx context.Context, f func(context.Context) error) error {
	start := time.Now()
	err := f(ctx)
	s.times = append(s.times, time.Since(start))
	return err
}

// Begin implements reprise.Observer.
func (s *submitTimes) Begin(context.Context, *reprise.Call) {}

// End implements reprise.Observer.
func (s *submitTimes) End(_ context.Context, c *reprise.Call) {
	switch c.Kind {
	case reprise.CallReplay:
		s.times = append(s.times, c.End.Sub(c.Start))
	case reprise.CallRun:
		s.programs = append(s.programs, c.Object.(*reprise.Executable))
	}
}

// passed returns what was noted of n batches, which all run the same programs.
func (s *submitTimes) passed(n int) passed {
	p := passed{times: s.times, programs: len(s.programs) / n}
	for _, x := range s.programs[:p.programs] {
		p.cores, p.bytes = max(p.cores, x.Cores()), p.bytes+x.Commands().Bytes
	}
	return p
}
