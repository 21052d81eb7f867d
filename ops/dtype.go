package ops

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
)

// DataType is the type of a tensor's elements, with the kernels' numbers.
type DataType uint8

// The data types. BFloat8B, TT-NN's bfloat8_b, is for tiles of weights, the second operand of a
// product. On a device, 16 elements of a row share the exponent of the largest and have a sign and
// 7 bits each: a tile takes 1,088 bytes instead of 2,048. Host elements are BFloat16, which
// [Device.ToDevice] rounds half away from zero, as packers do: the error is at most 2^-7 of the
// block's largest element. Numbers below 2^-126 become 0.
const (
	UInt8 DataType = iota
	UInt16
	UInt32
	Int32
	BFloat16 // the upper 16 bits of a Float32
	Float32
	BFloat8B // blocks of 16 elements with one exponent
	numDataTypes
)

var dataTypeNames = [numDataTypes]string{"UINT8", "UINT16", "UINT32", "INT32", "BFLOAT16", "FLOAT32", "BFLOAT8_B"}

func (t DataType) String() string {
	if t < numDataTypes {
		return "DataType::" + dataTypeNames[t]
	}
	return fmt.Sprintf("DataType(%d)", uint8(t))
}

// Size returns the size of an element in bytes, on the host.
func (t DataType) Size() int {
	switch t {
	case UInt8:
		return 1
	case UInt16, BFloat16, BFloat8B:
		return 2
	}
	return 4
}

// Float reports whether elements are floats with their own exponents.
func (t DataType) Float() bool { return t == BFloat16 || t == Float32 }

// Number is the Go types that elements convert to and from.
type Number interface {
	~uint8 | ~uint16 | ~uint32 | ~int8 | ~int16 | ~int32 | ~int | ~int64 | ~float32 | ~float64
}

// bits returns an element in 32 bits, as kernels hold it: an integer zero-extended, a float in
// single precision.
func (t DataType) bits(b []byte) uint32 {
	switch t {
	case UInt8:
		return uint32(b[0])
	case UInt16:
		return uint32(binary.LittleEndian.Uint16(b))
	case BFloat16, BFloat8B:
		return uint32(binary.LittleEndian.Uint16(b)) << 16
	}
	return binary.LittleEndian.Uint32(b)
}

// put stores an element, the inverse of bits. A float is rounded to nearest, ties to even.
func (t DataType) put(b []byte, v uint32) {
	switch t {
	case UInt8:
		b[0] = uint8(v)
	case UInt16:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case BFloat16, BFloat8B:
		if v&^(1<<31) > 0x7F800000 {
			v = 0x7FC00000 // TT-NN's one NaN
		} else {
			v += 0x7FFF + v>>16&1
		}
		binary.LittleEndian.PutUint16(b, uint16(v>>16))
	default:
		binary.LittleEndian.PutUint32(b, v)
	}
}

// integer converts a number to the bits of an integer as [Device.Typecast] does.
func (t DataType) integer(v float64) uint32 { return uint32(integer(v, 8*t.Size(), t == Int32)) }

// integer truncates a number to the nearest integer of some bits, but for the least signed one.
func integer(v float64, bits int, signed bool) int64 {
	least, most := int64(0), int64(1)<<bits-1
	if signed {
		most = math.MaxInt64 >> (64 - bits)
		least = -most
	}
	switch {
	case v >= float64(most), v != v && !math.Signbit(v):
		return most
	case v <= float64(least), v != v:
		return least
	}
	return int64(v)
}

func toBits[T Number](t DataType, v T) uint32 {
	switch {
	case t.Float() || t == BFloat8B:
		return math.Float32bits(float32(v))
	case T(1)/2 != 0:
		return t.integer(float64(v))
	}
	return uint32(v)
}

// fromBits converts an element to the Go type T, which is to.
func fromBits[T Number](t DataType, to reflect.Type, v uint32) T {
	switch {
	case t == Int32:
		return T(int32(v))
	case !t.Float() && t != BFloat8B:
		return T(v)
	case T(1)/2 != 0:
		return T(math.Float32frombits(v))
	}
	return T(integer(float64(math.Float32frombits(v)), to.Bits(), to.Kind() >= reflect.Int && to.Kind() <= reflect.Int64))
}
