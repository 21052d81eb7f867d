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
