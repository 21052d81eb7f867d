package streams

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/pipeline"
	"github.com/reprise-tt/reprise/sim"
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
	cs.Add("two pipelines", "pipelines on one device take turns on its queues and workers", func(t *rig.T) {
		a, b := pipeOf("transfer queue").compile(t, 1), pipeOf("trace, two queues").compile(t, 3)
		for range t.Size(4, 2) {
			whole(t, a, 3, 1)
			whole(t, b, 3, 3)
		}
	})
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
				st.First = append(st.First, t.Load(t.MoveProgram("first", chip.Core{X: 1}, b.Input, b.L1Input)))
			}
		}
		st.Body = append(st.Body, t.Load(t.MoveProgram("take", chip.Core{X: 2}, from, mid)))
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
			st.Body = append(st.Body, t.Load(t.MoveProgram("out", chip.Core{X: 2}, mid, tmp)),
				t.Load(t.MoveProgram("back", chip.Core{X: 2}, tmp, mid)))
			if err := tmp.Release(); err != nil {
				return nil, err
			}
		}
		st.Outputs = []*reprise.Buffer{mid}
		if len(b.Outputs) > 0 {
			st.Outputs = nil
			for i, out := range b.Outputs {
				st.Last = append(st.Last, t.Load(t.MoveProgram("last", chip.Core{X: 4 + i}, mid, out)))
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

func workBetween(t *rig.T) {
	line := pipeOf("transfer queue").compile(t, pipeSteps)
	q, e := t.Both(), t.Dev.NewEvent("between")
	buf := t.DRAMBuffer(64*40, 64)
	x := t.Load(t.AddProgram("other", chip.Core{X: 3}, buf, buf, 1))
	for i := range t.Size(5, 2) {
		whole(t, line, 3, pipeSteps)
		t.On(q[1]).Clear(buf)
		t.Follows(q[0], q[1], e)
		t.Start(x)
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

// Patterns are ways of tt-metal's notes on advanced performance to keep a device busy.
func Patterns() (cs rig.Table) {
	for _, p := range [][2]string{
		{"writes on queue 1", "two queues"}, {"writes on queue 1, trace", "trace, two queues"},
		{"writes on queue 1, trace, L1 input again", "trace, two queues, L1 again"},
		{"reads and writes on queue 1, trace, L1 input again", "transfer queue, L1 again"},
	} {
		cs.Add(p[0], "transfers overlap with the model, and no buffer is written before its reader is through", pipeOf(p[1]).overlaps)
	}
	return cs
}

const (
	wayPages = 24
	wayPage  = 64
)

// overlaps tries until transfers were seen beside the model, with twice the steps each time.
func (p pipe) overlaps(t *rig.T) {
	n := t.Size(10, 5)
	const tries = 5
	var o overlap
	for try := range tries {
		steps := t.Size(8, 3) << try
		line := p.compile(t, steps)
		tl, err := observe.StartTimeline(t.Ctx, t.Dev)
		t.OK(err)
		whole(t, line, n, steps)
		t.OK(tl.Stop(t.Ctx))
		if o = p.verify(t, tl.Spans(), n); o.found || t.Failed() {
			return
		}
		t.Release(line)
	}
	if o.chances == 0 { // the host was too slow
		t.Logf("no overlap: the host takes longer to send a transfer than the device for the model: %s", o.closest)
		return
	}
	t.Errorf("no transfer overlapped with the model, %d writes had the chance in the last run: %s", o.chances, o.closest)
}

type overlap struct {
	found   bool
	chances int
	closest string
}

// verify compares a timeline with what the events demand.
func (p pipe) verify(t *rig.T, spans []observe.Span, n int) (o overlap) {
	pick := func(queue int, kind string, names ...string) (out []observe.Span) {
		for _, s := range spans {
			if s.Queue == queue && s.Kind == kind && (len(names) == 0 || slices.Contains(names, s.Name)) {
				out = append(out, s)
			}
		}
		return out
	}
	readQueue := 0
	if p.TransferQueue {
		readQueue = 1
	}
	writes, reads := pick(1, "write"), pick(readQueue, "read")
	firsts, lasts := pick(0, "run", "first"), pick(0, "run", "last")
	if !p.TransferQueue {
		lasts = nil
	}
	body := pick(0, "run", "take", "add", "out", "back")
	if p.Trace {
		body = pick(0, "replay")
	}
	for what, s := range map[string][]observe.Span{"writes": writes, "reads": reads, "first programs": firsts, "last programs": lasts} {
		if len(s) != n && s != nil {
			t.Errorf("the timeline has %d %s, want %d", len(s), what, n)
			return o
		}
	}
	ordered := func(what string, before, after []observe.Span, lag int) {
		for i := range n - lag {
			if before[i].EndCycles > after[i+lag].StartCycles {
				t.Errorf("%s: %d ends at %d, %d begins at %d", what, i, before[i].EndCycles, i+lag, after[i+lag].StartCycles)
			}
		}
	}
	ordered("an input is written before it is read", writes, firsts, 0)
	ordered("an input is read before the next one is written", firsts, writes, 1)
	if lasts != nil {
		ordered("an output is written before it is read", lasts, reads, 0)
		ordered("an output is read before the next one is written", reads, lasts, 1)
	}
	o.closest = "there was no transfer after the model"
	least := uint64(math.MaxUint64)
	for _, m := range append(writes, reads...) {
		for _, b := range body {
			if m.Queue == 1 && m.Overlaps(&b) {
				o.found = true
				return o
			}
			if late := m.StartCycles - b.EndCycles; m.Queue == 1 && m.StartCycles >= b.EndCycles && late < least {
				least = late
				o.closest = fmt.Sprintf("a %s of %d cycles began %d cycles after the end of a %s of %d cycles",
					m.Kind, m.EndCycles-m.StartCycles, late, b.Kind, b.EndCycles-b.StartCycles)
			}
		}
	}
	each := len(body) / n
	for i := range n - 1 {
		half := (body[i*each].Start + body[(i+1)*each-1].End) / 2
		for _, h := range spans {
			if h.Queue < 0 && h.Call == writes[i+1].Call && h.End < half {
				o.chances++
			}
		}
	}
	return o
}

// The soak is the hardest pattern over and over, with random delays of host and networks, by
// seed.
const (
	soakShort = 200
	soakLong  = 100_000
	soakSeed  = 20
	soakDelay = 8 // clocks at most, from step to step of a request
)

// Soak are the cases of layer soak.
func Soak() (cs rig.Table) {
	short := cs.Add("200 inputs", "queues, events and traces hold out with random delays, and memory doesn't grow",
		func(t *rig.T) { soak(t, soakShort) })
	short.Needs, short.Alone = rig.NeedEmulator, true
	long := cs.Add("100,000 inputs", "queues, events and traces hold out for long, and memory doesn't grow",
		func(t *rig.T) { soak(t, soakLong) })
	long.Needs, long.Alone, long.Long, long.Limit = rig.NeedEmulator, true, true, 6*time.Minute
	return cs
}

func soak(t *rig.T, n int) {
	rng := rand.New(rand.NewPCG(soakSeed, uint64(n)))
	dev := t.Device.Emulated("", sim.Seed(soakSeed), sim.Delay(soakDelay))
	x := *t
	x.Device = dev
	u := x.Full(rig.QueueOptions(false)...)
	const round = 500
	line := pipeOf("transfer queue, L1 again").compile(u, 1)
	delayed := func(n int) iter.Seq[[]byte] {
		return func(yield func([]byte) bool) {
			for in := range pipeInputs(n) {
				switch r := rng.IntN(100); {
				case r < 3:
					time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
				case r < 60:
					runtime.Gosched()
				}
				if !yield(in) {
					return
				}
			}
		}
	}
	var first, last uint64
	device := u.Allocated()
	start := time.Now()
	for done := 0; done < n; {
		k := min(round, n-done)
		for range outputs(u, line, 1, delayed(k)) {
		}
		done += k
		if u.Failed() {
			t.Fatalf("seed %d: failed in inputs %d to %d", soakSeed, done-k, done)
		}
		last = heap()
		if first == 0 {
			first = last
		}
		if done%10_000 == 0 {
			t.Logf("%d inputs in %v, %d KiB of heap, %d goroutines", done, time.Since(start).Round(time.Second), last>>10,
				runtime.NumGoroutine())
		}
	}
	t.Logf("%d inputs in %v, %d KiB of heap after the first round, %d KiB at the end", n, time.Since(start).Round(time.Millisecond),
		first>>10, last>>10)
	// The emulator's own memory is there from the first round on.
	if last > first+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes in %d inputs", first, last, n)
	}
	u.SameMemory(device)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
