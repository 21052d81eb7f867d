package streams

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/sim"
)

// Way is one of the ways of tt-metal's notes on advanced performance to keep a device busy.
type Way struct {
	Reads bool
	Trace bool
	Again bool
}

func (w Way) String() string {
	s := "writes on queue 1"
	if w.Reads {
		s = "reads and writes on queue 1"
	}
	if w.Trace {
		s += ", trace"
	}
	if w.Again {
		s += ", L1 input again"
	}
	return s
}

func Patterns() rig.Table {
	var cs rig.Table
	for i := range 8 {
		w := Way{Reads: i&4 != 0, Trace: i&2 != 0, Again: i&1 != 0}
		cs.Add(w.String(), "transfers overlap with the model, and no buffer is written before its reader is through", w.check)
	}
	return cs
}

const (
	wayPages = 24
	wayPage  = 64
)

type site struct {
	in, l1, mid, out *reprise.Buffer
	first, last      *reprise.Executable
	body             []*reprise.Executable
	trace            *reprise.Trace
	steps            int
}

func moveProgram(t *rig.T, name string, at chip.Core, from, to *reprise.Buffer) *reprise.Program {
	t.Helper()
	cores := []chip.Range{chip.Single(at.X, at.Y)}
	in := uint32(0)
	for i, b := range []*reprise.Buffer{from, to} {
		if b.Kind() == allocator.L1 {
			in |= 1 << i
		}
	}
	p := rig.OneKernel(reprise.Kernel{
		Name: "move", Image: t.Kernel(kernels.Move), Processor: chip.BRISC, Cores: cores,
		Args: rig.Args(from.Addr(), to.Addr(), 0, uint32(from.Pages()), uint32(from.PageSize()), 2, in),
	}, from, to)
	p.Name, p.CircularBuffers = name, []reprise.CircularBuffer{{Index: 2, Cores: cores, PageSize: from.PageSize(), Pages: 1}}
	return p
}

func (w Way) Build(t *rig.T, steps int) *site { return w.buildOf(t, steps, wayPages) }

func (w Way) buildOf(t *rig.T, steps, pages int) *site {
	t.Helper()
	size := pages * wayPage
	s := &site{steps: steps}
	s.in, s.mid, s.out = t.Buffer(allocator.DRAM, size, wayPage), t.Buffer(allocator.DRAM, size, wayPage),
		t.Buffer(allocator.DRAM, size, wayPage)
	c := reprise.BufferConfig{Kind: allocator.L1, Size: size, PageSize: wayPage, Name: "L1 input"}
	take := t.Dev.NewBuffer
	if w.Again {
		pool, err := t.Dev.NewPool(reprise.PoolConfig{Kind: allocator.L1, Size: 1 << 17, Name: "scratch"})
		t.OK(err)
		t.Cleanup(func() { t.Free(pool) })
		take = pool.NewBuffer
	}
	var err error
	s.l1, err = take(c)
	t.OK(err)
	s.first = t.Load(moveProgram(t, "first", chip.Core{X: 1}, s.in, s.l1))
	s.body = append(s.body, t.Load(moveProgram(t, "take", chip.Core{X: 2}, s.l1, s.mid)))
	for range steps {
		s.body = append(s.body, t.Load(t.AddProgram("add", chip.Core{X: 3}, s.mid, s.mid, 1)))
	}
	if w.Again {
		addr := s.l1.Addr()
		t.Free(s.l1)
		tmp, err := take(reprise.BufferConfig{Size: size, PageSize: wayPage, Name: "tmp"})
		t.OK(err)
		if tmp.Addr() != addr {
			t.Errorf("tmp is at %#x, not in the place of the L1 input at %#x", tmp.Addr(), addr)
		}
		s.body = append(s.body, t.Load(moveProgram(t, "out", chip.Core{X: 2}, s.mid, tmp)),
			t.Load(moveProgram(t, "back", chip.Core{X: 2}, tmp, s.mid)))
		t.Free(tmp)
		s.l1, err = take(c)
		t.OK(err)
		if s.l1.Addr() != addr {
			t.Fatalf("the L1 input is at %#x again, was at %#x", s.l1.Addr(), addr)
		}
	}
	t.Cleanup(func() { t.Free(s.l1) })
	s.last = t.Load(moveProgram(t, "last", chip.Core{X: 4}, s.mid, s.out))
	if w.Trace {
		s.trace = t.Capture("model", s.body...)
	}
	return s
}

func (s *site) input(i int) []byte {
	return rig.MakeWords(s.in.Size(), func(k uint32) uint32 { return 4*k&0xFFFF | uint32(7*i)&0xFF<<16 })
}

// Run lets n inputs pass and calls between after each step that is put into a queue.
func (w Way) Run(t *rig.T, s *site, n int, between func()) {
	t.Helper()
	q := t.Both()
	step := func(err error) {
		t.Helper()
		t.OK(err)
		if between != nil {
			between()
		}
	}
	written, firstDone := t.Dev.NewEvent("written"), t.Dev.NewEvent("first done")
	lastDone, read := t.Dev.NewEvent("last done"), t.Dev.NewEvent("read")
	step(q[0].Record(t.Ctx, firstDone))
	step(q[1].Record(t.Ctx, read))
	write := func(i int) {
		t.Helper()
		step(q[1].WaitEvent(t.Ctx, firstDone))
		step(q[1].Write(t.Ctx, s.in, 0, s.input(i)))
		step(q[1].Record(t.Ctx, written))
	}
	var reads []*reprise.Pending
	got := make([][]byte, n)
	fetch := func(q *reprise.Queue, i int) {
		t.Helper()
		got[i] = make([]byte, s.out.Size())
		p, err := q.StartRead(t.Ctx, s.out, 0, got[i])
		step(err)
		reads = append(reads, p)
	}
	check := func(i int) {
		t.Helper()
		t.WaitFor(reads[i])
		in := s.input(i)
		want := rig.MakeWords(len(in), func(k int) uint32 { return rig.Word(in[4*k:]) + uint32(s.steps) })
		t.Same(fmt.Sprintf("output %d", i), want, got[i])
		got[i] = nil
	}
	const ahead = 4
	write(0)
	for i := range n {
		step(q[0].WaitEvent(t.Ctx, written))
		step(q[0].Run(t.Ctx, s.first))
		step(q[0].Record(t.Ctx, firstDone))
		if w.Trace {
			step(s.trace.Replay(t.Ctx))
		} else {
			for _, x := range s.body {
				step(q[0].Run(t.Ctx, x))
			}
		}
		if w.Reads {
			step(q[0].WaitEvent(t.Ctx, read))
		}
		step(q[0].Run(t.Ctx, s.last))
		step(q[0].Record(t.Ctx, lastDone))
		if i+1 < n {
			write(i + 1)
		}
		if w.Reads {
			step(q[1].WaitEvent(t.Ctx, lastDone))
			fetch(q[1], i)
			step(q[1].Record(t.Ctx, read))
		} else {
			fetch(q[0], i)
		}
		if i >= ahead {
			check(i - ahead)
		}
	}
	for i := max(0, n-ahead); i < n; i++ {
		check(i)
	}
	t.FinishBoth()
}

// check tries until transfers were seen beside the model, with twice the pages each time.
func (w Way) check(t *rig.T) {
	const tries = 5
	var o overlap
	for try := range tries {
		pages := wayPages << try
		t.Sub(fmt.Sprintf("%d pages", pages), func(t *rig.T) { o = w.overlaps(t, pages) })
		if o.found || t.Failed() {
			return
		}
	}
	o.missing(t)
}

func (w Way) overlaps(t *rig.T, pages int) overlap {
	t.Helper()
	s := w.buildOf(t, t.Size(8, 3), pages)
	line, err := observe.StartTimeline(t.Ctx, t.Dev)
	t.OK(err)
	n := t.Size(10, 5)
	w.Run(t, s, n, nil)
	t.OK(line.Stop(t.Ctx))
	return w.verify(t, line.Spans(), n)
}

type overlap struct {
	found   bool
	chances int
	closest string
}

// missing fails unless the host was too slow for an overlap.
func (o overlap) missing(t *rig.T) {
	t.Helper()
	if o.chances == 0 {
		t.Logf("no overlap: the host takes longer to send a transfer than the device for the model: %s", o.closest)
		return
	}
	t.Errorf("no transfer overlapped with the model, %d writes had the chance in the last run: %s", o.chances, o.closest)
}

// verify compares a timeline with what the events demand.
func (w Way) verify(t *rig.T, spans []observe.Span, n int) (o overlap) {
	t.Helper()
	pick := func(queue int, kind string, names ...string) (out []observe.Span) {
		for _, s := range spans {
			if s.Queue == queue && s.Kind == kind && (len(names) == 0 || slices.Contains(names, s.Name)) {
				out = append(out, s)
			}
		}
		return out
	}
	readQueue := 0
	if w.Reads {
		readQueue = 1
	}
	writes, reads := pick(1, "write"), pick(readQueue, "read")
	firsts, lasts := pick(0, "run", "first"), pick(0, "run", "last")
	body := pick(0, "run", "take", "add", "out", "back")
	if w.Trace {
		body = pick(0, "replay")
	}
	for what, s := range map[string][]observe.Span{"writes": writes, "reads": reads, "first programs": firsts, "last programs": lasts} {
		if len(s) != n {
			t.Errorf("the timeline has %d %s, want %d", len(s), what, n)
			return o
		}
	}
	ordered := func(what string, before, after []observe.Span, lag int) {
		t.Helper()
		for i := range n - lag {
			if before[i].EndCycles > after[i+lag].StartCycles {
				t.Errorf("%s: %d ends at %d, %d begins at %d", what, i, before[i].EndCycles, i+lag, after[i+lag].StartCycles)
			}
		}
	}
	ordered("an input is written before it is read", writes, firsts, 0)
	ordered("an input is read before the next one is written", firsts, writes, 1)
	ordered("an output is written before it is read", lasts, reads, 0)
	ordered("an output is read before the next one is written", reads, lasts, 1)
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

func Soak() rig.Table {
	var cs rig.Table
	short := cs.Add("200 inputs", "queues, events and traces hold out with random delays, and memory doesn't grow",
		func(t *rig.T) { soak(t, soakShort) })
	short.Needs, short.Alone = rig.NeedEmulator, true
	long := cs.Add("100,000 inputs", "queues, events and traces hold out for long with random delays, and memory doesn't grow",
		func(t *rig.T) { soak(t, soakLong) })
	long.Needs, long.Alone, long.Long, long.Hours = rig.NeedEmulator, true, true, 6
	return cs
}

func soak(t *rig.T, n int) {
	rng := rand.New(rand.NewPCG(soakSeed, uint64(n)))
	dev := t.Device.Emulated("", sim.Seed(soakSeed), sim.Delay(soakDelay))
	x := *t
	x.Device = dev
	u := x.Full(dev.Open(), rig.QueueOptions(false)...)
	w := Way{Reads: true, Trace: true, Again: true}
	s := w.buildOf(u, 1, 4)
	const round = 500
	var first, last uint64
	device := u.Allocated()
	start := time.Now()
	for done := 0; done < n; {
		k := min(round, n-done)
		w.Run(u, s, k, func() {
			switch r := rng.IntN(1000); {
			case r < 3:
				time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
			case r < 100:
				runtime.Gosched()
			}
		})
		done += k
		if u.Failed() {
			t.Fatalf("seed %d: failed in inputs %d to %d", soakSeed, done-k, done)
		}
		last = heap()
		if first == 0 {
			first = last
		}
		if done%10_000 == 0 {
			t.Logf("%d inputs in %v, %d KiB of heap, %d goroutines", done, time.Since(start).Round(time.Second), last>>10, runtime.NumGoroutine())
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
