// Package bf16 has numbers in bfloat16, and reads files with those of a network.
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

func (b Number) String() string { return fmt.Sprint(b.Float()) }

// Round returns the nearest bfloat16, of two the even one. NaN stays NaN.
func Round(x float32) Number {
	v := math.Float32bits(x)
	if v&^(1<<31) > 0x7F800000 {
		return 0x7FC0
	}
	return Number((v + 0x7FFF + v>>16&1) >> 16)
}

// Host returns numbers as a tensor.
func Host(v []Number, shape ...int) *ops.Host {
	data, _ := binary.Append(nil, binary.LittleEndian, v) // numbers are of fixed size
	return &ops.Host{Shape: shape, DType: ops.BFloat16, Data: data}
}

// Decode reads the tensors of a network from a safetensors file. The error wraps
// [ErrShape], or is one of package safetensors.
func Decode(file []byte, network []Part) error {
	f, err := safetensors.NewFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return err
	}
	for _, p := range network {
		t, err := f.Tensor(p.Name)
		if err != nil {
			return err
		}
		if !slices.Equal(t.Shape, p.Shape) || t.DType != ops.BFloat16 {
			return fmt.Errorf("%w: %s is %v of %v, want %v of bfloat16", ErrShape, p.Name, t.Shape, t.DType, p.Shape)
		}
		*p.Data = make([]Number, len(t.Data)/2)
		_, _ = binary.Decode(t.Data, binary.LittleEndian, *p.Data)
	}
	return nil
}

// Part is a tensor of a network.
type Part struct {
	Name  string // in files
	Shape []int
	Data  *[]Number
}
