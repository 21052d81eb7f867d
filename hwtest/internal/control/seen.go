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
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/tracebuf"
)

// outline carries statements out on the host and returns what a timeline shows of them: a line for
// each span, indented as they nest.
func (c *control) outline(ss []stmt, depth int) (out []string) {
	add := func(deeper int, format string, args ...any) {
		out = append(out, strings.Repeat(" ", depth+deeper)+fmt.Sprintf(format, args...))
	}
	loop := func(s *stmt, goesOn func(turn uint32) bool) (turns uint32) {
		last := len(c.turns)
		for c.turns = append(c.turns, 0); goesOn(c.turns[last]); c.turns[last]++ {
			add(1, "iteration %d", c.turns[last])
			out = append(out, c.outline(s.body, depth+2)...)
		}
		turns = c.turns[last]
		c.turns = c.turns[:last]
		return turns
	}
	body := func(s *stmt, i int) {
		if i == len(s.bodies)-1 && s.op == opIf && i == 1 && !runsAny(s.bodies[i]) {
			return // nothing tells that it was there
		}
		add(0, "branch %d", i)
		out = append(out, c.outline(s.bodies[i], depth+1)...)
	}
	for i := range ss {
		s := &ss[i]
		switch s.op {
		case opMix, opAdd:
			c.run(ss[i : i+1])
		case opLoop:
			if s.n > 0 {
				add(0, "loop %d", s.n)
			}
			loop(s, func(turn uint32) bool { return turn < s.n })
		case opWhile:
			at := len(out)
			n := loop(s, func(uint32) bool { return s.is.Holds(c.compared(s), s.n) })
			out = slices.Insert(out, at, fmt.Sprintf("%sloop %d", strings.Repeat(" ", depth), n))
		case opIf:
			if s.is.Holds(c.compared(s), s.n) {
				body(s, 0)
			} else if len(s.bodies) > 1 {
				body(s, 1)
			}
		case opSwitch:
			if v := c.compared(s); uint64(v) < uint64(len(s.bodies)) {
				body(s, int(v))
			}
		case opCall:
			add(0, "call 0")
			around := c.turns
			c.turns = nil
			out = append(out, c.outline(s.body, depth+1)...)
			c.turns = around
		}
	}
	return out
}

// runsAny reports whether statements have a program or a call among their steps, whether it runs or
// not.
func runsAny(ss []stmt) bool {
	return slices.ContainsFunc(ss, func(s stmt) bool {
		return s.op == opMix || s.op == opAdd || s.op == opCall || runsAny(s.body) || slices.ContainsFunc(s.bodies, runsAny)
	})
}

// lines returns the outline of a timeline, and checks its times.
func lines(t *rig.T, line *observe.Timeline) []string {
	t.Helper()
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

// controlTimeline compares what timelines show with what statements do.
func controlTimeline(t *rig.T) {
	rng := rand.New(rand.NewPCG(99, 1))
	for round := 0; round < t.Size(6, 2); {
		ss := randomStmts(rng, 3, 0)
		c := &control{t: t, f: &rig.Mix{T: t, Words: make([]uint32, t.Grid().Size())}, values: make([]uint32, controlCounters)}
		if c.run(ss); c.runs < 4 || c.runs > t.Size(80, 40) {
			continue
		}
		round++
		c = newControl(t)
		tr := c.captured(ss)
		line, err := observe.StartTimeline(t.Ctx, t.Dev)
		t.OK(err)
		var want []string
		for range 2 {
			t.Clear(c.counters)
			clear(c.values)
			t.Replay(tr)
			want = append(want, c.outline(ss, 0)...)
		}
		t.OK(line.Stop(t.Ctx))
		if got := lines(t, line); !slices.Equal(got, want) {
			t.Errorf("round %d: the timeline has\n%s\nwant\n%s", round, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		c.check(fmt.Sprintf("round %d", round))
	}
}

// abortedTimeline looks at the timeline of a replay that the host has ended.
func abortedTimeline(t *rig.T) {
	c := newControl(t)
	tr := c.captured([]stmt{loop(1<<30, mix(1), loop(2, mix(2)))})
	line, err := observe.StartTimeline(t.Ctx, t.Dev)
	t.OK(err)
	t.Replay(tr)
	ended, err := t.Queue.Abort(t.Ctx)
	t.OK(err)
	t.OK(line.Stop(t.Ctx))
	spans := line.ControlSpans()
	if ended != 1 || len(spans) < 2 || !spans[0].Aborted || spans[0].Kind != tracebuf.SpanLoop || spans[0].Number < 1 {
		t.Errorf("%d replays were ended, and the timeline has %d spans; the first is %+v", ended, len(spans),
			append(spans, observe.ControlSpan{})[0])
	}
}

// conditionAcrossQueues has one queue's programs write what the condition of another queue's trace
// reads.
func conditionAcrossQueues(t *rig.T) {
	t = t.Full(t.Device.Open(), reprise.WithQueues(2))
	c := newControl(t)
	ss := []stmt{while(below(0, 6), count(0, 1), mix(1)), when(below(1, 1), []stmt{mix(2)}, []stmt{mix(3)})}
	tr := c.captured(ss)
	other := t.Dev.Queue(1)
	set := func(counter int, n uint32) *reprise.Executable {
		return c.adder(&stmt{op: opAdd, counter: counter, n: n})
	}
	for i := range t.Size(6, 3) {
		t.Clear(c.counters)
		clear(c.values)
		before, after := t.Dev.NewEvent("before"), t.Dev.NewEvent("after")
		x := set(i%2, uint32(i))
		t.OK(errors.Join(
			t.Queue.Record(t.Ctx, before), other.WaitEvent(t.Ctx, before), other.Run(t.Ctx, x), other.Record(t.Ctx, after),
			t.Queue.WaitEvent(t.Ctx, after), tr.Replay(t.Ctx),
		))
		c.values[i%2] += uint32(i)
		c.run(ss)
		c.check(fmt.Sprintf("round %d", i))
	}
}

// carriedWords has each iteration's program read what that of the iteration before has written,
// from other workers.
func carriedWords(t *rig.T) {
	a, b := t.Buffer(allocator.DRAM, 4*64, 64), t.Buffer(allocator.DRAM, 4*64, 64)
	there := t.Load(t.AddProgram("there", chip.Core{X: 0, Y: 1}, a, b, 1))
	back := t.Load(t.AddProgram("back", chip.Core{X: 2, Y: 0}, b, a, 2))
	const n = 20
	tr := t.Hold(t.Record("carried", func(r *reprise.Recorder) error {
		return errors.Join(
			r.Loop(n, func() error { return errors.Join(r.Run(there), r.Run(back)) }),
			r.While(reprise.Cond{Buffer: b, Is: cq.Less, Value: 3*2*n - 2}, 2*n, func() error { return errors.Join(r.Run(there), r.Run(back)) }),
		)
	}))
	for range 2 {
		t.Clear(a)
		t.Replay(tr)
		got := t.ReadAll(a)
		for i := 0; i < len(got); i += 4 {
			if v := rig.Word(got[i:]); v != 3*2*n {
				t.Fatalf("word %d is %d, want %d", i/4, v, 3*2*n)
			}
		}
	}
}
