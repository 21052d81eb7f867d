package convnet

import (
	"math"

	"github.com/reprise-tt/reprise/examples/digits"
)

// BFloat16 is a number by its bits: the upper 16 of a float32.
type BFloat16 uint16

// Float returns the number.
func (b BFloat16) Float() float32 { return math.Float32frombits(uint32(b) << 16) }

// Round returns the nearest bfloat16, of two the even one. NaN stays NaN.
func Round(x float64) BFloat16 {
	v := math.Float32bits(float32(x))
	if v&^(1<<31) > 0x7F800000 {
		return 0x7FC0
	}
	return BFloat16((v + 0x7FFF + v>>16&1) >> 16)
}

// Pixels returns the network's input for an image: ink from 0 to 1, which bfloat16 has exactly.
func Pixels(m digits.Image) [digits.Pixels]BFloat16 {
	var out [digits.Pixels]BFloat16
	for i, p := range m.Pixels {
		out[i] = Round(float64(p) / digits.MaxPixel)
	}
	return out
}

// Scores are the network's answer for an image: one for each digit, the largest for the digit that it sees.
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
