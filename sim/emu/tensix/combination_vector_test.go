package tensix

import (
	"fmt"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

const (
	vectorModes  = 16
	vectorTries  = 200 // instructions with other operands, until one of a mode is taken
	allRegisters = 8
)

func vectorCombinations(e *Engine) (list []combination) {
	for op := uint32(opSFPLOAD); op <= lastSFPU; op++ {
		unused := e.encodings[op].unused
		if !e.encodings[op].executed {
			continue
		}
		at := 0
		switch op {
		case opSFPLOAD, opSFPLOADI, opSFPSTORE, opSFPLUT, opSFPLOADMACRO:
			at = 16
		}
		for mode := range uint32(vectorModes) {
			fixed := uint32(15) << at
			w := op<<24 | mode<<at
			if unused>>at&15 == 15 { // it has none
				if mode != 0 {
					continue
				}
				fixed = 0
			}
			switch op {
			case opSFPCONFIG:
				for dst := range uint32(16) {
					list = append(list, vector(w|dst<<4, fixed|15<<4, ""))
				}
			case opSFP_STOCH_RND:
				for round := range uint32(4) {
					if round < 2 || !e.wormhole {
						list = append(list, vector(w|round<<21, fixed|3<<21, ""))
					}
				}
			case opSFPENCC:
				for imm := range uint32(4) {
					list = append(list, vector(w|imm<<12, fixed|3<<12, ""))
				}
			case opSFPLOAD, opSFPSTORE:
				list = append(list, storedVectors(w, fixed, mode)...)
			default:
				list = append(list, vector(w, fixed, ""))
			}
		}
	}
	return list
}

func storedVectors(w, fixed, mode uint32) (list []combination) {
	for i := range 32 {
		wide, format := i&1 != 0, arith.Format(i>>1)
		if mode != sfpuConfigured && i != 0 {
			break
		}
		c := vector(w, fixed, fmt.Sprintf(", 32 bits %v, SrcB %v", wide, named(format)))
		run := c.run
		c.run = func(d *director) bool {
			d.want(isa.Fp32SFPU, bit(wide))
			d.want(isa.SrcBFormat, uint32(format))
			return run(d)
		}
		list = append(list, c)
	}
	return list
}

func vector(w, fixed uint32, how string) combination {
	return combination{
		alone: w>>24 == opSFPSTORE,
		name:  fmt.Sprintf("%s with bits %#x of %#x%s", mnemonic(w), w&0xFFFFFF, fixed, how),
		run:   func(d *director) bool { return d.vector(w, fixed) },
	}
}

func (d *director) vector(w, fixed uint32) bool {
	const storeMode, enable = sfpuInt32 << 16, opSFPENCC<<24 | 3<<12 | 10
	d.firstRows()
	d.must(enable)
	for i := range uint32(allRegisters) {
		d.must(opSFPLOAD<<24 | i<<20 | pick(&d.generator, uint32(storeMode), storeMode, sfpuBF16<<16) | d.rowOfDst(2))
	}
	op := w >> 24
	if op == opSFPCOMPC || op == opSFPPOPC || op == opSFPPUSHC {
		d.must(opSFPPUSHC << 24)
		d.must(opSFPSETCC<<24 | 2<<8)
	} else if d.chance(2) {
		d.must(opSFPSETCC<<24 | 2<<8) // lanes of which register 2 is negative
	}
	if op == opSFPCONFIG { // all lanes the same
		d.must(enable)
		d.must(opSFPLOADI<<24 | 8<<16 | d.rng.Uint32()&0xFFFF)
		d.must(opSFPLOADI<<24 | 10<<16 | d.rng.Uint32()&0xFFFF)
	}
	taken := false
	for i := range vectorTries {
		unused := d.e.encodings[op].unused
		v := d.vectorOperands(op) &^ fixed &^ unused
		if i == vectorTries-1 {
			v = 0
		}
		if taken = d.take(w | v); taken || d.bad != nil {
			break
		}
	}
	if !taken {
		d.must(enable)
	}
	for d.e.sfpu.depth > 0 && d.bad == nil {
		d.must(opSFPPOPC << 24)
	}
	if taken {
		d.must(enable)
		d.showRegisters(op)
	}
	return taken
}

// Registers 12 to 15 would record the instruction for a macro.
func (d *director) vectorOperands(op uint32) uint32 {
	v := d.sparse() & 0xFFFFFF
	if d.chance(3) { // 0 for c, as products want
		v = v&^(15<<8) | lregZero<<8
	}
	if d.chance(3) { // 1 for a, as sums want
		v = v&^(15<<16) | lregOne<<16
	}
	switch op {
	case opSFPLOAD, opSFPSTORE:
		return v&(7<<20) | d.rowOfDst(2)
	case opSFPLOADI, opSFPLUT:
		return v &^ (1 << 23)
	default:
		return v &^ (1 << 7)
	}
}

func (d *director) showRegisters(op uint32) {
	store := func() {
		to := d.rowOfResult(32, true)
		for i := range uint32(allRegisters) {
			d.must(opSFPSTORE<<24 | i<<20 | sfpuInt32<<16 | (to + i&3*4 + i>>2*16))
		}
	}
	store()
	if op != opSFPCONFIG {
		return
	}
	for i := range uint32(4) {
		d.must(opSFPMOV<<24 | (11+i)<<8 | i<<4)
	}
	store()
}
