package control

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/internal/machines"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/mesh"
)

func meshCases() rig.Table {
	cs := machines.Rows{
		{"mesh: iterations as a parameter", "a parameter may be the number of iterations of all chips, or of one", meshIterationsParam},
		{"mesh: branches by each chip's word", "chips of a mesh take different branches of one If and one Switch", meshBranches},
		{"mesh: one decision for all", "a word that a collective writes ends the loop on all chips", meshOneDecision},
		{"mesh: collectives in loops", "collectives in nested loops keep their numbers", meshLoopedCollectives},
		{"mesh: random control flow on each chip", "one trace may have other control flow on each chip", meshRandomControl},
		{"mesh: calls", "each chip runs its part of a called trace, which may be released first", meshCalls},
		{"mesh: computed arguments", "each chip computes the arguments of its own programs, in each iteration", meshComputedArgs},
		{"mesh: saved and loaded", "a file of a mesh's trace has the control flow of all chips", meshSavedControl},
		{"mesh: abort on one chip", "an abort on one chip ends its replays, and the other chips go on", meshAbort},
	}.Shared()
	cs.Add("mesh: limit on one chip", "an endless loop stops its chip alone, with a report of chip, loop and program", machines.OnOwnMesh(meshLimit)).Needs = rig.NeedSimulator
	return cs.At(rig.LevelMesh)
}

var running = machines.Running

func decides(t *machines.T, b *mesh.Buffer, first func(i uint32) uint32) {
	for _, c := range t.Mesh.Chips() {
		t.Put(c, b, first(t.Ordinal(c)))
	}
}

func zero(t *machines.T, bs ...*mesh.Buffer) {
	for _, b := range bs {
		decides(t, b, func(uint32) uint32 { return 0 })
	}
}

func word(b *mesh.Buffer, off int, is cq.Compare, v uint32) func(*mesh.Chip) reprise.Cond {
	return func(c *mesh.Chip) reprise.Cond {
		return reprise.Cond{Buffer: b.On(c), Offset: off, Is: is, Value: v}
	}
}

func adds(t *machines.T, b *mesh.Buffer, x int, n uint32) *mesh.Executable {
	return t.Loaded(t.AdderAt(chip.Core{X: x, Y: 1}, b, b, machines.Add(n)))
}

func counts(t *machines.T) (n, ran *mesh.Buffer) {
	return t.Pages("n"), t.Pages("ran")
}

func counters(t *machines.T) (n, ran *mesh.Buffer, one, ten *mesh.Executable) {
	n, ran = counts(t)
	return n, ran, adds(t, n, 0, 1), adds(t, ran, 1, 10)
}

func meshIterationsParam(t *machines.T) {
	_, ran := counts(t)
	one := adds(t, ran, 1, 1)
	own := func(i uint32) string { return fmt.Sprint("chip ", i) }
	tr := t.Trace(func(r *mesh.Recorder) error {
		err := r.Loop(2, running(r, one))
		for _, c := range t.Mesh.Chips() {
			on := r.On(c)
			on.Param("all")
			on.Loop(t.Ordinal(c), func() error { return on.Run(one.On(c)) })
			on.Param(own(t.Ordinal(c)))
		}
		return err
	})
	zero(t, ran)
	var total uint32
	for _, all := range []uint32{2, 0, 7} {
		t.OK(tr.Set("all", all))
		t.Replay(tr)
		total += all
	}
	t.Are("as recorded", ran, func(i uint32) uint32 { return total + 3*i })
	for _, c := range t.Mesh.Chips() {
		i := t.Ordinal(c)
		t.OK(tr.Set(own(i), 3*i+1))
	}
	t.Replay(tr)
	t.Are("as set", ran, func(i uint32) uint32 { return total + 7 + 6*i + 1 })
}

func meshBranches(t *machines.T) {
	n, ran := counts(t)
	one, ten, thousand := adds(t, ran, 0, 1), adds(t, ran, 1, 10), adds(t, ran, 2, 1000)
	step := adds(t, n, 3, 1)
	tr := t.Trace(func(r *mesh.Recorder) error {
		return errors.Join(
			r.Switch(n, 0, running(r, ten), func() error { return r.Loop(3, running(r, ten, one)) }, func() error {
				return r.If(word(n, 4, cq.Equal, 3), running(r, thousand), nil)
			}),
			r.If(word(n, 0, cq.AnySet, 1), running(r, one), running(r, thousand, one)),
			r.Run(step),
		)
	})
	does := func(v uint32) uint32 {
		return []uint32{10, 33, 1000, 0}[min(v, 3)] + []uint32{1001, 1}[v%2]
	}
	for _, from := range []func(i uint32) uint32{func(i uint32) uint32 { return i % 5 }, func(i uint32) uint32 { return (i + 1) % 2 }} {
		decides(t, n, from)
		zero(t, ran)
		const replays = 4
		for range replays {
			t.Replay(tr)
		}
		t.Are("branches", ran, func(i uint32) (sum uint32) {
			for k := range uint32(replays) {
				sum += does(from(i) + k)
			}
			return sum
		})
	}
}

func meshOneDecision(t *machines.T) {
	b := t.Linked()
	own, ran := counts(t)
	sum := t.AllSum(b)
	grow := t.Loaded(t.AdderAt(chip.Core{X: 0, Y: 1}, own, own, func(c *mesh.Chip) uint32 { return t.Ordinal(c) + 1 }))
	move := t.Loaded(t.AdderAt(chip.Core{X: 1, Y: 1}, own, b, machines.Add(0)))
	one := adds(t, ran, 3, 1)
	chips := uint32(t.Mesh.Size())
	each := chips * (chips + 1) / 2
	enough := 5*each + 1
	tr := t.Trace(func(r *mesh.Recorder) error {
		return r.While(word(b, 0, cq.Less, enough), 20, func() error {
			return errors.Join(
				running(r, grow, move, sum, one)(),
				r.If(word(b, 0, cq.Greater, 3*each), running(r, one), nil),
			)
		})
	})
	for range 2 {
		zero(t, own, ran, b)
		t.Replay(tr)
		t.Replay(tr)
		const turns = 6
		t.Are("own part", own, func(i uint32) uint32 { return turns * (i + 1) })
		t.AllCount("iterations", ran, turns+3)
		t.AllWords("sum", b, func(i uint32) uint32 { return turns*each + chips*i })
	}
}

func meshLoopedCollectives(t *machines.T) {
	b := t.Linked()
	n, ran := counts(t)
	sum := t.AllSum(b)
	from := t.Prepared(t.Links.Broadcast(t.Ctx, b, t.Links.Line()[0]))
	one, ten := adds(t, n, 0, 1), adds(t, ran, 1, 10)
	tr := t.Trace(func(r *mesh.Recorder) error {
		return r.Loop(3, func() error {
			return errors.Join(
				r.Run(from),
				r.While(word(n, 0, cq.Less, 6), 20, running(r, one, ten)),
				r.Loop(2, running(r, sum, t.Links.Barrier())),
			)
		})
	})
	for range 2 {
		decides(t, n, func(i uint32) uint32 { return i % 6 })
		zero(t, ran)
		decides(t, b, func(i uint32) uint32 { return i })
		first := t.Ordinal(t.Links.Line()[0])
		t.Replay(tr)
		t.AllCount("n", n, 6)
		t.Are("runs", ran, func(i uint32) uint32 { return 10 * (6 - i%6) })
		times := uint32(1)
		for range 6 {
			times *= uint32(t.Mesh.Size())
		}
		t.AllWords("sum", b, func(i uint32) uint32 { return times * (first + i) })
	}
}

func meshRandomControl(t *machines.T) {
	rng := rand.New(rand.NewPCG(19, 3))
	s := &spanned{}
	for _, c := range t.Mesh.Chips() {
		u := t.OnChip(c)
		s.add(u, randomBounded(u, rng))
	}
	s.trace = t.Trace(func(r *mesh.Recorder) error {
		for i, c := range t.Mesh.Chips() {
			s.record(i, r.On(c))
		}
		return nil
	})
	for range 3 {
		s.replays(1)
	}
	t.Release(s.trace) // before what it calls
}

func meshComputedArgs(t *machines.T) {
	n, ran := counts(t)
	one, given := adds(t, n, 0, 1), adds(t, ran, 1, 0)
	const off = 64 + 8
	tr := t.Trace(func(r *mesh.Recorder) error {
		return r.While(word(n, 0, cq.Less, 9), 20, func() error {
			err := r.Run(one)
			for _, c := range t.Mesh.Chips() {
				r.On(c).Run(given.On(c), reprise.Arg{Kernel: "add", Index: 3, From: n.On(c), Offset: off})
			}
			return err
		})
	})
	from := func(i uint32) uint32 { return 3 * i % 10 }
	for range 2 {
		decides(t, n, from)
		zero(t, ran)
		t.Replay(tr)
		t.Are("sum of what was given", ran, func(i uint32) (sum uint32) {
			for v := from(i); v < 9; v++ {
				sum += v + 1 + off/4
			}
			return sum
		})
	}
}

func meshCalls(t *machines.T) {
	n, ran, one, ten := counters(t)
	called := t.Trace(func(r *mesh.Recorder) error {
		return errors.Join(r.While(word(n, 0, cq.Less, 7), 20, running(r, one, ten)), r.Run(ten))
	})
	tr := t.Trace(func(r *mesh.Recorder) error {
		return errors.Join(r.Run(ten), r.Loop(3, func() error { return r.Call(called) }))
	})
	first := t.Mesh.Chips()[0]
	only := t.OnChip(first).Capture("one chip", ten.On(first))
	if t.Mesh.Size() > 1 {
		_, err := t.Record("calls", func(r *mesh.Recorder) error { return r.Call(only) })
		t.Says(err, `call trace "one chip"`, "no part on queue")
	}
	t.OK(called.Release(t.Ctx), only.Release(t.Ctx))
	from := func(i uint32) uint32 { return 2 * i % 8 }
	for range 2 {
		decides(t, n, from)
		zero(t, ran)
		t.Replay(tr)
		t.AllCount("n", n, 7)
		t.Are("runs", ran, func(i uint32) uint32 { return 10 * (1 + 7 - from(i) + 3) })
	}
}

func meshSavedControl(t *machines.T) {
	n, ran, one, ten := counters(t)
	tr := t.Trace(func(r *mesh.Recorder) error {
		return errors.Join(
			r.While(word(n, 0, cq.Less, 7), 20, running(r, one, ten)),
			r.Switch(n, 4, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing,
				func() error { return r.Loop(2, running(r, ten)) }),
		)
	})
	from := func(i uint32) uint32 { return 2 * i % 7 }
	decides(t, n, from)
	zero(t, ran)
	var file bytes.Buffer
	t.OK(tr.Save(t.Ctx, &file, reprise.WithData()))
	before := tr.Buffers()
	t.OK(tr.Release(t.Ctx), one.Release(t.Ctx), ten.Release(t.Ctx), n.Release(), ran.Release())
	loaded, err := t.Mesh.LoadTrace(t.Ctx, &file)
	t.OK(err)
	t.Later(loaded.Release)
	after := loaded.Buffers()
	if len(after) != len(before) {
		t.Fatalf("the file has %d buffers, the trace had %d", len(after), len(before))
	}
	t.Replay(loaded)
	for k, b := range before {
		for _, c := range t.Mesh.Chips() {
			i := t.Ordinal(c)
			want := uint32(7)
			switch b {
			case n.On(c):
			case ran.On(c):
				want = 10 * (7 - from(i) + 2)
			default:
				continue
			}
			got := t.T.ReadOn(t.Queue.On(c), after[k])
			t.Same(machines.Counting(len(got), want), got, "buffer %q of chip %v", after[k].Name(), c.Coord)
		}
	}
}

func nothing() error { return nil }

func meshAbort(t *machines.T) {
	n, ran, one, ten := counters(t)
	endless := t.Trace(func(r *mesh.Recorder) error {
		return errors.Join(r.Loop(rig.ManyTimes, running(r, one, one)), r.Run(one))
	})
	after := t.Trace(func(r *mesh.Recorder) error { return r.Loop(4, running(r, ten)) })
	zero(t, n, ran)
	for round := range uint32(2) {
		t.Replay(endless)
		for _, c := range t.Mesh.Chips() {
			t.OnChip(c).Ended(1)
			t.OnChip(c).Ended(0)
			t.OK(t.On(after, machines.Only(c)).Replay(t.Ctx))
			t.Is("after the abort", c, ran, machines.Counting(ran.Size(), 40*(round+1)))
			v := rig.Word(t.ReadOn(c, n))
			if v%2 != 0 {
				t.Errorf("chip %v: %d programs ran: an iteration was cut in two", c.Coord, v)
			}
			t.Is("programs", c, n, machines.Counting(n.Size(), v))
		}
	}
}

func meshLimit(t *machines.T) {
	m := t.GivesUp(2*time.Second, 10*time.Second)
	n, ran, one, ten := counters(t)
	tr := t.Trace(func(r *mesh.Recorder) error {
		return r.While(word(n, 0, cq.Less, 8), 8, running(r, one, ten))
	})
	stuck := m.Chips()[m.Size()-1]
	stop := t.Trace(func(r *mesh.Recorder) error {
		return r.While(func(c *mesh.Chip) reprise.Cond {
			if c == stuck {
				return reprise.Cond{Buffer: n.On(c), Is: cq.GreaterEqual, Value: 0}
			}
			return reprise.Cond{Buffer: n.On(c), Is: cq.Less, Value: 3}
		}, 5, running(r, one, ten))
	})
	zero(t, n, ran)
	t.Replay(stop)
	h := t.HungAlone(stuck)
	t.Says(errors.New(h.Detail()), "loop 0 of the trace", "iteration 5 of at most 5", `the last program was program "add"`)
	for _, c := range m.Chips()[:m.Size()-1] {
		t.Is("another chip", c, n, machines.Counting(n.Size(), 3))
	}
	t.OK(stuck.Device.Recover(t.Ctx))
	decides(t, n, func(i uint32) uint32 { return i % 8 })
	zero(t, ran)
	t.Replay(tr)
	t.AllCount("n after the recovery", n, 8)
	t.Are("runs after the recovery", ran, func(i uint32) uint32 { return 10 * (8 - i%8) })
}

func spanCases() (cs rig.Table) {
	cs.Add("trace over two queues", "parts of a trace on two queues have each their own number of iterations", func(t *rig.T) {
		s := unlike(t)
		for _, n := range []int{1, 4, t.Size(20, 3)} {
			s.replays(n)
		}
	})
	cs.Add("trace over two queues: random control flow", "each queue of a trace runs what its part says, whatever the other one does", func(t *rig.T) {
		rng := rand.New(rand.NewPCG(19, 2))
		for range t.Size(6, 2) {
			spanning(t, randomBounded(t, rng), randomBounded(t, rng)).replays(2)
		}
	})
	cs.Add("trace over two queues: saved and loaded", "a file of a trace over two queues has the control flow of both", savedControlSpan)
	cs.Add("trace over two queues: iterations as a parameter", "a parameter may be the number of iterations on both queues", spanParam)
	cs.Add("trace over two queues: one part aborted", "an abort ends the part of one queue, and the other's goes on", abortSpan)
	return cs.At(rig.LevelSplit)
}

// spanned is a trace of several parts with statements of their own.
type spanned struct {
	cs    []*control
	parts [][]stmt
	trace *reprise.Trace
}

// add adds a part, which is on the queue of a case.
func (s *spanned) add(t *rig.T, part []stmt) {
	c := newControl(t)
	c.load(part)
	s.cs, s.parts = append(s.cs, c), append(s.parts, part)
}

func (s *spanned) record(i int, r *reprise.Recorder) { s.cs[i].record(r, s.parts[i]) }

func spanning(t *rig.T, parts ...[]stmt) *spanned {
	s := &spanned{}
	for i, q := range t.Both() {
		s.add(t.On(q), parts[i])
	}
	s.trace = t.Trace("spanning", func(r *reprise.Recorder) {
		for i, q := range t.Both() {
			s.record(i, r.On(q))
		}
	}, t.Both()[1])
	return s
}

// replays replays the trace without waiting, with different counters of the parts.
func (s *spanned) replays(n int) {
	t := s.cs[0].t
	for k, c := range s.cs {
		c.reset(uint32(k))
	}
	for range n {
		t.Replay(s.trace)
		for k, c := range s.cs {
			c.run(s.parts[k])
		}
	}
	for k, c := range s.cs {
		c.check("part %d after %d replays", k, n)
	}
}

// unlike spans a trace whose parts have unlike control flow.
func unlike(t *rig.T) *spanned {
	return spanning(t, [][]stmt{
		{mix(1), loop(7, mix(2), loop(2, mix(3))), while(below(0, 9), count(0, 2), mixGiven(givenBoth, 0)), called(loop(2, mix(4)))},
		{loop(2, mix(5)), while(below(0, 30), count(0, 1), when(below(0, 20), do(mix(6)), do(mixGiven(givenNumber, 0)))), choose(1, nil, do(mix(7)), do(mix(8))), count(1, 1)},
	}...)
}

func savedControlSpan(t *rig.T) {
	s := unlike(t)
	file := t.Save(s.trace, reprise.WithData())
	before := s.trace.Buffers()
	t.Release(s.trace)
	for _, c := range s.cs {
		c.release()
	}
	loaded := t.LoadTrace(file)
	after := loaded.Buffers()
	if len(after) != len(before) {
		t.Fatalf("the file has %d buffers, the trace had %d", len(after), len(before))
	}
	s.trace = loaded
	for k, c := range s.cs {
		c.counters, c.f.Buffer = after[slices.Index(before, c.counters)], after[slices.Index(before, c.f.Buffer)]
		c.check("queue %d before any replay", k)
	}
	s.replays(3)
	t.OK(loaded.Debug().Verify(t.Ctx))
}

func spanParam(t *rig.T) {
	s := spanning(t, do(mix(1)), do(mix(2)))
	tr := t.Trace("spanning", func(r *reprise.Recorder) {
		for i, q := range t.Both() {
			on := r.On(q)
			body := func() error { s.record(i, on); return nil }
			on.Loop(uint32(i), body)
			on.Param("both")
			on.Loop(1, body)
			on.Param(fmt.Sprint("queue ", i))
		}
	}, t.Both()[1])
	for _, n := range [][3]uint32{{2, 1, 4}, {0, 0, 9}, {5, 3, 0}, {0, 0, 0}, {1, 20, 1}} {
		t.OK(tr.Set("both", n[0]), tr.Set("queue 0", n[1]), tr.Set("queue 1", n[2]), tr.Replay(t.Ctx))
		for i, c := range s.cs {
			c.run(do(loop(n[0]+n[1+i], s.parts[i]...)))
		}
	}
	for i, c := range s.cs {
		c.check("queue %d after all replays", i)
	}
}

func abortSpan(t *rig.T) {
	s := spanning(t, do(loop(rig.ManyTimes, count(0, 1), count(0, 1)), count(1, 1)), do(loop(5, mix(1)), count(2, 3)))
	for i := range t.Size(4, 2) {
		t.Replay(s.trace)
		t.OK(t.Both()[1].Wait(t.Ctx))
		s.cs[1].run(s.parts[1])
		s.cs[1].check("queue 1 while queue 0 is in its loop, replay %d", i)
		t.Ended(1)
		s.cs[0].aborted(2)
		s.cs[0].check("queue 0 after abort %d", i)
	}
}
