package streams

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/pipeline"
)

type pipe struct{ pipeline.Config }

func pipeBuffer(k allocator.Kind, name string) *reprise.BufferConfig {
	return &reprise.BufferConfig{Kind: k, Size: wayPages * wayPage, PageSize: wayPage, Name: name}
}

// pipes are names of pipelines, which say what one has.
var pipes = []string{
	"one queue, L1", "one queue, DRAM", "one queue, DRAM and L1", "two queues", "two queues, DRAM",
	"trace, L1", "trace, DRAM", "trace, DRAM and L1", "trace, L1 again",
	"trace, two queues", "trace, two queues, DRAM", "trace, two queues, L1 again",
	"transfer queue", "transfer queue, DRAM", "transfer queue, L1 again",
}

// pipeOf makes a pipeline of its name. With two queues there is always an input in DRAM.
func pipeOf(name string) pipe {
	has := func(what string) bool { return strings.Contains(name, what) }
	c := pipeline.Config{Name: name, Trace: has("trace") || has("transfer queue"), TransferQueue: has("transfer queue")}
	if has("two queues") || c.TransferQueue {
		c.Queues = 2
	}
	if c.Queues == 2 || has("DRAM") {
		c.Input = pipeBuffer(allocator.DRAM, "in")
	}
	if !strings.HasSuffix(name, ", DRAM") {
		c.L1Input = pipeBuffer(allocator.L1, "l1 in")
	}
	if has("again") {
		c.Scratch = 1 << 17
	}
	if c.TransferQueue {
		c.Outputs = []reprise.BufferConfig{*pipeBuffer(allocator.DRAM, "out")}
	}
	return pipe{c}
}

// Pipelines are the cases of layer pipeline.
func Pipelines() (cs rig.Table) {
	for _, name := range pipes {
		cs.Add(name, "each input gives its output, in order, in every configuration", pipeOf(name).stream)
	}
	for _, name := range []string{"one queue, L1", "trace, two queues", "transfer queue", "transfer queue, DRAM"} {
		p := pipeOf(name)
		cs.Add("canceled: "+name, "a run that is canceled in the middle leaves the device clean", p.canceled)
		cs.Add("left: "+name, "a loop that ends early leaves the device clean", p.left)
	}
	cs.Add("overlap", "data move while the model runs, and nothing is overwritten before it is read", pipeOf("transfer queue").overlaps)
	cs.Add("two pipelines", "pipelines on one device take turns on its queues and workers", twoPipelines)
	cs.Add("other work in between", "the queues may be used for other work between two runs", workBetween)
	cs.Add("several outputs", "all outputs of a model are read before they are overwritten", severalOutputs)
	cs.Add("preallocated outputs", "outputs that are reused hold the right data when they are returned", preallocated)
	cs.Add("compile fails", "a model that can't be set up leaves nothing behind", compileFails)
	return cs
}

func model(t *rig.T, steps int) pipeline.Model {
	return func(ctx context.Context, b *pipeline.Buffers) (*pipeline.Stages, error) {
		st := &pipeline.Stages{}
		mid := t.DRAMBuffer(wayPages*wayPage, wayPage)
		from := b.Input
		if b.L1Input != nil {
			from = b.L1Input
			if b.Input != nil {
				st.First = append(st.First, t.Load(moveProgram(t, "first", chip.Core{X: 1}, b.Input, b.L1Input)))
			}
		}
		st.Body = append(st.Body, t.Load(moveProgram(t, "take", chip.Core{X: 2}, from, mid)))
		for range steps {
			st.Body = append(st.Body, t.Load(t.AddProgram("add", chip.Core{X: 3}, mid, mid, 1)))
		}
		if b.Scratch != nil {
			if err := b.FreeL1Input(); err != nil {
				return nil, err
			}
			tmp, err := b.Scratch.NewBuffer(reprise.BufferConfig{Size: mid.Size(), PageSize: wayPage, Name: "tmp"})
			if err != nil {
				return nil, err
			}
			st.Body = append(st.Body, t.Load(moveProgram(t, "out", chip.Core{X: 2}, mid, tmp)),
				t.Load(moveProgram(t, "back", chip.Core{X: 2}, tmp, mid)))
			if err := tmp.Release(); err != nil {
				return nil, err
			}
		}
		st.Outputs = []*reprise.Buffer{mid}
		if len(b.Outputs) > 0 {
			st.Outputs = nil
			for i, out := range b.Outputs {
				st.Last = append(st.Last, t.Load(moveProgram(t, "last", chip.Core{X: 4 + i}, mid, out)))
			}
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

const pipeSteps = 2

func (p pipe) compile(t *rig.T, steps int) *pipeline.Pipeline {
	line, err := pipeline.New(t.Dev, p.Config, model(t, steps))
	t.OK(err)
	t.Closing(line.Release)
	t.OK(line.Compile(t.Ctx, pipeInput(0)))
	return line
}

func pipeInput(i int) []byte { return pipeWords(i, 0) }

func pipeWords(i, plus int) []byte {
	return rig.MakeWords(wayPages*wayPage, func(k int) uint32 { return uint32(4*k) | uint32(7*i+1)<<16 + uint32(plus) })
}

func pipeInputs(n int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := range n {
			if !yield(pipeInput(i)) {
				return
			}
		}
	}
}

func pipeOutput(t *rig.T, i, steps int, out [][]byte) {
	for k, o := range out {
		t.Same(pipeWords(i, steps), o, "output %d, buffer %d", i, k)
	}
}

// outputs checks the outputs of a run, and gives each with its number, from 1 on.
func outputs(t *rig.T, line *pipeline.Pipeline, steps int, in iter.Seq[[]byte]) iter.Seq2[int, [][]byte] {
	return func(yield func(int, [][]byte) bool) {
		n := 0
		for out, err := range line.Run(t.Ctx, in) {
			t.OK(err)
			pipeOutput(t, n, steps, out)
			if n++; !yield(n, out) {
				return
			}
		}
	}
}

func whole(t *rig.T, line *pipeline.Pipeline, n, steps int) {
	last := 0
	for last = range outputs(t, line, steps, pipeInputs(n)) {
	}
	rig.Equal(t, last, n, "outputs")
}

func (p pipe) stream(t *rig.T) {
	before := t.Allocated()
	line := p.compile(t, pipeSteps)
	whole(t, line, t.Size(12, 4), pipeSteps)
	for round := range 2 {
		n := t.Size(5, 3) - round
		for i := range n {
			t.OK(line.Enqueue(t.Ctx, pipeInput(i)))
		}
		outs, err := line.PopAll(t.Ctx)
		t.OK(err)
		rig.Equal(t, len(outs), n, "outputs")
		for i, out := range outs {
			pipeOutput(t, i, pipeSteps, out)
		}
	}
	t.Release(line)
	t.SameMemory(before)
}

func (p pipe) canceled(t *rig.T) {
	line := p.compile(t, pipeSteps)
	stop := errors.New("enough")
	for at := range t.Size(4, 2) {
		ctx, cancel := context.WithCancelCause(t.Ctx)
		n := 0
		var got error
		for out, err := range line.Run(ctx, pipeInputs(100)) {
			if err != nil {
				got = err
				continue
			}
			pipeOutput(t, n, pipeSteps, out)
			if n++; n > at {
				cancel(stop)
			}
		}
		cancel(nil)
		if !errors.Is(got, stop) || n != at+1 {
			t.Errorf("canceled after output %d: %d outputs, then %v", at, n, got)
		}
		whole(t, line, 3, pipeSteps)
	}
}

func (p pipe) left(t *rig.T) {
	line := p.compile(t, pipeSteps)
	for at := range t.Size(4, 2) {
		for n := range outputs(t, line, pipeSteps, pipeInputs(100)) {
			if n > at {
				break
			}
		}
		whole(t, line, 2, pipeSteps)
	}
}

// Flow lets n inputs pass through one of the pipelines.
func Flow(t *rig.T, name string, n int) { whole(t, pipeOf(name).compile(t, pipeSteps), n, pipeSteps) }

func twoPipelines(t *rig.T) {
	a, b := pipeOf("transfer queue").compile(t, 1), pipeOf("trace, two queues").compile(t, 3)
	for range t.Size(4, 2) {
		whole(t, a, 3, 1)
		whole(t, b, 3, 3)
	}
}

func workBetween(t *rig.T) {
	line := pipeOf("transfer queue").compile(t, pipeSteps)
	q, e := t.Both(), t.Dev.NewEvent("between")
	buf := t.DRAMBuffer(64*40, 64)
	x := t.Load(t.AddProgram("other", chip.Core{X: 3}, buf, buf, 1))
	for i := range t.Size(5, 2) {
		whole(t, line, 3, pipeSteps)
		t.On(q[1]).Clear(buf)
		t.Follows(q[0], q[1], e)
		t.OK(q[0].Run(t.Ctx, x))
		t.Follows(q[1], q[0], e)
		t.Same(rig.Repeated(buf.Size(), 1), t.ReadOn(q[1], buf), "round %d", i)
	}
}

func severalOutputs(t *rig.T) {
	p := pipeOf("transfer queue")
	p.Outputs = []reprise.BufferConfig{*pipeBuffer(allocator.DRAM, "out 0"), *pipeBuffer(allocator.DRAM, "out 1"),
		*pipeBuffer(allocator.DRAM, "out 2")}
	line := p.compile(t, pipeSteps)
	for _, out := range outputs(t, line, pipeSteps, pipeInputs(t.Size(8, 4))) {
		if len(out) != 3 {
			t.Fatalf("%d outputs, want 3", len(out))
		}
	}
}

func preallocated(t *rig.T) {
	for _, name := range []string{"transfer queue", "trace, two queues", "one queue, L1"} {
		line := pipeOf(name).compile(t, 1)
		t.OK(line.PreallocateOutputs(3))
		whole(t, line, t.Size(10, 5), 1)
		var first *byte
		for range 2 {
			for i := range 3 {
				t.OK(line.Enqueue(t.Ctx, pipeInput(i)))
			}
			t.Fails("a fourth input", line.Enqueue(t.Ctx, pipeInput(0)), pipeline.ErrTooManyInputs)
			outs, err := line.PopAll(t.Ctx)
			t.OK(err)
			for i, out := range outs {
				pipeOutput(t, i, 1, out)
			}
			if first != nil && first != &outs[0][0][0] {
				t.Error("the outputs are others than before")
			}
			first = &outs[0][0][0]
		}
		t.Release(line)
	}
}

func compileFails(t *rig.T) {
	before := t.Allocated()
	broken := errors.New("no weights")
	line, err := pipeline.New(t.Dev, pipeOf("transfer queue").Config, func(context.Context, *pipeline.Buffers) (*pipeline.Stages, error) {
		return nil, broken
	})
	t.OK(err)
	t.Fails("compile", line.Compile(t.Ctx, pipeInput(0)), broken)
	t.SameMemory(before)
	whole(t, pipeOf("transfer queue").compile(t, 1), 2, 1)
}
