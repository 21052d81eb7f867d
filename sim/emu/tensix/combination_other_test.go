package tensix

import (
	"fmt"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

type field struct {
	low    int
	values []uint32
}

func below(low int, n uint32) field {
	f := field{low: low}
	for v := range n {
		f.values = append(f.values, v)
	}
	return f
}

func bitsOf(low, n int) field {
	f := field{low: low, values: []uint32{0}}
	for i := range n {
		f.values = append(f.values, 1<<i)
	}
	return f
}

func (f field) words(list []uint32) (out []uint32) {
	for _, w := range list {
		for _, v := range f.values {
			out = append(out, w|v<<f.low)
		}
	}
	return out
}

func enumerated(list []combination, how string, prepare func(d *director), show func(d *director), w uint32,
	fields ...field) []combination {
	all := []uint32{w}
	for _, f := range fields {
		all = f.words(all)
	}
	for _, w := range all {
		list = append(list, combination{
			name:  fmt.Sprintf("%s %#08x%s", mnemonic(w), w, how),
			alone: true,
			run: func(d *director) bool {
				prepare(d)
				if !d.take(w) {
					return false
				}
				show(d)
				return true
			},
		})
	}
	return list
}

func otherCombinations(e *Engine) []combination {
	nothing := func(*director) {}
	list := clearCombinations(e)
	add := func(w uint32, fields ...field) {
		list = enumerated(list, "", nothing, nothing, w, fields...)
	}
	counted := func(w uint32, fields ...field) {
		list = enumerated(list, "", func(d *director) {
			d.load(0, arith.BF16, false, false)
			d.load(1, arith.BF16, false, false)
		}, nothing, w, fields...)
	}
	counted(opSETRWC<<24|8<<6|16<<10&0x3C00|8<<14, below(0, 16), below(18, 16), below(22, 4))
	counted(opINCRWC<<24|8<<6|8<<10|8<<14, below(18, 8))
	for _, op := range []uint32{opSETADCXY, opSETADCZW, opADDRCRXY, opADDRCRZW} {
		add(op<<24|1<<6|2<<9|3<<12|1<<15, below(0, 16), below(21, 8))
	}
	add(opINCADCXY<<24|1<<6|2<<9|3<<12|1<<15, below(21, 8))
	add(opINCADCZW<<24|1<<6|2<<9|3<<12|1<<15, below(21, 8))
	add(opSETADC<<24|0x15, below(18, 64))
	add(opSETADCXX<<24|255<<10, below(21, 8))
	add(opSETDMAREG<<24|0x1234<<8|20, below(0, 2), below(7, 2), below(22, 4))
	add(opADDDMAREG<<24|22<<12|21<<6|20, below(23, 2))
	add(opMULDMAREG<<24|22<<12|21<<6|20, below(23, 2))
	add(opDMANOP << 24)
	add(opGATESRCRST<<24, below(0, 4))
	word := uint32(e.places[isa.ReluThreshold].Word)
	if e.wormhole {
		add(opREG2FLOP<<24|20, field{6, []uint32{0, 20, 40}}, below(16, 256))
	} else {
		add(opREG2FLOP<<24|20, below(16, 256))
		scratch := opCFGSHIFTMASK<<24 | 31<<15 | 3<<20 | 1<<23 | word
		add(scratch, below(8, 4))
		add(scratch&^(7<<20), field{20, []uint32{0, 1, 2, 4, 5, 6, 7}})
		add(scratch&^(1<<23) | 1<<10)
		add(scratch &^ (1 << 23))
	}
	list = enumerated(list, "", func(d *director) {
		for half := range uint32(8) {
			d.must(opSETDMAREG<<24 | (2*20 + half))
		}
	}, nothing, opWRCFG<<24|20<<16|word&^3, below(15, 2))
	add(opRDCFG<<24|20<<16, below(0, numConfigWords))
	for i := range uint32(4) {
		add((opRMWCIB0+i)<<24|0xFF<<16|word, field{8, []uint32{0, 0x55, 0xFF}})
	}
	return append(list, syncCombinations(e)...)
}

func syncCombinations(e *Engine) (list []combination) {
	nothing := func(*director) {}
	prepare := func(d *director) { // semaphores that can be got and posted, banks that are valid, and banks that are free
		for i := range numSemaphores {
			d.must(opSEMINIT<<24 | 15<<20 | 7<<16 | 1<<(2+i))
		}
		d.load(0, arith.BF16, false, false)
		d.load(1, arith.BF16, false, false)
	}
	add := func(w uint32, fields ...field) {
		list = enumerated(list, "", prepare, nothing, w, fields...)
	}
	waits := 15
	if !e.wormhole {
		waits = 12
	}
	add(opSTALLWAIT<<24, bitsOf(0, waits), bitsOf(15, 9))
	add(opSEMINIT<<24|9<<20|8<<16, bitsOf(2, 8))
	add(opSEMINIT<<24|7<<20|8<<16, bitsOf(2, 8))
	add(opSEMPOST<<24, bitsOf(2, 8))
	add(opSEMGET<<24, bitsOf(2, 8))
	add(opSEMWAIT<<24|1<<2, below(0, 4), bitsOf(15, 9))
	for i := range uint32(4) {
		list = enumerated(list, "", nothing, func(d *director) { d.must(opATRELM<<24 | i) }, opATGETM<<24|i)
		list = enumerated(list, "", func(d *director) {
			if i == 0 {
				d.must(opATGETM << 24)
			}
		}, nothing, opATRELM<<24|i)
	}
	return list
}

func clearCombinations(e *Engine) (list []combination) {
	nothing := func(*director) {}
	both := func(d *director) {
		d.load(0, arith.BF16, false, false)
		d.load(1, arith.BF16, false, false)
		d.firstRows()
	}
	clear, modes := field{19, nil}, uint32(8) // of ZEROACC
	if !e.wormhole {
		clear.low, modes = 18, 4
	}
	for i := range 16 {
		wide, int8, absolute, upper := i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0
		prepare := func(d *director) {
			for block := range uint32(dstRows / 2 / srcRows) {
				d.fillDst(block)
			}
			d.firstRows()
			d.want(isa.Fp32Dst, bit(wide))
			d.want(isa.Int8Math, bit(int8))
			d.want(isa.ZeroAbsolute, bit(absolute))
			if upper {
				d.wantThread(isa.ThreadDstOffset, 512)
			}
		}
		how := fmt.Sprintf(", 32 bits %v, int8 %v, absolute %v, upper half %v", wide, int8, absolute, upper)
		rows := field{0, []uint32{0, 1, 5}}
		if e.wormhole {
			list = enumerated(list, how, prepare, nothing, opZEROACC<<24, rows, below(19, modes))
		} else {
			list = enumerated(list, how, prepare, nothing, opZEROACC<<24, rows, below(19, modes), below(17, 4))
		}
	}
	shown := func(d *director) {
		d.showSource(0, srcRows)
		d.showSource(1, srcRows)
	}
	list = enumerated(list, "", both, shown, opZEROSRC<<24, below(0, 32))
	list = enumerated(list, "", both, shown, opTRNSPSRCB<<24)
	list = enumerated(list, "", both, nothing, opCLEARDVALID<<24, below(0, 4), below(22, 4))
	return append(list, nopCombinations(e)...)
}

func nopCombinations(e *Engine) (list []combination) {
	empty := func(d *director) {
		for unit := range uint32(2) {
			d.load(unit, arith.BF16, false, false)
			d.must(opCLEARDVALID<<24 | 1<<(22+unit))
		}
	}
	show := func(d *director) {
		for unit := range uint32(2) {
			s, _ := d.e.source(unit)
			if !s.matrixValid() {
				d.nopValid(unit)
			}
			d.showSource(unit, srcRows)
		}
	}
	list = enumerated(list, "", empty, show, opSETDVALID<<24, below(0, 4))
	if e.wormhole {
		return enumerated(list, "", empty, show, opUNPACR_NOP<<24, below(0, 32), below(23, 2))
	}
	unit := below(23, 2)
	list = enumerated(list, "", empty, show, opUNPACR_NOP<<24|1, unit, below(2, 4), below(5, 2), below(8, 2))
	list = enumerated(list, "", empty, show, opUNPACR_NOP<<24, unit, field{0, []uint32{0, 2, 3}})
	list = enumerated(list, "", empty, show, opUNPACR_NOP<<24|1|1<<4, unit)
	list = enumerated(list, "", empty, show, opUNPACR_NOP<<24|1, unit, field{6, []uint32{1, 2, 3}})
	list = enumerated(list, "", empty, show, opUNPACR_NOP<<24|1, unit, field{12, []uint32{1, 2, 4}})
	return enumerated(list, "", empty, show, opUNPACR_NOP<<24|1, unit, field{16, []uint32{1, 32}})
}

func (d *director) nopValid(unit uint32) {
	if d.e.wormhole {
		d.must(opUNPACR_NOP<<24 | nopValid | unit<<23)
		return
	}
	d.must(opUNPACR_NOP<<24 | 1 | 1<<8 | unit<<23)
}
