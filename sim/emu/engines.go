package emu

import (
	"runtime"

	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/tensix"
)

// engines is the Tensix engines of a tile and what cores have given them since they last ran.
//
// Cores only append to ops; engines run at the end of a round, those of different tiles in
// parallel. Whoever asks for their state while ops isn't empty comes again in the next round. So a
// run doesn't depend on the number of goroutines.
type engines struct {
	*tensix.Engine
	tile *tile

	ops []engineOp // the first done of them are taken
	// Ops of a thread whose queue is full: an instruction, and what its core gave after it in the
	// same round.
	waiting [3]opQueue
	held    int // in waiting
	done    int
	listed  bool      // in the chip's waitingEngines
	ran     bool      // executed something, since cores were told
	core    *core     // of the op taken last
	pc      [5]uint32 // by hardware number: where the core gave the op taken last

	direct  bool     // they run on the chip's goroutine and may reach registers
	from    origin   // for refusals and register stores
	touched []uint32 // lines of L1 written and watched by others
}

type engineOp struct {
	kind    engineOpKind
	thread  uint8
	hw      uint8 // of the core
	expand  bool  // by the MOP expander
	stalls  bool  // waits for room in the queue, as .ttinsn does and the aperture doesn't
	arrived bool  // the core's earlier stores have arrived
	at, v   uint32
	pc      uint32
	assume  tensix.Assumptions // by its code's waivers
}

type opQueue struct {
	ops   []engineOp
	first int
}

func (q *opQueue) empty() bool { return q.first == len(q.ops) }

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

// maxEngineOps bounds how far cores get ahead of a tile's engines in one round.
const maxEngineOps = 256

// arrival is how many instructions after a T core's store to configuration or GPRs the store is
// taken to have arrived. No document bounds that.
const arrival = 64

func (t *tile) enginesOf() *engines {
	x := &t.tensix
	if x.engines == nil {
		x.engines = &engines{tile: t}
		x.Engine = tensix.New(t.chip.arch, engineTile{x.engines})
		if t.chip.cfg.RefuseRaces {
			x.RefuseHazards()
			if t.chip.cfg.Findings != nil {
				x.OnHazard = func(f *tensix.Refusal) { t.chip.flagRefusal(t.refusalOf(origin{tile: t}, f)) }
			}
		}
	}
	return x.engines
}

// give appends an op by a core of the tile. With RefuseRaces, and for stores with nothing in front,
// engines run at once, so that a refusal names the access.
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

func (s *sched) await(e *engines) {
	if !e.listed {
		e.listed = true
		s.waitingEngines = append(s.waitingEngines, e)
	}
}

// noteStored notes a T core's store to what engines read. BRISC stores before others start.
func (t *tile) noteStored(o origin) {
	if hw := o.core.hw; hw != 0 {
		t.tensix.stored[hw-1] = t.chip.now(o)
	}
}

// quiet reports whether engines have taken all that the tile's cores gave them.
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

func (t *tile) observe(o origin) (*engines, slowResult) {
	return t.enginesOf(), t.quiet(o)
}

// settledEngine returns the engines after they ran, for debug registers, which any agent may load.
func (t *tile) settledEngine() *engines {
	e := t.enginesOf()
	if len(e.ops) != 0 {
		e.runHere(origin{tile: t})
		t.engineRan(origin{tile: t})
	}
	return e
}

// run lets the engines do all they can, or until they suspend. It touches only the tile's own
// state.
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

func (e *engines) mustWait(op *engineOp) bool { return op.stalls && !e.CanPush(int(op.thread)) }

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

func (e *engines) runHere(o origin) {
	e.direct, e.from = true, o
	e.run()
	e.direct = false
}

// engineRan tells cores what their engines have changed, and stops the chip for what they refuse.
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

// refuseEngine stops the chip for what engines refuse, an instruction in its T core's name.
func (t *tile) refuseEngine(o origin) slowResult {
	if f := t.tensix.engines.Fault(); f != nil {
		t.chip.stop(t.refusalOf(o, f))
	}
	return slowHalt
}

func (t *tile) refusalOf(o origin, f *tensix.Refusal) (origin, *Refusal) {
	e, r := t.tensix.engines, &Refusal{Category: f.Category, Where: "tensix", Addr: uint64(f.Instruction), Detail: f.Reason()}
	if f.Hazard {
		r.Check = "races"
	}
	if o.core == nil {
		o.core = e.core
	}
	if f.Instruction != 0 && o.core != nil && o.core.hw != 0 {
		o.core = t.cores[1+f.Thread]
	}
	if o.core != nil {
		r.PC = e.pc[o.core.hw]
	}
	return o, r
}

type engineTile struct{ e *engines }

func (t engineTile) L1(end uint32) []uint32 { return t.e.tile.memory(end) }

func (t engineTile) L1Size() uint32 { return t.e.tile.size }

func (t engineTile) Loaded(addr uint32, n int) {
	t.e.tile.use(addr, n, false)
	t.e.checkL1(addr, n, false)
}

func (t engineTile) Stored(addr uint32, n int) {
	e, tile := t.e, t.e.tile
	tile.nowKnown(addr, n)
	tile.use(addr, n, true)
	e.checkL1(addr, n, true)
	for line := addr >> lineShift; line <= (addr+uint32(n)-1)>>lineShift; line++ {
		if tile.flags[line]&flagNotify != 0 {
			if k := len(e.touched); k == 0 || e.touched[k-1] != line {
				e.touched = append(e.touched, line)
			}
		}
	}
}

func (t engineTile) StoreRegister(addr, v uint32) bool {
	return t.mayReach() && t.e.tile.store(t.e.origin(), addr, v) == slowDone
}

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

// checkL1 checks an access to L1 as one of the thread's T core.
func (e *engines) checkL1(addr uint32, n int, store bool) {
	if t := e.tile; t.check != nil {
		if o := e.origin().checked(); t.check.Access(o, addr, uint32(n), !store, store) {
			t.chip.check.Engine(o, t.check, addr, n, store)
		}
	}
}

func (t engineTile) Ordered(thread int, object uint32, learns, tells bool) {
	o, at := t.thread(thread), pcBufBase+pcBufSemaphores+4*object
	if learns {
		t.e.tile.check.Acquire(o, at)
	}
	if tells {
		t.e.tile.check.Release(o, at)
	}
}

func (t engineTile) UsedDst(thread int, row, n uint32, writes bool) {
	if tile := t.e.tile; tile.check != nil {
		tile.check.Dst(t.thread(thread), row, n, writes)
	}
}

func (t engineTile) thread(n int) check.Origin {
	return origin{tile: t.e.tile, core: t.e.tile.cores[1+n]}.checked()
}

func (e *engines) origin() origin {
	o := e.from
	if e.tile.check != nil {
		o.core = e.tile.cores[1+e.Issuer()]
	}
	if o.core == nil {
		o.core = e.core
	}
	return o
}

// minShared is the least weight of ops for which waking another goroutine pays: some 20 µs.
const minShared = 200

// runEngines runs the engines to which cores have given something.
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

// suspendedEngines lets suspended engines of a list do, in order, the instruction that reaches
// registers, and returns them.
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

func (s *sched) workers() int {
	if n := s.chip.cfg.Workers; n != 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

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

// weight is the cost of an op in tenths of a microsecond.
func (op *engineOp) weight() int {
	switch {
	case op.kind != opPush:
		return 0
	case tensix.Expands(op.v):
		return 32
	}
	return 1
}
