package tensix

import (
	"fmt"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

type moves struct {
	op             uint32
	a, b           arith.Format
	mod            uint32
	wide, low      bool
	implied        bool
	forced         bool // a is the format that overrides that of SrcA
	keepsDenormals bool
}

func moveCombinations(e *Engine) (list []combination) {
	for _, op := range []uint32{opMOVA2D, opMOVB2D, opMOVD2A, opMOVD2B, opMOVB2A} {
		for i := range 16 * 2 * 8 * 2 {
			m := moves{op: op, a: arith.Format(i & 15), low: i>>4&1 != 0, mod: uint32(i >> 5 & 7), wide: i>>8 != 0}
			fromDst := op == opMOVD2A || op == opMOVD2B
			if op != opMOVB2D && m.mod > 3 || !fromDst && m.wide {
				continue
			}
			c := m.combination()
			c.more = m.more(e)
			list = append(list, c)
		}
	}
	return list
}

func (m moves) more(e *Engine) (list []combination) {
	for i := range 16 * 8 {
		n := m
		n.b, n.implied = arith.Format(i&15), i>>4&1 != 0
		n.forced, n.keepsDenormals = i>>5&1 != 0, i>>6 != 0
		_, a := sourceData(m.a, false)
		switch {
		case n == m, n.b != 0 && m.op != opMOVB2D, n.implied && (e.wormhole || n.forced || a != m.a):
			continue
		case n.implied && m.op == opMOVB2D && n.b != n.a: // both are those of SrcB
			continue
		}
		list = append(list, n.combination())
	}
	return list
}

func (m moves) combination() combination {
	name := fmt.Sprintf("%s %v, modifier %d", mnemonic(m.op<<24), named(m.a), m.mod)
	name += options(option{m.b != 0, "SrcB " + named(m.b)}, option{m.wide, "32 bits"}, option{m.low, "lower halves"},
		option{m.implied, "implied"},
		option{m.forced, "forced"}, option{m.keepsDenormals, "with denormals"})
	return combination{name: name, run: m.run}
}

func (m moves) run(d *director) bool {
	d.load(0, m.a, false, false)
	d.load(1, m.a, false, false)
	d.formats(m.a, m.b, !m.implied)
	if m.forced {
		d.want(isa.SrcAFormat, uint32(m.a)^1)
		d.want(isa.SrcAFormatForced, uint32(m.a))
		d.want(isa.SrcAForced, 1)
	}
	d.want(isa.Int8Math, 0)
	d.want(isa.Fp32Dst, bit(m.wide))
	d.want(isa.KeepDenormals, bit(m.keepsDenormals))
	d.firstRows()
	at := 12
	if m.op == opMOVB2D {
		at = d.modOfMOVB2D()
	}
	w := m.op<<24 | bit(m.low)<<23 | d.below(8)*8<<17 | m.mod<<at
	if m.op == opMOVB2A {
		w = m.op<<24 | bit(m.low)<<23 | d.below(16)*4<<17 | m.mod<<12 | d.below(16)*4
	} else if m.op == opMOVA2D || m.op == opMOVB2D {
		w |= d.rowOfResult(8, m.low || m.a == arith.TF32)
	} else {
		w |= d.rowOfDst(8)
	}
	if !d.take(w) {
		return false
	}
	switch m.op {
	case opMOVD2A, opMOVB2A:
		d.showSource(0, srcRows)
	case opMOVD2B:
		d.showSource(1, srcRows)
	}
	return true
}
