package tensix

import "github.com/reprise-tt/reprise/sim/emu/tensix/internal/lanes"

// Plans are decoded and checked vector instructions, keyed by word. An instruction has a plan only
// if it is legal in any state of the vector unit, or its plan checks the state. A lane
// configuration, which forbids more instructions, disables all plans.

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
	if !e.decoded(t, w) {
		return false
	}
	if p, do := e.planOf(w), planners[w>>24]; do != nil && p.word != w {
		if next := (plan{word: w}); do(e, &next, w) && next.dst < writable {
			*p = next
		}
	}
	return true
}

var planners = [256]func(e *Engine, p *plan, w uint32) bool{
	opSFPLOAD: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPLOAD(w)
		p.dst, p.x, p.y, p.mode, p.do = uint8(a.lreg), a.dst, a.mod, uint8(a.mode), planLoad
		return blockModes>>a.mod&1 != 0
	},
	opSFPSTORE: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPLOAD(w)
		p.c, p.x, p.y, p.mode, p.do = uint8(a.lreg), a.dst, a.mod, uint8(a.mode), planStore
		return blockModes>>a.mod&1 != 0
	},
	opSFPMAD: planSFPMAD,
	opSFPMUL: planSFPMAD,
	opSFPADD: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPMAD(w)
		if a.a != lregOne {
			a.a, a.b = a.b, a.a
		}
		return p.multiplyAdd(a.dst, a.a, a.b, a.c, a.mod)
	},
	opSFPLOADI: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPLOADI(w)
		keep, v, ok := a.bits()
		return ok && p.bits(a.lreg, a.lreg, 0, keep, v)
	},
	opSFPMOV: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPEXEXP(w)
		return a.mod < 2 && p.bits(a.dst, a.c, allBits, 0, a.mod<<31)
	},
	opSFPEXEXP: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPEXEXP(w)
		p.dst, p.c, p.x, p.do = uint8(a.dst), uint8(a.c), a.bias(), planExponents
		return a.mod < 2
	},
	opSFPEXMAN: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPEXEXP(w)
		return p.bits(a.dst, a.c, mantissaBits, 0, (1-a.mod)<<23)
	},
	opSFPSETEXP: func(e *Engine, p *plan, w uint32) bool {
		switch a := e.decodeSFPSETEXP(w); a.mod {
		case 1:
			return p.bits(a.dst, a.c, ^uint32(exponentBits), 0, a.imm<<23)
		case 2:
			return p.bits(a.dst, a.c, ^uint32(exponentBits), exponentBits, 0)
		}
		return false
	},
	opSFPSETMAN: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPDIVP2(w)
		return p.bits(a.dst, a.c, ^uint32(mantissaBits), mantissaBits*(1-a.mod), 0)
	},
	opSFPSETSGN: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPSETCC(w)
		if a.mod == 1 {
			return p.bits(a.dst, a.c, ^uint32(signBit), 0, a.imm<<31)
		}
		return p.bits(a.dst, a.c, ^uint32(signBit), signBit, 0)
	},
	opSFPMULI: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPMULI(w)
		p.constant(a.imm << 16)
		return p.multiplyAdd(a.dst, a.dst, 0, lregZero, 0)
	},
	opSFPADDI: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPMULI(w)
		p.constant(a.imm << 16)
		return p.multiplyAdd(a.dst, lregOne, 0, a.dst, 0)
	},
	opSFPSHFT: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPDIVP2(w)
		p.dst, p.c, p.do = uint8(a.dst), uint8(a.c), planShift
		if a.mod == 1 {
			p.constant(a.immediate())
		}
		return a.mod < 2
	},
	opSFPIADD: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPDIVP2(w)
		p.dst, p.c, p.x, p.do = uint8(a.dst), uint8(a.c), a.mod&2, planAdd
		if a.mod == 5 {
			p.constant(a.immediate())
			return true
		}
		return a.mod == 4 || a.mod == 6
	},
	opSFPSETCC: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPSETCC(w)
		p.c, p.x, p.do = uint8(a.c), a.mod, planTest
		return true
	},
	opSFPSWAP: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFPEXEXP(w)
		greater, less := a.c, a.dst
		if a.mod == 9 {
			greater, less = less, greater
		}
		p.a, p.b, p.do = uint8(greater), uint8(less), planSort
		return a.mod == 1 || a.mod == 9
	},
	opSFP_STOCH_RND: func(e *Engine, p *plan, w uint32) bool {
		a := e.decodeSFP_STOCH_RND(w)
		p.dst, p.c, p.do = uint8(a.dst), uint8(a.c), planRound
		return a.mod == 1
	},
	opSFPNOP: func(e *Engine, p *plan, w uint32) bool {
		p.do = planNothing
		return true
	},
}

const blockModes = 1<<sfpuBF16 | 1<<sfpuFP32 | 1<<sfpuInt32

func planSFPMAD(e *Engine, p *plan, w uint32) bool {
	a := e.decodeSFPMAD(w)
	return p.multiplyAdd(a.dst, a.a, a.b, a.c, a.mod)
}

func (p *plan) multiplyAdd(dst, a, b, c, mode uint32) bool {
	p.dst, p.a, p.b, p.c, p.do = uint8(dst), uint8(a), uint8(b), uint8(c), planMultiplyAdd
	p.negateA, p.negateC = mode&1 != 0, mode&2 != 0
	return true
}

func (p *plan) bits(dst, c, keep, own, flip uint32) bool {
	p.dst, p.c, p.x, p.y, p.z, p.do = uint8(dst), uint8(c), keep, own, flip, planBits
	return true
}

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
	lanes.Exponents(&s.l[p.dst&7], &s.l[p.c&15], p.x, s.enabled())
	return true
}

func planShift(e *Engine, _ *thread, p *plan) bool {
	s := &e.sfpu
	l := &s.l[p.dst&7]
	lanes.Shift(l, l, p.second(s, p.c), false, s.enabled())
	return true
}

func planAdd(e *Engine, _ *thread, p *plan) bool {
	s := &e.sfpu
	lanes.Add(&s.l[p.dst&7], &s.l[p.c&15], p.second(s, p.dst), p.x != 0, s.enabled())
	return true
}

func planSort(e *Engine, _ *thread, p *plan) bool {
	e.sfpu.sort(uint32(p.a), uint32(p.b), e.sfpu.enabled())
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
	return e.sfpu.cc.on && e.sfpu.test(uint32(p.c), p.x)
}

func planLoad(e *Engine, t *thread, p *plan) bool {
	at, ok := t.lanesPlace(p.x)
	return ok && e.loadBlock(at, p.y, uint32(p.dst)) && e.advance(t, uint32(p.mode), false)
}

func planStore(e *Engine, t *thread, p *plan) bool {
	at, ok := t.lanesPlace(p.x)
	return ok && e.storeBlock(at, p.y, uint32(p.c)) && e.advance(t, uint32(p.mode), false)
}
