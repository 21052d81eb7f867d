package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/reprise-tt/reprise/ops"
)

// DType is the type of a tensor's elements, as files spell it. BF16, F32, U8, U16, U32 and I32 are
// the types of package ops with those bits. [File.Tensor] converts F16 to Float32, BOOL to UInt8,
// and I8, I16, I64 and U64 to Int32, if all numbers fit. It refuses tensors of any other type, such
// as F64, F8_E8M0, F4 and C64, also of types that this package has no constant for.
type DType string

// The data types.
const (
	Bool   DType = "BOOL"
	U8     DType = "U8"
	I8     DType = "I8"
	F8E5M2 DType = "F8_E5M2"
	F8E4M3 DType = "F8_E4M3"
	I16    DType = "I16"
	U16    DType = "U16"
	F16    DType = "F16"
	BF16   DType = "BF16"
	I32    DType = "I32"
	U32    DType = "U32"
	F32    DType = "F32"
	F64    DType = "F64"
	I64    DType = "I64"
	U64    DType = "U64"
)

// Size returns the size of an element in bytes; 0 for an unknown type.
func (t DType) Size() int {
	switch t {
	case Bool, U8, I8, F8E5M2, F8E4M3:
		return 1
	case I16, U16, F16, BF16:
		return 2
	case I32, U32, F32:
		return 4
	case F64, I64, U64:
		return 8
	}
	return 0
}

var types = map[ops.DataType]DType{
	ops.UInt8: U8, ops.UInt16: U16, ops.UInt32: U32, ops.Int32: I32, ops.BFloat16: BF16, ops.Float32: F32,
}

var converted = map[DType]struct {
	to   ops.DataType
	bits func([]byte) (uint32, error)
}{
	F16: {ops.Float32, func(v []byte) (uint32, error) { return halfBits(binary.LittleEndian.Uint16(v)), nil }},
	I8:  {ops.Int32, func(v []byte) (uint32, error) { return uint32(int8(v[0])), nil }},
	I16: {ops.Int32, func(v []byte) (uint32, error) { return uint32(int16(binary.LittleEndian.Uint16(v))), nil }},
	I64: {ops.Int32, func(v []byte) (uint32, error) { return narrow(int64(binary.LittleEndian.Uint64(v))) }},
	U64: {ops.Int32, func(v []byte) (uint32, error) { return narrow(binary.LittleEndian.Uint64(v)) }},
}

func narrow[N int64 | uint64](n N) (uint32, error) {
	if N(int32(n)) != n || n > math.MaxInt32 {
		return 0, fmt.Errorf("%w: %d doesn't fit into Int32", ops.ErrDataType, n)
	}
	return uint32(n), nil
}

// conversion returns the data type that elements get, and the function that converts them, or nil.
func (t DType) conversion() (ops.DataType, func([]byte) ([]byte, error)) {
	same := func(b []byte) ([]byte, error) { return b, nil }
	for to, from := range types {
		if from == t {
			return to, same
		}
	}
	if t == Bool {
		return ops.UInt8, same
	}
	c, ok := converted[t]
	if !ok {
		return 0, nil
	}
	return c.to, func(b []byte) ([]byte, error) {
		out := make([]byte, 0, len(b)/t.Size()*4)
		for v := range slices.Chunk(b, t.Size()) {
			n, err := c.bits(v)
			if err != nil {
				return nil, err
			}
			out = binary.LittleEndian.AppendUint32(out, n)
		}
		return out, nil
	}
}

// halfBits converts IEEE half precision to single, exactly.
func halfBits(h uint16) uint32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&0x3FF)
	switch {
	case exponent == 31:
		return sign | 0x7F800000 | fraction<<13
	case exponent == 0:
		return sign | math.Float32bits(float32(fraction)/(1<<24))
	}
	return sign | (exponent+127-15)<<23 | fraction<<13
}
