package ops_test

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

type engines struct{ arch arith.Arch }

func (b *bench) engines() engines {
	if b.dev.Arch() == chip.Wormhole {
		return engines{arith.Wormhole}
	}
	return engines{arith.Blackhole}
}

func source(t ops.DataType) (in, out arith.Format) {
	if t == ops.Float32 {
		return arith.FP32, arith.TF32
	}
	return arith.BF16, arith.BF16
}

func (e engines) math(t ops.DataType) arith.Math {
	_, f := source(t)
	return arith.Math{Arch: e.arch, A: f, B: f, Wide: true}
}

func tile(p *plain, dims [4]int, n, c, h, w int) []byte {
	size := p.dtype.Size()
	l1 := make([]byte, arith.TileData*size)
	for i := range min(32, dims[2]-h) {
		for k := range min(32, dims[3]-w) {
			v := math.Float32bits(float32(p.at(n, c, h+i, w+k)))
			if size == 2 && v&^(1<<31) > 0x7F800000 {
				v = 0x7FC00000 // as NewHost makes it
			}
			at := l1[size*arith.FaceOrder(i, k):]
			if size == 4 {
				binary.LittleEndian.PutUint32(at, v)
			} else {
				binary.LittleEndian.PutUint16(at, uint16(v>>16))
			}
		}
	}
	return l1
}

func (e engines) unpack(p *plain, dims [4]int, n, c, h, w int) *arith.SrcTile {
	in, out := source(p.dtype)
	var t arith.SrcTile
	(&arith.Unpack{Arch: e.arch, In: in, Out: out}).Tile(&t, tile(p, dims, n, c, h, w))
	return &t
}

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
			e.math(a.dtype).MatmulTile(dst, e.unpack(a, a.dims, n, c, h, k), e.unpack(b, b.dims, n, c, k, w), arith.HiFi4)
		}
	})
}

func (e engines) pairwise(a, b *plain, matrix func(m arith.Math, dst *arith.DstTile, a, b *arith.SrcTile),
	vector func(x, y uint32) uint32) *plain {
	var d [4]int
	for i := range d {
		d[i] = max(a.dims[i], b.dims[i])
	}
	if a.dtype == ops.BFloat16 {
		return e.tiles(d, a.dtype, func(dst *arith.DstTile, n, c, h, w int) {
			matrix(e.math(a.dtype), dst, e.unpack(a, d, n, c, h, w), e.unpack(b, d, n, c, h, w))
		})
	}
	return e.tiles(d, a.dtype, func(dst *arith.DstTile, n, c, h, w int) {
		e.vector(dst, func(x []uint32) uint32 { return vector(x[0], x[1]) }, tile(a, d, n, c, h, w), tile(b, d, n, c, h, w))
	})
}

func (e engines) vector(dst *arith.DstTile, f func(x []uint32) uint32, l1 ...[]byte) {
	x := make([]uint32, len(l1))
	for i := range arith.TileData {
		for k, t := range l1 {
			if len(t) == 4*arith.TileData {
				x[k] = binary.LittleEndian.Uint32(t[4*i:])
			} else {
				x[k] = uint32(binary.LittleEndian.Uint16(t[2*i:])) << 16
			}
		}
		v := arith.EncodeDst32(arith.FlushDenormal(f(x)))
		dst.Hi[i/16][i%16], dst.Lo[i/16][i%16] = uint16(v>>16), uint16(v)
	}
}

const fp32One, fp32Sign = 0x3F800000, 1 << 31

func (e engines) add(a, b *plain) *plain {
	return e.pairwise(a, b, func(m arith.Math, dst *arith.DstTile, a, b *arith.SrcTile) { m.AddTile(dst, a, b, false) },
		func(x, y uint32) uint32 { return e.arch.FMA(x, fp32One, y) })
}

func (e engines) subtract(a, b *plain) *plain {
	return e.pairwise(a, b, func(m arith.Math, dst *arith.DstTile, a, b *arith.SrcTile) { m.SubTile(dst, a, b, false) },
		func(x, y uint32) uint32 { return e.arch.FMA(x, fp32One, y^fp32Sign) })
}

func (e engines) multiply(a, b *plain) *plain {
	return e.pairwise(a, b, func(m arith.Math, dst *arith.DstTile, a, b *arith.SrcTile) { m.MulTile(dst, a, b, arith.HiFi4) },
		func(x, y uint32) uint32 { return e.arch.FMA(x, y, 0) })
}

func (e engines) relu(a *plain) *plain {
	return e.tiles(a.dims, a.dtype, func(dst *arith.DstTile, n, c, h, w int) {
		e.vector(dst, func(x []uint32) uint32 {
			if arith.TotalOrder(x[0]) > 0 {
				return x[0]
			}
			return 0
		}, tile(a, a.dims, n, c, h, w))
	})
}

type binaryOperation struct {
	device func(context.Context, *ops.Tensor, *ops.Tensor, ...ops.OpOption) (*ops.Tensor, error)
	host   func(a, b *plain) *plain
}

func (b *bench) binary(name string, in ...*ops.Tensor) binaryOperation {
	e, on := b.engines(), floats(in...)
	choose := func(engine, other func(a, b *plain) *plain) func(a, b *plain) *plain {
		if on {
			return engine
		}
		return other
	}
	switch name {
	case "add":
		return binaryOperation{b.Add, choose(e.add, add)}
	case "subtract":
		return binaryOperation{b.Subtract, choose(e.subtract, subtract)}
	}
	return binaryOperation{b.Multiply, choose(e.multiply, multiply)}
}
