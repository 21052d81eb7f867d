// Package control has the cases of loops, branches and calls in traces.
package control

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

// Cases are traces that decide, as statements that are recorded and also carried out on the host.
func Cases() rig.Table {
	cs := forms()
	for seed := range uint64(12) {
		rig.Each(&cs, "random control flow, seed %d", "any nest of control flow runs what it says, in order", Random, seed)
	}
	for c := cq.Equal; c.Valid(); c++ {
		rig.Each(&cs, "comparison %v", "a condition compares words as unsigned numbers", comparison, c)
	}
	cs = append(cs, fileCases()...)
	cs.Add("words anywhere", "a condition may read any word of a buffer in DRAM or L1", wordsAnywhere)
	cs.Add("long bodies", "bodies longer than the prefetcher holds are read in each iteration", func(t *rig.T) {
		var long []stmt
		for i := range uint32(t.Size(700, 250)) {
			long = append(long, mix(i%5))
		}
		replays(t, 2, mix(1), loop(3, long...), mix(2), loop(2, append(slices.Clone(long[:40]), loop(3, long[:100]...))...))
	})
	cs.Add("kernels without room", "bodies whose kernels can't all stay on the workers bring them again", func(t *rig.T) {
		var large []stmt
		for i := range uint32(6) {
			large = append(large, stmt{op: opMix, n: i, size: 16000})
		}
		replays(t, 2, loop(3, append(slices.Clone(large), loop(2, large[0], large[1]), mix(9))...), mix(8))
	})
	cs.Add("number of iterations as a parameter", "replays have the numbers of iterations that were set before them", iterationsAsParameter)
	cs.Add("arguments in loops as parameters", "arguments of runs inside of loops can be set", parametersInLoops)
	cs.Add("calls have parameters of the callee", "a trace that is called has the parameters that were set last", calleeParameters)
	cs.Add("callee released first", "a trace keeps what it calls", calleeReleased)
	cs.Add("host writes between replays", "a condition finds what the host wrote before the replay", hostWrites)
	cs.Add("runs between replays", "programs and replays with control flow take turns on a queue", runsBetween)
	add := func(name, protects string, a abortedTrace) { cs.Add(name, protects, func(t *rig.T) { abort(t, a) }) }
	add("abort", "a replay ends between two iterations, and what comes after it runs", abortedTrace{1, 2, 1,
		do(count(1, 1), loop(rig.ManyTimes, count(0, 1), count(0, 1)), count(2, 1)), do(mix(1), loop(3, mix(2)), count(1, 5))})
	add("abort of several replays", "all replays that were given before end, and none after", abortedTrace{3, 1, 0,
		do(loop(rig.ManyTimes, loop(2, count(0, 1)))), do(loop(40, mix(1)))})
	add("abort of a callee", "a replay ends inside of what it calls", abortedTrace{1, 1, 1,
		do(count(1, 1), loop(2, called(loop(rig.ManyTimes, count(0, 1)), count(2, 1)), count(2, 1))), do(mix(1))})
	cs.Add("abort without loops", "replays without loops run to their end", func(t *rig.T) {
		c := newControl(t)
		ss := do(mix(1), mix(2), when(below(0, 1), do(mix(3))))
		tr := c.captured(ss)
		for range 2 {
			c.replay(tr, ss)
		}
		t.Ended(0)
		c.check("after an abort that ends nothing")
	})
	cs.Add("released memory", "traces with control flow hold what they use and give it back", controlMemory)
	cs.Add("limit", "an endless loop stops at its limit, with a report", loopLimit).Needs = rig.NeedSimulator
	cs.Add("recover in the middle", "a device recovers from a hang inside of a loop, and the trace runs again", recoverInLoop).Needs = rig.NeedSimulator
	cs.Add("timeline of random control flow", "a timeline has each loop, iteration, branch and call in order", controlTimeline).Needs = rig.NeedSimulator
	cs.Add("timeline of an aborted replay", "a timeline ends where a replay was aborted", abortedTimeline)
	cs.Add("condition and writers on two queues", "a condition finds what another queue's programs wrote before an event", conditionAcrossQueues).Level = rig.LevelOwn
	cs.Add("words that the next iteration reads", "an iteration finds what the programs of the one before wrote", carriedWords)
	cs.Add("stock wire format", "control flow works without shared pages", func(t *rig.T) {
		t = t.Full(reprise.WithStockWireFormat())
		replays(t, 2, mix(1), loop(3, mix(2), while(below(0, 3), count(0, 1)), when(below(0, 4), do(mix(4)), do(mix(5)))),
			called(loop(2, mix(6))))
	}).Level = rig.LevelOwn
	cs.Add("replays allocate nothing", "a replay with control flow allocates nothing", func(t *rig.T) {
		c := newControl(t)
		tr := c.captured(do(loop(2, mix(1), called(mix(2)))))
		t.Replay(tr)
		t.Wait()
		t.AllocatesNothing("a replay", func() { t.Replay(tr) })
		t.Wait()
	}).Alone = true
	return slices.Concat(cs, spanCases(), meshCases())
}

type stmt struct {
	op      stmtOp
	n       uint32 // mixed in or added; iterations; a condition's value
	counter int
	level   int // a condition is of this loop's iteration, 1 for the innermost
	is      cq.Compare
	bodies  [][]stmt // of a branch
	body    []stmt   // of a loop or a call
	size    int
	given   given
	limit   uint32
}

// given says which arguments of a mixer are a counter's word.
type given int

const (
	givenNothing given = iota
	givenNumber
	givenBoth // that, and one of a single core
)

func (c *control) givenCore() chip.Core { return chip.Core{X: c.first.X + 1, Y: c.first.Y + 2} }

type stmtOp int

const (
	opMix stmtOp = iota
	opAdd
	opLoop
	opWhile
	opIf
	opSwitch
	opCall
	opParallel
)

func do(ss ...stmt) []stmt                         { return ss }
func mix(n uint32) stmt                            { return stmt{op: opMix, n: n} }
func mixGiven(g given, counter int) stmt           { return stmt{op: opMix, given: g, counter: counter} }
func count(counter int, n uint32) stmt             { return stmt{op: opAdd, counter: counter, n: n} }
func loop(n uint32, body ...stmt) stmt             { return stmt{op: opLoop, n: n, body: body} }
func called(body ...stmt) stmt                     { return stmt{op: opCall, body: body} }
func turn(level int, is cq.Compare, n uint32) stmt { return stmt{level: level, is: is, n: n} }
func parallel(bs ...[]stmt) stmt                   { return stmt{op: opParallel, bodies: bs} }
func choose(c int, bs ...[]stmt) stmt              { return stmt{op: opSwitch, counter: c, bodies: bs} }
func below(c int, n uint32) (s stmt)               { s.counter, s.is, s.n = c, cq.Less, n; return s }
func when(c stmt, bodies ...[]stmt) stmt           { c.op, c.bodies = opIf, bodies; return c }
func while(c stmt, body ...stmt) stmt              { c.op, c.body, c.limit = opWhile, body, 200; return c }

type control struct {
	t        *rig.T
	f        *rig.Mix
	on       chip.Range
	first    chip.Core       // of the workers of the queue
	counters *reprise.Buffer // a page each
	values   []uint32
	mixers   map[[2]uint32]*reprise.Executable
	adders   map[[2]uint32]*reprise.Executable
	runs     int
	depth    int
	outline  []string // spans of a timeline, indented as they nest
	turns    []uint32 // iterations of the loops around
	callees  []*reprise.Trace
}

const controlCounters = 4

func newControl(t *rig.T) *control {
	first := t.Queue.Workers().Start
	c := &control{
		t: t, f: t.Follow(), first: first, on: chip.Range{Start: first, End: chip.Core{X: first.X + 2, Y: first.Y + 2}},
		counters: t.DRAMBuffer(64*controlCounters, 64),
		values:   make([]uint32, controlCounters), mixers: map[[2]uint32]*reprise.Executable{}, adders: map[[2]uint32]*reprise.Executable{},
	}
	t.Clear(c.counters)
	return c
}

func (c *control) reset(v uint32) {
	c.t.Write(c.counters, rig.Repeated(c.counters.Size(), v))
	for i := range c.values {
		c.values[i] = v
	}
}

func (c *control) set(counter int, v uint32) {
	c.t.WriteAt(c.counters, 64*counter, rig.Repeated(64, v))
	c.values[counter] = v
}

func (c *control) cond(s *stmt) reprise.Cond {
	if s.level != 0 {
		return reprise.Cond{Iteration: s.level, Is: s.is, Value: s.n}
	}
	return reprise.Cond{Buffer: c.counters, Offset: s.word(), Is: s.is, Value: s.n}
}

// word is one of the words of the statement's counter, which are all equal.
func (s *stmt) word() int { return 64*s.counter + int(s.n%16)*4 }

func (c *control) mixer(s *stmt) *reprise.Executable {
	key := [2]uint32{s.n, uint32(s.size)}
	if c.mixers[key] == nil {
		c.mixers[key] = c.f.LoadLong(fmt.Sprintf("mix %d", s.n), s.n, s.size, c.on)
	}
	return c.mixers[key]
}

func (c *control) given(s *stmt) []reprise.Arg {
	args := []reprise.Arg{
		{Kernel: "mix", Common: true, From: c.counters, Offset: s.word()},
		{Kernel: "mix", Index: 1, Cores: []chip.Range{c.givenCore().Range()}, From: c.counters, Offset: s.word()},
	}
	return args[:s.given]
}

func (c *control) mix(s *stmt) {
	number := s.n
	if s.given != givenNothing {
		number = c.values[s.counter]
	}
	was := c.f.Words[c.t.WorkerIndex(c.givenCore())]
	c.f.Run(number, c.on)
	if s.given == givenBoth {
		c.f.Words[c.t.WorkerIndex(c.givenCore())] = rig.Mixed(was, number, int(number))
	}
}

func (c *control) adder(s *stmt) *reprise.Executable {
	key := [2]uint32{uint32(s.counter), s.n}
	if c.adders[key] == nil {
		p := c.t.AddProgram("add", chip.Core{X: c.first.X + s.counter, Y: c.first.Y + 3}, c.counters, c.counters, s.n)
		for i := range p.Kernels {
			args := p.Kernels[i].Args
			p.Kernels[i].Args = func(at chip.Core) []uint32 {
				a := slices.Clone(args(at))
				if i == 1 {
					a[2] = 1
				} else {
					a[1], a[2] = uint32(s.counter), 1
				}
				return a
			}
		}
		c.adders[key] = c.t.Load(p)
	}
	return c.adders[key]
}

func (c *control) load(ss []stmt) {
	for i := range ss {
		s := &ss[i]
		switch s.op {
		case opMix:
			c.mixer(s)
		case opAdd:
			c.adder(s)
		}
		c.load(s.body)
		for _, b := range s.bodies {
			c.load(b)
		}
		if s.op == opCall {
			c.callees = append(c.callees, c.captured(s.body))
			s.n = uint32(len(c.callees) - 1)
		}
	}
}

func (c *control) record(r *reprise.Recorder, ss []stmt) {
	for i := range ss {
		s := &ss[i]
		record := func(ss []stmt) func() error {
			return func() error { c.record(r, ss); return nil }
		}
		body := record(s.body)
		var bodies []func() error
		for _, b := range s.bodies {
			bodies = append(bodies, record(b))
		}
		switch s.op {
		case opMix:
			r.Run(c.mixer(s), c.given(s)...)
		case opAdd:
			r.Run(c.adder(s))
		case opLoop:
			r.Loop(s.n, body)
		case opWhile:
			r.While(c.cond(s), s.limit, body)
		case opIf:
			r.If(c.cond(s), bodies[0], append(bodies, nil)[1])
		case opSwitch:
			r.Switch(c.counters, 64*s.counter, bodies...)
		case opParallel:
			r.Parallel(bodies...)
		case opCall:
			r.Call(c.callees[s.n])
		}
	}
}

func (c *control) compared(s *stmt) uint32 {
	if s.level != 0 {
		return c.turns[len(c.turns)-s.level]
	}
	return c.values[s.counter]
}

func (c *control) show(deeper int, format string, args ...any) {
	c.outline = append(c.outline, strings.Repeat(" ", c.depth+deeper)+fmt.Sprintf(format, args...))
}

func (c *control) inside(deeper int, ss []stmt) {
	c.depth += deeper
	c.run(ss)
	c.depth -= deeper
}

func (c *control) looped(s *stmt, goesOn func(turn uint32) bool) {
	c.turns = append(c.turns, 0)
	at, last := len(c.outline), len(c.turns)-1
	for ; goesOn(c.turns[last]); c.turns[last]++ {
		c.show(1, "iteration %d", c.turns[last])
		c.inside(2, s.body)
	}
	if n := c.turns[last]; n > 0 || s.op == opWhile {
		c.show(0, "loop %d", n)
		c.outline = slices.Insert(c.outline[:len(c.outline)-1], at, c.outline[len(c.outline)-1])
	}
	c.turns = c.turns[:last]
}

func (c *control) branch(s *stmt, i int) {
	if s.op != opIf || i == 0 || runsAny(s.bodies[i]) { // nothing tells that another one was there
		c.show(0, "branch %d", i)
	}
	c.inside(1, s.bodies[i])
}

func (c *control) run(ss []stmt) {
	for i := range ss {
		s := &ss[i]
		switch s.op {
		case opMix:
			c.runs++
			c.mix(s)
		case opAdd:
			c.runs++
			c.values[s.counter] += s.n
		case opLoop:
			c.looped(s, func(turn uint32) bool { return turn < s.n })
		case opWhile:
			c.looped(s, func(uint32) bool { return s.is.Holds(c.compared(s), s.n) })
		case opIf:
			if s.is.Holds(c.compared(s), s.n) {
				c.branch(s, 0)
			} else if len(s.bodies) > 1 {
				c.branch(s, 1)
			}
		case opSwitch:
			if v := c.compared(s); uint64(v) < uint64(len(s.bodies)) {
				c.branch(s, int(v))
			}
		case opParallel:
			for _, b := range s.bodies {
				c.run(b)
			}
		case opCall:
			around := c.turns
			c.turns = nil
			c.show(0, "call 0")
			c.inside(1, s.body)
			c.turns = around
		}
	}
}

func (c *control) captured(ss []stmt) *reprise.Trace {
	c.load(ss)
	return c.t.Trace("control", func(r *reprise.Recorder) { c.record(r, ss) })
}

// replay replays a trace of statements, and carries them out on the host.
func (c *control) replay(tr *reprise.Trace, ss []stmt) {
	c.t.Replay(tr)
	c.run(ss)
}

func (c *control) check(what string, args ...any) {
	c.f.Check(what, args...)
	got := c.t.ReadAll(c.counters)
	for i, want := range c.values {
		rig.Equal(c.t, rig.Word(got[64*i:]), want, "%s: counter %d", fmt.Sprintf(what, args...), i)
	}
}

func replays(t *rig.T, n int, ss ...stmt) {
	c := newControl(t)
	c.replays(n, c.captured(ss), ss)
}

// replays replays a trace of statements n times, with counters that begin at 0.
func (c *control) replays(n int, tr *reprise.Trace, ss []stmt) {
	for i := range n {
		c.reset(0)
		c.replay(tr, ss)
		c.check("replay %d", i)
	}
}

func forms() (cs rig.Table) {
	deep := func(n int, wrap func(...stmt) stmt) stmt {
		s := mix(7)
		for range n {
			s = wrap(s)
		}
		return s
	}
	deepWhile := func() []stmt {
		ss := do(mix(1))
		for i := range controlCounters {
			ss = do(while(below(i, 2), append(slices.Clone(ss), count(i, 1))...))
		}
		return ss
	}
	var eight []stmt
	for i := range uint32(8) {
		eight = append(eight, mix(i))
	}
	form := func(name, protects string, ss ...stmt) {
		cs.Add(name, protects, func(t *rig.T) { replays(t, 2, ss...) })
	}
	form("loop of one", "a body that runs once is the straight line", loop(1, mix(1)))
	form("loop of none", "a body that runs never changes nothing, and what is around it runs", mix(1), loop(0, mix(2)), mix(3))
	form("only a loop of none", "a trace may come down to nothing", loop(0, mix(1)))
	form("loop of many", "iterations follow each other", loop(100, mix(1)))
	form("loops one after another", "each loop begins anew", loop(3, mix(1)), loop(4, mix(2)), loop(3, mix(1)))
	form("empty body", "iterations without programs end", mix(1), loop(50), mix(2))
	form("eight launches", "an iteration may use all launch messages", loop(5, eight...))
	form("nine launches", "an iteration may use launch messages again", loop(5, append(slices.Clone(eight), mix(9))...))
	form("seven before", "a loop may begin at any launch message", append(slices.Clone(eight[:7]), loop(4, mix(1), mix(2)), mix(5))...)
	form("nested eight deep", "loops nest", deep(8, func(s ...stmt) stmt { return loop(2, s...) }))
	form("nested as deep as possible", "the stack of loops has room for what is promised", deep(cq.MaxLoops, func(s ...stmt) stmt { return loop(1, s...) }))
	form("inner loop of none", "an inner loop may run never", loop(3, mix(1), loop(0, mix(2)), mix(3)))
	form("several inner loops", "inner loops are independent", loop(3, loop(2, mix(1)), mix(2), loop(3, mix(3), mix(4))))
	form("while", "a loop ends when its condition is false", while(below(0, 5), count(0, 1), mix(1)))
	form("while that is false at once", "a condition is tested before the first iteration", mix(1), while(below(0, 0), mix(2)), mix(3))
	form("while in a loop", "a condition is tested anew", loop(3, while(below(0, 9), count(0, 2), mix(1)), count(0, ^uint32(3)), mix(2)))
	form("loop in a while", "an iteration with a condition may have loops", while(below(0, 3), loop(2, mix(1)), count(0, 1)))
	form("while in whiles", "conditions nest", deepWhile()...)
	form("if false", "what a condition doesn't hold for doesn't run", count(0, 1), when(below(0, 1), do(mix(1))), mix(2))
	form("otherwise", "the other branch runs", count(0, 1), when(below(0, 1), do(mix(1)), do(mix(3), mix(4))), mix(2))
	form("if in if", "branches nest", when(below(0, 1), do(count(0, 1), when(below(0, 1), do(mix(1)), do(mix(2)))), do(mix(3))), mix(4))
	form("loop in if", "a branch may have loops", when(below(0, 1), do(loop(3, mix(1))), do(loop(2, mix(2)))), mix(3))
	form("every fourth iteration", "a condition knows which iteration it is", loop(9, when(turn(1, cq.NoneSet, 3), do(mix(1))), mix(2)))
	form("first and last iteration", "an iteration may differ from the others",
		loop(4, when(turn(1, cq.Equal, 0), do(mix(1)), do(when(turn(1, cq.Equal, 3), do(mix(3), mix(4))))), mix(2)))
	form("iteration of an outer loop", "a condition knows the iterations of all loops around it", loop(3, loop(2, loop(2, when(turn(3, cq.Greater, 0), do(mix(1)), do(mix(2))), when(turn(2, cq.Equal, 1), do(mix(3)))))))
	form("empty branches", "a branch may have nothing", when(below(0, 1), nil, nil), mix(1), when(below(0, 0), nil, do(mix(2))))
	form("switch", "the branch of the word runs", count(0, 2), choose(0, do(mix(1)), do(mix(2)), do(mix(3))), mix(4))
	form("switch without a branch", "no branch runs for other words", count(0, 7), choose(0, do(mix(1)), do(mix(2))), mix(4))
	form("switch in a loop", "a state machine in memory",
		loop(5, choose(0, do(mix(1), count(0, 2)), do(mix(2), count(0, ^uint32(0))), do(mix(3), count(0, ^uint32(0))))))
	form("argument that one core has", "cores have words of their own", count(1, 3), mixGiven(givenBoth, 1), mix(1), mixGiven(givenBoth, 2))
	form("computed arguments in a loop", "each iteration has the word of its time",
		loop(4, mixGiven(givenBoth, 0), count(0, 1), mixGiven(givenNumber, 0), count(0, 5)))
	form("computed arguments in branches", "a branch has the word that decided on it",
		loop(4, choose(0, do(mixGiven(givenNumber, 0), count(0, 1)), do(mixGiven(givenBoth, 0), count(0, 1)), do(mix(2)))))
	form("computed arguments in a callee", "a trace that is called has the words of its time", loop(3, called(mixGiven(givenBoth, 0), count(0, 7)), mixGiven(givenNumber, 0)))
	form("computed arguments of large kernels", "kernels that stay on the workers are given words too", loop(3, stmt{op: opMix, given: givenBoth, size: 9008}, stmt{op: opMix, n: 2, size: 12000}, count(0, 1)))
	form("branches at once", "branches run between what is before and after", mix(1),
		parallel(nil, do(mix(2), mix(3)), do(count(1, 2), count(1, 3))), parallel(), mix(4), count(1, 2))
	form("long branches in a loop", "branches go around the launch messages and kernel memory", loop(2,
		parallel(slices.Repeat(do(stmt{op: opMix, n: 1, size: 12000}, mix(2)), 30), slices.Repeat(do(count(0, 1)), 45)), mix(1)))
	form("call", "a trace runs another one", mix(1), called(mix(2), mix(3)), mix(4))
	form("call in a loop", "a trace is called again and again", loop(4, mix(1), called(mix(2), mix(3))))
	form("call in a branch", "a branch may call", when(below(0, 1), do(called(mix(1))), do(called(mix(2)))), mix(3))
	form("calls in calls", "calls nest", deep(cq.MaxCalls, func(s ...stmt) stmt { return called(append(do(mix(2)), s...)...) }))
	return cs
}

// Random replays random statements that end after not too many runs.
func Random(t *rig.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for range t.Size(4, 2) {
		replays(t, 2, randomBounded(t, rng)...)
	}
}

func randomBounded(t *rig.T, rng *rand.Rand) []stmt {
	for {
		ss := randomStmts(rng, 3, 0)
		c := &control{t: t, f: rig.NewMix(t), values: make([]uint32, controlCounters)}
		if c.run(ss); c.runs >= 3 && c.runs <= t.Size(120, 40) {
			return ss
		}
	}
}

func randomStmts(rng *rand.Rand, depth, loops int) []stmt {
	var ss []stmt
	for range 1 + rng.IntN(3) {
		counter := rng.IntN(controlCounters)
		kind := rng.IntN(10)
		if depth == 0 {
			kind = []int{0, 1, 2, 9}[rng.IntN(4)]
		}
		inner := func(more int) []stmt { return randomStmts(rng, depth-1, loops+more) }
		switch kind {
		case 0, 1:
			ss = append(ss, stmt{op: opMix, n: rng.Uint32N(3), size: 4000 * rng.IntN(3), given: given(rng.IntN(3)), counter: counter})
		case 2:
			ss = append(ss, count(counter, rng.Uint32N(3)))
		case 3, 4:
			ss = append(ss, loop(rng.Uint32N(4), inner(1)...))
		case 5:
			ss = append(ss, while(below(counter, rng.Uint32N(6)), append(inner(1), count(counter, 1))...))
		case 6:
			c := stmt{counter: counter, is: cq.Equal + cq.Compare(rng.IntN(int(cq.NoneSet))), n: rng.Uint32N(4)}
			if loops > 0 && rng.IntN(2) == 0 {
				c.level = 1 + rng.IntN(loops)
			}
			ss = append(ss, when(c, inner(0), inner(0)))
		case 7:
			ss = append(ss, choose(counter, inner(0), inner(0)))
		case 8:
			ss = append(ss, called(inner(-loops)...))
		case 9:
			ss = append(ss, randomBranches(rng))
		}
	}
	return ss
}

// randomBranches have cores of their own: those of the mixers, or of a counter's adder.
func randomBranches(rng *rand.Rand) stmt {
	bodies := make([][]stmt, controlCounters+1)
	for range rng.IntN(12) {
		i, s := rng.IntN(len(bodies)), stmt{op: opMix, n: rng.Uint32N(3), size: 4000 * rng.IntN(3)}
		if i < controlCounters {
			s = count(i, s.n)
		}
		bodies[i] = append(bodies[i], s)
	}
	return parallel(bodies...)
}

func comparison(t *rig.T, is cq.Compare) {
	c := newControl(t)
	const value = 0x80000001
	ss := do(when(stmt{is: is, n: value}, do(mix(1)), do(mix(2))))
	tr := c.captured(ss)
	for _, v := range []uint32{0, 1, value - 1, value, value + 1, 0x80000000, ^uint32(0), 0x7FFFFFFE} {
		c.set(0, v)
		c.replay(tr, ss)
		c.check("%#x %v %#x", v, is, uint32(value))
	}
}

func wordsAnywhere(t *rig.T) {
	on := chip.Grid(2, 2)
	f, x := t.Mixing(3, on)
	for _, b := range []*reprise.Buffer{
		t.DRAMBuffer(32*64, 64), t.DRAMBuffer(5*2048, 2048), t.L1Buffer(12*48, 48),
		t.DRAMBuffer(40*32, 32),
	} {
		for _, off := range []int{0, 4, 28, 44, b.PageSize() * 3, b.Size() - 4, b.Size() - b.PageSize()} {
			data := rig.Pattern(off, b.Size())
			word := rig.Word(data[off:])
			t.Write(b, data)
			tr := t.Trace("word", func(r *reprise.Recorder) {
				for _, is := range []cq.Compare{cq.Equal, cq.NotEqual} {
					r.If(reprise.Cond{Buffer: b, Offset: off, Is: is, Value: word}, func() error { return r.Run(x) }, nil)
				}
			})
			t.Replay(tr)
			f.Run(3, on)
			f.Check("word %d of a buffer of %v", off, b.Kind())
			t.Release(tr)
		}
	}
}

func iterationsAsParameter(t *rig.T) {
	c := newControl(t)
	c.load(do(mix(1), mix(2)))
	one, two := mix(1), mix(2)
	tr := t.Trace("t", func(r *reprise.Recorder) {
		r.Loop(2, func() error {
			return errors.Join(r.Run(c.mixer(&one)), r.Loop(3, func() error { return r.Run(c.mixer(&two)) }), r.Param("inner"))
		})
		r.Param("outer")
	})
	for _, n := range [][2]uint32{{2, 3}, {0, 3}, {1, 0}, {5, 1}, {1, 20}, {2, 3}} {
		t.OK(tr.Set("outer", n[0]), tr.Set("inner", n[1]), tr.Replay(t.Ctx))
		c.run(do(loop(n[0], one, loop(n[1], two))))
	}
	c.check("after all replays")
}

func parametersInLoops(t *rig.T) {
	f, x := t.Mixing(5)
	tr := t.Trace("t", func(r *reprise.Recorder) {
		r.Loop(3, func() error {
			return errors.Join(r.Run(x), r.Param("first", rig.MixNumber), r.Run(x), r.Param("second", rig.MixNumber), r.Run(x),
				r.Param("first", rig.MixNumber))
		})
	})
	for _, v := range [][2]uint32{{5, 5}, {9, 1}, {0, 1 << 31}} {
		t.OK(tr.Set("first", v[0]), tr.Set("second", v[1]), tr.Replay(t.Ctx))
		for range 3 {
			f.Run(v[0])
			f.Run(v[1])
			f.Run(v[0])
		}
	}
	f.Check("after all replays")
}

func calleeParameters(t *rig.T) {
	f, x := t.Mixing(5)
	inner := t.Trace("inner", func(r *reprise.Recorder) {
		r.Run(x)
		r.Param("n", rig.MixNumber)
	})
	outer := t.Trace("outer", func(r *reprise.Recorder) {
		r.Loop(2, func() error { return r.Call(inner) })
		r.Run(x)
	})
	for _, v := range []uint32{5, 6, 7} {
		t.OK(inner.Set("n", v), outer.Replay(t.Ctx), inner.Replay(t.Ctx))
		for _, n := range []uint32{v, v, 5, v} {
			f.Run(n)
		}
	}
	f.Check("after all replays")
}

func calleeReleased(t *rig.T) {
	c := newControl(t)
	inner := do(loop(3, mix(1)), mix(2))
	ss := do(called(inner...), mix(3), called(inner...))
	tr := c.captured(ss)
	for _, callee := range c.callees {
		t.Release(callee)
	}
	for _, x := range c.mixers {
		t.Release(x)
	}
	taken := t.DRAMBuffer(1<<20, 2048) // what was given back would be overwritten
	t.Clear(taken)
	for range 2 {
		c.replay(tr, ss)
	}
	c.check("after the callees were released")
	t.Fails("replay of a released callee", c.callees[0].Replay(t.Ctx), reprise.ErrReleased)
}

func hostWrites(t *rig.T) {
	c := newControl(t)
	ss := do(while(below(1, 9), count(1, 1), mix(1)), when(below(2, 5), do(mix(2)), do(mix(3))))
	tr := c.captured(ss)
	for i := range uint32(6) {
		for k, v := range []uint32{0, 12 - 2*i, 3 + i} {
			c.set(k, v)
		}
		c.replay(tr, ss)
	}
	c.check("after all replays")
}

func runsBetween(t *rig.T) {
	c := newControl(t)
	ss := do(loop(3, mix(1), mix(2)), mix(1))
	tr := c.captured(ss)
	plain := do(mix(2), mix(1))
	straight := c.captured(plain)
	one := mix(1)
	for i := range t.Size(12, 4) {
		c.replay(tr, ss)
		for range i % 4 {
			t.Start(c.mixer(&one))
			c.run(do(one))
		}
		c.replay(straight, plain)
	}
	c.check("after all replays")
}

// aborted takes counter 0 over from an aborted replay, whose iterations add 1 to it so many times.
func (c *control) aborted(each uint32) {
	c.values[0] = rig.Word(c.t.ReadAt(c.counters, 0, 4))
	if c.values[0]%each != 0 {
		c.t.Errorf("%d programs ran: an iteration was cut", c.values[0])
	}
}

// aborted is a trace that doesn't end by itself.
type abortedTrace struct {
	replays        int // at once
	each           uint32
	begun          uint32 // what counter 1 has more after a replay
	endless, after []stmt // after runs once the replays were aborted
}

func abort(t *rig.T, a abortedTrace) {
	c := newControl(t)
	endless, after := c.captured(a.endless), c.captured(a.after)
	for i := range 3 {
		for range a.replays {
			t.Replay(endless)
		}
		t.Ended(a.replays)
		c.replay(after, a.after)
		c.values[1] += a.begun
		c.aborted(a.each)
		c.check("abort %d", i)
	}
	t.Ended(0)
}

func controlMemory(t *rig.T) {
	before := t.Allocated()
	c := newControl(t)
	ss := do(loop(3, mix(1), called(mix(2), while(below(0, 4), count(0, 1)))), mix(3))
	c.load(ss)
	held := t.Allocated()
	for range 3 {
		tr := t.Trace("t", func(r *reprise.Recorder) { c.record(r, ss) })
		c.replay(tr, ss)
		t.Release(tr)
	}
	t.SameMemory(held)
	c.check("after all replays")
	if before == held {
		t.Errorf("nothing was allocated: %+v", held)
	}
}

func loopLimit(t *rig.T) {
	t = t.Short()
	c := newControl(t)
	ss := do(loop(2, mix(1), stmt{op: opWhile, is: cq.Less, n: 4, limit: 4, body: do(count(0, 1))}))
	tr := c.captured(ss)
	c.replay(tr, ss)
	c.check("within the limit")
	zero := ss[0].body[1]
	zero.body = do(mix(5))
	endless := c.captured(do(loop(3, zero)))
	c.set(0, 0)
	t.Replay(endless)
	hang := t.Hung(t.Queue.Wait(t.Ctx))
	t.Says(errors.New(hang.Detail()), "loop 1 of the trace", "iteration 4 of at most 4", `the last program was program "mix 5"`)
	t.Recover()
	t.Clear(c.f.Buffer)
	clear(c.f.Words)
	c.replay(tr, ss)
	c.check("after the recovery")
}

func recoverInLoop(t *rig.T) {
	t = t.Short()
	c := newControl(t)
	word := t.PerWorker(16)
	spin := t.Load(t.Spin(word, chip.BRISC, chip.Single(1, 1)))
	one, more := mix(1), count(0, 1)
	x := c.mixer(&one)
	c.load(do(more))
	tr := t.Trace("spins", func(r *reprise.Recorder) {
		// The prefetcher stays in a loop with a condition while the loop's programs run.
		once := reprise.Cond{Buffer: c.counters, Is: cq.Less, Value: 1}
		r.Loop(3, func() error {
			return errors.Join(r.Run(x), r.While(once, 2, func() error { return errors.Join(r.Run(c.adder(&more)), r.Run(spin)) }))
		})
	})
	t.Replay(tr)
	hang := t.Hung(t.Queue.Wait(t.Ctx))
	t.Says(errors.New(hang.Detail()), "loop 0 of the trace", "loop 1 of the trace", "iteration 0 of at most 2",
		`waiting for program "spin"`)
	t.Recover()
	t.EndSpin(word)
	t.Clear(c.f.Buffer)
	t.Clear(c.counters)
	t.Replay(tr)
	c.run(do(loop(3, one, while(below(0, 1), more))))
	c.check("after the recovery")
}
