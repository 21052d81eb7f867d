package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

type function struct {
	name  string
	x     float64 // an argument
	exact func(v, x float64) float64
	// largest errors in units of the last place over all inputs, half a unit of which bf16's
	// rounding takes
	worst, wide float64
}

var inexact = []function{
	{name: "exp_tile", worst: 0.505, wide: 3.01, exact: func(v, _ float64) float64 { return math.Exp(v) }},
	{name: "recip_tile", worst: 0.505, wide: 1.25, exact: func(v, _ float64) float64 { return 1 / v }},
	{name: "sqrt_tile", worst: 0.505, wide: 1.9, exact: func(v, _ float64) float64 { return math.Sqrt(v) }},
	{name: "rsqrt_tile", worst: 0.505, wide: 1.8, exact: func(v, _ float64) float64 { return 1 / math.Sqrt(v) }},
	{name: "log_tile", worst: 0.505, wide: 3.3, exact: func(v, _ float64) float64 { return math.Log(v) }},
	{name: "sigmoid_tile", worst: 0.505, wide: 4.5, exact: func(v, _ float64) float64 { return 1 / (1 + math.Exp(-v)) }},
	{name: "silu_tile", worst: 0.505, wide: 6, exact: atLeast(func(v float64) float64 { return v / (1 + math.Exp(-v)) })},
	{name: "tanh_tile", worst: 0.505, wide: 3, exact: func(v, _ float64) float64 { return math.Tanh(v) }},
	{name: "gelu_tile", worst: 0.505, wide: 8.1, exact: atLeast(func(v float64) float64 { return v * math.Erfc(-v/math.Sqrt2) / 2 })},
	{name: "square_tile", worst: 0.505, wide: 0.51, exact: func(v, _ float64) float64 { return v * v }},
	{name: "log_with_base_tile", worst: 0.505, wide: 3.6, x: 1 / math.Ln2, exact: func(v, x float64) float64 { return math.Log2(v) }},
}

func every(f kernels.Format) pages {
	p := pages{format: f}
	for i := range uint32(1 << 16) {
		if f == kernels.FP32 {
			p.data = binary.LittleEndian.AppendUint32(p.data, i<<16)
		} else {
			p.data = binary.LittleEndian.AppendUint16(p.data, uint16(i))
		}
	}
	return p
}

func plain(f kernels.Format, data []byte) (values []float64) {
	if f == kernels.FP32 {
		for i := 0; i < len(data); i += 4 {
			values = append(values, float64(math.Float32frombits(binary.LittleEndian.Uint32(data[i:]))))
		}
		return values
	}
	for i := 0; i < len(data); i += 2 {
		values = append(values, float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[i:]))<<16)))
	}
	return values
}

const smallest = 0x1p-126

// flushed is what the engines take a number for.
func flushed(v float64) float64 {
	if math.Abs(v) < smallest {
		return 0
	}
	return v
}

// atLeast is f where v is above low, and zero below.
func atLeast(f func(float64) float64) func(v, x float64) float64 {
	return func(v, _ float64) float64 {
		if v < -1e30 {
			return 0
		}
		return f(v)
	}
}

func (b *bench) sfpu(group, i int, wide bool, in []pages, out kernels.Format, args ...uint32) []byte {
	b.t.Helper()
	n := in[0].tiles()
	return b.run(kernels.ComputeSource{
		Source:  kernels.Source{Path: "testdata/compute/sfpu.cpp", Defines: []string{fmt.Sprintf("FUNCTIONS=%d", group)}},
		WideDst: wide,
	}, in, out, n, append([]uint32{uint32(i), uint32(n)}, append(args, 0, 0)[:2]...)...)
}

// worst returns the largest error in units of 2^-bits of the power of two below the exact result,
// and its input. It fails where a result is infinite, zero or no number and shouldn't be.
func (b *bench) worst(what string, in, got []float64, exact func(float64) float64, bits int) (worst, input float64) {
	b.t.Helper()
	for i, v := range in {
		want := exact(flushed(v))
		if math.IsNaN(v) {
			continue
		}
		r := got[i]
		ulp := math.Ldexp(1, max(math.Ilogb(want), -126)-bits)
		switch {
		case math.IsNaN(want) || math.IsInf(want, 0):
			// Packers make infinity of NaN in a Dst of 16 bits.
			if r != want && !(math.IsNaN(want) && (math.IsNaN(r) || bits == 7 && math.IsInf(r, 0))) {
				b.t.Errorf("%s(%v) = %v, want %v", what, v, r, want)
				return
			}
			continue
		case math.Abs(want) >= math.MaxFloat32 && math.IsInf(r, int(math.Copysign(1, want))), math.Abs(want) < smallest*1.01 && r == 0:
			continue
		}
		if e := math.Abs(r-want) / ulp; !(e <= worst) {
			worst, input = e, v
		}
	}
	return worst, input
}

func TestComputeFunctions(t *testing.T) {
	in := every(kernels.BF16)
	values := plain(kernels.BF16, in.data)
	onBackends(t, func(t *testing.T, b *bench) {
		for i, f := range inexact {
			x := math.Float32bits(float32(f.x))
			for _, wide := range []bool{false, true} {
				out, bits, bound := kernels.BF16, 7, f.worst
				if wide {
					out, bits, bound = kernels.FP32, 23, f.wide
				}
				what := fmt.Sprintf("%s, wide %v", f.name, wide)
				got := b.sfpu(0, i, wide, []pages{in}, out, x)
				b.everywhere(what, got)
				worst, at := b.worst(f.name, values, plain(out, got), func(v float64) float64 { return f.exact(v, f.x) }, bits)
				t.Logf("%s: %.3f units in the last place, at %v", what, worst, at)
				if worst > bound {
					t.Errorf("%s: %.4g units in the last place at %v, want at most %v", what, worst, at, bound)
				}
			}
		}
	})
}

// Functions that are exact but for the rounding of their result.
var exactly = []function{
	{name: "relu_tile", exact: func(v, _ float64) float64 { return max(v, 0) }},
	{name: "abs_tile", exact: func(v, _ float64) float64 { return math.Abs(v) }},
	{name: "sign_tile", exact: func(v, _ float64) float64 {
		if v == 0 {
			return 0
		}
		return math.Copysign(1, v)
	}},
	{name: "negative_tile", exact: func(v, _ float64) float64 { return -v }},
	{name: "floor_tile", exact: func(v, _ float64) float64 { return math.Floor(v) }},
	{name: "ceil_tile", exact: func(v, _ float64) float64 { return math.Ceil(v) }},
	{name: "trunc_tile", exact: func(v, _ float64) float64 { return math.Trunc(v) }},
	{name: "frac_tile", exact: func(v, _ float64) float64 { return v - math.Trunc(v) }},
	{name: "round_tile", exact: func(v, _ float64) float64 { return math.RoundToEven(v) }},
	{name: "relu_max_tile", x: 6, exact: func(v, x float64) float64 { return max(min(v, x), 0) }},
	{name: "relu_min_tile", x: -3, exact: func(v, x float64) float64 { return max(v, x) }},
	{name: "leaky_relu_tile", x: 0.0625, exact: func(v, x float64) float64 { return max(v, v*x) }},
	{name: "add_unary_tile", x: 1.25, exact: func(v, x float64) float64 { return v + x }},
	{name: "sub_unary_tile", x: 1.25, exact: func(v, x float64) float64 { return v - x }},
	{name: "mul_unary_tile", x: 0.375, exact: func(v, x float64) float64 { return v * x }},
	{name: "rsub_unary_tile", x: 1.25, exact: func(v, x float64) float64 { return x - v }},
	{name: "identity_tile", exact: func(v, _ float64) float64 { return v }},
	{name: "signbit_tile", exact: func(v, _ float64) float64 {
		if v < 0 {
			return 1
		}
		return 0
	}},
}

func TestComputeExactFunctions(t *testing.T) {
	in := every(kernels.BF16)
	values := plain(kernels.BF16, in.data)
	onBackends(t, func(t *testing.T, b *bench) {
		for i, f := range exactly {
			got := b.sfpu(1, i, false, []pages{in}, kernels.BF16, math.Float32bits(float32(f.x)))
			b.everywhere(f.name, got)
			if worst, at := b.worst(f.name, values, plain(kernels.BF16, got), func(v float64) float64 { return f.exact(v, f.x) }, 7); worst > 0.5 {
				t.Errorf("%s: %.4g units in the last place at %v, want at most half of one", f.name, worst, at)
			}
		}
	})
}

func TestComputeTilesOfDst(t *testing.T) {
	const n = 4
	a, c, d := random(kernels.BF16, n, 7), random(kernels.BF16, n, 8), random(kernels.BF16, n, 9)
	for i := 0; i < len(a.data); i += 6 {
		a.data[i], a.data[i+1] = 0, 0 // what where_tile tells apart
	}
	av, cv, dv := plain(kernels.BF16, a.data), plain(kernels.BF16, c.data), plain(kernels.BF16, d.data)
	ops := []func(x, y, z float64) float64{
		func(x, y, _ float64) float64 { return x + y },
		func(x, y, _ float64) float64 { return x - y },
		func(x, y, _ float64) float64 { return x * y },
		func(x, y, _ float64) float64 { return x / y },
		func(x, y, _ float64) float64 { return max(x, y) },
		func(x, y, _ float64) float64 { return min(x, y) },
		func(x, y, z float64) float64 {
			if x != 0 {
				return y
			}
			return z
		},
		func(_, _, _ float64) float64 { return -2.5 },
		func(_, _, _ float64) float64 { return 1.5 },
	}
	onBackends(t, func(t *testing.T, b *bench) {
		for i, op := range ops {
			for _, wide := range []bool{false, true} {
				out, bits, bound := kernels.BF16, 7, 0.501
				if wide {
					out, bits, bound = kernels.FP32, 23, 2.5
				}
				what := fmt.Sprintf("function %d, wide %v", i, wide)
				in := []pages{a, c, d}[:map[int]int{6: 3, 7: 1, 8: 1}[i]+map[bool]int{true: 2}[i < 6]]
				bitsOf := b.sfpu(2, i, wide, in, out, math.Float32bits(-2.5))
				b.everywhere(what, bitsOf)
				got := plain(out, bitsOf)
				for j, v := range av {
					want := op(v, cv[j], dv[j])
					ulp := math.Ldexp(1, max(math.Ilogb(want), -126)-bits)
					if e := math.Abs(got[j]-want) / ulp; !(e <= bound) && got[j] != want {
						t.Fatalf("%s: datum %d is %v, want %v: %v units in the last place", what, j, got[j], want, e)
					}
				}
			}
		}
	})
}

func TestComputeRandom(t *testing.T) {
	const n = 16
	onBackends(t, func(t *testing.T, b *bench) {
		in := random(kernels.BF16, n, 10)
		draw := func() []byte {
			return b.sfpu(2, 9, true, []pages{in}, kernels.FP32, math.Float32bits(-1), math.Float32bits(4))
		}
		first := draw()
		b.everywhere("random", first)
		if string(draw()) != string(first) {
			t.Error("other numbers after the same seed")
		}
		var parts [8]int
		for _, v := range plain(kernels.FP32, first) {
			if v < -1 || v >= 3 {
				t.Fatalf("%v isn't in [-1, 3)", v)
			}
			parts[int((v+1)*2)]++
		}
		for i, count := range parts {
			if want := n * arith.TileData / 8; count < want*3/4 || count > want*5/4 {
				t.Errorf("%d numbers in part %d of 8, want about %d", count, i, want)
			}
		}
	})
}

func TestComputeTypecast(t *testing.T) {
	type conversion struct {
		from, to kernels.Format
		wide     bool
		exact    func(v float64) float64 // what Dst has in the end
	}
	int32s := func(v float64) float64 { return max(-math.MaxInt32, min(math.MaxInt32, math.Trunc(v))) }
	uint16s := func(v float64) float64 { return max(0, min(65535, math.Round(v))) }
	single := func(v float64) float64 { return float64(float32(v)) }
	bits := func(v float64) uint32 { return math.Float32bits(float32(v)) }
	half := func(v float64) float64 { return float64(math.Float32frombits((bits(v) + 1<<15) &^ 0xFFFF)) } // away from zero
	cut := func(v float64) float64 { return float64(math.Float32frombits(bits(v) &^ 0xFFFF)) }            // by unpackers
	onBackends(t, func(t *testing.T, b *bench) {
		for _, c := range []conversion{
			{kernels.BF16, kernels.Int32, true, int32s},
			{kernels.FP32, kernels.Int32, true, int32s},
			{kernels.BFP8, kernels.Int32, true, int32s},
			{kernels.Int32, kernels.FP32, true, single},
			{kernels.Int32, kernels.BF16, true, func(v float64) float64 { return half(single(v)) }},
			{kernels.Int32, kernels.BFP8, true, single},
			{kernels.BF16, kernels.Uint16, false, uint16s},
			{kernels.FP32, kernels.Uint16, false, func(v float64) float64 { return uint16s(cut(v)) }},
			{kernels.BFP8, kernels.Uint16, false, uint16s},
			{kernels.Uint16, kernels.BF16, false, half},
			{kernels.Uint16, kernels.FP32, false, half},
			{kernels.Uint16, kernels.BFP8, false, half},
			{kernels.FP32, kernels.BF16, true, half},
			{kernels.FP32, kernels.BFP8, true, half},
			{kernels.BF16, kernels.FP32, true, single},
			{kernels.BF16, kernels.BFP8, false, single},
			{kernels.BFP8, kernels.BF16, false, single},
			{kernels.BFP8, kernels.FP32, true, single},
		} {
			what := fmt.Sprintf("%v to %v", c.from, c.to)
			in := integers(c.from)
			src := kernels.ComputeSource{Source: kernels.Source{
				Path:    "testdata/compute/sfpu.cpp",
				Defines: []string{"FUNCTIONS=3", fmt.Sprintf("FROM=%d", c.from), fmt.Sprintf("TO=%d", c.to)},
			}, WideDst: c.wide}
			src.Formats = map[int]kernels.Format{0: c.from, 16: c.to}
			if c.from == kernels.FP32 && c.wide {
				src.UnpackToDst = []int{0}
			}
			result := b.runFormats(src, []pages{in}, c.to, in.tiles(), 0, uint32(in.tiles()), 0, 0)
			b.everywhere(what, result)
			got, values := numbers(c.to, result), numbers(c.from, in.data)
			want := make([]float64, len(values))
			for i, v := range values {
				want[i] = c.exact(v)
			}
			if c.to == kernels.BFP8 {
				want = numbers(c.to, inBlocks(want, c.wide))
			}
			for i, v := range values {
				if got[i] != want[i] {
					t.Fatalf("%s: %v becomes %v, want %v", what, v, got[i], want[i])
				}
			}
		}
	})
}

func inBlocks(values []float64, wide bool) (tiles []byte) {
	for ; len(values) > 0; values = values[arith.TileData:] {
		var dst arith.DstTile
		for i, v := range values[:arith.TileData] {
			u := arith.EncodeDst32(math.Float32bits(float32(v)))
			dst.Hi[i/16][i%16], dst.Lo[i/16][i%16] = uint16(u>>16), uint16(u)
		}
		tiles = append(tiles, packed(&dst, kernels.BFP8, wide)...)
	}
	return tiles
}

func integers(f kernels.Format) pages {
	p := pages{format: f}
	var tile []float32
	for i := range 2 * arith.TileData {
		v := float32(i-700) * 1.25
		if i%5 == 0 {
			v *= 1e4
		}
		if i%77 == 0 {
			v *= 1e7
		}
		switch f {
		case kernels.Int32:
			u := uint32(int64(max(min(math.Abs(float64(v)), math.MaxInt32), 0)))
			if v < 0 && u != 0 {
				u |= 1 << 31
			}
			p.data = binary.LittleEndian.AppendUint32(p.data, u)
		case kernels.Uint16:
			p.data = binary.LittleEndian.AppendUint16(p.data, uint16(i*31))
		default:
			if tile = append(tile, v); len(tile) == arith.TileData {
				p.data, tile = append(p.data, encode(f, tile)...), nil
			}
		}
	}
	return p
}

func numbers(f kernels.Format, data []byte) (values []float64) {
	switch f {
	case kernels.Int32:
		for i := 0; i < len(data); i += 4 {
			u := binary.LittleEndian.Uint32(data[i:])
			v := float64(u &^ (1 << 31))
			if u>>31 != 0 {
				v = -v
			}
			values = append(values, v)
		}
	case kernels.Uint16:
		for i := 0; i < len(data); i += 2 {
			values = append(values, float64(binary.LittleEndian.Uint16(data[i:])))
		}
	case kernels.BFP8:
		for ; len(data) > 0; data = data[f.TileBytes():] {
			tile, _ := source(arith.Wormhole, pages{f, data}, 0, false)
			for _, row := range tile {
				for _, v := range row {
					values = append(values, float64(math.Float32frombits(v)))
				}
			}
		}
	default:
		return plain(f, data)
	}
	return values
}
