package translate

import (
	"slices"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// Registers of either host in which code returns, and which it may use before that.
const (
	next = 0 // index of the next instruction; also the result of an operation, the address of a load or store
	why  = 1

	none = 0xFF
)

// backend is what makes the instructions of one kind of host.
type backend interface {
	// enter emits what goes to the instruction at which code is entered, ret what returns.
	enter()
	ret()
	// fetch loads a register of the emulated processor into one of the host, keep stores it.
	fetch(reg, r uint8)
	keep(reg, r uint8)
	move(to, from uint8)
	constant(reg uint8, v uint32)
	jump(label int)

	compute(o rv32.Inst)
	take(i int, off int32)
	jumpRegister(i int, o rv32.Inst)
	branch(i int, o rv32.Inst)
	load(i int, o rv32.Inst)
	store(i int, o rv32.Inst)

	// align emits what is never executed, up to where a table may be; link puts the distance to a
	// label into the code at at.
	align()
	link(at, to int)
}

// emitter makes the code of a program: what doesn't depend on the host.
type emitter struct {
	buffer
	*program
	backend
	home   [rv32.Sink + 1]uint8 // registers of the host by those of the emulated processor
	bodies []int                // labels by instruction
	slow   []int                // labels of exits, by instruction; 0 for none
	cold   []func()             // emit what is seldom executed

	guesses []value // of addresses, by instruction

	table, jumped, leaveSlow, waited, left int
}

// newEmitter returns an emitter that has the most used registers in homes.
func newEmitter(p *program, homes []uint8) emitter {
	e := emitter{program: p, slow: make([]int, len(p.ops)), guesses: p.guess()}
	for r := range e.home {
		e.home[r] = none
	}
	for i, r := range p.uses(len(homes)) {
		e.home[r] = homes[i]
	}
	e.label() // 0 stands for no label
	for range p.ops {
		e.bodies = append(e.bodies, e.label())
	}
	e.table, e.jumped, e.leaveSlow, e.waited, e.left = e.label(), e.label(), e.label(), e.label(), e.label()
	return e
}

// emit makes the code. It returns that, and the offset of each instruction's in it; at its end is a
// table of them, relative to the table.
func (e *emitter) emit() ([]byte, []int32) {
	e.homes(e.fetch)
	e.enter()
	for k, o := range e.ops {
		e.place(e.bodies[k])
		e.instruction(e.first+k, o.Inst())
	}
	e.constant(next, uint32(e.end()))
	e.constant(why, uint32(Fell))
	e.jump(e.left)
	for len(e.cold) > 0 {
		c := e.cold
		e.cold = nil
		for _, emit := range c {
			emit()
		}
	}
	for k, l := range e.slow {
		if l != 0 {
			e.place(l)
			e.constant(next, uint32(e.first+k))
			e.jump(e.leaveSlow)
		}
	}
	for _, x := range []struct {
		label int
		exit  Exit
	}{{e.jumped, Jumped}, {e.leaveSlow, Slow}, {e.waited, Waits}} {
		e.place(x.label)
		e.constant(why, uint32(x.exit))
		e.jump(e.left)
	}
	e.place(e.left)
	written := e.written()
	e.homes(func(reg, r uint8) {
		if written[r] {
			e.keep(reg, r)
		}
	})
	e.ret()
	e.align()
	e.place(e.table)
	starts := make([]int32, len(e.bodies))
	for k, l := range e.bodies {
		starts[k] = int32(e.labels[l])
		e.word(uint32(e.labels[l] - e.labels[e.table]))
	}
	e.resolve()
	return e.b, starts
}

// resolve puts the places of labels into the code that names them.
func (e *emitter) resolve() {
	for _, j := range e.jumps {
		e.link(j.at, e.labels[j.label])
	}
}

// homes calls f for all registers that have a home.
func (e *emitter) homes(f func(reg, r uint8)) {
	for r, h := range e.home {
		if h != none {
			f(h, uint8(r))
		}
	}
}

// goesBack returns the label to which a jump by an offset goes that leaves the code if the budget
// isn't used up, and whether it is such a jump: back in a loop that may wait, or in one that begins
// before the range, for which others have to know that.
func (e *emitter) goesBack(i int, off int32) (label int, ok bool) {
	to := i + int(off)
	switch {
	case off > 0, off < 1-LongestWait:
		return 0, false
	case to < e.first:
		l := e.label()
		e.cold = append(e.cold, func() {
			e.place(l)
			e.constant(why, uint32(Back)|uint32(i)<<exitBits)
			e.jump(e.left)
		})
		return l, true
	}
	return e.waited, slices.Contains(e.waits, i)
}

// exit returns the label at which the instruction with index i is left to Slow.
func (e *emitter) exit(i int) int {
	l := &e.slow[i-e.first]
	if *l == 0 {
		*l = e.label()
	}
	return *l
}

// target returns the register in which an instruction makes the value of r; finish moves it to
// where r is.
func (e *emitter) target(r uint8) uint8 {
	if h := e.home[r]; h != none {
		return h
	}
	return next
}

func (e *emitter) finish(r, reg uint8) {
	switch h := e.home[r]; {
	case h == none && r != rv32.Sink:
		e.keep(reg, r)
	case h != none && h != reg:
		e.move(h, reg)
	}
}

// instruction emits the instruction with index i.
func (e *emitter) instruction(i int, o rv32.Inst) {
	switch kindOf(o.Code) {
	case leave:
		e.jump(e.exit(i))
	case compute:
		e.compute(o)
	case jump:
		if o.Code == rv32.JAL {
			e.returnTo(i, o.Rd, next)
			e.take(i, o.Imm)
		} else {
			e.jumpRegister(i, o)
		}
	case branch:
		e.branch(i, o)
	case load:
		e.load(i, o)
	case store:
		e.store(i, o)
	}
}

// takeIf jumps by off instructions if a condition holds. Forward jumps, which are taken less often,
// leave the straight line.
func (e *emitter) takeIf(i int, off int32, ifHolds, ifNot func(label int)) {
	if off > 0 {
		taken := e.label()
		ifHolds(taken)
		e.cold = append(e.cold, func() {
			e.place(taken)
			e.take(i, off)
		})
		return
	}
	next := e.label()
	ifNot(next)
	e.take(i, off)
	e.place(next)
}

// returnTo puts the address of the instruction after i into r, by way of a register if r has no
// home.
func (e *emitter) returnTo(i int, r, by uint8) {
	if r == rv32.Sink {
		return
	}
	if h := e.home[r]; h != none {
		by = h
	}
	e.constant(by, e.base+uint32(i)<<2+4)
	e.finish(r, by)
}

// anyOf emits a load or store by several ways. Each of them emits a check that the address is where
// it knows, which goes to a label if not, and the access. The first is the most likely one. If none
// applies the instruction is left to Slow.
func (e *emitter) anyOf(i int, ways ...func(otherwise int)) {
	done, other := e.label(), e.label()
	ways[0](other)
	e.cold = append(e.cold, func() {
		last := len(ways) - 1
		for k := 1; k <= last; k++ {
			e.place(other)
			other = e.exit(i)
			if k < last {
				other = e.label()
			}
			ways[k](other)
			e.jump(done)
		}
	})
	e.place(done)
}

// look emits a load or store of the address o.Rs1 + o.Imm, wherever that is: in L1, in local RAM,
// or, if it is of a word, in a register.
func (e *emitter) look(i int, o rv32.Inst, l1, local, register func(otherwise int)) {
	area := e.guesses[i-e.first].area
	switch word := size(o.Code) == 4; {
	case localFirst(o.Rs1):
		e.anyOf(i, local, l1)
	case area == areaLocal:
		e.anyOf(i, local, l1)
	case area == areaRegisters && word:
		e.anyOf(i, register, l1, local)
	case word:
		e.anyOf(i, l1, local, register)
	default:
		e.anyOf(i, l1, local)
	}
}

// slotsOf says which of a machine's slots an access is by.
type slotsOf uint8

const (
	loads slotsOf = iota
	stores
)

// at is where the machine has them.
func (s slotsOf) at() int32 {
	if s == loads {
		return atLoads
	}
	return atStores
}

// of returns those of registers.
func (s slotsOf) of(r *Registers) *Slots {
	if s == loads {
		return &r.Loads
	}
	return &r.Stores
}
