package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/kernels"
)

const controlIterations = 1000

type loopBody struct {
	name        string
	programs    int // run one after the other
	kernelBytes int // of each program's kernel; 0 for the smallest
	form        bodyForm
}

type bodyForm int

const (
	bodyStraight bodyForm = iota
	bodyNone              // a loop of 0 iterations, since a trace can't be empty
	bodyIf                // if a word in DRAM is 0, which it is
	bodySwitch
	bodyGiven // the word is an argument of each program
	bodyCall
	bodyWhile // a program sets the word to 0; the others run while it is 0, and set it to 1
)

// loopBodies have kernels that stay on the workers, except the last one, and calls.
var loopBodies = []loopBody{
	{name: "nothing", form: bodyNone},
	{name: "a program", programs: 1},
	{name: "a program, if a word is 0", programs: 1, form: bodyIf},
	{name: "a program, by a switch", programs: 1, form: bodySwitch},
	{name: "a program, a word its argument", programs: 1, form: bodyGiven},
	{name: "a program, in a call", programs: 1, form: bodyCall},
	{name: "two programs, one in a while", programs: 1, form: bodyWhile},
	{name: "eight programs", programs: 8},
	{name: "kernels of 4 x 12 KiB", programs: 4, kernelBytes: 12 << 10},
	{name: "kernels of 8 x 12 KiB", programs: 8, kernelBytes: 12 << 10},
}

// measureControl measures from the first of 1,000 iterations to the end of the last.
func measureControl(s *session) error {
	p, err := s.newStamps()
	if err != nil {
		return err
	}
	if p == nil {
		s.leaveOut("control", "", "the device doesn't tell how fast its clock is")
		return nil
	}
	for _, b := range loopBodies {
		err := s.control(p, b)
		if errors.Is(err, dispatch.ErrQueueFirmware) {
			s.leaveOut("control", "", err.Error())
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

func (s *session) control(p *stamps, b loopBody) error {
	body, err := s.loopBody(b)
	if err != nil {
		return err
	}
	one, err := s.captureBody(0, body.record)
	if err != nil {
		return err
	}
	iterations := cmp.Or(s.config.iterations, controlIterations)
	loop, err := s.captureBody(uint32(iterations), body.record)
	if err != nil {
		return err
	}
	params := report.Params("body", b.name)
	measure := func(name string, t *reprise.Trace, replays int) (*report.Figure, error) {
		job := p.job(name, params, 1, func() error { return s.replay(t)(replays) })
		whole := job.Sample
		job.Sample = func() (float64, error) {
			ns, err := whole()
			return ns / float64(iterations), err
		}
		job.PerSample, job.Bytes = iterations, float64(replays*t.Parts()[0].ReplayBytes)/float64(iterations)
		err := s.measure("control", job)
		f, _ := s.report.Figure(report.ID("control", name, params...))
		return f, err
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
		iteration.Ratios = append(iteration.Ratios, report.Ratio{To: "a replay", Ns: replays.P50, Value: iteration.P50 / replays.P50})
	}
	return errors.Join(loop.Release(s.ctx), one.Release(s.ctx), body.release())
}

// captureBody captures a loop of the body, or for 0 iterations the body alone.
func (s *session) captureBody(iterations uint32, body func(*reprise.Recorder) error) (*reprise.Trace, error) {
	return s.queue().Capture(s.ctx, "control", func(_ context.Context, r *reprise.Recorder) error {
		if iterations == 0 {
			return body(r)
		}
		return r.Loop(iterations, func() error { return body(r) })
	})
}

type preparedBody struct {
	s         *session
	form      bodyForm
	xs, first []*reprise.Executable
	word      *reprise.Buffer
	called    *reprise.Trace
}

func (s *session) loopBody(b loopBody) (*preparedBody, error) {
	p := &preparedBody{s: s, form: b.form}
	var err error
	if b.form == bodyWhile { // in L1, so that programs can store to it
		err = p.newWord(allocator.L1)
	}
	for i := 0; i < b.programs && err == nil; i++ {
		err = p.load(&p.xs, 1, b.kernelBytes)
	}
	if err != nil {
		return nil, err
	}
	switch b.form {
	case bodyIf, bodySwitch, bodyGiven:
		err = p.newWord(allocator.DRAM)
	case bodyCall:
		p.called, err = s.captureBody(0, p.run)
	case bodyWhile:
		err = p.load(&p.first, 0, 0)
	}
	return p, err
}

func (p *preparedBody) newWord(kind allocator.Kind) (err error) {
	if p.word, err = p.s.dev.NewBuffer(reprise.BufferConfig{Kind: kind, Size: 64, Name: "word"}); err != nil {
		return err
	}
	return p.s.queue().Write(p.s.ctx, p.word, 0, make([]byte, 64))
}

// load loads a program. A bodyWhile's stores set in the word.
func (p *preparedBody) load(to *[]*reprise.Executable, set uint32, kernelBytes int) error {
	small := shape{name: "small", cores: 1, groups: 1}
	if p.form == bodyGiven {
		small.common = 1
	}
	prog, err := small.program(p.s.dev)
	if err != nil {
		return err
	}
	k := &prog.Kernels[0]
	if p.form == bodyWhile {
		at, _ := p.word.Page(0)
		k.Cores, k.Common = []chip.Range{at.Core.Range()}, []uint32{0}
		k.Args = func(chip.Core) []uint32 { return []uint32{at.Addr, 1, set} }
		if k.Image, err = kernels.Prebuilt(p.s.dev.Arch(), kernels.Store); err != nil {
			return err
		}
	}
	k.Image = padded(k.Image, kernelBytes)
	x, err := p.s.dev.Load(p.s.ctx, prog)
	if err == nil {
		*to = append(*to, x)
	}
	return err
}

func (p *preparedBody) record(r *reprise.Recorder) error {
	run := func() error { return p.run(r) }
	is0 := reprise.Cond{Buffer: p.word, Is: cq.Equal}
	switch p.form {
	case bodyNone:
		return r.Loop(0, run)
	case bodyIf:
		return r.If(is0, run, nil)
	case bodySwitch:
		return r.Switch(p.word, 0, run)
	case bodyCall:
		return r.Call(p.called)
	case bodyWhile:
		if err := runAll(r, p.first); err != nil {
			return err
		}
		return r.While(is0, 2, run)
	}
	return run()
}

func (p *preparedBody) run(r *reprise.Recorder) error {
	if p.form == bodyGiven {
		return runAll(r, p.xs, reprise.Arg{Kernel: "blank 0", Common: true, From: p.word})
	}
	return runAll(r, p.xs)
}

func runAll(r *reprise.Recorder, xs []*reprise.Executable, args ...reprise.Arg) error {
	for _, x := range xs {
		if err := r.Run(x, args...); err != nil {
			return err
		}
	}
	return nil
}

func (p *preparedBody) release() (err error) {
	for _, x := range append(p.xs, p.first...) {
		err = errors.Join(err, x.Release(p.s.ctx))
	}
	if p.called != nil {
		err = errors.Join(err, p.called.Release(p.s.ctx))
	}
	if p.word != nil {
		err = errors.Join(err, p.word.Release())
	}
	return err
}
