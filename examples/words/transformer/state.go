package transformer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/reprise-tt/reprise/examples/internal/rng"
)

// State is a model's state between two tokens, besides its caches: words of 32 bits in this order,
// in a page of DRAM.
type State struct {
	More      uint32 // 1 inside a word, 0 after its end and after the last token
	Left      uint32 // tokens still to make; a step does nothing at 0
	Token     uint32 // the last token
	Position  uint32 // of the token that the next step reads
	Random    uint32 // state of the random numbers
	Count     uint32 // tokens made
	Sharpness uint32 // the binary logarithm of e divided by the temperature, with 16 bits after the point
}

// StateBytes is the size of a state's page.
const StateBytes = 64

// Offsets of the state's words for conditions of traces.
const (
	MoreOffset = 0
	LeftOffset = 4
)

// ErrSampling is in errors about temperatures and numbers of tokens that a model doesn't take.
var ErrSampling = errors.New("not a way to sample")

// Sampling says which words a model invents.
type Sampling struct {
	Seed        uint64  // of the random numbers
	Tokens      int     // how many to make
	Temperature float64 // what logits are divided by, 1/16 to 16; 0 stands for 1
}

// Start returns the state before the first token. The error wraps [ErrSampling].
func (s Sampling) Start() (State, error) {
	t := s.Temperature
	if t == 0 {
		t = 1
	}
	if s.Tokens < 0 || s.Tokens > math.MaxInt32 || !(t >= 1./16 && t <= 16) {
		return State{}, fmt.Errorf("transformer: %w: %d tokens at a temperature of %v: want a temperature from 1/16 to 16", ErrSampling,
			s.Tokens, s.Temperature)
	}
	random := rng.Source(s.Seed)
	start := State{Left: uint32(s.Tokens), Random: uint32(random.Uint64() >> 32), Sharpness: uint32(math.Round(math.Log2E / t * (1 << 16)))}
	if s.Tokens > 0 {
		start.More = 1
	}
	return start, nil
}

// Encode returns the state's page.
func (s State) Encode() []byte {
	page, _ := binary.Append(nil, binary.LittleEndian, s) // its words are of fixed size
	return append(page, make([]byte, StateBytes-len(page))...)
}

func decodeState(page []byte) (s State) {
	_, _ = binary.Decode(page, binary.LittleEndian, &s)
	return s
}
