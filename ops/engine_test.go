package ops_test

import (
	"encoding/binary"
	"math"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

// engines are those of a chip, by their arithmetic: sources of bfloat16, a Dst of 32 bits.
type engines struct{ arch arith.Arch }

func enginesOf(a chip.Arch) engines {
	if a == chip.Wormhole {
		return engines{arith.Wormhole}
	}
	return engines{arith.Blackhole}
}

func (e engines) math() arith.Math {
	return arith.Math{Arch: e.arch, A: arith.BF16, B: arith.BF16, Wide: true}
}

// unpack returns the tile of matrix n, c that begins at an element, with zeros outside of the matrix. Indices of matrices wrap.
func (e engines) unpack(p *plain, n, c, h, w int) *arith.SrcTile {
	l1 := make([]byte, arith.BF16.TileBytes())
	for i := range min(32, p.dims[2]-h) {
		for k := range min(32, p.dims[3]-w) {
			v := math.Float32bits(float32(p.at(n, c, h+i, w+k))) >> 16
			if v&0x7FFF > 0x7F80 {
				v = 0x7FC0
			}
			binary.LittleEndian.PutUint16(l1[2*arith.FaceOrder(i, k):], uint16(v))
		}
	}
	var t arith.SrcTile
	u := arith.Unpack{Arch: e.arch, In: arith.BF16, Out: arith.BF16}
	u.Tile(&t, l1)
	return &t
}

// pack returns the elements of a tile of Dst.
func (e engines) pack(dst *arith.DstTile, to ops.DataType) [32][32]float64 {
	p := arith.Pack{Mid: arith.BF16, Out: arith.BF16, Wide: true}
	if to == ops.Float32 {
		p.Mid, p.Out = arith.FP32, arith.FP32
	}
	l1 := make([]byte, p.Out.TileBytes())
	p.Tile(l1, dst)
	var out [32][32]float64
	for i := range out {
		for k := range out[i] {
			at := arith.FaceOrder(i, k)
			if to == ops.Float32 {
				out[i][k] = float64(math.Float32frombits(binary.LittleEndian.Uint32(l1[4*at:])))
			} else {
				out[i][k] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(l1[2*at:])) << 16))
			}
		}
	}
	return out
}

// tiles makes a tensor from its tiles of Dst.
func (e engines) tiles(dims [4]int, to ops.DataType, f func(dst *arith.DstTile, n, c, h, w int)) *plain {
	done := map[[4]int][32][32]float64{}
	return make4(dims, to, func(n, c, h, w int) float64 {
		at := [4]int{n, c, h / 32, w / 32}
		t, ok := done[at]
		if !ok {
			var dst arith.DstTile
			f(&dst, n, c, h/32*32, w/32*32)
			t = e.pack(&dst, to)
			done[at] = t
		}
		return t[h%32][w%32]
	})
}

func (e engines) matmul(a, b *plain, to ops.DataType) *plain {
	d := [4]int{max(a.dims[0], b.dims[0]), max(a.dims[1], b.dims[1]), a.dims[2], b.dims[3]}
	return e.tiles(d, to, func(dst *arith.DstTile, n, c, h, w int) {
		for k := 0; k < a.dims[3]; k += 32 {
			e.math().MatmulTile(dst, e.unpack(a, n, c, h, k), e.unpack(b, n, c, k, w), arith.HiFi4)
		}
	})
}
