package ops

import (
	"fmt"
	"reflect"
	"slices"
)

// Host is a tensor in the host's memory: elements row by row, little-endian, without padding.
type Host struct {
	Shape []int
	DType DataType
	// Data are the elements; nil for a tensor that was read in a capture without dispatch.
	Data []byte
}

// NewHost returns a host tensor of numbers, converted as by [Device.Typecast]: integers that don't
// fit into an integer type keep their low bits, and floats become the nearest integer in range of
// their truncated value. Numbers become BFloat16 by way of float32. A nil shape is a scalar's. The
// error wraps [ErrShape] if the count isn't the shape's, or [ErrDataType] for an invalid data type.
func NewHost[T Number](shape []int, t DataType, values []T) (*Host, error) {
	n, err := volume(shape)
	if err == nil && t >= numDataTypes {
		err = typeError("invalid %v", t)
	}
	if err == nil && n != len(values) {
		err = shapeError("%v has %d elements, not %d", shape, n, len(values))
	}
	if err != nil {
		return nil, &opError{"new host tensor", err}
	}
	h := &Host{Shape: slices.Clone(shape), DType: t, Data: make([]byte, n*t.Size())}
	for i, v := range values {
		t.put(h.Data[i*t.Size():], toBits(t, v))
	}
	return h, nil
}

// String describes the tensor, without its elements.
func (h *Host) String() string {
	if h == nil {
		return "no tensor"
	}
	return fmt.Sprintf("host tensor: %v %v, %d bytes", h.Shape, h.DType, len(h.Data))
}

// Values returns the elements of a host tensor, converted as by [Device.Typecast]; nil without
// data.
func Values[T Number](h *Host) []T {
	if h.Data == nil {
		return nil
	}
	size := h.DType.Size()
	out, to := make([]T, len(h.Data)/size), reflect.TypeFor[T]()
	for i := range out {
		out[i] = fromBits[T](h.DType, to, h.DType.bits(h.Data[i*size:]))
	}
	return out
}

// Convert returns a tensor of another float type, such as BFloat8B for weights, rounded to nearest,
// ties to even. The error wraps [ErrDataType] for integers.
func (h *Host) Convert(to DataType) (*Host, error) {
	err := h.check()
	if err == nil && (h.DType < BFloat16 || to < BFloat16 || to >= numDataTypes) {
		err = typeError("%v to %v: want BFloat16, Float32 or BFloat8B", h.DType, to)
	}
	if err != nil {
		return nil, &opError{"convert host tensor", err}
	}
	size := h.DType.Size()
	out := &Host{Shape: slices.Clone(h.Shape), DType: to, Data: make([]byte, len(h.Data)/size*to.Size())}
	for i := range len(h.Data) / size {
		to.put(out.Data[i*to.Size():], h.DType.bits(h.Data[i*size:]))
	}
	return out, nil
}

func (h *Host) check() error {
	if h == nil {
		return shapeError("the host tensor is nil")
	}
	n, err := volume(h.Shape)
	if err != nil {
		return err
	}
	if h.DType >= numDataTypes {
		return typeError("invalid %v", h.DType)
	}
	if n*h.DType.Size() != len(h.Data) {
		return shapeError("%v of %v takes %d B, the data has %d", h.Shape, h.DType, n*h.DType.Size(), len(h.Data))
	}
	return nil
}

// maxElements bounds a tensor, so that products of sizes can't overflow.
const maxElements, maxRank = 1 << 40, 8

func volume(shape []int) (int, error) {
	if len(shape) > maxRank {
		return 0, shapeError("%v: a tensor has at most %d dimensions", shape, maxRank)
	}
	n := 1 // without dimensions of 0
	for _, d := range shape {
		if d < 0 || d > maxElements/n {
			return 0, shapeError("%v: dimensions are at least 0, and a tensor has at most 2^40 elements", shape)
		}
		n *= max(d, 1)
	}
	return product(shape), nil
}

func product(sizes []int) int {
	n := 1
	for _, d := range sizes {
		n *= d
	}
	return n
}

// padded returns a shape with dimensions of 1 before, so that there are n or more.
func padded(shape []int, n int) []int {
	return append(slices.Repeat([]int{1}, max(n-len(shape), 0)), shape...)
}

// to4D merges all dimensions but the last three.
func to4D(shape []int) [4]int {
	d := padded(shape, 4)
	k := len(d) - 3
	return [4]int{product(d[:k]), d[k], d[k+1], d[k+2]}
}
