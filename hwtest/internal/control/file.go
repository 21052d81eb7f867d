package control

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

func fileCases() (cs rig.Table) {
	for _, f := range []struct {
		name string
		ss   []stmt
	}{
		{"loops", do(mix(1), loop(3, mix(2), loop(2, mix(3))), mix(1))},
		{"while", do(while(below(0, 5), count(0, 1), mix(1)), mix(2))},
		{"conditions", do(loop(3, when(below(0, 1), do(mix(1), count(0, 1)), do(mix(2)))), mix(3))},
		{"switch", do(loop(4, choose(0, do(mix(1)), do(mix(2), mix(3)), do(mix(4))), count(0, 1)))},
		{"iterations", do(loop(4, when(turn(1, cq.NoneSet, 1), do(mix(1)), do(mix(2))), loop(2, when(turn(2, cq.Less, 2), do(when(turn(1, cq.Equal, 1), do(mix(3)))))), mix(4)))},
		{"while by its iteration", do(loop(2, while(turn(1, cq.Less, 3), mix(1)), while(turn(2, cq.Equal, 7), mix(2)), mix(3)))},
		{"iterations in a callee", do(loop(3, called(loop(2, when(turn(1, cq.Equal, 1), do(mix(1)), do(mix(2))))), when(turn(1, cq.Equal, 1), do(mix(3)))))},
		{"computed arguments", do(count(0, 3), mixGiven(givenNumber, 0), loop(3, count(0, 2), mixGiven(givenBoth, 0)), called(mixGiven(givenBoth, 0), count(0, 1)), mix(1))},
		{"calls", do(mix(1), called(loop(2, called(mix(2)), mix(3))), loop(2, called(mix(4))))},
		{"large kernels", do(loop(3, stmt{op: opMix, n: 1, size: 9008}, stmt{op: opMix, n: 2, size: 12000}), mix(3))},
	} {
		cs.Add("saved and loaded: "+f.name, "a trace with control flow from a file does what it did when it was recorded",
			func(t *rig.T) { savedControl(t, f.ss) })
		cs.Add("stepped through: "+f.name, "a trace with control flow is stepped through as it is replayed",
			func(t *rig.T) { steppedControl(t, f.ss) })
	}
	cs.Add("saved and loaded: number of iterations", "a file has the number of iterations that was set, and it can be set again", savedIterations)
	cs.Add("stepped through: random control flow", "any nest of control flow is stepped through as it is replayed", func(t *rig.T) {
		rng := rand.New(rand.NewPCG(19, 4))
		for range t.Size(3, 1) {
			steppedControl(t, randomBounded(t, rng))
		}
	})
	cs.Add("bisect in a loop", "bisecting finds the iteration in which a program goes wrong", bisectControl)
	return cs
}

func (c *control) release() {
	t := c.t
	t.OK(c.f.Buffer.Release(), c.counters.Release())
	for _, o := range c.callees {
		t.Release(o)
	}
	for _, xs := range []map[[2]uint32]*reprise.Executable{c.mixers, c.adders} {
		for _, x := range xs {
			t.Release(x)
		}
	}
}

// reloaded saves a captured trace, releases all, and loads it where other memory is free.
func (c *control) reloaded(tr *reprise.Trace, inTheWay *reprise.Buffer) *reprise.Trace {
	t := c.t
	file := t.Save(tr, reprise.WithData())
	t.OK(tr.Release(t.Ctx), inTheWay.Release())
	c.release()
	loaded := t.LoadTrace(file)
	found := false
	for _, b := range loaded.Buffers() {
		if b.Kind() == allocator.DRAM {
			c.counters, found = b, true
		} else {
			c.f.Buffer = b
		}
	}
	if !found {
		c.counters = t.DRAMBuffer(64*controlCounters, 64)
		t.Clear(c.counters)
	}
	return loaded
}

func savedControl(t *rig.T, ss []stmt) {
	way := t.DRAMBuffer(64<<10, 2048)
	c := newControl(t)
	tr := c.reloaded(c.captured(ss), way)
	c.replays(2, tr, ss)
	t.Clear(c.counters)
	clear(c.values)
	t.OK(errors.Join(tr.Debug().Verify(t.Ctx), tr.Debug().Step(t.Ctx, nil)))
	c.run(ss)
	c.check("program by program")
}

func savedIterations(t *rig.T) {
	way := t.DRAMBuffer(64<<10, 2048)
	c := newControl(t)
	one, three := do(mix(1), mix(2)), mix(3)
	c.load(append(one, three))
	callee := t.Trace("callee", func(r *reprise.Recorder) {
		r.Run(c.mixer(&three))
		r.Param("m", rig.MixNumber)
	})
	c.callees = append(c.callees, callee)
	tr := t.Trace("t", func(r *reprise.Recorder) {
		r.Loop(2, func() error { c.record(r, one); return nil })
		r.Param("n")
		r.Call(callee)
	})
	t.OK(tr.Set("n", 5), callee.Set("m", 8))
	tr = c.reloaded(tr, way)
	t.Replay(tr)
	c.run(do(loop(5, one...), mix(8)))
	for _, n := range []uint32{0, 3} {
		t.OK(tr.Set("n", n), tr.Set("m", 10*n), tr.Replay(t.Ctx))
		c.run(do(loop(n, one...), mix(10*n)))
	}
	c.check("after all replays")
}

func steppedControl(t *rig.T, ss []stmt) {
	c := newControl(t)
	tr := c.captured(ss)
	asked := 0
	for name, into := range map[string]func(debug.Position) bool{
		"into": nil, "over": func(debug.Position) bool { return false }, "into some": func(debug.Position) bool { asked++; return asked%2 == 1 },
	} {
		c.reset(0)
		ran := 0
		t.OK(tr.Debug().Follow(t.Ctx, into, func(p debug.Position) error {
			if p.Kind == flow.None {
				ran++
			}
			return nil
		}))
		before := c.runs
		c.run(ss)
		if all := c.runs - before; ran != all && into == nil || ran > all {
			t.Errorf("%s: %d programs ran one by one, the trace has %d", name, ran, all)
		}
		c.check("%s", name)
		c.reset(0)
		c.replay(tr, ss)
		c.check("a replay after stepping %s", name)
	}
	c.reset(0)
	t.OK(tr.Debug().Check(t.Ctx))
	c.check("after a check")
}

func bisectControl(t *rig.T) {
	c := newControl(t)
	ss := do(mix(1), loop(3, mix(2), when(below(0, 1), do(count(0, 1)), do(mix(3)))))
	tr := c.captured(ss)
	prepare := func(int) error { return t.Queue.Write(t.Ctx, c.counters, 0, make([]byte, c.counters.Size())) }
	for _, bad := range []int{0, 4, 6} {
		at, err := tr.Debug().BisectRun(t.Ctx, prepare, func(n int) (bool, error) { return n <= bad, nil })
		t.OK(err)
		if at == nil || at.Run != bad || bad > 0 && (len(at.Loops) != 1 || at.Loops[0].Iteration != uint32(bad-1)/2) {
			t.Errorf("program %d is wrong, found %+v", bad, at)
		}
	}
}

func runsAny(ss []stmt) bool {
	return slices.ContainsFunc(ss, func(s stmt) bool {
		return s.op == opMix || s.op == opAdd || s.op == opCall || runsAny(s.body) || slices.ContainsFunc(s.bodies, runsAny)
	})
}

func lines(t *rig.T, line *observe.Timeline) []string {
	replays := map[uint64]observe.Span{}
	for _, s := range line.Spans() {
		if s.Queue >= 0 {
			replays[s.Call] = s
		}
	}
	var open []observe.ControlSpan
	var out []string
	for _, s := range line.ControlSpans() {
		if s.Depth > len(open) {
			t.Fatalf("%v %q is %d deep, after something %d deep", s.Kind, s.Name, s.Depth, len(open)-1)
		}
		open = open[:s.Depth]
		from, to := replays[s.Call].StartCycles, replays[s.Call].EndCycles
		if n := len(open); n > 0 {
			from, to = open[n-1].Start, open[n-1].End
		}
		if s.Start < from || s.End < s.Start || s.End > to {
			t.Errorf("%v %q is from %d to %d, inside of %d to %d", s.Kind, s.Name, s.Start, s.End, from, to)
		}
		open = append(open, s)
		out = append(out, fmt.Sprintf("%s%v %d", strings.Repeat(" ", s.Depth), s.Kind, s.Number))
	}
	return out
}

func controlTimeline(t *rig.T) {
	rng := rand.New(rand.NewPCG(99, 1))
	for round := range t.Size(6, 2) {
		ss := randomBounded(t, rng)
		c := newControl(t)
		tr := c.captured(ss)
		line, err := observe.StartTimeline(t.Ctx, t.Dev)
		t.OK(err)
		for range 2 {
			c.reset(0)
			c.replay(tr, ss)
		}
		t.OK(line.Stop(t.Ctx))
		if got := lines(t, line); !slices.Equal(got, c.outline) {
			t.Errorf("round %d: the timeline has\n%s\nwant\n%s", round, strings.Join(got, "\n"), strings.Join(c.outline, "\n"))
		}
		c.check("round %d", round)
	}
}

func abortedTimeline(t *rig.T) {
	c := newControl(t)
	tr := c.captured(do(loop(1<<30, mix(1), loop(2, mix(2)))))
	line, err := observe.StartTimeline(t.Ctx, t.Dev)
	t.OK(err)
	t.Replay(tr)
	t.Ended(1)
	t.OK(line.Stop(t.Ctx))
	spans := line.ControlSpans()
	if len(spans) < 2 || !spans[0].Aborted || spans[0].Kind != tracebuf.SpanLoop || spans[0].Number < 1 {
		t.Errorf("the timeline of an aborted loop: %+v", spans)
	}
}

func conditionAcrossQueues(t *rig.T) {
	t = t.Full(reprise.WithQueues(2))
	c := newControl(t)
	ss := do(while(below(0, 6), count(0, 1), mix(1)), when(below(1, 1), do(mix(2)), do(mix(3))))
	tr := c.captured(ss)
	other := t.Dev.Queue(1)
	for i := range t.Size(6, 3) {
		c.reset(0)
		before, after := t.Dev.NewEvent("before"), t.Dev.NewEvent("after")
		add := count(i%2, uint32(i))
		x := c.adder(&add)
		t.OK(
			t.Queue.Record(t.Ctx, before), other.WaitEvent(t.Ctx, before), other.Run(t.Ctx, x), other.Record(t.Ctx, after),
			t.Queue.WaitEvent(t.Ctx, after), tr.Replay(t.Ctx),
		)
		c.run(do(add))
		c.run(ss)
		c.check("round %d", i)
	}
}

// carriedWords has each iteration read what the one before wrote on other workers.
func carriedWords(t *rig.T) {
	a, b := t.DRAMBuffer(4*64, 64), t.DRAMBuffer(4*64, 64)
	there := t.Load(t.AddProgram("there", chip.Core{X: 0, Y: 1}, a, b, 1))
	back := t.Load(t.AddProgram("back", chip.Core{X: 2, Y: 0}, b, a, 2))
	const n = 20
	tr := t.Trace("carried", func(r *reprise.Recorder) {
		toAndFro := func() error { return rig.Running(there, back)(r) }
		r.Loop(n, toAndFro)
		r.While(reprise.Cond{Buffer: b, Is: cq.Less, Value: 3*2*n - 2}, 2*n, toAndFro)
	})
	for range 2 {
		t.Clear(a)
		t.Replay(tr)
		t.Holds(a, rig.Repeated(a.Size(), 3*2*n), "carried to and fro")
	}
}
