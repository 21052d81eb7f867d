package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/internal/lanes"

// Plans are decoded and checked vector instructions, keyed by word. Executors of such instructions
// make them. An instruction has a plan only if it is legal in any state of the vector unit, or its
// plan checks the state. A lane configuration, which forbids more instructions, disables all plans.

func (e *Engine) planOf(w uint32) *plan {
	if e.plans == nil {
		e.plans = new(plans)
	}
	return &e.plans[w*0x9E3779B1>>24]
}

func (e *Engine) planned(t *thread, w uint32) bool {
	p := e.planOf(w)
	return p.word == w && e.sfpu.laneConfig == 0 && !e.sfpu.busy && p.do(e, t, p)
}

func (e *Engine) vector(t *thread, w uint32) bool {
	if e.planned(t, w) {
		return true
	}
	if e.sfpu.busy {
		return e.macroVector(t, w)
	}
	return e.direct(t, w)
}

func (e *Engine) direct(t *thread, w uint32) bool {
	if taken := e.sfpuTemplate(w); taken || e.fault != nil {
		return e.fault == nil
	}
	e.made.do = nil
	if !e.decoded(t, w) {
		return false
	}
	if p := e.planOf(w); p.word != w && e.made.do != nil && e.sfpu.laneConfig == 0 && w>>24 != opSFPLOADMACRO {
		*p = e.made
		p.word = w
		if p.k != nil {
			k := *p.k
			p.k = &k
		}
	}
	return true
}

// carryOut executes a plan, which direct then keeps.
func (e *Engine) carryOut(p plan) bool {
	e.made = p
	return p.do(e, nil, &e.made)
}

const blockModes modeSet = 1<<sfpuBF16 | 1<<sfpuFP32 | 1<<sfpuInt32

func planNothing(*Engine, *thread, *plan) bool { return true }

func planMultiplyAdd(e *Engine, _ *thread, p *plan) bool {
	s := &e.sfpu
	e.chip.FMALanes(&s.l[p.dst&7], &s.l[p.a&15], p.second(s, p.b), &s.l[p.c&15], p.negateA, p.negateC, s.enabled())
	return true
}

func planBits(e *Engine, _ *thread, p *plan) bool {
	s := &e.sfpu
	lanes.Bits(&s.l[p.dst&7], &s.l[p.c&15], p.x, p.y, p.z, s.enabled())
	return true
}

func planExponents(e *Engine, _ *thread, p *plan) bool {
	s := &e.sfpu
	bias, enabled := uint32(127), s.enabled()
	if p.x&1 != 0 {
		bias = 0
	}
	negative := lanes.Exponents(&s.l[p.dst&7], &s.l[p.c&15], bias, enabled)
	switch p.x {
	case 2:
		s.cc.set(enabled, negative)
	case 10:
		s.cc.set(enabled, ^negative)
	}
	return true
}

func planShift(e *Engine, _ *thread, p *plan) bool {
	s := &e.sfpu
	lanes.Shift(&s.l[p.dst&7], &s.l[p.b&15], p.second(s, p.c), p.x != 0, s.enabled())
	return true
}

func planAdd(e *Engine, _ *thread, p *plan) bool {
	s := &e.sfpu
	enabled := s.enabled()
	negative := lanes.Add(&s.l[p.dst&7], &s.l[p.c&15], p.second(s, p.dst), p.x&2 != 0, enabled)
	switch {
	case p.x&8 != 0:
		s.cc.set(enabled, ^negative)
	case p.x&4 == 0:
		s.cc.set(enabled, negative)
	}
	return true
}

func planSort(e *Engine, _ *thread, p *plan) bool {
	s := &e.sfpu
	enabled := s.enabled()
	s.sort(uint32(p.a), uint32(p.b), enabled&p.x)
	s.sort(uint32(p.b), uint32(p.a), enabled&^p.x)
	return true
}

func planRound(e *Engine, _ *thread, p *plan) bool {
	s := &e.sfpu
	enabled := s.enabled()
	lanes.Random(&s.random, enabled)
	lanes.RoundBF16(&s.l[p.dst&7], &s.l[p.c&15], enabled)
	return true
}

func planTest(e *Engine, _ *thread, p *plan) bool {
	cc := &e.sfpu.cc
	if !cc.on {
		return false
	}
	negative, zero := lanes.Test(&e.sfpu.l[p.c&15])
	switch p.x {
	case 0:
		cc.lanes &= negative
	case 2:
		cc.lanes &^= zero
	case 4:
		cc.lanes &^= negative
	case 6:
		cc.lanes &= zero
	}
	return true
}

func planLoad(e *Engine, t *thread, p *plan) bool {
	at, ok := t.lanesPlace(p.x)
	return ok && e.loadBlock(at, p.y, uint32(p.dst)) && e.advance(t, uint32(p.mode), false)
}

func planStore(e *Engine, t *thread, p *plan) bool {
	at, ok := t.lanesPlace(p.x)
	return ok && e.storeBlock(at, p.y, uint32(p.c)) && e.advance(t, uint32(p.mode), false)
}
