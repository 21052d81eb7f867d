package tensix

import (
	"math/rand/v2"

	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// Runs of the vector unit change LReg 0 to 3 of 32-bit data in Dst.

type lanes [32]uint32

type group [4]lanes

const groups = arith.TileData / 4 / 32

// Modes of SFPLOAD and SFPSTORE.
const (
	sfpuConfigured = 0
	sfpuBF16       = 2
	sfpuFP32       = 3
	sfpuBits       = 4 // 32 bits as they are
	sfpuUint16     = 6
	sfpuRaw32      = 7
	sfpuSwapped    = 9
	sfpuSignMag    = 12
	sfpuLow16      = 14
	sfpuHigh16     = 15
)

const (
	lregMinusOne = 11
	lregOne      = 10
	lregZero     = 9
	lregPoint837 = 8
	lregLane     = 15
)

// scratchRow is a row of Dst outside of all groups.
const scratchRow = 510

func (e *engines) seedWord() uint32 { return e.by(164, 186) }

// vectorAt is the first of the four rows of Dst with vector v, in every second column.
func vectorAt(v int) uint32 { return uint32(4*(v/2) + 2*(v%2)) }

// laneAt is the index in a tile of 16 columns of vector v's lane.
func laneAt(v, lane int) int { return (4*(v/2)+lane/8)*16 + 2*(lane%8) + v%2 }

// settles reports whether Wormhole's next instruction must not use the result yet.
func settles(in isa.Instruction) bool {
	switch in.(type) {
	case isa.SFPMAD, isa.SFPADD, isa.SFPMUL, isa.SFPMULI, isa.SFPADDI, isa.SFPLUT, isa.SFPLUTFP32, isa.SFPSWAP, isa.SFPSHFT2, isa.SFPCONFIG:
		return true
	}
	return false
}

// vector appends vector instructions, with the SFPNOPs that Wormhole needs.
func (th *engineThread) vector(list ...isa.Instruction) {
	for _, in := range list {
		th.do(in)
		if settles(in) && !th.r.blackhole() {
			th.do(isa.SFPNOP{})
		}
	}
}

// anyBits returns random numbers; formats' edge cases are frequent.
func anyBits(rnd *rand.Rand) (g [groups]group) {
	edges := []uint32{
		0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF, 0x7F7FFFFF,
		0x3F800000, 0xBF800000, 0x3F000000, 0x40000000, 0x3FFFFFFF, 0x42FE0000, 0x7FFFFFFF, 0xFFFF, 0x10000, 31, 32, 0xFFFFFFE1,
	}
	for i := range g {
		for r := range g[i] {
			for lane := range g[i][r] {
				switch rnd.IntN(4) {
				case 0:
					g[i][r][lane] = edges[rnd.IntN(len(edges))]
				case 1:
					g[i][r][lane] = rnd.Uint32()&0x807FFFFF | uint32(100+rnd.IntN(50))<<23
				case 2:
					g[i][r][lane] = uint32(rnd.IntN(2001) - 1000)
				default:
					g[i][r][lane] = rnd.Uint32()
				}
			}
		}
	}
	return g
}

func tileOf(g *[groups]group) []byte {
	b := make([]byte, 4*arith.TileData)
	for i := range g {
		for r := range g[i] {
			for lane, v := range g[i][r] {
				rig.PutWord(b[4*laneAt(4*i+r, lane):], v)
			}
		}
	}
	return b
}

func (e *engines) vectors(g *[groups]group) *engineRun {
	r := e.newRun()
	r.set(isa.Fp32SFPU, 1)
	r.fillDst(arith.INT32, tileOf(g))
	return r
}

func (e *engines) eachGroup(g [groups]group, c *laneCase) {
	r := e.vectors(&g)
	for f, v := range c.config {
		r.set(f, v)
	}
	m := r.math()
	if c.seed != 0 {
		m.store(config(e.seedWord()), c.seed)
		m.load(config(1))
	}
	m.vector(c.first...)
	for i := range groups {
		for reg := range uint32(4) {
			m.do(isa.SFPLOAD{Dst: vectorAt(4*i + int(reg)), Mod: sfpuBits, Lreg: reg})
		}
		m.vector(c.each...)
		for reg := range uint32(4) {
			m.do(isa.SFPSTORE{Dst: vectorAt(4*i + int(reg)), Mod: sfpuBits, Lreg: reg})
		}
	}
	want := c.want
	if c.begin != nil {
		want = c.begin()
	}
	for i := range g {
		want(e, &g[i])
	}
	at, _ := r.packer(arith.INT32, arith.INT32, true)
	r.finish(at, tileOf(&g), "lanes")
}
