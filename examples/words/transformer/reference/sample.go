package reference

import (
	"github.com/reprise-tt/reprise/examples/internal/bf16"
	"github.com/reprise-tt/reprise/examples/words"
	"github.com/reprise-tt/reprise/examples/words/transformer"
)

// The arithmetic of kernels/sample.cpp.

// fixed returns a number with 16 bits after the point, cut to less than 128 either way.
func fixed(b bf16.Number) int32 {
	exponent, mantissa := b>>7&0xFF, 0x80|int32(b&0x7F)
	v := int32(0)
	switch {
	case exponent >= 134:
		v = 0xFF << 15
	case exponent >= 118:
		v = mantissa << (exponent - 118)
	case exponent >= 111:
		v = mantissa >> (118 - exponent)
	}
	if b>>15 != 0 {
		return -v
	}
	return v
}

// half returns 2 to the power of -x, with 24 bits after the point; x has 16.
func half(x uint64) uint32 {
	if x >= 24<<16 {
		return 0
	}
	fraction, sum := uint32(x&0xFFFF), uint32(0)
	for _, c := range [...]uint32{10, 87, 630, 3638, 15743, 45426, 65536} {
		sum = c - sum*fraction>>16
	}
	return sum << 8 >> (x >> 16)
}

func next(state *uint32) uint32 {
	old := *state
	*state = old*747796405 + 2891336453
	word := (old>>(old>>28+4) ^ old) * 277803737
	return word>>22 ^ word
}

// choose returns a token, not one before first.
func choose(scores [transformer.Slots]bf16.Number, first uint32, sharpness, random uint32) uint32 {
	most := fixed(scores[first])
	for _, v := range scores[first:words.Tokens] {
		most = max(most, fixed(v))
	}
	var weights [words.Tokens]uint32
	sum := uint32(0)
	for i := first; i < words.Tokens; i++ {
		weights[i] = half(uint64(most-fixed(scores[i])) * uint64(sharpness) >> 16)
		sum += weights[i]
	}
	left, token := uint32(uint64(random)*uint64(sum)>>32), first
	for left >= weights[token] {
		left -= weights[token]
		token++
	}
	return token
}

// sample chooses a token by the logits, and leaves the state for the next step.
func (m *Model) sample() {
	s := &m.state
	random, token := next(&s.Random), uint32(words.End)
	if s.Position != transformer.Positions-1 {
		token = choose(m.scores, 1-min(s.Position, 1), s.Sharpness, random)
	}
	s.Left--
	s.Count++
	s.Token = token
	s.Position++
	s.More = min(s.Left, 1)
	if token == words.End {
		s.Position, s.More = 0, 0
	}
}
