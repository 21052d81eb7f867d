package tensix

import (
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

func vectorEngine(arch chip.Arch) *Engine {
	e := New(arch, newTestTile(arch))
	e.allocate()
	u := &e.sfpu
	for r := range writable {
		for lane := range u.l[r] {
			u.l[r][lane] = uint32(124+(lane+r)%6)<<23 | uint32(lane*0x1234567+r*0x89ABC)&0x807FFFFF
		}
	}
	for row := range e.dst.rows {
		for i := range e.dst.rows[row] {
			e.dst.rows[row][i] = uint16(row*0x1200+i*0x3300)&0xFF00 | uint16(124+(row+i)%6)
		}
	}
	return e
}

func exponential(arch chip.Arch) (words []uint32) {
	op := func(op, mod, dst, c, rest uint32) {
		words = append(words, op<<24|mod|dst<<4|c<<8|rest)
		switch {
		case arch == chip.Blackhole:
		case op == opSFPMAD, op == opSFPSWAP:
			words = append(words, opSFPNOP<<24)
		}
	}
	words = append(words, opSFPLOAD<<24|sfpuBF16<<16)
	op(opSFPMAD, 0, 0, 13, 12<<12|0<<16)
	op(opSFPSWAP, 1, 0, 14, 0)
	op(opSFPSWAP, 9, 0, lregZero, 0)
	op(opSFPEXEXP, 0, 1, 0, 0)
	op(opSFPEXMAN, 0, 2, 0, 0)
	op(opSFPSHFT, 0, 2, 1, 0)
	op(opSFPSETEXP, 1, 1, 2, 127<<12)
	op(opSFPMAD, 0, 3, 7, 1<<16|6<<12)
	op(opSFPMAD, 0, 3, 5, 1<<16|3<<12)
	op(opSFPMAD, 0, 3, 4, 1<<16|3<<12)
	op(opSFPSETEXP, 2, 2, 3, 0)
	op(opSFP_STOCH_RND, 1, 2, 2, 0)
	return append(words, opSFPSTORE<<24|2<<20|sfpuBF16<<16|64)
}

func BenchmarkExponential(b *testing.B) {
	for _, arch := range archs {
		b.Run(arch.String(), func(b *testing.B) {
			e := vectorEngine(arch)
			for r, v := range map[int]uint32{12: 0x3FB8AA3B, 13: 0x42FE0000, 14: 0x437F0000, 4: 0x3EE61789, 5: 0x3EF7B9E8, 6: 0xBC4806A5,
				7: 0x3DA1B996} {
				e.sfpu.l[r] = broadcast(v)
			}
			words := exponential(arch)
			n := uint32(len(words))
			e.PushRun(1, opREPLAY<<24|n<<4|1, true)
			for _, w := range words {
				e.PushRun(1, w, true)
			}
			for b.Loop() {
				for range 32 {
					e.PushRun(1, opREPLAY<<24|n<<4, true)
				}
			}
			if e.Fault() != nil {
				b.Fatal(e.Fault())
			}
		})
	}
}

func BenchmarkVector(b *testing.B) {
	list := []uint32{
		opSFPLOAD<<24 | sfpuBF16<<16, opSFPLOAD<<24 | sfpuFP32<<16, opSFPLOADI<<24 | 0x3F80, opSFPSTORE<<24 | sfpuBF16<<16,
		opSFPSTORE<<24 | sfpuFP32<<16, opSFPLUT<<24 | 3<<20 | 4<<16, opSFPSETCC<<24 | 6, opSFPENCC<<24 | 10 | 3<<12, opSFPTRANSP << 24,
		opSFPNOP << 24,
	}
	for _, o := range [][2]uint32{ // and their fields but the destination
		{opSFPMAD, 2<<8 | 1<<12}, {opSFPMUL, 9<<8 | 1<<12}, {opSFPADD, 2<<8 | 1<<12 | 10<<16}, {opSFPMULI, 0x3F90 << 8},
		{opSFPADDI, 0x3F90 << 8}, {opSFPMOV}, {opSFPABS, 1}, {opSFPSETSGN}, {opSFPSETEXP, 2}, {opSFPSETMAN}, {opSFPEXEXP}, {opSFPEXMAN},
		{opSFPDIVP2, 1<<12 | 1}, {opSFPIADD, 4}, {opSFPIADD, 5 | 7<<12}, {opSFPSHFT, 3<<12 | 1}, {opSFPSHFT}, {opSFPAND}, {opSFPXOR},
		{opSFPNOT}, {opSFPLZ}, {opSFPCAST}, {opSFP_STOCH_RND, 1}, {opSFP_STOCH_RND, 2}, {opSFPSWAP, 1}, {opSFPSWAP}, {opSFPSWAP, 2},
		{opSFPLUTFP32, 2}, {opSFPARECIP}, {opSFPGT, 8}, {opSFPMUL24, 9 << 8},
	} {
		list = append(list, o[0]<<24|3<<4|o[1])
	}
	for _, w := range list {
		for _, enabled := range []uint32{allLanes, 0x5555FFFF} {
			op := w >> 24
			name := fmt.Sprintf("%s_%x", mnemonic(w), w&0xFFFFFF)
			if enabled != allLanes {
				name += "/some"
			}
			b.Run(name, func(b *testing.B) {
				e := vectorEngine(chip.Blackhole)
				e.sfpu.cc = condition{on: true, lanes: enabled}
				saved := e.sfpu
				t := &e.threads[1]
				for i := 0; b.Loop(); i++ {
					if op == opSFPSETCC || op == opSFPENCC || i&15 == 0 {
						e.sfpu.cc = saved.cc
						e.sfpu.l[3] = saved.l[3]
					}
					if !e.issue(t, w) {
						b.Fatal(e.Fault())
					}
				}
			})
		}
	}
}
