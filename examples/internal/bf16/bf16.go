// Package bf16 has numbers in bfloat16, and files with those of a network.
package bf16

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/safetensors"
)

// ErrShape is in errors about weights that don't fit the network.
var ErrShape = errors.New("the weights don't fit")

// Number is a number by its bits: the upper 16 of a float32.
type Number uint16

// Float returns the number.
func (b Number) Float() float32 { return math.Float32frombits(uint32(b) << 16) }

// Round returns the nearest bfloat16, of two the even one. NaN stays NaN.
func Round[F float32 | float64](x F) Number {
	v := math.Float32bits(float32(x))
	if v&^(1<<31) > 0x7F800000 {
		return 0x7FC0
	}
	return Number((v + 0x7FFF + v>>16&1) >> 16)
}

// Part is a tensor of a network.
type Part struct {
	Name  string // in files
	Shape []int
	Data  *[]Number
}

// Size returns the number of elements.
func (p Part) Size() int {
	n := 1
	for _, d := range p.Shape {
		n *= d
	}
	return n
}

// Decode reads parts from a safetensors file. The error wraps [ErrShape], or is one of package
// safetensors.
func Decode(file []byte, parts []Part) error {
	f, err := safetensors.NewFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return err
	}
	for _, p := range parts {
		t, err := f.Tensor(p.Name)
		if err != nil {
			return err
		}
		if !slices.Equal(t.Shape, p.Shape) || t.DType != ops.BFloat16 {
			return fmt.Errorf("%w: %s is %v of %v, want %v of bfloat16", ErrShape, p.Name, t.Shape, t.DType, p.Shape)
		}
		for b := t.Data; len(b) > 0; b = b[2:] {
			*p.Data = append(*p.Data, Number(binary.LittleEndian.Uint16(b)))
		}
	}
	return nil
}

// Set sets parts to numbers by their names, rounded to the nearest bfloat16. The error wraps
// [ErrShape].
func Set[F float32 | float64](parts []Part, numbers map[string][]F) error {
	for _, p := range parts {
		v := numbers[p.Name]
		if len(v) != p.Size() {
			return fmt.Errorf("%w: %s has %d elements, want %v", ErrShape, p.Name, len(v), p.Shape)
		}
		for _, x := range v {
			*p.Data = append(*p.Data, Round(x))
		}
	}
	return nil
}

// Encode returns parts as a safetensors file.
func Encode(parts []Part) ([]byte, error) {
	tensors := map[string]*ops.Host{}
	for _, p := range parts {
		h := &ops.Host{Shape: p.Shape, DType: ops.BFloat16}
		for _, v := range *p.Data {
			h.Data = binary.LittleEndian.AppendUint16(h.Data, uint16(v))
		}
		tensors[p.Name] = h
	}
	var b bytes.Buffer
	err := safetensors.Write(&b, tensors, nil)
	return b.Bytes(), err
}
