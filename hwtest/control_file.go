package hwtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/debug"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// controlFileCases test files of traces with control flow, and stepping through such traces.
func controlFileCases() []testCase {
	var cs []testCase
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
		cs = append(cs, testCase{
			name: "saved and loaded: " + f.name, protects: "a trace with control flow from a file does what it did when it was recorded",
			fn: func(t *fixture) { savedControl(t, f.ss) },
		}, testCase{
			name: "stepped through: " + f.name, protects: "program by program, a trace with control flow goes the way that a replay goes",
			fn: func(t *fixture) { steppedControl(t, f.ss) },
		})
	}
	return append(cs, []testCase{
		{name: "saved and loaded: number of iterations", protects: "a file has the number of iterations that was set, and it can be set again", fn: savedIterations},
		{name: "stepped through: random control flow", protects: "any nest of control flow and computed arguments goes program by program as in a replay", fn: steppedRandomControl},
		{name: "bisect in a loop", protects: "bisecting finds the iteration in which a program goes wrong", fn: bisectControl},
	}...)
}

// release releases the buffers, the programs, and the traces that are called.
func (c *control) release() {
	t := c.t
	t.Helper()
	t.ok(errors.Join(c.f.b.Release(), c.counters.Release()))
	for _, o := range c.callees {
		t.ok(o.Release(t.ctx))
	}
	for _, xs := range []map[[2]uint32]*reprise.Executable{c.mixers, c.adders} {
		for _, x := range xs {
			t.ok(x.Release(t.ctx))
		}
	}
}

// reloaded saves a trace that control has captured, releases all, and loads it where other memory is free.
func (c *control) reloaded(tr *reprise.Trace, inTheWay *reprise.Buffer) *reprise.Trace {
	t := c.t
	t.Helper()
	var file bytes.Buffer
	t.ok(tr.Save(t.ctx, &file, reprise.WithData()))
	t.ok(errors.Join(tr.Release(t.ctx), inTheWay.Release()))
	c.release()
	loaded, err := t.dev.LoadTrace(t.ctx, &file)
	t.ok(err)
	t.closing(loaded.Release)
	found := false
	for _, b := range loaded.Buffers() {
		if b.Kind() == allocator.DRAM {
			c.counters, found = b, true
		} else {
			c.f.b = b
		}
	}
	if !found { // the trace uses none
		c.counters = t.buffer(allocator.DRAM, 64*controlCounters, 64)
		t.ok(t.rq.Write(t.ctx, c.counters, 0, make([]byte, c.counters.Size())))
	}
	return loaded
}

func savedControl(t *fixture, ss []stmt) {
	way := t.buffer(allocator.DRAM, 64<<10, 2048)
	c := t.control()
	tr := c.reloaded(c.captured(ss), way)
	for i := range 2 {
		t.ok(t.rq.Write(t.ctx, c.counters, 0, make([]byte, c.counters.Size())))
		clear(c.values)
		t.ok(tr.Replay(t.ctx))
		c.run(ss)
		c.check(fmt.Sprintf("replay %d", i))
	}
	t.ok(tr.Debug().Verify(t.ctx))
}

func savedIterations(t *fixture) {
	way := t.buffer(allocator.DRAM, 64<<10, 2048)
	c := t.control()
	one := []stmt{mix(1), mix(2)}
	c.load(one)
	tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Loop(2, func() error { return c.record(r, one) }), r.Param("n"))
	})
	t.ok(err)
	t.closing(tr.Release)
	t.ok(tr.Set("n", 5))
	tr = c.reloaded(tr, way)
	t.ok(tr.Replay(t.ctx))
	c.run([]stmt{loop(5, one...)})
	for _, n := range []uint32{0, 3} {
		t.ok(errors.Join(tr.Set("n", n), tr.Replay(t.ctx)))
		c.run([]stmt{loop(n, one...)})
	}
	c.check("after all replays")
}

// steppedControl runs a trace into all of it, over all of it, and into every other loop, branch and call.
func steppedControl(t *fixture, ss []stmt) {
	c := t.control()
	tr := c.captured(ss)
	reset := func() {
		t.ok(t.rq.Write(t.ctx, c.counters, 0, make([]byte, c.counters.Size())))
		clear(c.values)
	}
	asked := 0
	for name, into := range map[string]func(debug.Position) bool{
		"into": nil, "over": func(debug.Position) bool { return false }, "into some": func(debug.Position) bool { asked++; return asked%2 == 1 },
	} {
		reset()
		ran := 0
		t.ok(tr.Debug().Follow(t.ctx, into, func(p debug.Position) error {
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
		t.ok(tr.Replay(t.ctx))
		c.run(ss)
		c.check("a replay after stepping " + name)
	}
	reset()
	t.ok(tr.Debug().Check(t.ctx))
	c.check("after a check")
}

func steppedRandomControl(t *fixture) {
	rng := rand.New(rand.NewPCG(19, 4))
	for round := 0; round < t.size(3, 1); {
		ss := randomStmts(rng, 3, 0)
		c := &control{t: t, f: &follow{t: t, words: make([]uint32, t.grid().Size())}, values: make([]uint32, controlCounters)}
		if c.run(ss); c.runs < 3 || c.runs > 40 {
			continue
		}
		round++
		steppedControl(t, ss)
	}
}

func bisectControl(t *fixture) {
	c := t.control()
	ss := []stmt{mix(1), loop(3, mix(2), when(below(0, 1), []stmt{count(0, 1)}, []stmt{mix(3)}))}
	tr := c.captured(ss)
	prepare := func(int) error { return t.rq.Write(t.ctx, c.counters, 0, make([]byte, c.counters.Size())) }
	for _, bad := range []int{0, 4, 6} {
		at, err := tr.Debug().BisectRun(t.ctx, prepare, func(n int) (bool, error) { return n <= bad, nil })
		t.ok(err)
		if at == nil || at.Run != bad || bad > 0 && (len(at.Loops) != 1 || at.Loops[0].Iteration != uint32(bad-1)/2) {
			t.Errorf("program %d is wrong, found %+v", bad, at)
		}
	}
}
