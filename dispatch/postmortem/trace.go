package postmortem

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// Trace is a trace with control flow. It doesn't change.
type Trace struct {
	Name  string
	Addr  uint32 // in every DRAM bank
	Image []byte
	Steps []tracebuf.Step
	Calls []*Trace
	Cores []chip.Range // nil if unknown
	// Patched: loops' counts may have changed since the recording.
	Patched bool
}

func runs(s *tracebuf.Step) bool {
	return s.Control.Kind == flow.None && s.Program != tracebuf.NoProgram
}

// TraceProgram is a run of a program in a trace that hangs.
type TraceProgram struct {
	Trace   string `json:"trace"`
	Step    int    `json:"step"`
	Program string `json:"program"`
	Loops   []int  `json:"loops,omitempty"` // outermost first
	// Ended: the program was the last one before a loop exceeded its limit.
	Ended bool `json:"ended,omitempty"`
}

func (p TraceProgram) String() string {
	var loops strings.Builder
	for _, l := range slices.Backward(p.Loops) {
		fmt.Fprintf(&loops, ", in loop %d", l)
	}
	return fmt.Sprintf("program %q (step %d of trace %q%s)", p.Program, p.Step, p.Trace, &loops)
}

// tracePrograms returns the runs that a queue may wait for in a trace with control flow or, where a
// loop exceeded its limit, the last one that ended. workers is the number of completions of a run,
// and busy are the queue's workers that are not done.
func tracePrograms(l cq.Layout, root *Trace, r *DeviceRings, prefetch, dispatch ProcessorState, workers int,
	busy []chip.Core) []TraceProgram {
	if root == nil || !r.Read || len(r.Streams) == 0 {
		return nil
	}
	var flows []*traceGraph
	graphOf(l, root, &flows)
	if n := len(r.Loops); n > 0 && prefetch.Waypoint == "LOOP" {
		for _, g := range flows {
			if begin, end, ok := g.loop(r.Loops[n-1]); ok {
				return describe(g.lastRuns(begin, end), true)
			}
		}
		return nil
	}
	if dispatch.Waypoint != "WRKR" || dispatch.Detail>>24 != uint32(r.FirstStream) {
		return nil
	}
	done := int(r.Streams[0]) / workers
	within := func(*traceGraph, int) bool { return true }
	known := len(r.Loops) == 0
	// In a loop where the prefetcher waits for the programs of each iteration, the hang is in the
	// present one. Elsewhere it reads ahead.
	for _, l := range slices.Backward(r.Loops) {
		i := slices.IndexFunc(flows, func(g *traceGraph) bool { return g.flow.Addr == l.Trace })
		if i < 0 {
			continue
		}
		known = true
		g := flows[i]
		if begin, end, ok := g.loop(l); ok && g.syncs[end-1] {
			inside := g.callees(begin, end, nil)
			within = func(o *traceGraph, step int) bool {
				return o == g && begin < step && step <= end || slices.Contains(inside, o)
			}
			break
		}
	}
	if !known {
		return nil // another trace runs
	}
	var out []traceRun
	for _, g := range flows {
		for _, w := range g.waits {
			if w.count&0xFFFFFF == dispatch.Detail&0xFFFFFF && within(g, w.step) {
				for _, x := range g.unfinished(w.step, done) {
					if !slices.Contains(out, x) {
						out = append(out, x)
					}
				}
			}
		}
	}
	return describe(onCores(out, busy), false)
}

type traceRun struct {
	g    *traceGraph
	step int
}

func describe(list []traceRun, ended bool) (out []TraceProgram) {
	for _, x := range list {
		p := TraceProgram{Trace: x.g.flow.Name, Step: x.step, Program: x.g.steps[x.step].Name, Ended: ended}
		for begin := x.g.places[x.step].Loop; begin >= 0; begin = x.g.places[begin].Loop {
			p.Loops = append(p.Loops, x.g.steps[begin].Control.Loop)
		}
		slices.Reverse(p.Loops)
		out = append(out, p)
	}
	return out
}

func onCores(list []traceRun, busy []chip.Core) []traceRun {
	var out []traceRun
	for _, x := range list {
		var cores chip.Range
		if s := &x.g.steps[x.step]; runs(s) && s.Program < len(x.g.flow.Cores) {
			cores = x.g.flow.Cores[s.Program]
		}
		outside := func(c chip.Core) bool { return !cores.Contains(c) }
		if cores == (chip.Range{}) || !slices.ContainsFunc(busy, outside) {
			out = append(out, x)
		}
	}
	if len(out) == 0 {
		return list
	}
	return out
}

type traceGraph struct {
	flow   *Trace
	steps  []tracebuf.Step
	places []flow.Place
	before [][]int // steps that can come right before each step, and the end
	runs   []int
	resets []bool
	syncs  []bool
	waits  []traceWait   // of the dispatcher, for completions
	calls  []*traceGraph // by Trace.Calls
}

type traceWait struct {
	step  int
	count uint32
}

func graphOf(l cq.Layout, f *Trace, list *[]*traceGraph) *traceGraph {
	if i := slices.IndexFunc(*list, func(g *traceGraph) bool { return g.flow == f }); i >= 0 {
		return (*list)[i]
	}
	im := tracebuf.Image{Layout: l, Bytes: f.Image, Steps: f.Steps}
	places, _ := im.Flow()
	g := &traceGraph{flow: f, steps: f.Steps, places: places}
	for _, c := range f.Calls {
		g.calls = append(g.calls, graphOf(l, c, list))
	}
	n := len(g.steps)
	g.before, g.runs, g.resets, g.syncs = make([][]int, n+1), make([]int, n+1), make([]bool, n), make([]bool, n)
	g.decode(l)
	counts := map[int]int{} // at targets of branches
	for i, s := range g.steps {
		if c, ok := counts[i]; ok {
			g.runs[i] = c
		}
		next := g.runs[i]
		switch callee := g.called(i); {
		case g.resets[i]:
			next = 0
		case callee != nil:
			next = callee.runs[len(callee.steps)]
		case runs(&s):
			next++
		}
		g.runs[i+1] = next
		for _, to := range s.Control.Next(i, &places[i], f.Patched) {
			if to < 0 || to > n {
				continue
			}
			if g.before[to] = append(g.before[to], i); to != i+1 {
				counts[to] = next
			}
		}
	}
	*list = append(*list, g)
	return g
}

func (g *traceGraph) decode(l cq.Layout) {
	i := -1
	for e, err := range cq.All(l, g.flow.Image) {
		if err != nil || e.Command == nil {
			break
		}
		for i+1 < len(g.steps) && g.steps[i+1].Offset <= e.Offset {
			i++
		}
		if i < 0 {
			continue
		}
		if _, ok := e.Command.(cq.Stall); ok {
			g.syncs[i] = true
		}
		for r := range e.Relayed {
			if w, ok := r.Command.(cq.Wait); ok && r.To == cq.Master && w.Flags&cq.WaitStream != 0 {
				g.waits = append(g.waits, traceWait{i, w.Count})
				g.resets[i] = g.resets[i] || w.Flags&cq.ClearStream != 0
			}
		}
	}
}

func (g *traceGraph) loop(l memmap.Loop) (begin, end int, ok bool) {
	if g.flow.Addr != l.Trace {
		return 0, 0, false
	}
	begin = slices.IndexFunc(g.steps, func(s tracebuf.Step) bool {
		return s.Control.Kind == flow.Loop && s.Control.Loop == int(l.Loop)
	})
	if begin < 0 {
		return 0, 0, false
	}
	end = g.places[begin].End - 1
	return begin, end, end > begin
}

func (g *traceGraph) callees(first, end int, list []*traceGraph) []*traceGraph {
	for i := first; i < end; i++ {
		if c := g.called(i); c != nil && !slices.Contains(list, c) {
			list = c.callees(0, len(c.steps), append(list, c))
		}
	}
	return list
}

// backward calls visit for the steps before a step, nearest first, but not beyond one where visit
// returns false.
func (g *traceGraph) backward(from int, visit func(step int) bool) {
	seen := make([]bool, len(g.steps)+1)
	pending := slices.Clone(g.before[from])
	for len(pending) > 0 {
		i := pending[0]
		pending = pending[1:]
		if seen[i] {
			continue
		}
		seen[i] = true
		if visit(i) {
			pending = append(pending, g.before[i]...)
		}
	}
}

// unfinished returns the runs that a wait can be for, after done programs since the last reset.
func (g *traceGraph) unfinished(step, done int) (out []traceRun) {
	g.backward(step, func(i int) bool {
		if runs(&g.steps[i]) && g.runs[i] == done {
			out = append(out, traceRun{g, i})
			return false
		}
		if callee := g.called(i); callee != nil {
			out = append(out, callee.unfinished(len(callee.steps), done)...)
			return false
		}
		return !g.resets[i] && g.runs[i] >= done
	})
	return out
}

func (g *traceGraph) called(step int) *traceGraph {
	if s := &g.steps[step].Control; s.Kind == flow.Call && s.Callee >= 0 && s.Callee < len(g.calls) {
		return g.calls[s.Callee]
	}
	return nil
}

func (g *traceGraph) lastRuns(begin, end int) (out []traceRun) {
	g.backward(end, func(i int) bool {
		callee := g.called(i)
		switch {
		case i <= begin:
			return false
		case runs(&g.steps[i]):
			out = append(out, traceRun{g, i})
			return false
		case callee != nil:
			inside := callee.lastRuns(-1, len(callee.steps))
			out = append(out, inside...)
			return len(inside) == 0
		}
		return true
	})
	return out
}

func (d *Dump) nameProgram(l cq.Layout, trace *Trace, workers chip.Range) {
	if q := d.queue(d.Queue); q != nil {
		q.Programs = tracePrograms(l, trace, &q.Device, d.core(q.Prefetch).Processors[chip.BRISC],
			d.core(q.Dispatch).Processors[chip.BRISC], workers.Size(), among(d.busyWorkers(), workers))
	}
}

func (d *QueueDump) inTrace() string {
	var b strings.Builder
	if n := len(d.Device.Loops); n > 0 {
		fmt.Fprintf(&b, ", in %v", d.Device.Loops[n-1])
	}
	if len(d.Programs) > 0 {
		fmt.Fprintf(&b, ", %s", d.running())
	}
	return b.String()
}

func (d *QueueDump) running() string {
	var names []string
	for _, p := range d.Programs {
		names = append(names, p.String())
	}
	what := "waiting for "
	switch {
	case d.Programs[0].Ended:
		what = "the last program was "
	case len(d.Device.Loops) == 0:
		what = "perhaps waiting for "
	}
	return what + strings.Join(names, " or ")
}
