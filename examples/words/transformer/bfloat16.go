package transformer

import "math"

// BFloat16 is a number by its bits: the upper 16 of a float32.
type BFloat16 uint16

// Float returns the number.
func (b BFloat16) Float() float32 { return math.Float32frombits(uint32(b) << 16) }

// Round returns the nearest bfloat16, of two the even one. NaN stays NaN.
func Round(x float32) BFloat16 {
	v := math.Float32bits(x)
	if v&^(1<<31) > 0x7F800000 {
		return 0x7FC0
	}
	return BFloat16((v + 0x7FFF + v>>16&1) >> 16)
}
