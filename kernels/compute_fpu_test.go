package kernels_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

var widths = []struct {
	name    string
	in, out kernels.Format
	wide    bool
}{
	{"bf16", bf16, bf16, false},
	{"bf16 and a wide Dst", bf16, fp32, true},
	{"fp32 and a wide Dst", fp32, fp32, true},
	{"bfp8", bfp8, bfp8, false},
	{"fp16", fp16, fp16, false},
	{"fp16 and a wide Dst", fp16, fp32, true},
}

func (b *bench) fpu(group, op int, w int, in []pages, n int) []byte {
	b.t.Helper()
	return b.run(source("fpu.cpp", widths[w].wide, fmt.Sprintf("OPERATIONS=%d", group)), in, widths[w].out, n, uint32(op), uint32(n))
}

var seen sync.Map // of results, by chip and what was computed

func (b *bench) everywhere(what string, got []byte) {
	b.t.Helper()
	before, _ := seen.LoadOrStore(fmt.Sprint(b.dev.Arch(), " ", what), got)
	if !bytes.Equal(before.([]byte), got) {
		b.t.Errorf("%s: not the result of another backend", what)
	}
}

func TestComputeElementwise(t *testing.T) {
	const n = 3
	names := []string{"add", "sub", "mul", "add to Dst", "copy", "transpose", "product with the transposed", "add, left in Dst",
		"sub, right in Dst", "mul, left in Dst"}
	do := func(op string, m arith.Math, dst *arith.DstTile, a, b *arith.SrcTile) {
		switch op {
		case "add", "add to Dst":
			m.AddTile(dst, a, b, op != "add")
		case "sub":
			m.SubTile(dst, a, b, false)
		case "mul":
			m.MulTile(dst, a, b, arith.HiFi4)
		case "copy":
			move(m, dst, a)
		case "transpose":
			move(m, dst, transposed(a))
		case "product with the transposed":
			m.A, m.B = m.B, m.A
			m.MatmulTile(dst, a, transposed(b), arith.HiFi4)
		case "add, left in Dst":
			m.A = inDst(m)
			m.AddTile(dst, a, b, false)
		case "sub, right in Dst":
			m.B = inDst(m)
			if m.Wide {
				m.A = m.B
			}
			m.SubTile(dst, b, a, false)
		case "mul, left in Dst":
			m.A = inDst(m)
			m.MulTile(dst, a, b, arith.HiFi4)
		}
	}
	onBackends(t, func(t *testing.T, b *bench) {
		for w, width := range widths {
			for i, op := range names {
				each := 1
				if op == "add to Dst" {
					each = 2
				}
				if width.in == fp16 && (i > 6 || width.wide && (i == 4 || i == 5)) {
					continue // moves between sources and Dst are of bf16 or tf32, whose exponents are not those of fp16
				}
				in := []pages{random(width.in, n*each, 1), random(width.in, n*each, 2)}
				got := b.fpu(0, i, w, in, n)
				var want []byte
				for r := range n {
					var dst arith.DstTile
					for k := range each {
						x, f := srcTile(b.arch(), in[0], r*each+k, width.wide)
						y, _ := srcTile(b.arch(), in[1], r*each+k, width.wide)
						do(op, arith.Math{Arch: b.arch(), A: f, B: f, Wide: width.wide}, &dst, x, y)
					}
					want = append(want, packed(&dst, width.out, width.wide)...)
				}
				b.same(width.name+", "+op, got, want, width.out)
			}
		}
	})
}

func TestComputeReconfigure(t *testing.T) {
	const n = 2
	onBackends(t, func(t *testing.T, b *bench) {
		for _, formats := range [][4]kernels.Format{
			{bf16, bf16, bfp8, bfp4},
			{bf16, fp32, fp32, bfp8},
		} {
			var in []pages
			for i, f := range formats {
				in = append(in, random(f, n, uint64(20+i)))
			}
			got := b.run(source("reconfig.cpp", true), in, fp32, 5*n, n)
			var want []byte
			for i := range n {
				for _, pair := range [][2]int{{0, 1}, {2, 1}, {2, 3}, {0, 1}, {3, 2}} {
					var dst arith.DstTile
					x, fx := srcTile(b.arch(), in[pair[0]], i, true)
					y, fy := srcTile(b.arch(), in[pair[1]], i, true)
					arith.Math{Arch: b.arch(), A: fx, B: fy, Wide: true}.AddTile(&dst, x, y, false)
					want = append(want, packed(&dst, fp32, true)...)
				}
			}
			b.same(fmt.Sprint(formats), got, want, fp32)
		}
	})
}

func inDst(m arith.Math) arith.Format {
	if m.Wide {
		return arith.TF32
	}
	return arith.BF16
}

func move(m arith.Math, dst *arith.DstTile, a *arith.SrcTile) {
	for r, row := range a {
		for c, v := range row {
			if m.Wide {
				v = arith.EncodeDst32(v)
				dst.Hi[r][c], dst.Lo[r][c] = uint16(v>>16), uint16(v)
			} else if m.A == arith.FP16 {
				dst.Hi[r][c] = arith.EncodeDstFP16(uint16(v>>16&0x8000 | v>>13&0x7FFF))
			} else {
				dst.Hi[r][c] = arith.EncodeDstBF16(uint16(v >> 16))
			}
		}
	}
}

func at(row, column int) (int, int) {
	i := arith.FaceOrder(row, column)
	return i / 16, i % 16
}

func remade(t *arith.SrcTile, from func(row, column int) (int, int)) *arith.SrcTile {
	var made arith.SrcTile
	for row := range 32 {
		for column := range 32 {
			r, c := at(row, column)
			fr, fc := at(from(row, column))
			made[r][c] = t[fr][fc]
		}
	}
	return &made
}

func transposed(t *arith.SrcTile) *arith.SrcTile {
	return remade(t, func(r, c int) (int, int) { return c, r })
}

func TestComputeBroadcast(t *testing.T) {
	const n = 2
	repeat := []func(r, c int) (int, int){
		func(_, c int) (int, int) { return 0, c },
		func(r, _ int) (int, int) { return r, 0 },
		func(_, _ int) (int, int) { return 0, 0 },
	}
	onBackends(t, func(t *testing.T, b *bench) {
		for w, width := range widths[:2] {
			in := []pages{random(width.in, n, 3), random(width.in, n, 4)}
			for op := range 9 {
				got := b.fpu(1, op, w, in, n)
				var want []byte
				for r := range n {
					var dst arith.DstTile
					x, f := srcTile(b.arch(), in[0], r, width.wide)
					y, _ := srcTile(b.arch(), in[1], r, width.wide)
					y = remade(y, repeat[op%3])
					m := arith.Math{Arch: b.arch(), A: f, B: f, Wide: width.wide}
					switch op / 3 {
					case 0:
						m.AddTile(&dst, x, y, false)
					case 1:
						m.SubTile(&dst, x, y, false)
					default:
						m.MulTile(&dst, x, y, arith.HiFi4)
					}
					want = append(want, packed(&dst, width.out, width.wide)...)
				}
				b.same(fmt.Sprint(width.name, ", operation ", op), got, want, width.out)
			}
		}
	})
}

func decode(f kernels.Format, tiles []byte) (values []float64) {
	n := f.TileBytes() / arith.TileData
	for t := 0; t < len(tiles); t += f.TileBytes() {
		for i := range arith.TileData {
			at := tiles[t+n*arith.FaceOrder(i/32, i%32):]
			if f == fp32 {
				values = append(values, float64(math.Float32frombits(binary.LittleEndian.Uint32(at))))
			} else {
				values = append(values, float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(at))<<16)))
			}
		}
	}
	return values
}

func factors(f kernels.Format) pages {
	values := make([]float32, arith.TileData)
	for i := range values {
		if i%256 < 16 {
			values[i] = 1
		}
	}
	return pages{f, encode(f, values)}
}

func TestComputeReduce(t *testing.T) {
	const n, each = 2, 2
	onBackends(t, func(t *testing.T, b *bench) {
		for w, width := range widths[:3] {
			in := []pages{random(width.in, n*each, 5), factors(width.in)}
			for i, v := range in[0].data { // only negative numbers, so that a maximum with a zero is noticed
				if last := width.in.TileBytes() / arith.TileData; i%last == last-1 {
					in[0].data[i] = v | 0x80
				}
			}
			data := decode(width.in, in[0].data)
			for op := range 6 {
				what := fmt.Sprint(width.name, ", operation ", op)
				bits := b.fpu(2, op, w, in, n)
				b.everywhere("reduce "+what, bits)
				got := decode(width.out, bits)
				want, size := make([]float64, n*arith.TileData), make([]float64, n*arith.TileData)
				maximum := op >= 3
				for i, v := range data {
					tile, row, column := i/arith.TileData/each, i/32%32, i%32
					to := [3]int{row * 32, column, 0}[op%3] + tile*arith.TileData
					first := i/arith.TileData%each == 0 && [3]bool{column == 0, row == 0, row == 0 && column == 0}[op%3]
					switch {
					case !maximum:
						want[to] += v
						size[to] += math.Abs(v)
					case first:
						want[to] = v
					default:
						want[to] = max(want[to], v)
					}
				}
				for i, v := range got {
					bound := size[i] * 0.016 // Dst rounds after each product of 16
					if width.wide {
						bound = size[i] * 0x1p-10 // unpackers cut fp32 off to tf32
						if op%3 == 2 {
							bound = size[i] * 0x1p-9 // sums of columns become tf32, cut off
						}
					}
					if maximum {
						bound = math.Abs(want[i]) * 0x1p-10 // of fp32, 19 bits
					}
					if math.Abs(v-want[i]) > bound {
						t.Fatalf("%s: datum %d is %v, want %v within %v", what, i, v, want[i], bound)
					}
				}
			}
		}
	})
}
