package digits

import (
	"encoding/binary"
	"fmt"
	"math"
)

// le is the byte order on devices and in files of weights.
var le = binary.LittleEndian

// Limits of a layer.
const (
	// RowMultiple is the multiple that a layer's stored rows are rounded up to, so that a kernel
	// can process several at a time.
	RowMultiple = 16
	// MaxScores is the number of int32 scores in a page.
	MaxScores = PageBytes / 4

	maxActivation = math.MaxInt8
	minActivation = math.MinInt8
)

// LayerConfig describes a dense layer to [NewLayer].
type LayerConfig struct {
	In, Out int     // inputs (a multiple of 4, 4 to 64) and outputs (1 to 64; 1 to 16 with Scores)
	Weights []int8  // Out rows of In
	Biases  []int32 // Out
	Scores  bool    // outputs are int32 sums instead of requantised int8; Multiplier and Shift are then 0

	Multiplier uint32 // of the requantisation, at least 1
	Shift      uint32 // of the requantisation, 1 to 31

	// The values of one unit of an input, a weight and an output, which document the quantisation.
	InputScale, WeightScale, OutputScale float64
}

// Layer is a dense layer with int8 weights. It is immutable and safe for concurrent use.
type Layer struct {
	in, out, rows      int
	scores             bool
	multiplier         int32
	shift              uint32
	weights            []int8  // rows of in, zero from out on
	biases             []int32 // rows
	inputScale         float64
	weightScale, scale float64
}

// NewLayer returns a layer. Errors wrap ErrShape, or ErrRequantise if some input could overflow an
// int32.
func NewLayer(c LayerConfig) (*Layer, error) {
	most := PageBytes
	if c.Scores {
		most = MaxScores
	}
	switch {
	case c.In < 4 || c.In > PageBytes || c.In%4 != 0:
		return nil, fmt.Errorf("digits: new layer: %d inputs, want a multiple of 4 up to %d: %w", c.In, PageBytes, ErrShape)
	case c.Out < 1 || c.Out > most:
		return nil, fmt.Errorf("digits: new layer: %d outputs, a page holds 1 to %d: %w", c.Out, most, ErrShape)
	case len(c.Weights) != c.In*c.Out:
		return nil, fmt.Errorf("digits: new layer: %d weights for %d by %d: %w", len(c.Weights), c.Out, c.In, ErrShape)
	case len(c.Biases) != c.Out:
		return nil, fmt.Errorf("digits: new layer: %d biases for %d outputs: %w", len(c.Biases), c.Out, ErrShape)
	case c.Scores && (c.Multiplier != 0 || c.Shift != 0):
		return nil, fmt.Errorf("digits: new layer: multiplier %d and shift %d on a layer of scores: %w",
			c.Multiplier, c.Shift, ErrShape)
	case !c.Scores && (c.Multiplier < 1 || c.Multiplier > math.MaxInt32 || c.Shift < 1 || c.Shift > 31):
		return nil, fmt.Errorf("digits: new layer: multiplier %d and shift %d, want at least 1 and 1 to 31: %w",
			c.Multiplier, c.Shift, ErrRequantise)
	}
	l := &Layer{
		in: c.In, out: c.Out, rows: roundUp(c.Out, RowMultiple), scores: c.Scores,
		multiplier: int32(c.Multiplier), shift: c.Shift,
		inputScale: c.InputScale, weightScale: c.WeightScale, scale: c.OutputScale,
	}
	l.weights = make([]int8, l.rows*l.in)
	copy(l.weights, c.Weights)
	l.biases = make([]int32, l.rows)
	copy(l.biases, c.Biases)
	if err := l.checkOverflow(); err != nil {
		return nil, err
	}
	return l, nil
}

// checkOverflow proves that no input makes an intermediate value leave int32. The bound adds
// magnitudes, so it holds for partial sums too.
func (l *Layer) checkOverflow() error {
	for o := range l.out {
		most := abs64(int64(l.biases[o]))
		for _, w := range l.weights[o*l.in : (o+1)*l.in] {
			most += abs64(int64(w)) * -minActivation
		}
		total := most
		if !l.scores {
			total = most*int64(l.multiplier) + 1<<(l.shift-1)
		}
		if most > math.MaxInt32 || total > math.MaxInt32 {
			return fmt.Errorf("digits: new layer: output %d: sums up to %d, multiplier %d, shift %d: %w",
				o, most, l.multiplier, l.shift, ErrRequantise)
		}
	}
	return nil
}

// In returns the number of inputs.
func (l *Layer) In() int { return l.in }

// Out returns the number of outputs.
func (l *Layer) Out() int { return l.out }

// HasScores reports whether the layer's outputs are int32 scores instead of int8 activations.
func (l *Layer) HasScores() bool { return l.scores }

// String returns the shape, and the requantisation where there is one.
func (l *Layer) String() string {
	if l.scores {
		return fmt.Sprintf("%d to %d scores", l.in, l.out)
	}
	return fmt.Sprintf("%d to %d, times %d shift %d", l.in, l.out, l.multiplier, l.shift)
}

// Forward returns the page that a device writes for a page of input: the definition of the layer's
// arithmetic.
func (l *Layer) Forward(in Page) Page {
	var out Page
	for o := range l.out {
		acc := l.sum(o, &in)
		if l.scores {
			le.PutUint32(out[4*o:], uint32(acc))
		} else {
			out[o] = byte(l.requantise(acc))
		}
	}
	return out
}

// sum adds the bias and the products of one output.
func (l *Layer) sum(o int, in *Page) int32 {
	acc := l.biases[o]
	for i, w := range l.weights[o*l.in : (o+1)*l.in] {
		acc += int32(w) * int32(int8(in[i]))
	}
	return acc
}

// requantise scales a sum to the next layer's units, rounds half up, rectifies and saturates.
func (l *Layer) requantise(acc int32) int8 {
	y := (acc*l.multiplier + 1<<(l.shift-1)) >> l.shift
	return int8(min(max(y, 0), maxActivation))
}

func roundUp(n, multiple int) int { return (n + multiple - 1) / multiple * multiple }

func abs64(v int64) int64 { return max(v, -v) }
