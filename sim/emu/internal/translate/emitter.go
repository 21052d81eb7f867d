package translate

import (
	"slices"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// Registers of either host with which code returns; scratch before that.
const (
	next = 0 // index of the next instruction; also a result or address
	why  = 1

	none = 0xFF
)

// backend makes the instructions of one kind of host.
type backend interface {
	// enter emits the jump to the entered instruction, ret the return.
	enter()
	ret()
	// fetch loads an emulated register into one of the host, keep stores it.
	fetch(reg, r uint8)
	keep(reg, r uint8)
	move(to, from uint8)
	constant(reg uint8, v uint32)
	jump(label int)
	jumpIf(condition uint8, label int)

	// moveEnd adds to the end of the budget; ifEndAfter jumps if the end is after an index.
	moveEnd(by int32)
	ifEndAfter(i int32, label int)
	// isGuess compares an emulated register with a constant and returns the condition of equality.
	// The lowest bit of a condition inverts it.
	isGuess(r uint8, v uint32) uint8

	compute(o rv32.Inst)
	jumpRegister(i int, o rv32.Inst)
	branch(i int, o rv32.Inst)
	load(i int, o rv32.Inst)
	store(i int, o rv32.Inst)

	// align pads to where a table may be; link puts the distance to a label into the code at at.
	align()
	link(at, to int)
}

// emitter makes what doesn't depend on the host.
type emitter struct {
	buffer
	*program
	backend
	home   [rv32.Sink + 1]uint8 // host registers by emulated register
	bodies []int                // labels by instruction
	slow   []int                // labels of exits, by instruction; 0 for none
	cold   []func()             // emit what is seldom executed

	guesses []value // of addresses, by instruction

	table, jumped, leaveSlow, waited, left int
}

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

// emit makes the code, with the offset of each instruction's; at its end is a table of them,
// relative to the table.
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

// goesBack returns the label of a jump that leaves the code if the budget isn't used up: back in a
// loop that may wait, or in one that begins before the range.
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

// exit returns the label at which instruction i is left to Slow.
func (e *emitter) exit(i int) int {
	l := &e.slow[i-e.first]
	if *l == 0 {
		*l = e.label()
	}
	return *l
}

// target returns the register in which to make the value of r; finish moves it to r.
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

// take jumps by off instructions: it moves the end, and leaves if the budget is used up, the target
// isn't here, or code leaves after the jump.
func (e *emitter) take(i int, off int32) {
	to := i + int(off)
	e.moveEnd(off - 1)
	back, leaves := e.goesBack(i, off)
	if !leaves && e.has(to) {
		e.ifEndAfter(int32(to), e.bodies[to-e.first])
	}
	e.constant(next, uint32(int32(to)))
	if leaves {
		e.ifEndAfter(int32(to), back)
	}
	e.jump(e.jumped)
}

// takeIf jumps by off instructions if a condition holds. Forward jumps, taken less often, leave the
// straight line.
func (e *emitter) takeIf(i int, off int32, holds uint8) {
	l := e.label()
	if off > 0 {
		e.jumpIf(holds, l)
		e.cold = append(e.cold, func() {
			e.place(l)
			e.take(i, off)
		})
		return
	}
	e.jumpIf(holds^1, l)
	e.take(i, off)
	e.place(l)
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

// anyOf emits a load or store by several ways, the most likely one first. Each emits a check of the
// address, which goes to a label if it fails, and the access. If all fail the instruction is left
// to Slow.
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

// guessed emits a load or store: certainly if its address is the guess, otherwise anywhere.
func (e *emitter) guessed(i int, o rv32.Inst, s slotsOf, certainly func(a area, at uint32), anywhere func()) {
	a, at, ok := e.certain(i, o, s)
	if !ok {
		anywhere()
		return
	}
	if o.Rs1 == 0 {
		if a == areaOthers {
			e.jump(e.exit(i))
		} else {
			certainly(a, at)
		}
		return
	}
	equal := e.isGuess(o.Rs1, e.guesses[i-e.first].v-uint32(o.Imm))
	if a == areaOthers {
		e.jumpIf(equal, e.exit(i))
		anywhere()
		return
	}
	done, other := e.label(), e.label()
	e.jumpIf(equal^1, other)
	e.cold = append(e.cold, func() {
		e.place(other)
		anywhere()
		e.jump(done)
	})
	certainly(a, at)
	e.place(done)
}

// look emits a load or store in L1, local RAM or, if it is of a word, a register.
func (e *emitter) look(i int, o rv32.Inst, l1, local, register func(otherwise int)) {
	area := e.guesses[i-e.first].area
	switch word := o.Code.Bytes() == 4; {
	case localFirst(o.Rs1), area == areaLocal:
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

func (s slotsOf) at() int32 {
	if s == loads {
		return atLoads
	}
	return atStores
}

func (s slotsOf) of(r *Registers) *Slots {
	if s == loads {
		return &r.Loads
	}
	return &r.Stores
}
