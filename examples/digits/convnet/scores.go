package convnet

import (
	"github.com/reprise-tt/reprise/examples/digits"
	"github.com/reprise-tt/reprise/examples/internal/bf16"
)

// Pixels returns the network's input for an image: ink from 0 to 1, which bfloat16 has exactly.
func Pixels(m digits.Image) [digits.Pixels]BFloat16 {
	var out [digits.Pixels]BFloat16
	for i, p := range m.Pixels {
		out[i] = bf16.Round(float64(p) / digits.MaxPixel)
	}
	return out
}

// Scores are the network's answer for an image: one for each digit, the largest for the digit that
// it sees.
type Scores [digits.Classes]BFloat16

// Best returns the digit with the largest score, the lowest such digit when several share it.
func (s Scores) Best() uint8 {
	best := 0
	for i, v := range s {
		if v.Float() > s[best].Float() {
			best = i
		}
	}
	return uint8(best)
}
