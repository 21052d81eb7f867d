package kernels_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

func random(f kernels.Format, n int, seed uint64) pages {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := pages{format: f}
	for range n {
		values := make([]float32, arith.TileData)
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		p.data = append(p.data, encode(f, values)...)
	}
	return p
}

func encode(f kernels.Format, values []float32) (tile []byte) {
	switch f {
	case fp32:
		for _, v := range values {
			tile = binary.LittleEndian.AppendUint32(tile, math.Float32bits(v))
		}
	case fp16:
		for _, v := range values {
			tile = binary.LittleEndian.AppendUint16(tile, arith.CutFP16(math.Float32bits(v)))
		}
	case int8s:
		for _, v := range values { // a third of the numbers that there are is one standard deviation
			magnitude := byte(min(math.Abs(float64(v))*42, 127))
			tile = append(tile, byte(math.Float32bits(v)>>31)<<7|magnitude)
		}
	case bf16:
		for _, v := range values {
			tile = binary.LittleEndian.AppendUint16(tile, uint16((math.Float32bits(v)+0x7FFF+math.Float32bits(v)>>16&1)>>16))
		}
	default:
		tile = make([]byte, f.TileBytes())
		format := arith.Format(f)
		for i := 0; i < len(values); i += 16 {
			var block arith.Row
			for c, v := range values[i : i+16] {
				block[c] = math.Float32bits(v) >> 16
			}
			tile[i/16] = format.StoreBlock(tile[64+i*format.Bits()/8:], &block)
		}
	}
	return tile
}

func srcTile(arch arith.Arch, p pages, i int, wide bool) (*arith.SrcTile, arith.Format) {
	u := arith.Unpack{Arch: arch, In: arith.Format(p.format), Out: arith.Format(p.format)}
	if u.In == arith.FP32 {
		u.Out = arith.BF16
		if wide {
			u.Out = arith.TF32
		}
	}
	var t arith.SrcTile
	u.Tile(&t, p.data[i*p.format.TileBytes():])
	return &t, u.Out
}

func packed(dst *arith.DstTile, out kernels.Format, wide bool) []byte {
	p := arith.Pack{Mid: arith.BF16, Out: arith.Format(out), Wide: wide}
	switch {
	case out == int32s || out == int8s || out == fp16 && !wide:
		p.Mid = p.Out
	case wide && out != bf16:
		p.Mid = arith.FP32
	}
	l1 := make([]byte, out.TileBytes())
	p.Tile(l1, dst)
	return l1
}

func (b *bench) same(what string, got, want []byte, f kernels.Format) {
	b.t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	for i := range got {
		if got[i] != want[i] {
			b.t.Errorf("%s: byte %d of tile %d is %#x, want %#x", what, i%f.TileBytes(), i/f.TileBytes(), got[i], want[i])
			return
		}
	}
}

func TestComputeMatmul(t *testing.T) {
	onBackends(t, func(t *testing.T, b *bench) {
		for i, tt := range []struct {
			name           string
			in0, in1, out  kernels.Format
			fidelity       kernels.Fidelity
			wide           bool
			rows, inner, n int
		}{
			{"bf16", bf16, bf16, bf16, kernels.HiFi4, false, 1, 1, 1},
			{"several tiles", bf16, bf16, bf16, kernels.HiFi2, false, 2, 3, 2},
			{"LoFi bfp8", bfp8, bfp8, bfp8, kernels.LoFi, false, 1, 2, 3},
			{"wide", bf16, bf16, fp32, kernels.HiFi4, true, 1, 4, 3},
			{"tf32", fp32, fp32, fp32, kernels.HiFi3, true, 1, 2, 2},
			{"mixed", bf16, bfp4, bf16, kernels.HiFi4, true, 1, 2, 2},
			{"fp32 in a Dst of 16 bits", fp32, bfp8, fp32, kernels.HiFi4, false, 1, 2, 2},
			{"fp16", fp16, fp16, fp16, kernels.HiFi4, false, 2, 3, 2},
			{"fp16 and a wide Dst", fp16, fp16, fp32, kernels.HiFi3, true, 1, 3, 2},
			{"fp16 from a wide Dst", fp16, fp16, fp16, kernels.LoFi, true, 1, 2, 2},
			{"int8", int8s, int8s, int32s, kernels.HiFi4, true, 2, 3, 2},
			{"int8 to int8", int8s, int8s, int8s, kernels.HiFi4, true, 1, 1, 2},
			{"to bfp4", bf16, bf16, bfp4, kernels.HiFi4, false, 1, 2, 1},
		} {
			results := tt.rows * tt.n
			left, right := random(tt.in0, results*tt.inner, uint64(i)), random(tt.in1, results*tt.inner, uint64(100+i))
			got := b.run(kernels.ComputeSource{
				Source:   kernels.Source{Path: "testdata/compute/matmul.cpp", CompileArgs: []uint32{uint32(tt.rows), uint32(tt.inner), uint32(tt.n)}},
				Fidelity: tt.fidelity, WideDst: tt.wide,
			}, []pages{left, right}, tt.out, results)
			fidelity := map[kernels.Fidelity]arith.Fidelity{kernels.LoFi: arith.LoFi, kernels.HiFi2: arith.HiFi2, kernels.HiFi3: arith.HiFi3,
				kernels.HiFi4: arith.HiFi4}[tt.fidelity]
			var want []byte
			for r := range results {
				var dst arith.DstTile
				for k := range tt.inner {
					l, lf := srcTile(b.arch(), left, r*tt.inner+k, tt.wide)
					r, rf := srcTile(b.arch(), right, r*tt.inner+k, tt.wide)
					arith.Math{Arch: b.arch(), A: rf, B: lf, Wide: tt.wide, Int8: tt.in0 == int8s}.MatmulTile(&dst, l, r, fidelity)
				}
				want = append(want, packed(&dst, tt.out, tt.wide)...)
			}
			b.same(tt.name, got, want, tt.out)
		}
	})
}
