package tensix

import (
	"fmt"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

func unpackCombinations(e *Engine) (list []combination) {
	for i := range 2 * 2 * 256 {
		u := unpack{unit: uint32(i & 1), toDst: i&2 != 0, in: arith.Format(i >> 2 & 15), out: arith.Format(i >> 6 & 15)}
		if u.unit == 1 && u.toDst {
			continue
		}
		c := u.combination()
		c.more = u.more(e)
		list = append(list, c)
	}
	return list
}

func (u unpack) more(e *Engine) (list []combination) {
	for i := range 128 {
		v := u
		v.haloize, v.tilize, v.context, v.throttle = i&1 != 0, i&2 != 0, uint32(i>>2&1), uint32(i>>3&3)
		option := i>>5 != 0
		switch {
		case i>>5 > 1, e.wormhole && v.throttle == 3:
			continue
		case option && u.in.BFP():
			v.forced, v.exponent = true, 0x85
		case option && u.in == arith.INT8:
			v.unsigned = true
		case option && u.in == arith.LF8 && !e.wormhole:
			v.exp4 = true
		}
		if v != u && (option == (v.forced || v.unsigned || v.exp4)) {
			list = append(list, v.combination())
		}
	}
	return list
}

func (u unpack) combination() combination {
	name := fmt.Sprintf("UNPACR %d %v to %v, to Dst %v, transposed %v, tilized %v, context %d, throttle %d", u.unit, named(u.in),
		named(u.out), u.toDst,
		u.haloize, u.tilize, u.context, u.throttle)
	switch {
	case u.forced:
		name += ", forced exponent"
	case u.unsigned:
		name += ", unsigned"
	case u.exp4:
		name += ", exponents of 4 bits"
	}
	return combination{name: name, run: u.run}
}

func (u unpack) run(d *director) bool {
	const rows = 16
	u.rows, u.valid = rows, !u.toDst
	if u.toDst {
		u.dst = d.rowOfResult(rows, true)
	}
	if !d.take(d.unpack(u)) {
		return false
	}
	if !u.toDst {
		d.showSource(u.unit, rows)
	}
	return true
}

type packs struct {
	wide                 bool
	in, out              uint32
	relu                 uint32
	accumulate           bool
	units                uint32 // packers or read interfaces
	strided              bool
	raw, unsigned, round bool
	mask                 uint32 // of edges
	exp5                 bool   // of fp8
}

func packCombinations(e *Engine) (list []combination) {
	for i := range 512 {
		p := packs{wide: i>>8 != 0, in: uint32(i & 15), out: uint32(i >> 4 & 15), units: 1, mask: 0xFFFF}
		p.round = arith.Format(p.in) == arith.FP16 && p.wide && !e.wormhole
		c := p.combination()
		c.more = p.more(e)
		list = append(list, c)
	}
	return list
}

func (p packs) more(e *Engine) (list []combination) {
	units := []uint32{1, 3, 15}
	if !e.wormhole {
		units = []uint32{0, 1, 3, 5, 10}
	}
	add := func(q packs) {
		if q != p {
			list = append(list, q.combination())
		}
	}
	for i := range 8 {
		for _, n := range units {
			q := p
			q.relu, q.accumulate, q.units = uint32(i&3), i>>2 != 0, n
			add(q)
		}
	}
	for _, n := range units {
		q := p
		q.units, q.strided = n, true
		if !e.wormhole {
			add(q)
		}
	}
	for i := range 4 { // refused if the format is read otherwise
		q := p
		switch i {
		case 0:
			q.raw = true
		case 1:
			q.unsigned = true
		case 2:
			q.round = !q.round
		case 3:
			q.exp5 = true
		}
		if i == 3 && e.wormhole {
			continue
		}
		add(q)
		for relu := uint32(1); relu < 4; relu++ {
			q.relu = relu
			add(q)
		}
	}
	for _, mask := range []uint32{0, 1, 2} {
		q := p
		q.mask = mask
		add(q)
	}
	return list
}

func (p packs) combination() combination {
	name := fmt.Sprintf("PACR %v to %v, 32 bits %v, ReLU %d, accumulate %v, units %#x", named(arith.Format(p.in)), named(arith.Format(p.out)),
		p.wide,
		p.relu, p.accumulate, p.units)
	name += options(option{p.strided, "strided"}, option{p.raw, "raw"}, option{p.unsigned, "unsigned"}, option{p.round, "rounded"},
		option{p.exp5, "exponents of 5 bits"}, option{p.mask != 0xFFFF, fmt.Sprintf("edges %#x", p.mask)})
	return combination{name: name, run: p.run}
}

func (p packs) run(d *director) bool {
	g := &d.generator
	d.want(isa.PackRead32, bit(p.wide))
	d.want(isa.PackReadUnsigned, bit(p.unsigned))
	d.want(isa.PackReadRaw, bit(p.raw))
	d.want(isa.PackRound10, bit(p.round))
	d.want(isa.DstFormat, p.in)
	d.want(isa.PackFP8E4, bit(!p.exp5))
	d.want(isa.Relu, p.relu)
	d.want(isa.ReluThreshold, g.rng.Uint32()&0x7FFF)
	rows := pick(g, uint32(16), 16, 4)
	base := uint32(dataBase+dataSize/2)/16 + d.slot*d.slotSize()
	d.slot++
	packers := isa.Config(1)
	if d.e.wormhole {
		packers = numPackers
	}
	for i := range packers {
		d.want(isa.PackInFormat+i, p.in)
		d.want(isa.PackOutFormat+i, p.out)
		d.want(isa.PackRows+i, rows)
		d.want(isa.PackAccumulate+i, bit(p.accumulate))
		d.want(isa.PackExponents+i, g.below(5))
		d.want(isa.PackOut+i, base+uint32(i)*0x100-1+g.below(16))
		d.want(isa.PackDst+i, d.rowOfDst(srcRows)+uint32(i)*16)
	}
	size := max(bytesOf(elementBits(p.in)), 1)
	d.want(isa.PackXStride, 0)
	d.want(isa.PackYStride, 16*size)
	d.want(isa.PackZStride, 256*size)
	d.want(isa.PackWStride, 1024*size)
	d.want(isa.EdgeMask, p.mask)
	d.want(isa.EdgeMask+1, 0xFFFF)
	d.want(isa.EdgeRowSet, 0)
	d.want(isa.DstSwizzle, bit(p.strided))
	d.want(isa.DstRemap, bit(p.strided))
	n := uint32(16)
	w := opPACR<<24 | 1 | p.units<<8 | bit(p.strided)<<17
	if d.e.wormhole {
		n = pick(g, uint32(16), 64, 256)
	}
	d.must(opSETADCXX<<24 | 4<<21 | (n-1)<<10)
	d.must(opSETADCXY<<24 | 4<<21 | 0xB)
	d.must(opSETADCZW<<24 | 4<<21 | 0xF)
	return d.take(w)
}
