package arith_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
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
