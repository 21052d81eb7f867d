package control

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/tracebuf/debug"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// fileCases test files of traces with control flow, and stepping through such traces.
func fileCases() rig.Table {
	var cs rig.Table
	for _, f := range []struct {
		name string
		ss   []stmt
	}{
		{"loops", []stmt{mix(1), loop(3, mix(2), loop(2, mix(3))), mix(1)}},
		{"while", []stmt{while(below(0, 5), count(0, 1), mix(1)), mix(2)}},
		{"conditions", []stmt{loop(3, when(below(0, 1), []stmt{mix(1), count(0, 1)}, []stmt{mix(2)})), mix(3)}},
		{"switch", []stmt{loop(4, choose(0, []stmt{mix(1)}, []stmt{mix(2), mix(3)}, []stmt{mix(4)}), count(0, 1))}},
		{"iterations", []stmt{loop(4, when(turn(1, cq.NoneSet, 1), []stmt{mix(1)}, []stmt{mix(2)}), loop(2, when(turn(2, cq.Less, 2), []stmt{when(turn(1, cq.Equal, 1), []stmt{mix(3)})})), mix(4))}},
		{"while by its iteration", []stmt{loop(2, while(turn(1, cq.Less, 3), mix(1)), while(turn(2, cq.Equal, 7), mix(2)), mix(3))}},
		{"iterations in a callee", []stmt{loop(3, called(loop(2, when(turn(1, cq.Equal, 1), []stmt{mix(1)}, []stmt{mix(2)}))), when(turn(1, cq.Equal, 1), []stmt{mix(3)}))}},
		{"computed arguments", []stmt{count(0, 3), mixGiven(givenNumber, 0), loop(3, count(0, 2), mixGiven(givenBoth, 0)), called(mixGiven(givenBoth, 0), count(0, 1)), mix(1)}},
		{"calls", []stmt{mix(1), called(loop(2, called(mix(2)), mix(3))), loop(2, called(mix(4)))}},
		{"large kernels", []stmt{loop(3, stmt{op: opMix, n: 1, size: 9008}, stmt{op: opMix, n: 2, size: 12000}), mix(3)}},
	} {
		cs.Add("saved and loaded: "+f.name, "a trace with control flow from a file does what it did when it was recorded",
			func(t *rig.T) { savedControl(t, f.ss) })
		cs.Add("stepped through: "+f.name, "program by program, a trace with control flow goes the way that a replay goes",
			func(t *rig.T) { steppedControl(t, f.ss) })
	}
	cs.Add("saved and loaded: number of iterations", "a file has the number of iterations that was set, and it can be set again", savedIterations)
	cs.Add("stepped through: random control flow", "any nest of control flow and computed arguments goes program by program as in a replay", steppedRandomControl)
	cs.Add("bisect in a loop", "bisecting finds the iteration in which a program goes wrong", bisectControl)
	return cs
}

// release releases the buffers, the programs, and the traces that are called.
func (c *control) release() {
	t := c.t
	t.Helper()
	t.OK(errors.Join(c.f.Buffer.Release(), c.counters.Release()))
	for _, o := range c.callees {
		t.Release(o)
	}
	for _, xs := range []map[[2]uint32]*reprise.Executable{c.mixers, c.adders} {
		for _, x := range xs {
			t.Release(x)
		}
	}
}

// reloaded saves a trace that control has captured, releases all, and loads it where other memory
// is free.
func (c *control) reloaded(tr *reprise.Trace, inTheWay *reprise.Buffer) *reprise.Trace {
	t := c.t
	t.Helper()
	var file bytes.Buffer
	t.OK(tr.Save(t.Ctx, &file, reprise.WithData()))
	t.OK(errors.Join(tr.Release(t.Ctx), inTheWay.Release()))
	c.release()
	loaded := t.Hold(t.Dev.LoadTrace(t.Ctx, &file))
	found := false
	for _, b := range loaded.Buffers() {
		if b.Kind() == allocator.DRAM {
			c.counters, found = b, true
		} else {
			c.f.Buffer = b
		}
	}
	if !found { // the trace uses none
		c.counters = t.Buffer(allocator.DRAM, 64*controlCounters, 64)
		t.Clear(c.counters)
	}
	return loaded
}

func savedControl(t *rig.T, ss []stmt) {
	way := t.Buffer(allocator.DRAM, 64<<10, 2048)
	c := newControl(t)
	tr := c.reloaded(c.captured(ss), way)
	for i := range 2 {
		t.Clear(c.counters)
		clear(c.values)
		t.Replay(tr)
		c.run(ss)
		c.check(fmt.Sprintf("replay %d", i))
	}
	t.Clear(c.counters)
	clear(c.values)
	t.OK(errors.Join(tr.Debug().Verify(t.Ctx), tr.Debug().Step(t.Ctx, nil)))
	c.run(ss)
	c.check("program by program")
}

func savedIterations(t *rig.T) {
	way := t.Buffer(allocator.DRAM, 64<<10, 2048)
	c := newControl(t)
	one := []stmt{mix(1), mix(2)}
	c.load(one)
	tr := t.Hold(t.Record("t", func(r *reprise.Recorder) error {
		return errors.Join(r.Loop(2, func() error { return c.record(r, one) }), r.Param("n"))
	}))
	t.OK(tr.Set("n", 5))
	tr = c.reloaded(tr, way)
	t.Replay(tr)
	c.run([]stmt{loop(5, one...)})
	for _, n := range []uint32{0, 3} {
		t.OK(errors.Join(tr.Set("n", n), tr.Replay(t.Ctx)))
		c.run([]stmt{loop(n, one...)})
	}
	c.check("after all replays")
}

// steppedControl runs a trace into all of it, over all of it, and into every other loop, branch and
// call.
func steppedControl(t *rig.T, ss []stmt) {
	c := newControl(t)
	tr := c.captured(ss)
	reset := func() {
		t.Clear(c.counters)
		clear(c.values)
	}
	asked := 0
	for name, into := range map[string]func(debug.Position) bool{
		"into": nil, "over": func(debug.Position) bool { return false }, "into some": func(debug.Position) bool { asked++; return asked%2 == 1 },
	} {
		reset()
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
		c.check(name)
		reset()
		t.Replay(tr)
		c.run(ss)
		c.check("a replay after stepping " + name)
	}
	reset()
	t.OK(tr.Debug().Check(t.Ctx))
	c.check("after a check")
}

func steppedRandomControl(t *rig.T) {
	rng := rand.New(rand.NewPCG(19, 4))
	for round := 0; round < t.Size(3, 1); {
		ss := randomStmts(rng, 3, 0)
		c := &control{t: t, f: &rig.Mix{T: t, Words: make([]uint32, t.Grid().Size())}, values: make([]uint32, controlCounters)}
		if c.run(ss); c.runs < 3 || c.runs > 40 {
			continue
		}
		round++
		steppedControl(t, ss)
	}
}

func bisectControl(t *rig.T) {
	c := newControl(t)
	ss := []stmt{mix(1), loop(3, mix(2), when(below(0, 1), []stmt{count(0, 1)}, []stmt{mix(3)}))}
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
