package streams

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/sim"
)

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

func moveProgram(t *rig.T, name string, at chip.Core, from, to *reprise.Buffer) *reprise.Program {
	cores := []chip.Range{chip.Single(at.X, at.Y)}
	in := uint32(0)
	for i, b := range []*reprise.Buffer{from, to} {
		if b.Kind() == allocator.L1 {
			in |= 1 << i
		}
	}
	p := rig.Named(name, reprise.Kernel{
		Name: "move", Image: t.Kernel(kernels.Move), Processor: chip.BRISC, Cores: cores,
		Args: rig.Args(from.Addr(), to.Addr(), 0, uint32(from.Pages()), uint32(from.PageSize()), 2, in),
	}, from, to)
	p.CircularBuffers = []reprise.CircularBuffer{{Index: 2, Cores: cores, PageSize: from.PageSize(), Pages: 1}}
	return p
}

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
	o.missing(t)
}

type overlap struct {
	found   bool
	chances int
	closest string
}

// missing fails unless the host was too slow for an overlap.
func (o overlap) missing(t *rig.T) {
	if o.chances == 0 {
		t.Logf("no overlap: the host takes longer to send a transfer than the device for the model: %s", o.closest)
		return
	}
	t.Errorf("no transfer overlapped with the model, %d writes had the chance in the last run: %s", o.chances, o.closest)
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
