package arith_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

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
