package arith_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/goldentest"
)

func TestDstEncodingsLoseNothing(t *testing.T) {
	for x := range 1 << 16 {
		x := uint16(x)
		if got := arith.DecodeDstBF16(arith.EncodeDstBF16(x)); got != x {
			t.Fatalf("bf16 %#04x comes back as %#04x", x, got)
		}
		if got := arith.DecodeDstFP16(arith.EncodeDstFP16(x)); got != x {
			t.Fatalf("fp16 %#04x comes back as %#04x", x, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Uint32().Draw(t, "x")
		if got := arith.DecodeDst32(arith.EncodeDst32(x)); got != x {
			t.Fatalf("%#08x comes back as %#08x", x, got)
		}
	})
}

func bf16Block(t *rapid.T) (block arith.Row) {
	for i := range block {
		sign := rapid.Uint32Range(0, 1).Draw(t, "sign")
		exponent := rapid.Uint32Range(16, 255).Draw(t, "exponent")
		block[i] = sign<<15 | exponent<<7 | rapid.Uint32Range(0, 127).Draw(t, "mantissa")
	}
	return block
}

func TestABlockThatWasPackedOnceIsPackedTheSameAgain(t *testing.T) {
	for _, f := range []arith.Format{bfp8, bfp4, bfp2} {
		t.Run(f.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				block := bf16Block(t)
				once, twice := make([]byte, 2*f.Bits()), make([]byte, 2*f.Bits())
				exponent := f.StoreBlock(once, &block)
				u := arith.Unpack{In: f, Out: f}
				u.Elements(block[:], once, 0, []byte{exponent}, 0)
				for i := range block {
					block[i] >>= 16
				}
				again := f.StoreBlock(twice, &block)
				if exponent != again || !cmp.Equal(once, twice) {
					t.Fatalf("first %x of %d, then %x of %d", once, exponent, twice, again)
				}
			})
		})
	}
}

func float(x uint32) float64 { return float64(math.Float32frombits(x)) }

func FuzzElements(f *testing.F) {
	f.Add(byte(bfp4), byte(bfp4), byte(4), byte(0), make([]byte, 64))
	f.Add(byte(lf8), byte(lf8), byte(0), byte(3), []byte{0x7F, 0xFF})
	f.Fuzz(func(t *testing.T, in, out, first, flags byte, data []byte) {
		u := arith.Unpack{
			Arch: arith.Arch(flags & 1), In: arith.Format(in & 15), Out: arith.Format(out & 15),
			Exp4: flags&2 != 0, Unsigned: flags&4 != 0, Forced: flags&8 != 0,
		}
		width := u.In.Bits()
		if width == 0 || len(data) == 0 {
			return
		}
		at := int(first) % 16
		shift := at * width % 8
		dst := make([]uint32, min((len(data)*8-shift)/width, 256))
		u.Elements(dst, data, shift, make([]byte, 20), at)
		for i, v := range dst {
			if v&0x1FFF != 0 {
				t.Fatalf("datum %d is %#08x: data of Src have 19 bits", i, v)
			}
		}
	})
}

func TestIntegersBecomeTheNearestNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		magnitude := rapid.Uint32Range(0, 1<<31-1).Draw(t, "magnitude")
		if got, want := float(arith.IntegerToFP32(magnitude)), float64(float32(magnitude)); got != want {
			t.Fatalf("%d: got %g, want %g", magnitude, got, want)
		}
		if got, want := float(arith.IntegerToFP32(magnitude|1<<31)), -float64(float32(magnitude)); got != want {
			t.Fatalf("-%d: got %g, want %g", magnitude, got, want)
		}
	})
}

func TestNumbersBecomeTheNearestIntegerOrSaturate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := float32(rapid.Float64Range(-70000, 70000).Draw(t, "v"))
		largest := rapid.SampledFrom([]uint32{127, 255, 32767, 65535}).Draw(t, "largest")
		want := uint32(min(math.Round(math.Abs(float64(v))), float64(largest)))
		if v < 0 && want != 0 {
			want |= 1 << 31
		}
		if got := arith.RoundInteger(math.Float32bits(v), largest, true); got != want {
			t.Fatalf("%g: got %#x, want %#x", v, got, want)
		}
	})
}

func TestTotalOrderIsThatOfNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := rapid.Uint32().Draw(t, "x"), rapid.Uint32().Draw(t, "y")
		if math.IsNaN(float(x)) || math.IsNaN(float(y)) {
			t.Skip("not numbers")
		}
		if float(x) < float(y) && arith.TotalOrder(x) >= arith.TotalOrder(y) {
			t.Fatalf("%g is not below %g", float(x), float(y))
		}
	})
	if arith.TotalOrder(0x80000000) >= arith.TotalOrder(0) {
		t.Error("minus zero is not below zero")
	}
}

func TestHalfPrecisionComesBackFromFP32(t *testing.T) {
	for v := range 1 << 16 {
		v := uint16(v)
		want := v
		if v&0x7C00 == 0 {
			want &= 0x8000 // denormals are lost
		}
		if got := arith.CutFP16(arith.WidenFP16(v)); got != want {
			t.Fatalf("%#04x comes back as %#04x", v, got)
		}
	}
}

// The golden cases hold the form without vector instructions to ttsim where a processor has none.
func TestVectorInstructionsComputeWhatTheirTwinDoes(t *testing.T) {
	n := uint64(1200)
	if testing.Short() {
		n = 400
	}
	for _, c := range mathCases() {
		for i := range n / 40 {
			c.number = c.number<<16 | i
			c.fill()
			twin := c
			c.run()
			twin.runScalar()
			if c.hi != twin.hi || c.lo != twin.lo {
				t.Fatalf("%v: got %04x %04x, its twin %04x %04x", &c, c.hi, c.lo, twin.hi, twin.lo)
			}
		}
	}
}

func (c *mathCase) runScalar() {
	switch c.op {
	case "mvmul":
		a, b := c.decoded()
		c.m.MulRowScalar(&c.hi, &c.lo, a, b)
	case "elwmul":
		c.m.ElwMulScalar(&c.hi, &c.lo, &c.a[0], &c.b)
	case "elwadd":
		c.m.ElwAddScalar(&c.hi, &c.lo, &c.a[0], &c.b, 0, c.accumulate)
	case "elwsub":
		c.m.ElwAddScalar(&c.hi, &c.lo, &c.a[0], &c.b, 0x80000000, c.accumulate)
	default:
		c.run()
	}
}

func TestRowsTogetherAreAsOneByOne(t *testing.T) {
	for _, c := range mathCases() {
		if c.number > 8 {
			continue
		}
		c.fill()
		var a arith.MatrixA
		var b [8]arith.RowB
		var hi, lo, wantHi, wantLo [8]arith.DstRow
		c.m.DecodeA(&a, &c.a)
		c.m.DecodeRows(b[:], c.a[:8])
		for i := range b {
			hi[i], lo[i] = c.hi, c.lo
		}
		wantHi, wantLo = hi, lo
		run := func(hi, lo []arith.DstRow, x, y []arith.Row, b []arith.RowB) {
			switch c.op {
			case "mvmul":
				c.m.MulRows(hi, lo, &a, b)
			case "elwmul":
				c.m.ElwMulRows(hi, lo, x, y)
			case "elwadd":
				c.m.ElwAddRows(hi, lo, x, y, c.accumulate)
			case "elwsub":
				c.m.ElwSubRows(hi, lo, x, y, c.accumulate)
			}
		}
		for i := range b {
			run(wantHi[i:i+1], wantLo[i:i+1], c.a[i:i+1], c.a[8+i:9+i], b[i:i+1])
		}
		run(hi[:], lo[:], c.a[:8], c.a[8:], b[:])
		if hi != wantHi || lo != wantLo {
			t.Fatalf("%v: got %04x %04x, want %04x %04x", &c, hi, lo, wantHi, wantLo)
		}
	}
}

func TestVectorInstructionsDecodeWhatTheirTwinsDo(t *testing.T) {
	for _, c := range mathCases() {
		if c.op != "mvmul" || c.m.Int8 {
			continue
		}
		c.fill()
		a, b := c.decoded()
		var twinA arith.MatrixA
		var twinB arith.RowB
		c.m.DecodeScalar(&twinA, &c.a, &twinB, &c.b)
		if *a != twinA || *b != twinB {
			t.Fatalf("%v: factors differ from those of plain Go", &c)
		}
	}
}

func TestVectorInstructionsPackWhatTheirTwinsDo(t *testing.T) {
	for n := range uint64(2000) {
		for _, wide := range []bool{false, true} {
			c := packCase{p: arith.Pack{Mid: bf16, Out: bf16, Wide: wide}, number: n}
			c.fill()
			c.p.Relu, c.p.Accumulate = arith.ReluOff, false
			var got, want arith.Row
			c.p.Row(&got, &c.hi, &c.lo)
			c.p.ReadScalar(&want, &c.hi, &c.lo)
			if got != want {
				t.Fatalf("wide %v, %04x %04x: got %08x, want %08x", wide, c.hi, c.lo, got, want)
			}
			c.p.Store(c.l1[:], got[:])
			for i, v := range want {
				if c.l1[2*i] != byte(v) || c.l1[2*i+1] != byte(v>>8) {
					t.Fatalf("L1 holds %x, want %04x", c.l1[:32], want)
				}
			}
		}
	}
}

func TestLanesMultiplyAndAddAsOneByOne(t *testing.T) {
	for _, chip := range chips {
		for n := range uint64(3000) {
			var x, y, z, got [32]uint32
			negateX, negateZ, enabled := n&1 != 0, n&2 != 0, ^uint32(0)
			if n&4 != 0 {
				enabled = uint32(n * 0x9E3779B9)
			}
			for lane := range x {
				x[lane], y[lane], z[lane] = fmaCase(n<<8 | uint64(lane))
			}
			ops := [4]*[32]uint32{&got, &x, &y, &z}
			old := [4][32]uint32{got, x, y, z}
			to := ops[n>>3&3]
			chip.FMALanes(to, &x, &y, &z, negateX, negateZ, enabled)
			got, x, y, z = *to, old[1], old[2], old[3]
			for lane := range x {
				vx, vz := x[lane], z[lane]
				if negateX {
					vx ^= 0x80000000
				}
				if negateZ {
					vz ^= 0x80000000
				}
				want := chip.FMA(vx, y[lane], vz)
				if enabled>>lane&1 == 0 {
					want = old[n>>3&3][lane]
				}
				if got[lane] != want {
					t.Fatalf("%v: %08x times %08x plus %08x: got %08x, want %08x", chip, vx, y[lane], vz, got[lane], want)
				}
			}
		}
	}
}

func TestVectorInstructionsSumIntegersAsTheirTwinDoes(t *testing.T) {
	for n := range uint64(2000) {
		c := mathCase{op: "mvmul", m: arith.Math{A: int8s, B: int8s, Int8: true, Phase: uint8(n % 4)}, number: n}
		c.fill()
		if got, want := c.m.SumsInt8(c.decoded()); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
}

func TestTilesHaveFourFaces(t *testing.T) {
	for _, c := range []struct{ row, column, want int }{{0, 0, 0}, {0, 15, 15}, {1, 0, 16}, {0, 16, 256}, {16, 0, 512}, {31, 31, 1023},
		{17, 2, 530}} {
		if got := arith.FaceOrder(c.row, c.column); got != c.want {
			t.Errorf("row %d, column %d: got %d, want %d", c.row, c.column, got, c.want)
		}
	}
}

func TestUntilizeUndoesTilize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := 32 * rapid.IntRange(1, 4).Draw(t, "tiles across")
		matrix := make([]int, columns*32*rapid.IntRange(1, 3).Draw(t, "tiles down"))
		for i := range matrix {
			matrix[i] = i
		}
		tiled, back := make([]int, len(matrix)), make([]int, len(matrix))
		arith.Tilize(tiled, matrix, columns)
		arith.Untilize(back, tiled, columns)
		if diff := cmp.Diff(matrix, back); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestABlockTileHasItsExponentsFirst(t *testing.T) {
	l1 := make([]byte, bfp8.TileBytes())
	for i := range 64 {
		l1[i] = 127
		l1[64+16*i] = 0x40 // 1
	}
	u := arith.Unpack{In: bfp8, Out: bfp8}
	var tile arith.SrcTile
	u.Tile(&tile, l1)
	for i := range tile {
		if tile[i][0] != 0x3F800000 || tile[i][1] != 0 {
			t.Fatalf("row %d begins with %08x", i, tile[i][:2])
		}
	}
}

func benchmarkTile(b *testing.B, wide bool, do func(m arith.Math, dst *arith.DstTile, x, y *arith.SrcTile)) {
	l0, l1, out := benchTile(1), benchTile(2), make([]byte, bf16.TileBytes())
	u := arith.Unpack{Arch: arith.Blackhole, In: bf16, Out: bf16}
	m := arith.Math{Arch: arith.Blackhole, A: bf16, B: bf16, Wide: wide}
	p := arith.Pack{Mid: bf16, Out: bf16, Wide: wide}
	var x, y arith.SrcTile
	for b.Loop() {
		var dst arith.DstTile
		u.Tile(&x, l0)
		u.Tile(&y, l1)
		do(m, &dst, &x, &y)
		p.Tile(out, &dst)
	}
}

func BenchmarkMatmulTile(b *testing.B) {
	for _, f := range []struct {
		name     string
		fidelity arith.Fidelity
		wide     bool
	}{{"LoFi", arith.LoFi, false}, {"HiFi4", arith.HiFi4, false}, {"HiFi4Wide", arith.HiFi4, true}} {
		b.Run(f.name, func(b *testing.B) {
			benchmarkTile(b, f.wide, func(m arith.Math, dst *arith.DstTile, x, y *arith.SrcTile) { m.MatmulTile(dst, x, y, f.fidelity) })
		})
	}
}

func BenchmarkElementwiseTile(b *testing.B) {
	b.Run("Add", func(b *testing.B) {
		benchmarkTile(b, false, func(m arith.Math, dst *arith.DstTile, x, y *arith.SrcTile) { m.AddTile(dst, x, y, false) })
	})
	b.Run("Mul", func(b *testing.B) {
		benchmarkTile(b, false, func(m arith.Math, dst *arith.DstTile, x, y *arith.SrcTile) { m.MulTile(dst, x, y, arith.LoFi) })
	})
}

func benchTile(seed uint64) []byte {
	s := bitSource{goldentest.Bits(seed)}
	l1 := make([]byte, bf16.TileBytes())
	for i := 0; i < len(l1); i += 2 {
		v := s.word(1) >> 16
		l1[i], l1[i+1] = byte(v), byte(v>>8)
	}
	return l1
}
