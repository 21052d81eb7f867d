package tensix

import (
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/lanes"
)

func (e *Engine) sfpmov(t *thread, a sfpexexpArgs) bool {
	if !e.withoutBits(a.mod, 4) || !e.accept(UnimplementedFunctionality, a.mod, modes(0, 1, 2, 8)) || !e.destination(a.dst) {
		return false
	}
	s := &e.sfpu
	switch a.mod {
	case 0, 1:
		return e.bits(a.dst, a.c, allBits, 0, a.mod<<31)
	case 2: // all lanes
		s.l[a.dst] = s.l[a.c]
	case 8:
		if a.c != lregZero {
			return e.unimplemented("mode 8 of LReg %d; LReg 9 is the random numbers", a.c)
		}
		lanes.Bits(&s.l[a.dst], &s.random, allBits, 0, 0, s.enabled())
		lanes.Random(&s.random, s.enabled())
	}
	return true
}

// sfptransp transposes LReg 0 to 3, and 4 to 7: rows are registers, columns rows of lanes.
func (e *Engine) sfptransp(t *thread, a sfpcompcArgs) bool {
	if !e.zero("the destination", a.dst) {
		return false
	}
	s := &e.sfpu
	enabled := s.enabled()
	old := s.l
	for lane := range each(enabled) {
		row, column := lane/rowLanes, lane%rowLanes
		for r := range 4 {
			s.l[r][lane] = old[row][r*rowLanes+column]
			s.l[4+r][lane] = old[4+row][r*rowLanes+column]
		}
	}
	return true
}

func (e *Engine) sfpswap(t *thread, a sfpexexpArgs) bool {
	if a.dst >= 12 {
		return e.unsupported("LReg %d", a.dst)
	}
	minimum, ok := e.swapOrder(a.mod)
	if !ok {
		return false
	}
	s := &e.sfpu
	index := s.laneConfig&laneDestIndex != 0
	if index && (a.c >= 4 || a.dst >= 4) {
		return e.unsupported("LReg %d and %d, while LReg 4 to 7 are the index of 0 to 3", a.c, a.dst)
	}
	reverse := s.laneConfig&laneReverseSwap != 0
	if a.mod != 0 && !index {
		if reverse {
			minimum = ^minimum
		}
		return e.carryOut(plan{do: planSort, a: uint8(a.c), b: uint8(a.dst), x: minimum})
	}
	for lane := range each(s.enabled()) {
		c, d := s.l[a.c][lane], s.l[a.dst][lane]
		if a.mod != 0 {
			less := arith.TotalOrder(c) < arith.TotalOrder(d)
			toMinimum := minimum>>lane&1 != 0
			if less != toMinimum != reverse {
				continue
			}
		}
		if a.c < writable {
			s.l[a.c][lane] = d
		}
		if a.dst < writable {
			s.l[a.dst][lane] = c
		}
		if index {
			s.l[4+a.c][lane], s.l[4+a.dst][lane] = s.l[4+a.dst][lane], s.l[4+a.c][lane]
		}
	}
	return true
}

// Constants don't change.
func (s *sfpu) sort(c, d, enabled uint32) {
	if enabled == 0 {
		return
	}
	lc, ld := &s.l[c], &s.l[d]
	greater, less := lc, ld
	if c >= writable {
		greater = &s.scratch
	}
	if d >= writable {
		less = &s.scratch
	}
	lanes.Sort(greater, less, lc, ld, enabled)
}

// swapOrder returns the lanes in which the destination gets the smaller number.
func (e *Engine) swapOrder(mode uint32) (lanes uint32, ok bool) {
	switch mode {
	case 0, 1:
		return allLanes, true
	case 2:
		return 0x0000FFFF, true
	case 3:
		return 0x00FF00FF, true
	case 9:
		return 0, true
	case 10, 11, 12, 13, 14, 15:
		return 0, e.nonContractual("mode %d", mode)
	}
	return 0, e.unimplemented("mode %d", mode)
}

const (
	configTemplates = 0  // to 3: instruction templates
	configSequences = 4  // to 7: sequences of them
	configMacro     = 8  // options of SFPLOADMACRO
	configConstants = 11 // to 14: LReg of that number
	configLanes     = 15 // lane configuration
)

func (e *Engine) sfpconfig(t *thread, a sfpmuliArgs) bool {
	if !e.accept(UnsupportedFunctionality, a.mod, upTo(1)) {
		return false
	}
	s := &e.sfpu
	v := a.imm
	if a.mod == 0 {
		v = s.l[0][0]
		if s.l[0] != broadcast(v) {
			return e.unsupported("the lanes of LReg 0 are not all the same")
		}
		if !e.zero("the immediate", a.imm) {
			return false
		}
	}
	if m := s.enabled(); m != allLanes {
		return e.unsupported("lanes %#08x are enabled, not all", m)
	}
	switch {
	case a.dst < configSequences:
		if !e.zero("the mode", a.mod) {
			return false
		}
		s.templates[a.dst] = v
	case a.dst < configMacro:
		s.sequences[a.dst-configSequences] = v
	case a.dst == configMacro:
		if a.mod != 1 || v > 0xFFF {
			return e.unsupported("options of macros in mode %d, value %#x", a.mod, v)
		}
		s.macro = v
	case a.dst < configConstants:
		return e.nonContractual("destination %d", a.dst)
	case a.dst < configLanes:
		return e.configConstant(a.dst, a.mod, a.imm, v)
	default:
		if v&^(laneDestIndex|laneReverseSwap) != 0 {
			return e.unsupported("a lane configuration of %#x", v)
		}
		s.laneConfig = v
	}
	return true
}

// Mode 1 sets the default, which only LReg 11 has.
func (e *Engine) configConstant(r, mode, immediate, v uint32) bool {
	if !e.zero("the immediate", immediate) {
		return false
	}
	if mode == 1 {
		if r != configConstants {
			return e.unsupported("LReg %d has no default", r)
		}
		v = 0xBF800000
	}
	e.sfpu.l[r] = broadcast(v)
	return true
}
