package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/digits/convnet"
	"github.com/reprise-tt/reprise/examples/digits/convnet/reference"
	"github.com/reprise-tt/reprise/examples/digits/deploy"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/pipeline"
)

type progress struct {
	w         io.Writer
	on        bool
	what      string
	done, all int
	drawn     int
}

const barWidth = 40

func newProgress(w io.Writer, on bool) *progress { return &progress{w: w, on: on} }

func (p *progress) begin(what string, n int) {
	p.what, p.done, p.all = what, 0, n
	p.draw()
}

func (p *progress) step() {
	p.done++
	p.draw()
}

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

type demoRun struct {
	dev     *reprise.Device
	ops     *ops.Device
	net     network
	bar     *progress
	room    int
	batches [][]digits.Image
	check   mismatchError
	span    func(string) func() // of the timeline; nil without one
}

type passed struct {
	times                  []time.Duration
	programs, cores, bytes int
}

// pass sends all batches through a pipeline: queue 1 writes, queue 0 runs and reads.
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
		func(ctx context.Context, b *pipeline.Buffers) (_ *pipeline.Stages, err error) {
			if on, err = r.net.load(ctx, r.ops, b.Input, r.room); err != nil {
				return nil, err
			}
			return &pipeline.Stages{
				Run: func(ctx context.Context) error { return clock.run(ctx, on.run) },
				Capture: func(ctx context.Context, name string) (*reprise.Trace, error) {
					return r.dev.Queue(0).Capture(ctx, name, on.record)
				},
				Outputs: on.results[len(on.results)-1:], Close: on.close,
			}, nil
		})
	if err != nil {
		return p, err
	}
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

// scores are exact for every network.
type scores [digits.Classes]float64

// best is the lowest digit of the largest score.
func (s scores) best() uint8 {
	best := 0
	for i, v := range s {
		if v > s[best] {
			best = i
		}
	}
	return uint8(best)
}

func (s scores) same(o scores) bool {
	for i, v := range s {
		if math.Float64bits(v) != math.Float64bits(o[i]) {
			return false
		}
	}
	return true
}

// network is trained; room is the number of images of its buffers.
type network interface {
	name() string
	engine() string
	input(room int) (reprise.BufferConfig, error)
	encode(images []digits.Image, room int) ([]byte, error)
	// load uses an input buffer.
	load(ctx context.Context, d *ops.Device, input *reprise.Buffer, room int) (deployed, error)
	// decode takes the content of the last result.
	decode(b []byte, room int) ([]scores, error)
	// forward computes on the host what the architecture has to answer.
	forward(a chip.Arch, images []digits.Image) []scores
}

// deployed is a network on a device.
type deployed struct {
	run     func(ctx context.Context) error // on queue 0
	record  func(ctx context.Context, r *reprise.Recorder) error
	results []*reprise.Buffer // of the layers; the last one has the scores
	close   func(ctx context.Context) error
}

// tensorNetwork uses operations on the engines.
type tensorNetwork struct{ *convnet.Network }

func (tensorNetwork) name() string   { return "bfloat16 arithmetic of the engines" }
func (tensorNetwork) engine() string { return "tensix" }

func (n tensorNetwork) input(room int) (reprise.BufferConfig, error) {
	return n.InputSpec(room).BufferConfig("input")
}

func (n tensorNetwork) encode(images []digits.Image, room int) ([]byte, error) {
	return n.EncodeImages(images, room)
}

func (n tensorNetwork) load(ctx context.Context, d *ops.Device, input *reprise.Buffer, room int) (deployed, error) {
	t, err := d.FromBuffer(input, n.InputSpec(room))
	if err != nil {
		return deployed{}, err
	}
	m, err := convnet.Load(ctx, d, n.Network, room, t)
	if err != nil {
		return deployed{}, err
	}
	return deployed{
		run:     m.Run,
		record:  func(ctx context.Context, r *reprise.Recorder) error { return d.Record(ctx, r, m.Run) },
		results: cli.Map(m.Results(), (*ops.Tensor).Buffer),
		close:   m.Close,
	}, nil
}

func (n tensorNetwork) decode(b []byte, room int) ([]scores, error) {
	all, err := n.DecodeScores(b, room)
	return cli.Map(all, exactly), err
}

func (n tensorNetwork) forward(a chip.Arch, images []digits.Image) []scores {
	return cli.Map(reference.Scores(a, n.Network, images), exactly)
}

func exactly(s convnet.Scores) (out scores) {
	for i, v := range s {
		out[i] = float64(v.Float())
	}
	return out
}

// integerNetwork uses kernels on the RISC-V cores.
type integerNetwork struct{ *digits.Network }

func (integerNetwork) name() string   { return "integer network" }
func (integerNetwork) engine() string { return "riscv" }

func (integerNetwork) input(room int) (reprise.BufferConfig, error) {
	return reprise.BufferConfig{Kind: allocator.DRAM, Size: room * digits.PageBytes, PageSize: digits.PageBytes, Name: "input"}, nil
}

func (integerNetwork) encode(images []digits.Image, room int) ([]byte, error) {
	return deploy.Bytes(images, room), nil
}

func (n integerNetwork) load(ctx context.Context, _ *ops.Device, input *reprise.Buffer, room int) (deployed, error) {
	d := input.Device()
	dep, err := deploy.New(ctx, d, n.Network, room, d.Grid(), input)
	if err != nil {
		return deployed{}, err
	}
	out := deployed{
		run:    func(ctx context.Context) error { return dep.Run(ctx, d.Queue(0)) },
		record: dep.Record,
		close:  dep.Close,
	}
	for i := range dep.Layers() {
		out.results = append(out.results, dep.Pages(i+1))
	}
	return out, nil
}

func (integerNetwork) decode(b []byte, _ int) ([]scores, error) {
	return cli.Map(deploy.Scores(b), wide), nil
}

func (n integerNetwork) forward(_ chip.Arch, images []digits.Image) []scores {
	return cli.Map(images, func(m digits.Image) scores { return wide(n.Forward(m.Pixels)) })
}

func wide(s [digits.Classes]int32) (out scores) {
	for i, v := range s {
		out[i] = float64(v)
	}
	return out
}

func trained(name string) (network, error) {
	if name == "integer" {
		n, err := digits.Trained()
		return integerNetwork{n}, err
	}
	n, err := convnet.Trained()
	return tensorNetwork{n}, err
}
