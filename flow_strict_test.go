package reprise_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/sim"
)

// Nests of loops, conditions, branches, calls and programs with computed arguments that a seed
// makes, on chips with every check and every reordering that hardware may do, leave in memory what
// a model on the host does, and no access is refused.
func TestStrictControlFlow(t *testing.T) {
	// The fewest cores that a chip can have: more take time and test nothing new.
	for _, c := range []struct {
		arch  chip.Arch
		card  func(...sim.Option) *sim.Card
		cores chip.Harvesting
	}{{chip.Wormhole, sim.Wormhole, chip.Harvesting{Tensix: 0x3FC}}, {chip.Blackhole, sim.Blackhole, chip.Harvesting{Tensix: 0x3FFC}}} {
		t.Run(c.arch.String(), func(t *testing.T) {
			for seed := range effort.Of[uint64](1, 3, 1000) {
				if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
					card := c.card(sim.Strict(seed), sim.Harvesting(c.cores))
					strictFlow(open(t, card), rand.New(rand.NewPCG(seed, 19)))
					if err := card.Chip().Fault(); err != nil {
						t.Error(err)
					}
				}) && !effort.Hours {
					return
				}
			}
		})
	}
}

// randomFlow is a part of a trace that a seed makes.
type randomFlow struct {
	op       string
	from, to int // counters: a run sets one to the other plus n
	by       int // counter that a run with a computed argument adds instead of n
	// A "select" sets the page that a "page" reads, which sets a counter to the first word there
	// plus the counter by; plus the number of the page, of which both arguments are then, if to is
	// by.
	n      uint32
	level  int // of the loop whose iteration a condition compares; 0 for the counter from
	is     cq.Compare
	bodies [][]randomFlow
	trace  *reprise.Trace
}

const (
	flowCounters = 3
	flowLimit    = 12  // of iterations of a while
	flowRuns     = 100 // of programs in a replay, at most
	flowPages    = 4   // that a run chooses from
)

// flowModel carries out on the host what the device does.
type flowModel struct {
	counters [flowCounters]uint32
	page     uint32
	turns    []uint32 // iterations of the loops that it is in
	runs     int
	endless  bool // a while has more iterations than its limit
}

func strictFlow(b *bench, r *rand.Rand) {
	b.Helper()
	var bufs [flowCounters]*reprise.Buffer
	for i := range bufs {
		bufs[i] = b.pages(fmt.Sprint("counter ", i), 1)
	}
	var flow []randomFlow
	var model flowModel
	for model.runs < 2 || model.runs > flowRuns || model.endless {
		flow, model = randomFlows(r, 3, 0), flowModel{}
		model.run(flow)
	}
	f := &flowRecorder{b: b, bufs: bufs, zero: b.pages("zero", 1), page: b.pages("page", 1), pages: b.pages("pages", flowPages),
		loaded: map[flowProgram]*reprise.Executable{}}
	b.write(f.zero, 0)
	b.write(f.pages, 0)
	f.load(flow)
	trace := b.captureFlow(func(r *reprise.Recorder) error { return f.record(r, flow) })
	for range 2 {
		model = flowModel{}
		for i := range bufs {
			b.write(bufs[i], 0)
		}
		b.write(f.page, 0)
		model.run(flow)
		b.must(trace.Replay(b.ctx))
		for i := range bufs {
			b.holds(bufs[i], model.counters[i])
		}
	}
	b.must(trace.Release(b.ctx))
}

// randomFlows makes a body with constructs of a depth in it, inside of so many loops.
func randomFlows(r *rand.Rand, depth, loops int) (out []randomFlow) {
	for range 1 + r.IntN(3) {
		f := randomFlow{from: r.IntN(flowCounters), to: r.IntN(flowCounters), by: r.IntN(flowCounters), n: r.Uint32N(4),
			is: cq.Equal + cq.Compare(r.IntN(int(cq.NoneSet)))}
		kinds := []string{"run", "run", "take", "select", "page"}
		if depth > 0 && r.IntN(8) > 2 {
			kinds = []string{"loop", "while", "if", "switch", "call"}
		}
		f.op = kinds[r.IntN(len(kinds))]
		inside := loops
		if f.op == "loop" || f.op == "while" {
			inside++
		}
		if n := inside; (f.op == "while" || f.op == "if") && n > 0 && r.IntN(2) == 0 {
			f.level = 1 + r.IntN(n)
		}
		bodies := map[string]int{"loop": 1, "while": 1, "if": 1 + r.IntN(2), "switch": 1 + r.IntN(3), "call": 1}[f.op]
		if f.op == "call" {
			inside = 0
		}
		for range bodies {
			f.bodies = append(f.bodies, randomFlows(r, depth-1, inside))
		}
		out = append(out, f)
	}
	return out
}

func (m *flowModel) holds(f *randomFlow) bool {
	v := m.counters[f.from]
	if f.level > 0 {
		v = m.turns[len(m.turns)-f.level]
	}
	return f.is.Holds(v, f.n)
}

func (m *flowModel) run(fs []randomFlow) {
	for i := range fs {
		f := &fs[i]
		if m.runs > flowRuns || m.endless {
			return
		}
		switch f.op {
		case "run":
			m.runs++
			m.counters[f.to] = m.counters[f.from] + f.n
		case "take":
			m.runs++
			m.counters[f.to] = m.counters[f.from] + m.counters[f.by]
		case "select":
			m.runs++
			m.page = f.n
		case "page":
			m.runs++
			by := m.counters[f.by]
			if f.by == f.to {
				by = m.page
			}
			m.counters[f.to] = 16*m.page + by
		case "loop", "while":
			m.turns = append(m.turns, 0)
			turn := len(m.turns) - 1
			for ; f.op == "loop" && m.turns[turn] < f.n || f.op == "while" && m.holds(f); m.turns[turn]++ {
				if m.turns[turn] == flowLimit {
					m.endless = true
					return
				}
				if m.run(f.bodies[0]); m.endless || m.runs > flowRuns {
					return
				}
			}
			m.turns = m.turns[:turn]
		case "if":
			if m.holds(f) {
				m.run(f.bodies[0])
			} else if len(f.bodies) > 1 {
				m.run(f.bodies[1])
			}
		case "switch":
			if v := m.counters[f.from]; uint64(v) < uint64(len(f.bodies)) {
				m.run(f.bodies[v])
			}
		case "call":
			around := m.turns
			m.turns = nil
			m.run(f.bodies[0])
			m.turns = around
		}
	}
}

// flowRecorder records what a seed has made.
type flowRecorder struct {
	b      *bench
	bufs   [flowCounters]*reprise.Buffer
	zero   *reprise.Buffer // counts up from 0
	page   *reprise.Buffer // its first word is the number of a page
	pages  *reprise.Buffer // whose words count up from 0
	loaded map[flowProgram]*reprise.Executable
}

type flowProgram struct {
	from, to *reprise.Buffer
	n        uint32
}

func (f *flowRecorder) program(s *randomFlow) *reprise.Executable {
	key := flowProgram{f.bufs[s.from], f.bufs[s.to], s.n}
	switch s.op {
	case "select":
		key.from, key.to = f.zero, f.page
	case "page":
		key.from, key.n = f.pages, 0
	}
	if f.loaded[key] == nil {
		at := f.b.dev.Grid().Start // of cores in a row or in a column
		if s.to%2 == 1 {
			at = f.b.dev.Grid().End
		}
		x := f.b.load(f.b.adder("set", at, key.from, key.to, key.n))
		for _, kernel := range []string{"reader", "add", "writer"} {
			f.b.must(x.SetArg(reprise.Arg{Kernel: kernel, Index: 2}, 1)) // page
		}
		f.loaded[key] = x
	}
	return f.loaded[key]
}

// args are those that the device computes.
func (f *flowRecorder) args(s *randomFlow) []reprise.Arg {
	by := f.bufs[s.by]
	switch s.op {
	case "take":
		return []reprise.Arg{from(addend, by, 0)}
	case "page":
		if s.by == s.to {
			by = f.page
		}
		return []reprise.Arg{from(readPage, f.page, 0), from(addend, by, 0)}
	}
	return nil
}

// load loads what can't be loaded during a capture, and captures what is called.
func (f *flowRecorder) load(fs []randomFlow) {
	f.b.Helper()
	for i := range fs {
		s := &fs[i]
		switch s.op {
		case "run", "take", "select", "page":
			f.program(s)
		}
		for _, body := range s.bodies {
			f.load(body)
		}
		if s.op == "call" {
			s.trace = f.b.captureFlow(func(r *reprise.Recorder) error { return f.record(r, s.bodies[0]) })
			f.b.Cleanup(func() { _ = s.trace.Release(context.Background()) })
		}
	}
}

func (f *flowRecorder) record(r *reprise.Recorder, fs []randomFlow) error {
	for i := range fs {
		s := &fs[i]
		cond := reprise.Cond{Buffer: f.bufs[s.from], Is: s.is, Value: s.n}
		if s.level > 0 {
			cond = reprise.Cond{Iteration: s.level, Is: s.is, Value: s.n}
		}
		bodies := make([]func() error, max(2, len(s.bodies)))
		for k, body := range s.bodies {
			bodies[k] = func() error { return f.record(r, body) }
		}
		var err error
		switch s.op {
		case "run", "take", "select", "page":
			err = r.Run(f.program(s), f.args(s)...)
		case "loop":
			err = r.Loop(s.n, bodies[0])
		case "while":
			err = r.While(cond, flowLimit, bodies[0])
		case "if":
			err = r.If(cond, bodies[0], bodies[1])
		case "switch":
			err = r.Switch(f.bufs[s.from], 0, bodies[:len(s.bodies)]...)
		case "call":
			err = r.Call(s.trace)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
