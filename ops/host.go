package ops

import (
	"fmt"
	"slices"
)

// Host is a tensor in the host's memory: elements row by row, little endian, without padding.
type Host struct {
	Shape []int
	DType DataType
	// Data are the elements. It is nil for what was read in a capture without dispatch: nothing ran.
	Data []byte
}

// NewHost makes a host tensor of numbers, which are converted to the data type. The error wraps [ErrShape] if there are
// more or fewer than the shape has.
func NewHost[T Number](shape []int, t DataType, values []T) (*Host, error) {
	n, err := volume(shape)
	if err != nil {
		return nil, fmt.Errorf("ops: new host tensor: %w", err)
	}
	if t >= numDataTypes {
		return nil, fmt.Errorf("ops: new host tensor: %w: there is no %v", ErrDataType, t)
	}
	if n != len(values) {
		return nil, fmt.Errorf("ops: new host tensor: %w: %v has %d elements, not %d", ErrShape, shape, n, len(values))
	}
	h := &Host{Shape: slices.Clone(shape), DType: t, Data: make([]byte, n*t.Size())}
	for i, v := range values {
		t.put(h.Data[i*t.Size():], toBits(t, v))
	}
	return h, nil
}

// Values returns the elements of a host tensor as numbers, converted from its data type; nil if it has no data.
func Values[T Number](h *Host) []T {
	if h.Data == nil {
		return nil
	}
	size := h.DType.Size()
	out := make([]T, len(h.Data)/size)
	for i := range out {
		out[i] = fromBits[T](h.DType, h.DType.bits(h.Data[i*size:]))
	}
	return out
}

// check says whether the data are those of the shape.
func (h *Host) check() error {
	if h == nil {
		return fmt.Errorf("%w: no host tensor: it is nil", ErrShape)
	}
	n, err := volume(h.Shape)
	if err != nil {
		return err
	}
	if h.DType >= numDataTypes {
		return fmt.Errorf("%w: there is no %v", ErrDataType, h.DType)
	}
	if n*h.DType.Size() != len(h.Data) {
		return fmt.Errorf("%w: %v of %v are %d B, and there are %d", ErrShape, h.Shape, h.DType, n*h.DType.Size(), len(h.Data))
	}
	return nil
}

// mostElements bounds a tensor, so that products of sizes can't overflow.
const mostElements = 1 << 40

// volume counts the elements of a shape.
func volume(shape []int) (int, error) {
	if len(shape) < 1 || len(shape) > 4 {
		return 0, fmt.Errorf("%w: %v: a tensor has 1 to 4 dimensions", ErrShape, shape)
	}
	n := 1
	for _, d := range shape {
		if d < 1 || d > mostElements/n {
			return 0, fmt.Errorf("%w: %v: dimensions are from 1 on, and a tensor has at most 2^40 elements", ErrShape, shape)
		}
		n *= d
	}
	return n, nil
}

// four makes a shape one of four dimensions, by ones in front.
func four(shape []int) [4]int {
	d := [4]int{1, 1, 1, 1}
	copy(d[4-len(shape):], shape)
	return d
}
