package reference

import (
	"math"
	"testing"

	"github.com/reprise-tt/reprise/examples/internal/bf16"
	"github.com/reprise-tt/reprise/examples/words"
	"github.com/reprise-tt/reprise/examples/words/transformer"
)

func TestFixed(t *testing.T) {
	for _, v := range []float32{0, 1, -1, 0.5, 3.25, -17.375, 127, 1. / 65536, -1. / 1024} {
		if got, want := fixed(bf16.Round(v)), int32(v*65536); got != want {
			t.Errorf("%v becomes %d, want %d", v, got, want)
		}
	}
	const most = 0xFF << 15
	for v, want := range map[float32]int32{128: most, -1e30: -most, float32(math.Inf(1)): most, 0x1p-30: 0} {
		if got := fixed(bf16.Round(v)); got != want {
			t.Errorf("%v becomes %d, want %d", v, got, want)
		}
	}
}

func TestHalf(t *testing.T) {
	for x := uint64(0); x < 26<<16; x += 977 {
		got, want := float64(half(x))/(1<<24), math.Exp2(-float64(x)/65536)
		if math.Abs(got-want) > 1e-4*want+1./(1<<24) && x < 24<<16 || x >= 24<<16 && got != 0 {
			t.Fatalf("2 to the power of -%d/65536 is %v, want %v", x, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	var scores [transformer.Slots]bf16.Number
	total, want := 0.0, [words.Tokens]float64{}
	for i := range want {
		v := bf16.Round(float32(i%7) * 0.75)
		scores[i] = v
		if i > 0 { // an empty word has no chance
			want[i] = math.Exp(float64(v.Float()) / 0.5)
			total += want[i]
		}
	}
	start, err := transformer.Sampling{Seed: 9, Temperature: 0.5}.Start()
	if err != nil {
		t.Fatal(err)
	}
	const draws = 200_000
	var got [words.Tokens]float64
	for range draws {
		got[choose(scores, 1, start.Sharpness, next(&start.Random))]++
	}
	for i, w := range want {
		p := w / total
		if math.Abs(got[i]/draws-p) > 5*math.Sqrt(p/draws)+1e-4 {
			t.Errorf("token %d: share %v, want %v", i, got[i]/draws, p)
		}
	}
}
