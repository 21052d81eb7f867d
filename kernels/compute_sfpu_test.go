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
	x     float32 // an argument
	exact func(v float64) float64
}

// Functions with the largest errors of fp32 in units of the last place over all inputs of bf16. Of
// bf16 the error is hardly more than the half unit of rounding.
var inexact = []struct {
	function
	worst float64
}{
	{function{"exp_tile", 0, math.Exp}, 3.01},
	{function{"recip_tile", 0, func(v float64) float64 { return 1 / v }}, 1.25},
	{function{"sqrt_tile", 0, math.Sqrt}, 1.9},
	{function{"rsqrt_tile", 0, func(v float64) float64 { return 1 / math.Sqrt(v) }}, 1.8},
	{function{"log_tile", 0, math.Log}, 3.3},
	{function{"sigmoid_tile", 0, func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }}, 4.5},
	{function{"silu_tile", 0, atLeast(func(v float64) float64 { return v / (1 + math.Exp(-v)) })}, 6},
	{function{"tanh_tile", 0, math.Tanh}, 3},
	{function{"gelu_tile", 0, atLeast(func(v float64) float64 { return v * math.Erfc(-v/math.Sqrt2) / 2 })}, 8.1},
	{function{"square_tile", 0, func(v float64) float64 { return v * v }}, 0.51},
	{function{"log_with_base_tile", 1 / math.Ln2, math.Log2}, 3.6},
}

func every(f kernels.Format) pages {
	p := pages{format: f}
	for i := range uint32(1 << 16) {
		if f == fp32 {
			p.data = binary.LittleEndian.AppendUint32(p.data, i<<16)
		} else {
			p.data = binary.LittleEndian.AppendUint16(p.data, uint16(i))
		}
	}
	return p
}

func plain(f kernels.Format, data []byte) (values []float64) {
	if f == fp32 {
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

// atLeast is zero far below zero.
func atLeast(f func(float64) float64) func(v float64) float64 {
	return func(v float64) float64 {
		if v < -1e30 {
			return 0
		}
		return f(v)
	}
}

func (b *bench) sfpu(group, i int, wide bool, in []pages, out kernels.Format, args ...uint32) []byte {
	b.t.Helper()
	n := in[0].tiles()
	return b.run(source("sfpu.cpp", wide, fmt.Sprintf("FUNCTIONS=%d", group)), in, out, n,
		append([]uint32{uint32(i), uint32(n)}, append(args, 0, 0)[:2]...)...)
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

// Functions that are exact but for the rounding of their result.
var exactly = []function{
	{"relu_tile", 0, func(v float64) float64 { return max(v, 0) }},
	{"abs_tile", 0, math.Abs},
	{"sign_tile", 0, func(v float64) float64 {
		if v == 0 {
			return 0
		}
		return math.Copysign(1, v)
	}},
	{"negative_tile", 0, func(v float64) float64 { return -v }},
	{"floor_tile", 0, math.Floor},
	{"ceil_tile", 0, math.Ceil},
	{"trunc_tile", 0, math.Trunc},
	{"frac_tile", 0, func(v float64) float64 { return v - math.Trunc(v) }},
	{"round_tile", 0, math.RoundToEven},
	{"relu_max_tile", 6, func(v float64) float64 { return max(min(v, 6), 0) }},
	{"relu_min_tile", -3, func(v float64) float64 { return max(v, -3) }},
	{"leaky_relu_tile", 0.0625, func(v float64) float64 { return max(v, v*0.0625) }},
	{"add_unary_tile", 1.25, func(v float64) float64 { return v + 1.25 }},
	{"sub_unary_tile", 1.25, func(v float64) float64 { return v - 1.25 }},
	{"mul_unary_tile", 0.375, func(v float64) float64 { return v * 0.375 }},
	{"rsub_unary_tile", 1.25, func(v float64) float64 { return 1.25 - v }},
	{"identity_tile", 0, func(v float64) float64 { return v }},
	{"signbit_tile", 0, func(v float64) float64 {
		if v < 0 {
			return 1
		}
		return 0
	}},
}

func TestComputeFunctions(t *testing.T) {
	in := every(bf16)
	values := plain(bf16, in.data)
	onBackends(t, func(t *testing.T, b *bench) {
		check := func(group, i int, f function, wide bool, bound float64) {
			out, bits := bf16, 7
			if wide {
				out, bits = fp32, 23
			}
			what := fmt.Sprintf("%s, wide %v", f.name, wide)
			got := b.sfpu(group, i, wide, []pages{in}, out, math.Float32bits(f.x))
			b.everywhere(what, got)
			if worst, at := b.worst(f.name, values, plain(out, got), f.exact, bits); worst > bound {
				t.Errorf("%s: %.4g units in the last place at %v, want at most %v", what, worst, at, bound)
			}
		}
		for i, f := range inexact {
			check(0, i, f.function, false, 0.505)
			check(0, i, f.function, true, f.worst)
		}
		for i, f := range exactly {
			check(1, i, f, false, 0.5)
		}
	})
}

func TestComputeTilesOfDst(t *testing.T) {
	const n = 4
	a, c, d := random(bf16, n, 7), random(bf16, n, 8), random(bf16, n, 9)
	for i := 0; i < len(a.data); i += 6 {
		a.data[i], a.data[i+1] = 0, 0 // what where_tile tells apart
	}
	av, cv, dv := plain(bf16, a.data), plain(bf16, c.data), plain(bf16, d.data)
	results := func(x, y, z float64) []float64 {
		chosen := y
		if x == 0 {
			chosen = z
		}
		return []float64{x + y, x - y, x * y, x / y, max(x, y), min(x, y), chosen, -2.5, 1.5}
	}
	onBackends(t, func(t *testing.T, b *bench) {
		for i := range results(0, 0, 0) {
			for _, wide := range []bool{false, true} {
				out, bits, bound := bf16, 7, 0.501
				if wide {
					out, bits, bound = fp32, 23, 2.5
				}
				what := fmt.Sprintf("function %d, wide %v", i, wide)
				in := []pages{a, c, d}[:map[int]int{6: 3, 7: 1, 8: 1}[i]+map[bool]int{true: 2}[i < 6]]
				bitsOf := b.sfpu(2, i, wide, in, out, math.Float32bits(-2.5))
				b.everywhere(what, bitsOf)
				got := plain(out, bitsOf)
				for j, v := range av {
					want := results(v, cv[j], dv[j])[i]
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
		in := random(bf16, n, 10)
		draw := func() []byte {
			return b.sfpu(2, 9, true, []pages{in}, fp32, math.Float32bits(-1), math.Float32bits(4))
		}
		first := draw()
		b.everywhere("random", first)
		if string(draw()) != string(first) {
			t.Error("other numbers after the same seed")
		}
		var parts [8]int
		for _, v := range plain(fp32, first) {
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
	toInt32 := func(v float64) float64 { return max(-math.MaxInt32, min(math.MaxInt32, math.Trunc(v))) }
	toUint16 := func(v float64) float64 { return max(0, min(65535, math.Round(v))) }
	single := func(v float64) float64 { return float64(float32(v)) }
	bits := func(v float64) uint32 { return math.Float32bits(float32(v)) }
	half := func(v float64) float64 { return float64(math.Float32frombits((bits(v) + 1<<15) &^ 0xFFFF)) } // away from zero
	cut := func(v float64) float64 { return float64(math.Float32frombits(bits(v) &^ 0xFFFF)) }            // by unpackers
	onBackends(t, func(t *testing.T, b *bench) {
		for _, c := range []conversion{
			{bf16, int32s, true, toInt32},
			{fp32, int32s, true, toInt32},
			{bfp8, int32s, true, toInt32},
			{int32s, fp32, true, single},
			{int32s, bf16, true, func(v float64) float64 { return half(single(v)) }},
			{int32s, bfp8, true, single},
			{bf16, uint16s, false, toUint16},
			{fp32, uint16s, false, func(v float64) float64 { return toUint16(cut(v)) }},
			{bfp8, uint16s, false, toUint16},
			{uint16s, bf16, false, half},
			{uint16s, fp32, false, half},
			{uint16s, bfp8, false, half},
			{fp32, bf16, true, half},
			{fp32, bfp8, true, half},
			{bf16, fp32, true, single},
			{bf16, bfp8, false, single},
			{bfp8, bf16, false, single},
			{bfp8, fp32, true, single},
		} {
			what := fmt.Sprintf("%v to %v", c.from, c.to)
			in := integers(c.from)
			src := source("sfpu.cpp", c.wide, "FUNCTIONS=3", fmt.Sprintf("FROM=%d", c.from), fmt.Sprintf("TO=%d", c.to))
			src.Formats = map[int]kernels.Format{0: c.from, 16: c.to}
			if c.from == fp32 && c.wide {
				src.UnpackToDst = []int{0}
			}
			result := b.runFormats(src, []pages{in}, c.to, in.tiles(), 0, uint32(in.tiles()), 0, 0)
			b.everywhere(what, result)
			got, values := numbers(c.to, result), numbers(c.from, in.data)
			want := make([]float64, len(values))
			for i, v := range values {
				want[i] = c.exact(v)
			}
			if c.to == bfp8 {
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
		tiles = append(tiles, packed(&dst, bfp8, wide)...)
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
		case int32s:
			u := uint32(int64(max(min(math.Abs(float64(v)), math.MaxInt32), 0)))
			if v < 0 && u != 0 {
				u |= 1 << 31
			}
			p.data = binary.LittleEndian.AppendUint32(p.data, u)
		case uint16s:
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
	case int32s:
		for i := 0; i < len(data); i += 4 {
			u := binary.LittleEndian.Uint32(data[i:])
			v := float64(u &^ (1 << 31))
			if u>>31 != 0 {
				v = -v
			}
			values = append(values, v)
		}
	case uint16s:
		for i := 0; i < len(data); i += 2 {
			values = append(values, float64(binary.LittleEndian.Uint16(data[i:])))
		}
	case bfp8:
		for ; len(data) > 0; data = data[f.TileBytes():] {
			tile, _ := srcTile(arith.Wormhole, pages{f, data}, 0, false)
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
