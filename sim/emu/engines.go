package emu

import (
	"runtime"

	"errors"

	"github.com/reprise-tt/reprise/sim/emu/tensix"
)

// engines is the Tensix engines of a tile and what cores have given them since they last ran.
//
// Cores only append to ops; the engines run at the end of the scheduler's round, those of different
// tiles on several goroutines. An access that asks for their state comes again in the next round if
// something is in ops. So the run depends on the order of the cores alone, not on how many
// goroutines there are.
type engines struct {
	*tensix.Engine
	tile *tile

	ops []engineOp // in the order in which cores gave them; done of them are taken
	// Ops of a thread whose queue has no room for an instruction: that instruction, and what its
	// core gave after it. They hold only ops of a core that gave several in one round; it can't
	// give more.
	waiting [3]opQueue
	held    int // in waiting
	done    int
	listed  bool      // in the chip's waitingEngines
	ran     bool      // an instruction was executed, since cores were last told
	core    *core     // the core that gave the op taken last
	pc      [5]uint32 // where each core, in the order of hardware, gave what was taken last

	direct  bool     // the goroutine that runs the chip runs the engines: they may reach registers
	from    origin   // for refusals and for what is stored to registers
	touched []uint32 // lines of L1 that the engines wrote and others watch
}

// engineOp is one thing that a core asks of the engines.
type engineOp struct {
	kind    engineOpKind
	thread  uint8
	hw      uint8 // of the core
	expand  bool  // by the MOP expander
	stalls  bool  // waits for room in the queue: .ttinsn does, a store to the aperture does not
	arrived bool  // what the core has stored before has arrived
	at, v   uint32
	pc      uint32
	assume  tensix.Assumptions // what the code that pushes it relies on
}

// opQueue is ops that wait.
type opQueue struct {
	ops   []engineOp
	first int
}

func (q *opQueue) empty() bool { return q.first == len(q.ops) }

// pop takes the first op.
func (q *opQueue) pop() engineOp {
	op := q.ops[q.first]
	if q.first++; q.empty() {
		q.ops, q.first = q.ops[:0], 0
	}
	return op
}

type engineOpKind uint8

const (
	opPush        engineOpKind = iota // v is an instruction
	opStoreMOP                        // v to word at of the MOP configuration
	opStoreGPR                        // v to register at
	opStoreConfig                     // v to word at
	opSemaphore                       // semaphore at: 0 posts, 1 gets
)

// maxEngineOps is how much cores may give the engines of a tile in one round. It bounds how far
// cores get ahead of them.
const maxEngineOps = 256

// arrival is how many instructions after a T core's store to configuration or GPRs it is taken to
// have arrived, whatever the core has done to be sure of it: no document bounds that.
const arrival = 64

// enginesOf returns the engines of the tile.
func (t *tile) enginesOf() *engines {
	x := &t.tensix
	if x.engines == nil {
		x.engines = &engines{tile: t}
		x.Engine = tensix.New(t.chip.arch, engineTile{x.engines})
		if t.chip.cfg.RefuseRaces {
			x.RefuseHazards()
		}
	}
	return x.engines
}

// give appends an op by a core of the tile. With RefuseRaces, and when nothing is in front of a
// store, it is done at once: a refusal then names the access.
func (t *tile) give(o origin, op engineOp) slowResult {
	e, c := t.enginesOf(), t.chip
	switch {
	case !e.waiting[op.thread].empty() && (o.core.hw != 0 || op.kind == opPush):
		return slowBlocked
	case len(e.ops) >= maxEngineOps:
		return slowAgain
	}
	op.hw, op.pc = o.core.hw, o.core.pc
	if op.kind == opStoreConfig || op.kind == opStoreGPR {
		t.noteStored(o)
	}
	if len(e.ops) == 0 && (c.cfg.RefuseRaces || op.kind != opPush && op.kind != opSemaphore) {
		e.ops = append(e.ops, op)
		e.runHere(o)
		return t.engineRan(o)
	}
	e.ops = append(e.ops, op)
	if t.outbox == nil {
		c.await(e)
	}
	return slowDone
}

// await makes sure that engines to which cores have given something run.
func (s *sched) await(e *engines) {
	if !e.listed {
		e.listed = true
		s.waitingEngines = append(s.waitingEngines, e)
	}
}

// noteStored notes that a core stores to what the engines read. BRISC does so before others start.
func (t *tile) noteStored(o origin) {
	if hw := o.core.hw; hw != 0 {
		t.tensix.stored[hw-1] = t.chip.now(o)
	}
}

// quiet reports whether all ops that cores of the tile gave the engines have been taken, for an
// access by one of them.
func (t *tile) quiet(o origin) slowResult {
	e := t.enginesOf()
	switch {
	case len(e.ops) != 0:
		return slowAgain
	case o.core.hw != 0 && !e.waiting[o.core.hw-1].empty():
		return slowBlocked
	}
	return slowDone
}

// observe returns the engines for a load by a core of the tile.
func (t *tile) observe(o origin) (*engines, slowResult) {
	return t.enginesOf(), t.quiet(o)
}

// settledEngine returns the engines after they have executed what cores gave them: for debug
// registers, which any agent may load.
func (t *tile) settledEngine() *engines {
	e := t.enginesOf()
	if len(e.ops) != 0 {
		e.runHere(origin{tile: t})
		t.engineRan(origin{tile: t})
	}
	return e
}

// run lets the engines do all they can: what stays queued waits for a semaphore, a mutex or a bank.
// It returns early if the engine is suspended. Of the chip it touches the tile's own state only.
func (e *engines) run() {
	for {
		if e.Run() {
			e.ran = true
		}
		if e.Suspended() || e.Fault() != nil {
			return
		}
		if e.held > 0 && e.takeWaiting() {
			continue
		}
		if e.done == len(e.ops) {
			e.ops, e.done = e.ops[:0], 0
			return
		}
		op := &e.ops[e.done]
		e.done++
		if w := &e.waiting[op.thread]; e.mustWait(op) || !w.empty() && (op.hw != 0 || op.kind == opPush) {
			w.ops = append(w.ops, *op)
			e.held++
		} else {
			e.take(op)
		}
	}
}

// mustWait reports whether the queue has no room for an op.
func (e *engines) mustWait(op *engineOp) bool { return op.stalls && !e.CanPush(int(op.thread)) }

// takeWaiting takes an op that has waited for room in a queue, if there is one that can be taken.
func (e *engines) takeWaiting() bool {
	for n := range e.waiting {
		w := &e.waiting[n]
		if w.empty() || e.mustWait(&w.ops[w.first]) {
			continue
		}
		e.ran = true // cores may go on
		e.held--
		op := w.pop()
		e.take(&op)
		return true
	}
	return false
}

// take performs an op of a core.
func (e *engines) take(op *engineOp) {
	e.core = e.tile.cores[op.hw]
	e.pc[op.hw] = op.pc
	n := int(op.thread)
	switch op.kind {
	case opPush:
		e.Assume(n, op.assume)
		if op.arrived {
			e.Arrived(n, tensix.Configuration)
			e.Arrived(n, tensix.GPRs)
		}
		if e.PushRun(n, op.v, op.expand) {
			e.ran = true
		}
	case opStoreMOP:
		e.StoreMOP(n, int(op.at), op.v)
	case opStoreGPR:
		e.SetGPR(n, int(op.at), op.v)
		e.StoredTo(n, tensix.GPRs, op.at)
	case opStoreConfig:
		if e.StoreConfig(op.at, op.v) && op.hw != 0 {
			e.StoredTo(n, tensix.Configuration, op.at)
		}
	case opSemaphore:
		e.ran = true
		if op.v == 0 {
			e.PostSemaphore(int(op.at))
		} else {
			e.GetSemaphore(int(op.at))
		}
	}
}

// runHere is run on the scheduler's goroutine, to the end.
func (e *engines) runHere(o origin) {
	e.direct, e.from = true, o
	e.run()
	e.direct = false
}

// engineRan tells the tile's cores what its engines have changed, and stops the chip for what they
// refuse.
func (t *tile) engineRan(o origin) slowResult {
	e := t.tensix.engines
	for _, line := range e.touched {
		t.touched(line)
	}
	e.touched = e.touched[:0]
	if e.ran {
		e.ran = false
		t.changed(classMailbox | classConfig)
	}
	if e.Fault() != nil {
		return t.refuseEngine(o)
	}
	if *t.fault() != nil {
		return slowHalt
	}
	return slowDone
}

// refuseEngine stops the chip for what the engines refuse, an instruction in the name of the T core
// of its thread.
func (t *tile) refuseEngine(o origin) slowResult {
	e := t.tensix.engines
	f := e.Fault()
	if f == nil {
		return slowHalt
	}
	if o.core == nil {
		o.core = e.core
	}
	if f.Instruction != 0 && o.core != nil && o.core.hw != 0 {
		o.core = t.cores[1+f.Thread]
	}
	c := t.chip
	c.refuse(o, f.Category, "tensix", uint64(f.Instruction), "%s", f.Reason())
	if r := (*Refusal)(nil); errors.As(*t.fault(), &r) && o.core != nil && e.pc[o.core.hw] != 0 {
		r.PC = e.pc[o.core.hw]
	}
	return slowHalt
}

// engineTile is the tile as its engines see it.
type engineTile struct{ e *engines }

// L1 implements [tensix.Tile].
func (t engineTile) L1(end uint32) []uint32 { return t.e.tile.memory(end) }

// L1Size implements [tensix.Tile].
func (t engineTile) L1Size() uint32 { return t.e.tile.size }

// Stored implements [tensix.Tile].
func (t engineTile) Stored(addr uint32, n int) {
	e, tile := t.e, t.e.tile
	tile.nowKnown(addr, n)
	for line := addr >> lineShift; line <= (addr+uint32(n)-1)>>lineShift; line++ {
		if tile.flags[line]&(flagCode|flagWatch) != 0 {
			if k := len(e.touched); k == 0 || e.touched[k-1] != line {
				e.touched = append(e.touched, line)
			}
		}
	}
}

// StoreRegister implements [tensix.Tile].
func (t engineTile) StoreRegister(addr, v uint32) bool {
	return t.mayReach() && t.e.tile.store(t.e.origin(), addr, v) == slowDone
}

// StoreConfig implements [tensix.Tile].
func (t engineTile) StoreConfig(word, v uint32) bool {
	return t.mayReach() && t.e.tile.configProcessors(t.e.origin(), word, v)
}

// mayReach suspends the engines unless they may reach what other tiles and the scheduler see.
func (t engineTile) mayReach() bool {
	if !t.e.direct {
		t.e.Suspend()
	}
	return t.e.direct
}

// origin is the origin of what the engines do to registers.
func (e *engines) origin() origin {
	o := e.from
	if o.core == nil {
		o.core = e.core
	}
	return o
}

// minShared is the least weight of what cores gave to engines for which waking another goroutine
// pays: some 20 µs.
const minShared = 200

// runEngines runs the engines to which cores have given something. All have ended when it returns,
// and cores are told in the order in which they first gave something.
func (s *sched) runEngines() {
	s.turns = 0
	list := s.waitingEngines
	if len(list) == 0 {
		return
	}
	for rest := list; len(rest) > 0 && s.chip.fault == nil; rest = s.suspendedEngines(rest) {
		n := 1
		if heavy(rest) {
			n = s.workers()
		}
		s.crew.Run(n, len(rest), func(i int) { rest[i].run() })
	}
	for _, e := range list {
		e.listed = false
		if s.chip.fault == nil {
			e.tile.engineRan(origin{tile: e.tile})
		}
	}
	clear(list)
	s.waitingEngines = list[:0]
}

// suspendedEngines lets each engine of a list that is suspended do the instruction that reaches
// registers, in their order. It returns those that were.
func (s *sched) suspendedEngines(list []*engines) []*engines {
	var out []*engines
	for _, e := range list {
		if !e.Suspended() {
			continue
		}
		e.Resume()
		e.direct, e.from = true, origin{tile: e.tile}
		e.ran = e.Step() > 0 || e.ran
		e.direct = false
		out = append(out, e)
	}
	return out
}

// workers is on how many goroutines jobs of different tiles are done.
func (s *sched) workers() int {
	if n := s.chip.cfg.Workers; n != 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

// heavy reports whether what was given to engines is worth waking another goroutine.
func heavy(list []*engines) bool {
	weight := 0
	for _, e := range list {
		for _, op := range e.ops[e.done:] {
			weight += op.weight()
		}
		if weight >= minShared {
			return true
		}
	}
	return false
}

// weight is the rough cost of an op in tenths of a microsecond.
func (op *engineOp) weight() int {
	switch {
	case op.kind != opPush:
		return 0
	case tensix.Expands(op.v):
		return 32
	}
	return 1
}
