package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// controlIterations is how many iterations a measured loop has, and how many replays it is measured beside, if the configuration
// doesn't say it.
const controlIterations = 1000

// loopBody is the body of a loop that is measured beside replays of a trace that has the body alone.
type loopBody struct {
	name        string
	programs    int  // that it runs, one after the other
	kernelBytes int  // of each program's kernel; 0 for the smallest there is
	condition   bool // runs them if a word in DRAM is 0, as it is
}

// loopBodies are bodies whose kernels stay on the workers, but for the last one, whose kernels have no room together.
var loopBodies = []loopBody{
	{name: "a program", programs: 1},
	{name: "a program, if a word is 0", programs: 1, condition: true},
	{name: "eight programs", programs: 8},
	{name: "kernels of 4 x 12 KiB", programs: 4, kernelBytes: 12 << 10},
	{name: "kernels of 8 x 12 KiB", programs: 8, kernelBytes: 12 << 10},
}

// measureControl measures an iteration of a loop beside a replay of a trace that is the loop's body: the time of the device
// from the first of 1,000 to the end of the last, divided by 1,000.
func measureControl(ctx context.Context, s *session) error {
	return s.with(ctx, func() error {
		p, err := s.newStamps(ctx)
		if err != nil {
			return err
		}
		if p == nil {
			s.leaveOut("control", "", "the device doesn't tell how fast its clock is")
			return nil
		}
		for _, b := range loopBodies {
			err := s.control(ctx, p, b)
			if errors.Is(err, dispatch.ErrQueueFirmware) {
				s.leaveOut("control", "", err.Error())
				return nil
			}
			if err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
		}
		return nil
	})
}

func (s *session) control(ctx context.Context, p *stamps, b loopBody) error {
	body, release, err := s.loopBody(ctx, b)
	if err != nil {
		return err
	}
	one, err := s.captureBody(ctx, 0, body)
	if err != nil {
		return err
	}
	iterations := cmp.Or(s.config.iterations, controlIterations)
	loop, err := s.captureBody(ctx, uint32(iterations), body)
	if err != nil {
		return err
	}
	params := []Param{{"body", b.name}}
	measure := func(name string, t *reprise.Trace, replays int) (*Figure, error) {
		job := p.job(name, params, 1, func(ctx context.Context) error { return replay(t)(ctx, replays) })
		whole := job.sample
		job.sample = func(ctx context.Context) (float64, error) {
			ns, err := whole(ctx)
			return ns / float64(iterations), err
		}
		job.per, job.bytes = iterations, float64(replays*t.Parts()[0].ReplayBytes)/float64(iterations)
		if err := s.measure(ctx, "control", job); err != nil {
			return nil, err
		}
		f, _ := s.report.Figure((&Figure{Family: "control", Name: name, Params: params}).ID())
		return f, nil
	}
	replays, err := measure("replay", one, iterations)
	if err != nil {
		return err
	}
	iteration, err := measure("iteration", loop, 1)
	if err != nil {
		return err
	}
	if replays != nil && iteration != nil && replays.P50 > 0 {
		iteration.Ratios = append(iteration.Ratios, Ratio{To: "a replay", Ns: replays.P50, Value: iteration.P50 / replays.P50})
	}
	for _, t := range []*reprise.Trace{loop, one} {
		if err := t.Release(ctx); err != nil {
			return err
		}
	}
	return release()
}

// captureBody captures a loop of so many iterations, or the body alone for 0.
func (s *session) captureBody(ctx context.Context, iterations uint32, body func(*reprise.Recorder) error) (*reprise.Trace, error) {
	return s.dev.Queue(0).Capture(ctx, "control", func(_ context.Context, r *reprise.Recorder) error {
		if iterations == 0 {
			return body(r)
		}
		return r.Loop(iterations, func() error { return body(r) })
	})
}

// loopBody loads what a body runs. The function that it returns records the body; release releases what was loaded.
func (s *session) loopBody(ctx context.Context, b loopBody) (record func(*reprise.Recorder) error, release func() error, err error) {
	var xs []*reprise.Executable
	for range b.programs {
		prog, err := shape{name: "small", cores: 1, groups: 1}.program(s.dev)
		if err != nil {
			return nil, nil, err
		}
		prog.Kernels[0].Image = padded(prog.Kernels[0].Image, b.kernelBytes)
		x, err := s.dev.Load(ctx, prog)
		if err != nil {
			return nil, nil, err
		}
		xs = append(xs, x)
	}
	run := func(r *reprise.Recorder) error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	}
	var word *reprise.Buffer
	record = run
	if b.condition {
		if word, err = s.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Name: "word"}); err != nil {
			return nil, nil, err
		}
		if err := s.dev.Queue(0).Write(ctx, word, 0, make([]byte, 64)); err != nil {
			return nil, nil, err
		}
		record = func(r *reprise.Recorder) error {
			return r.If(reprise.Cond{Buffer: word, Is: cq.Equal}, func() error { return run(r) }, nil)
		}
	}
	return record, func() error {
		for _, x := range xs {
			if err := x.Release(ctx); err != nil {
				return err
			}
		}
		if word != nil {
			return word.Release()
		}
		return nil
	}, nil
}
