package tensix

import (
	"fmt"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

type product struct {
	op             uint32
	a, b           arith.Format
	int8, implied  bool
	wide           bool
	phase          uint32
	mod            uint32 // which parts of SrcB are repeated
	accumulate     bool
	keepsDenormals bool // of SrcB
}

func (p product) combination() combination {
	name := fmt.Sprintf("%s %v and %v", mnemonic(p.op<<24), named(p.a), named(p.b))
	name += options(option{p.int8, "int8"}, option{p.implied, "implied"}, option{p.wide, "32 bits"},
		option{p.phase != 0, fmt.Sprint("phase ", p.phase)},
		option{p.mod != 0, fmt.Sprint("broadcast ", p.mod)}, option{p.accumulate, "accumulated"},
		option{p.keepsDenormals, "with denormals"})
	return combination{name: name, run: p.run}
}

func (p product) run(d *director) bool {
	d.load(0, p.a, p.int8, false)
	d.load(1, p.b, p.int8, p.op == opGMPOOL)
	d.formats(p.a, p.b, !p.implied)
	d.want(isa.Int8Math, bit(p.int8))
	d.want(isa.Fp32Dst, bit(p.wide))
	d.want(isa.KeepDenormals, bit(p.keepsDenormals))
	d.firstRows()
	d.phase(p.phase)
	w := p.op<<24 | p.mod<<19 | bit(p.accumulate)<<21 | d.rowOfResult(8, p.wide || p.int8)
	if p.op == opGAPOOL || p.op == opGMPOOL {
		w |= 1 << 19
	}
	return d.take(w)
}

func mathCombinations(e *Engine) (list []combination) {
	for _, op := range []uint32{opMVMUL, opGAPOOL, opELWADD, opELWSUB, opELWMUL, opGMPOOL} {
		for i := range 512 {
			p := product{op: op, a: arith.Format(i & 15), b: arith.Format(i >> 4 & 15), int8: i>>8 != 0}
			c := p.combination()
			c.more = p.more(e)
			list = append(list, c)
		}
	}
	return list
}

func (p product) more(e *Engine) (list []combination) {
	phases, mods, sums, denormals := uint32(4), uint32(1), uint32(1), uint32(1)
	switch p.op {
	case opELWADD, opELWSUB:
		phases, mods, sums, denormals = 1, 4, 2, 2
	case opELWMUL:
		mods, denormals = 4, 2
	}
	bf16 := p.a == arith.BF16 && p.b == arith.BF16 && !p.int8
	if p.op != opGMPOOL && bf16 { // what is refused for one pair of formats is for all
		phases, sums, denormals = 4, 2, 2
	}
	for i := range 2 * 2 * 4 * 4 * 2 * 2 {
		q := p
		q.wide, q.implied = i&1 != 0, i&2 != 0
		q.phase, q.mod, q.accumulate = uint32(i>>2&3), uint32(i>>4&3), i>>6&1 != 0
		q.keepsDenormals = i>>7 != 0
		if q.phase >= phases || q.mod >= mods || bit(q.accumulate) >= sums || bit(q.keepsDenormals) >= denormals || q == p {
			continue
		}
		if q.keepsDenormals && (q.mod != 0 || q.implied) { // which make no difference to them
			continue
		}
		_, a := sourceData(p.a, p.int8)
		_, b := sourceData(p.b, p.int8)
		if q.implied && (e.wormhole || a != p.a || b != p.b) {
			continue
		}
		list = append(list, q.combination())
	}
	return list
}
