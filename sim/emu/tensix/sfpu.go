package tensix

import (
	"iter"
	"math/bits"

	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/lanes"
)

// The vector unit (tt-isa-documentation WormholeB0/TensixTile/TensixCoprocessor/VectorUnit.md): 32 lanes, as four rows of
// eight, each with 16 registers of 32 bits.

const (
	numLanes  = lanes.Count
	allLanes  = 1<<numLanes - 1
	allBits   = 1<<32 - 1
	rowLanes  = 8 // lanes of a row
	writable  = 8 // LReg 0 to 7 can be written by every instruction
	templates = 4 // LReg 12 to 15, as destinations, mean instruction templates
)

// Registers that hold constants.
const (
	lregZero = 9
	lregOne  = 10
)

// Bits of the lane configuration, which SFPCONFIG sets.
const (
	laneDestIndex   = 1 << 2 // SFPSWAP moves LReg 4 to 7 with LReg 0 to 3
	laneReverseSwap = 1 << 8 // SFPSWAP orders the other way round
)

// lreg is a register of all lanes.
type lreg = lanes.Register

// sfpu is the vector unit's state.
type sfpu struct {
	l  [16]lreg
	cc condition
	// stack holds conditions that SFPPUSHC saved; depth of them are in use.
	stack [8]condition
	depth int
	// random is a shift register for each lane.
	random     lreg
	laneConfig uint32
	// Instruction templates, sequences and options of SFPLOADMACRO.
	templates [templates]uint32
	sequences [4]uint32
	macro     uint32
	macros    *macros // nil until there has been one
	busy      bool    // instructions are scheduled

	scratch lreg // for what instructions don't keep
}

// condition says which lanes execute: those of lanes if on, else all.
type condition struct {
	on    bool
	lanes uint32
}

// reset makes it as ttsim has it after reset.
func (s *sfpu) reset() {
	*s = sfpu{cc: condition{on: true, lanes: allLanes}}
	for r, v := range [16]uint32{8: 0x3F56594B, 10: 0x3F800000, 11: 0xBF800000, 12: 0x3B000000, 13: 0xBF2CC4C7, 14: 0xBEB08FF9} {
		s.l[r] = broadcast(v)
	}
	for lane := range s.l[15] {
		s.l[15][lane] = uint32(lane) << 1
	}
}

// constant returns a register, valid until the next call, with v in all lanes.
func (s *sfpu) constant(v uint32) *lreg {
	lanes.Fill(&s.scratch, v)
	return &s.scratch
}

// broadcast returns a register with v in all lanes.
func broadcast(v uint32) (r lreg) {
	for lane := range r {
		r[lane] = v
	}
	return r
}

// seed fills the random numbers of the lanes.
func (s *sfpu) seed(v uint32) {
	for range numLanes {
		v = nextRandom(v)
	}
	for lane := numLanes - 1; lane >= 0; lane-- {
		v = nextRandom(nextRandom(v))
		s.random[lane] = v
	}
}

// nextRandom steps a linear feedback shift register with taps at bits 31, 21, 1 and 0.
func nextRandom(v uint32) uint32 {
	feedback := ^uint32(bits.OnesCount32(v & 0x80200003))
	return feedback<<31 | v>>1
}

// enabled returns the lanes that execute.
func (s *sfpu) enabled() uint32 {
	if s.cc.on {
		return s.cc.lanes
	}
	return allLanes
}

// each iterates over the lanes of a mask.
func each(mask uint32) iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; mask != 0; mask &= mask - 1 {
			if !yield(bits.TrailingZeros32(mask)) {
				return
			}
		}
	}
}

// set makes the condition of the lanes of mask what the bits of lanes say.
func (c *condition) set(mask, lanes uint32) { c.lanes = c.lanes&^mask | lanes&mask }

// destination refuses registers that an instruction can't write.
func (e *Engine) destination(dst uint32) bool {
	if dst >= writable {
		return e.refuse(UnsupportedFunctionality, "writes LReg %d, only 0 to 7 are writable", dst)
	}
	return true
}

// zero refuses a field that must be 0.
func (e *Engine) zero(field string, v uint32) bool {
	if v != 0 {
		return e.refuse(UnsupportedFunctionality, "%s is %d, only 0 is accepted", field, v)
	}
	return true
}

// accept refuses, with a category, modes that aren't in a set.
func (e *Engine) accept(cat Category, mode uint32, set modeSet) bool {
	if set>>mode&1 == 0 {
		return e.refuse(cat, "mode %d", mode)
	}
	return true
}

// modeSet is a set of an instruction's modes, a bit each.
type modeSet uint32

// modes returns the set of some modes.
func modes(list ...uint32) (s modeSet) {
	for _, m := range list {
		s |= 1 << m
	}
	return s
}

// upTo returns the set of the modes from 0 to last.
func upTo(last uint32) modeSet { return 2<<last - 1 }

// sfpuTemplate takes instructions whose destination says that they are recorded as templates instead of executed, and
// refuses what no instruction of the vector unit may do in its present configuration.
func (e *Engine) sfpuTemplate(w uint32) (taken bool) {
	s := &e.sfpu
	op, dst := w>>24, w>>4&0xF
	switch {
	case op <= opSFPLUT:
		dst = w >> 20 & 0xF
		if dst >= 16-templates {
			return e.refuse(UnsupportedFunctionality, "LReg %d: templates are recorded by instructions that compute", dst)
		}
	case e.recordable(op) && dst >= 16-templates:
		if m := s.enabled(); m != allLanes {
			return e.refuse(UnsupportedFunctionality, "a template is recorded with lanes %#08x enabled, not all", m)
		}
		s.templates[dst-(16-templates)] = w
		return true
	}
	if s.laneConfig&laneDestIndex != 0 && corruptible(op) && dst >= 4 && dst < writable {
		return e.refuse(UnsupportedFunctionality, "LReg %d gets an undefined value while LReg 4 to 7 are an index (erratum TEN-2932)", dst)
	}
	return false
}

// recordable reports whether an instruction that names LReg 12 to 15 as destination is recorded.
func (e *Engine) recordable(op uint32) bool {
	switch {
	case op == opSFPCONFIG || op == opSFPLOADMACRO:
		return false
	case e.wormhole:
		return op <= opSFPLUTFP32
	}
	return op <= opSFPARECIP
}

// corruptible reports whether erratum TEN-2932 corrupts the results of an instruction.
func corruptible(op uint32) bool {
	switch op {
	case opSFPLOAD, opSFPLOADI, opSFPSTORE, opSFPCONFIG, opSFPSWAP, opSFPLOADMACRO:
		return false
	}
	return true
}

func (e *Engine) sfpnop(t *thread) bool { return true }
