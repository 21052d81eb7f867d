package control

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

func spanCases() (cs rig.Table) {
	cs.Add("trace over two queues", "parts of a trace on two queues have each their own number of iterations", controlSpan)
	cs.Add("trace over two queues: random control flow", "each queue of a trace runs what its part says, whatever the other one does", randomControlSpan)
	cs.Add("trace over two queues: saved and loaded", "a file of a trace over two queues has the control flow of both", savedControlSpan)
	cs.Add("trace over two queues: iterations as a parameter", "a parameter may be the number of iterations on both queues", spanParam)
	cs.Add("trace over two queues: one part aborted", "an abort ends the part of one queue, and the other's goes on", abortSpan)
	return cs.At(rig.LevelSplit)
}

type spanned struct {
	cs    [2]*control
	parts [2][]stmt
	trace *reprise.Trace
}

func spanning(t *rig.T, parts ...[]stmt) *spanned {
	s := &spanned{parts: [2][]stmt(parts)}
	for i, q := range t.Both() {
		s.cs[i] = newControl(t.On(q))
		s.cs[i].load(s.parts[i])
	}
	s.trace = t.Trace("spanning", func(r *reprise.Recorder) {
		for i, q := range t.Both() {
			s.cs[i].record(r.On(q), s.parts[i])
		}
	}, t.Both()[1])
	return s
}

// replays replays the trace without waiting, with different counters on the two queues.
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
		c.check("queue %d after %d replays", k, n)
	}
}

// unlike spans a trace whose parts have unlike control flow.
func unlike(t *rig.T) *spanned {
	return spanning(t, [][]stmt{
		{mix(1), loop(7, mix(2), loop(2, mix(3))), while(below(0, 9), count(0, 2), mixGiven(givenBoth, 0)), called(loop(2, mix(4)))},
		{loop(2, mix(5)), while(below(0, 30), count(0, 1), when(below(0, 20), do(mix(6)), do(mixGiven(givenNumber, 0)))), choose(1, nil, do(mix(7)), do(mix(8))), count(1, 1)},
	}...)
}

func controlSpan(t *rig.T) {
	s := unlike(t)
	for _, n := range []int{1, 4, t.Size(20, 3)} {
		s.replays(n)
	}
}

func randomControlSpan(t *rig.T) {
	rng := rand.New(rand.NewPCG(19, 2))
	for range t.Size(6, 2) {
		spanning(t, randomBounded(t, rng), randomBounded(t, rng)).replays(2)
	}
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
			body := func() error { s.cs[i].record(on, s.parts[i]); return nil }
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
