package tensix

import (
	"iter"
	"math/bits"

	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/lanes"
)

// The vector unit has 32 lanes, four rows of eight, each with 16 registers (tt-isa-documentation
// WormholeB0/TensixTile/TensixCoprocessor/VectorUnit.md).

const (
	numLanes  = lanes.Count
	allLanes  = 1<<numLanes - 1
	allBits   = 1<<32 - 1
	rowLanes  = 8 // lanes of a row
	writable  = 8 // LReg 0 to 7 can be written by every instruction
	templates = 4 // LReg 12 to 15, as destinations, mean instruction templates
)

const (
	lregZero = 9
	lregOne  = 10
)

const (
	laneDestIndex   = 1 << 2 // SFPSWAP moves LReg 4 to 7 with LReg 0 to 3
	laneReverseSwap = 1 << 8 // SFPSWAP orders the other way round
)

type lreg = lanes.Register

type sfpu struct {
	l  [16]lreg
	cc condition
	// stack has depth conditions saved by SFPPUSHC.
	stack      [8]condition
	depth      int
	random     lreg
	laneConfig uint32
	templates  [templates]uint32
	sequences  [4]uint32
	macro      uint32
	macros     *macros // nil until there has been one
	busy       bool    // instructions are scheduled

	scratch lreg // for what instructions don't keep
}

// condition selects the lanes if on, else all.
type condition struct {
	on    bool
	lanes uint32
}

// ttsim's state after reset.
func (s *sfpu) reset() {
	*s = sfpu{cc: condition{on: true, lanes: allLanes}}
	for r, v := range [16]uint32{8: 0x3F56594B, 10: 0x3F800000, 11: 0xBF800000, 12: 0x3B000000, 13: 0xBF2CC4C7, 14: 0xBEB08FF9} {
		s.l[r] = broadcast(v)
	}
	for lane := range s.l[15] {
		s.l[15][lane] = uint32(lane) << 1
	}
}

// constant is valid until the next call.
func (s *sfpu) constant(v uint32) *lreg {
	lanes.Fill(&s.scratch, v)
	return &s.scratch
}

func broadcast(v uint32) (r lreg) {
	for lane := range r {
		r[lane] = v
	}
	return r
}

func (s *sfpu) seed(v uint32) {
	for range numLanes {
		v = nextRandom(v)
	}
	for lane := numLanes - 1; lane >= 0; lane-- {
		v = nextRandom(nextRandom(v))
		s.random[lane] = v
	}
}

// nextRandom is a linear feedback shift register with taps at bits 31, 21, 1 and 0.
func nextRandom(v uint32) uint32 {
	feedback := ^uint32(bits.OnesCount32(v & 0x80200003))
	return feedback<<31 | v>>1
}

func (s *sfpu) enabled() uint32 {
	if s.cc.on {
		return s.cc.lanes
	}
	return allLanes
}

func each(mask uint32) iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; mask != 0; mask &= mask - 1 {
			if !yield(bits.TrailingZeros32(mask)) {
				return
			}
		}
	}
}

func (c *condition) set(mask, lanes uint32) { c.lanes = c.lanes&^mask | lanes&mask }

func merge(l, values *lreg, mask uint32) {
	if mask == allLanes {
		*l = *values
		return
	}
	for lane := range each(mask) {
		l[lane] = values[lane]
	}
}

type subUnit uint8

const (
	simpleUnit subUnit = iota
	madUnit
	roundUnit
	storeUnit
	loadUnit

	macroUnits = 4 // the sub-units for which instructions are scheduled
)

// lregStaging is reached by scheduled instructions only.
const lregStaging = 16

// delays is the range of cycles of a delay.
const delays = 8

type scheduled struct {
	word           uint32 // 0 if there is none
	b, c, d        uint8  // LRegs VB, VC and VD
	mode           uint8  // of SFPSTORE
	at             place  // of SFPSTORE
	byInstructions bool   // the delay counts instructions of the vector unit, not cycles
}

// place is where the lanes' data are in Dst: each row of lanes in every second column.
type place struct{ row, column uint32 }

type write struct {
	lreg   uint8
	lanes  uint32
	values lreg
}

type macros struct {
	thread  *thread
	slots   [macroUnits][delays]scheduled // by what is left of the delay
	staging lreg                          // LReg 16

	before  [16]lreg // the registers at the start of a cycle
	writes  []write  // results of this cycle
	late    []write  // results that appear a cycle later
	lateSet uint16   // LRegs that the last instruction, not a scheduled one, writes late
	swaps   bool     // it is an SFPSWAP
}

func (m *macros) countsInstructions() bool {
	for u := range m.slots {
		for d := range m.slots[u] {
			if i := &m.slots[u][d]; i.word != 0 && i.byInstructions {
				return true
			}
		}
	}
	return false
}

// due returns the instructions of a cycle and advances the other delays. more reports whether any
// are left.
func (m *macros) due(instruction bool) (list [macroUnits]scheduled, more bool) {
	counts := instruction || !m.countsInstructions()
	for u := range m.slots {
		slots := &m.slots[u]
		list[u], slots[0] = slots[0], scheduled{}
		if counts {
			copy(slots[:], slots[1:])
			slots[delays-1] = scheduled{}
		}
		for d := range slots {
			more = more || slots[d].word != 0
		}
	}
	return list, more
}

func (m *macros) wrote(w write, late bool) {
	if late {
		m.late = append(m.late, w)
	} else {
		m.writes = append(m.writes, w)
	}
}

func (m *macros) apply(s *sfpu, list []write) {
	for i := range list {
		w := &list[i]
		to := &m.staging
		if w.lreg < lregStaging {
			to = &s.l[w.lreg]
		}
		merge(to, &w.values, w.lanes)
	}
}

// plan is a decoded instruction. Its function returns false, without changing anything, if the plan
// doesn't apply.
type plan struct {
	word             uint32 // 0 if there is none
	do               func(e *Engine, t *thread, p *plan) bool
	dst, c, b, a     uint8 // LRegs
	x, y, z          uint32
	mode             uint8 // of addresses
	negateA, negateC bool
	k                *lreg // a constant that takes the place of b, or nil
}

func (p *plan) second(s *sfpu, r uint8) *lreg {
	if p.k != nil {
		return p.k
	}
	return &s.l[r&15]
}

type plans [256]plan
