package ops

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DataType is the type of a tensor's elements. The numbers are those that the kernels use.
type DataType uint8

// The data types.
const (
	UInt8 DataType = iota
	UInt16
	UInt32
	Int32
	BFloat16 // the upper half of a Float32
	Float32
	numDataTypes
)

var dataTypeNames = [numDataTypes]string{"UINT8", "UINT16", "UINT32", "INT32", "BFLOAT16", "FLOAT32"}

// String spells the type as TT-NN's reports do.
func (t DataType) String() string {
	if t < numDataTypes {
		return "DataType::" + dataTypeNames[t]
	}
	return fmt.Sprintf("DataType(%d)", uint8(t))
}

// Size returns the bytes of an element.
func (t DataType) Size() int {
	switch t {
	case UInt8:
		return 1
	case UInt16, BFloat16:
		return 2
	}
	return 4
}

// Float says whether elements are floats.
func (t DataType) Float() bool { return t == BFloat16 || t == Float32 }

// Number is what elements of tensors are on the host.
type Number interface {
	~uint8 | ~uint16 | ~uint32 | ~int32 | ~float32
}

// bits returns an element as the kernels see it: integers as 32 bits, floats as those of single precision.
func (t DataType) bits(b []byte) uint32 {
	switch t {
	case UInt8:
		return uint32(b[0])
	case UInt16:
		return uint32(binary.LittleEndian.Uint16(b))
	case BFloat16:
		return uint32(binary.LittleEndian.Uint16(b)) << 16
	}
	return binary.LittleEndian.Uint32(b)
}

// put is the reverse of bits.
func (t DataType) put(b []byte, v uint32) {
	switch t {
	case UInt8:
		b[0] = uint8(v)
	case UInt16:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case BFloat16:
		if v&^(1<<31) > 0x7F800000 {
			v = 0x7FC00000
		} else {
			v += 0x7FFF + v>>16&1
		}
		binary.LittleEndian.PutUint16(b, uint16(v>>16))
	default:
		binary.LittleEndian.PutUint32(b, v)
	}
}

// toBits converts a number to an element, as Go's conversions do.
func toBits[T Number](t DataType, v T) uint32 {
	switch {
	case t.Float():
		return math.Float32bits(float32(v))
	case t == Int32:
		return uint32(int32(v))
	}
	return uint32(v)
}

// fromBits converts an element to a number, as Go's conversions do.
func fromBits[T Number](t DataType, v uint32) T {
	switch {
	case t.Float():
		return T(math.Float32frombits(v))
	case t == Int32:
		return T(int32(v))
	}
	return T(v)
}
