package pipeline_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/pipeline"
	"github.com/reprise-tt/reprise/sim"
)

const modelPages = 16

func (b *bench) model(steps int) pipeline.Model {
	return func(ctx context.Context, bufs *pipeline.Buffers) (*pipeline.Stages, error) {
		st := &pipeline.Stages{}
		mid := b.Pages("mid", modelPages)
		from := bufs.Input
		if bufs.L1Input != nil {
			from = bufs.L1Input
			if bufs.Input != nil {
				st.First = append(st.First, b.Load(b.Mover("first", chip.Core{X: 1}, bufs.Input, bufs.L1Input)))
			}
		}
		st.Body = append(st.Body, b.Load(b.Mover("take", chip.Core{X: 2}, from, mid)))
		for range steps {
			st.Body = append(st.Body, b.Load(b.Adder("add", chip.Core{X: 3}, mid, mid, 1)))
		}
		if bufs.Scratch != nil {
			// What is in the input's place changes it.
			if err := bufs.FreeL1Input(); err != nil {
				return nil, err
			}
			tmp, err := bufs.Scratch.NewBuffer(reprise.BufferConfig{Size: modelPages * 64, PageSize: 64, Name: "tmp"})
			if err != nil {
				return nil, err
			}
			if tmp.Addr() != bufs.L1Input.Addr() {
				return nil, fmt.Errorf("tmp is at %#x, not in the input's place %#x", tmp.Addr(), bufs.L1Input.Addr())
			}
			st.Body = append(st.Body, b.Load(b.Mover("out", chip.Core{X: 2}, mid, tmp)), b.Load(b.Mover("back", chip.Core{X: 2}, tmp, mid)))
			if err := tmp.Release(); err != nil {
				return nil, err
			}
		}
		st.Outputs = []*reprise.Buffer{mid}
		if len(bufs.Outputs) > 0 {
			st.Last = append(st.Last, b.Load(b.Mover("last", chip.Core{X: 4}, mid, bufs.Outputs[0])))
			st.Outputs = nil
		}
		loaded := slices.Concat(st.First, st.Body, st.Last)
		st.Close = func(ctx context.Context) error {
			var errs []error
			for _, x := range loaded {
				errs = append(errs, x.Release(ctx))
			}
			return errors.Join(append(errs, mid.Release())...)
		}
		return st, nil
	}
}

func pipeBuffer(k allocator.Kind, name string) *reprise.BufferConfig {
	return &reprise.BufferConfig{Kind: k, Size: modelPages * 64, PageSize: 64, Name: name}
}

func pipeConfigs() map[string]pipeline.Config {
	dram, l1 := pipeBuffer(allocator.DRAM, "in"), pipeBuffer(allocator.L1, "l1 in")
	out := []reprise.BufferConfig{*pipeBuffer(allocator.DRAM, "out")}
	const scratch = 128 << 10
	return map[string]pipeline.Config{
		"eager, 1 queue, L1":       {L1Input: l1},
		"eager, 1 queue, DRAM":     {Input: dram},
		"eager, 2 queues":          {Queues: 2, Input: dram, L1Input: l1},
		"trace, 1 queue, L1":       {Trace: true, L1Input: l1},
		"trace, 1 queue, DRAM":     {Trace: true, Input: dram},
		"trace, 1 queue, both":     {Trace: true, Input: dram, L1Input: l1},
		"trace, 1 queue, scratch":  {Trace: true, L1Input: l1, Scratch: scratch},
		"trace, 2 queues":          {Trace: true, Queues: 2, Input: dram, L1Input: l1},
		"trace, 2 queues, DRAM":    {Trace: true, Queues: 2, Input: dram},
		"trace, 2 queues, scratch": {Trace: true, Queues: 2, Input: dram, L1Input: l1, Scratch: scratch},
		"transfer queue":           {Trace: true, Queues: 2, TransferQueue: true, Input: dram, L1Input: l1, Outputs: out},
		"transfer queue, scratch": {Trace: true, Queues: 2, TransferQueue: true, Input: dram, L1Input: l1, Scratch: scratch,
			Outputs: out},
		"transfer queue, DRAM, one at a time":   {Trace: true, Queues: 2, TransferQueue: true, Input: dram, Outputs: out, Depth: 1},
		"transfer queue, DRAM, outputs by body": {Trace: true, Queues: 2, TransferQueue: true, Input: dram, Outputs: out, Depth: 2},
	}
}

func triedConfigs() map[string]pipeline.Config {
	all := pipeConfigs()
	if testing.Short() {
		maps.DeleteFunc(all, func(_ string, c pipeline.Config) bool { return c.L1Input == nil || c.Scratch != 0 })
	}
	return all
}

func inputs(n int) [][]byte {
	var out [][]byte
	for i := range n {
		out = append(out, devtest.Words(modelPages*64, uint32(1000*i)))
	}
	return out
}

func (b *bench) isOutput(i, steps int, out [][]byte) {
	b.Helper()
	want := devtest.Words(modelPages*64, uint32(1000*i+steps))
	if len(out) != 1 || !bytes.Equal(out[0], want) {
		b.Errorf("output %d: begins with %d, want %d", i, binary.LittleEndian.Uint32(out[0]), binary.LittleEndian.Uint32(want))
	}
}

func TestPipelineEndsInTheMiddle(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	stop := errors.New("enough")
	for name, c := range triedConfigs() {
		t.Run(name, func(t *testing.T) {
			b := &bench{b.With(t)}
			p, err := pipeline.New(b.Dev, c, b.model(2))
			b.Must(err)
			b.Must(p.Compile(b.Ctx, inputs(1)[0]))
			whole := func() {
				t.Helper()
				n := 0
				for out, err := range p.Run(b.Ctx, slices.Values(inputs(4))) {
					b.Must(err)
					b.isOutput(n, 2, out)
					n++
				}
			}
			for at := range rounds(3, 1) { // canceled between outputs
				ctx, cancel := context.WithCancelCause(b.Ctx)
				n := 0
				var got error
				for out, err := range p.Run(ctx, slices.Values(inputs(50))) {
					if err != nil {
						got = err
						continue
					}
					b.isOutput(n, 2, out)
					if n++; n > at {
						cancel(stop)
					}
				}
				expect.Fails(t, got, stop, "canceled after output %d", at)
				expect.Equal(t, n, at+1, "canceled after output %d", at)
				whole()
				cancel(nil)
			}
			// The loop ends, or panics.
			for range p.Run(b.Ctx, slices.Values(inputs(50))) {
				break
			}
			whole()
			func() {
				defer func() { _ = recover() }()
				for range p.Run(b.Ctx, slices.Values(inputs(50))) {
					panic("in the body")
				}
			}()
			whole()
			n := 0
			var last error
			for out, err := range p.Run(b.Ctx, slices.Values([][]byte{inputs(1)[0], inputs(2)[1], {1, 2, 3}, inputs(1)[0]})) {
				if last = err; err == nil {
					b.isOutput(n, 2, out)
					n++
				}
			}
			var te *dispatch.TransferError
			if !errors.As(last, &te) || n != 2 {
				t.Errorf("%d outputs, then %v", n, last)
			}
			b.Says(last, "input 2")
			whole()
			ctx, cancel := context.WithCancelCause(b.Ctx)
			cancel(stop)
			expect.Fails(t, p.Enqueue(ctx, inputs(1)...), stop, "enqueue in a canceled context")
			b.Must(p.Enqueue(b.Ctx, inputs(3)...))
			if _, err := p.PopAll(ctx); err == nil {
				_, err = p.PopAll(b.Ctx) // all was there already
				b.Must(err)
			}
			whole()
			b.Must(p.Release(b.Ctx))
		})
	}
}

func TestPipelineRefusals(t *testing.T) {
	two, one := open(t, sim.Wormhole(), reprise.WithQueues(2)), open(t, sim.Wormhole())
	dram, l1 := pipeBuffer(allocator.DRAM, "in"), pipeBuffer(allocator.L1, "l1 in")
	out := []reprise.BufferConfig{*dram}
	model := two.model(1)
	for _, tt := range []struct {
		b     *bench
		c     pipeline.Config
		model pipeline.Model
		says  string
	}{
		{two, pipeline.Config{Input: dram}, nil, "no model"},
		{two, pipeline.Config{Queues: 3, Input: dram}, model, "1 or 2 queues"},
		{two, pipeline.Config{Queues: -1, Input: dram}, model, "1 or 2 queues"},
		{one, pipeline.Config{Queues: 2, Input: dram}, model, "WithQueues(2)"},
		{two, pipeline.Config{Trace: true, TransferQueue: true, Input: dram, Outputs: out}, model, "only if there are 2"},
		{two, pipeline.Config{Queues: 2, TransferQueue: true, Input: dram, Outputs: out}, model, "only together with a trace"},
		{two, pipeline.Config{}, model, "nothing to write inputs to"},
		{two, pipeline.Config{Queues: 2, L1Input: l1}, model, "give Input"},
		{two, pipeline.Config{Input: l1}, model, "give it as L1Input"},
		{two, pipeline.Config{L1Input: dram}, model, "set its Kind"},
		{two, pipeline.Config{Trace: true, Queues: 2, TransferQueue: true, Input: dram}, model, "give Outputs"},
		{two, pipeline.Config{Input: dram, Scratch: 4096}, model, "give L1Input"},
		{two, pipeline.Config{Input: dram, Depth: -1}, model, "at least one input"},
	} {
		tt.c.Name = "odd"
		_, err := pipeline.New(tt.b.Dev, tt.c, tt.model)
		var pe *pipeline.ConfigError
		if !errors.As(err, &pe) {
			t.Errorf("%+v: %v", tt.c, err)
		}
		tt.b.Says(err, `pipeline: new "odd" (`, tt.says)
	}
}

func TestPipelineModelMistakes(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithQueues(2))
	configs := pipeConfigs()
	broken := errors.New("no weights")
	change := func(f func(*pipeline.Buffers, *pipeline.Stages)) pipeline.Model {
		return func(ctx context.Context, bufs *pipeline.Buffers) (*pipeline.Stages, error) {
			st, err := b.model(1)(ctx, bufs)
			f(bufs, st)
			return st, err
		}
	}
	var left *reprise.Buffer
	for _, tt := range []struct {
		config string
		model  pipeline.Model
		says   string
	}{
		{"trace, 2 queues", func(context.Context, *pipeline.Buffers) (*pipeline.Stages, error) { return nil, broken }, "no weights"},
		{"trace, 2 queues", func(context.Context, *pipeline.Buffers) (*pipeline.Stages, error) { return nil, nil }, "no stages"},
		{"transfer queue", change(func(_ *pipeline.Buffers, st *pipeline.Stages) { st.First = nil }), "no first stage"},
		{"trace, 1 queue, L1", change(func(_ *pipeline.Buffers, st *pipeline.Stages) { st.Body = nil }), "no body"},
		{"eager, 1 queue, L1", change(func(_ *pipeline.Buffers, st *pipeline.Stages) { st.Outputs = nil }), "no outputs"},
		{"transfer queue", change(func(bufs *pipeline.Buffers, st *pipeline.Stages) { st.Outputs = []*reprise.Buffer{bufs.Input} }), "not those of the configuration"},
		{"trace, 1 queue, scratch", change(func(bufs *pipeline.Buffers, _ *pipeline.Stages) {
			var err error
			left, err = bufs.Scratch.NewBuffer(reprise.BufferConfig{Size: 64, PageSize: 64, Name: "left"})
			b.Must(err)
		}), "release everything that was taken"},
	} {
		before := b.Allocated()
		p, err := pipeline.New(b.Dev, configs[tt.config], tt.model)
		b.Must(err)
		err = p.Compile(b.Ctx, inputs(1)[0])
		b.Says(err, "pipeline: compile", tt.says)
		var pe *pipeline.MovedError
		if left != nil && (!errors.As(err, &pe) || pe.Got == pe.Want) {
			t.Errorf("no *MovedError: %v", err)
		}
		if left != nil {
			b.Must(left.Release())
		}
		expect.NoDiff(t, b.Allocated(), before, "%s: something is taken", tt.says)
		expect.Fails(t, p.Enqueue(b.Ctx, inputs(1)...), pipeline.ErrNotCompiled, "enqueue")
		b.Must(p.Release(b.Ctx))
	}
}

func TestPipelineBusy(t *testing.T) {
	b := open(t, sim.Blackhole())
	p, err := pipeline.New(b.Dev, pipeConfigs()["trace, 1 queue, DRAM"], b.model(1))
	b.Must(err)
	for _, err := range p.Run(b.Ctx, slices.Values(inputs(1))) {
		expect.Fails(t, err, pipeline.ErrNotCompiled, "run before compile")
	}
	b.Must(p.Compile(b.Ctx, inputs(1)[0]))
	expect.Fails(t, p.Compile(b.Ctx, inputs(1)[0]), pipeline.ErrAlreadyCompiled, "a second compile")
	for _, err := range p.Run(b.Ctx, slices.Values(inputs(2))) {
		b.Must(err)
		for what, err := range map[string]error{
			"enqueue": p.Enqueue(b.Ctx, inputs(1)...), "close": p.Release(b.Ctx), "preallocate": p.PreallocateOutputs(1),
		} {
			expect.Fails(t, err, pipeline.ErrBusy, "%s inside Run", what)
		}
	}
	b.Must(p.Enqueue(b.Ctx, inputs(1)...))
	for _, err := range p.Run(b.Ctx, slices.Values(inputs(1))) {
		b.Says(err, "call PopAll first")
	}
	b.Must(p.Release(b.Ctx))
}

func TestPipelineKeepsOutputsAfterErrors(t *testing.T) {
	b := open(t, sim.Blackhole())
	p := b.onePage(pipeline.Config{})
	b.Must(p.Compile(b.Ctx, devtest.Words(256, 0)))
	b.Must(p.PreallocateOutputs(3))
	b.Must(p.Enqueue(b.Ctx, devtest.Words(256, 10)))
	outs, err := p.PopAll(b.Ctx)
	b.Must(err)
	kept := outs[0][0]
	ended, cancel := context.WithCancel(b.Ctx)
	cancel()
	if err := p.Enqueue(ended, devtest.Words(256, 20)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.Must(p.Enqueue(b.Ctx, devtest.Words(256, 30)))
	_, err = p.PopAll(b.Ctx)
	b.Must(err)
	expect.NoDiff(t, kept, devtest.Words(256, 11), "an output that one more input of three has overwritten")
	b.Must(p.Release(b.Ctx))
}

func TestPipelineGoesOnAfterRecovery(t *testing.T) {
	b := open(t, sim.Blackhole(), reprise.WithQueues(2))
	p := b.onePage(pipeline.Config{Trace: true, Queues: 2, TransferQueue: true})
	b.Must(p.Compile(b.Ctx, devtest.Words(256, 0)))
	for i := range rounds(20, 5) { // what the host has seen of the last input's end is by chance
		for range 2 {
			b.Must(p.Enqueue(b.Ctx, devtest.Words(256, uint32(i))))
		}
		_, err := p.PopAll(b.Ctx)
		b.Must(err)
		b.Must(b.Dev.Recover(b.Ctx))
	}
	b.Must(p.Enqueue(b.Ctx, devtest.Words(256, 99)))
	outs, err := p.PopAll(b.Ctx)
	b.Must(err)
	expect.NoDiff(t, outs[0][0], devtest.Words(256, 100), "after the last recovery")
	b.Must(p.Release(b.Ctx))
}

func (b *bench) onePage(c pipeline.Config) *pipeline.Pipeline {
	b.Helper()
	page := func(name string) reprise.BufferConfig {
		return reprise.BufferConfig{Kind: allocator.DRAM, Size: 256, PageSize: 64, Name: name}
	}
	in := page("in")
	c.Name, c.Input, c.Outputs = "p", &in, []reprise.BufferConfig{page("out")}
	p, err := pipeline.New(b.Dev, c, func(ctx context.Context, bufs *pipeline.Buffers) (*pipeline.Stages, error) {
		x, err := bufs.Device.Load(ctx, b.Adder("add", chip.Core{}, bufs.Input, bufs.Outputs[0], 1))
		if err != nil {
			return nil, err
		}
		return &pipeline.Stages{Body: []*reprise.Executable{x}, Close: x.Release}, nil
	})
	b.Must(err)
	return p
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bench struct{ *devtest.Bench }

func open(t *testing.T, target kmd.Target, opts ...reprise.Option) *bench {
	t.Helper()
	return &bench{devtest.Open(t, target, opts...)}
}

func rounds(n, short int) int {
	if testing.Short() {
		return short
	}
	return n
}
