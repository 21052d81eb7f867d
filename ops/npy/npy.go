// Package npy reads and writes host tensors as NumPy's .npy files.
//
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1 to 3.
package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/ops"
)

// ErrFormat: a file isn't an array that Read takes.
var ErrFormat = errors.New("not an .npy file of numbers")

const magic = "\x93NUMPY"

// maxHeader bounds a header; NumPy itself refuses more than 10,000 bytes by default.
const maxHeader = 1 << 16

var (
	descrField   = regexp.MustCompile(`'descr': *'([^']*)'`)
	fortranField = regexp.MustCompile(`'fortran_order': *(True|False)`)
	shapeField   = regexp.MustCompile(`'shape': *\(([0-9, ]*)\)`)
)

func wrong(format string, args ...any) error {
	return fmt.Errorf("npy: %w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// Read reads an array of integers or floats of any size, little-endian and in C order, as a tensor
// of type t: converted as by [ops.NewHost], except that 64-bit integers must fit in 32 bits. The
// error wraps ErrFormat, ops.ErrShape or an error of r. Memory is a small multiple of the bytes
// that r delivers.
func Read(r io.Reader, t ops.DataType) (*ops.Host, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("npy: %w", err)
	}
	header, data, err := split(b)
	if err != nil {
		return nil, err
	}
	descr, fortran, dims := descrField.FindSubmatch(header), fortranField.FindSubmatch(header), shapeField.FindSubmatch(header)
	if descr == nil || fortran == nil || dims == nil {
		return nil, wrong("its header is %.80q, without a type, an order and a shape", header)
	}
	var shape []int
	for d := range strings.SplitSeq(string(dims[1]), ",") {
		if d = strings.TrimSpace(d); d == "" {
			continue
		}
		n, err := strconv.Atoi(d)
		if err != nil {
			return nil, wrong("its shape is (%s)", dims[1])
		}
		shape = append(shape, n)
	}
	if string(fortran[1]) == "True" && len(shape) > 1 {
		return nil, wrong("it is in Fortran order: save numpy.ascontiguousarray of it")
	}
	convert := converters[string(descr[1])]
	if convert == nil {
		return nil, wrong("its type is %s, want little-endian integers, float32 or float64", descr[1])
	}
	return convert(shape, t, data)
}

var converters = map[string]func([]int, ops.DataType, []byte) (*ops.Host, error){
	"|u1": host[uint8], "<u2": host[uint16], "<u4": host[uint32], "|i1": host[int8], "<i2": host[int16], "<i4": host[int32],
	"<i8": host[int64], "<f4": host[float32], "<f8": host[float64],
}

// split returns the header and what follows it.
func split(b []byte) (header, data []byte, err error) {
	if !bytes.HasPrefix(b, []byte(magic)) || len(b) < len(magic)+6 {
		return nil, nil, wrong("it begins with %.8q", b)
	}
	version, n, at := b[len(magic)], int(binary.LittleEndian.Uint16(b[len(magic)+2:])), len(magic)+4
	if version > 1 {
		n, at = int(binary.LittleEndian.Uint32(b[len(magic)+2:])), len(magic)+6
	}
	if version < 1 || version > 3 || n > min(maxHeader, len(b)-at) {
		return nil, nil, wrong("version %d with a header of %d bytes, in a file of %d", version, n, len(b))
	}
	return b[at : at+n], b[at+n:], nil
}

func host[T ops.Number](shape []int, t ops.DataType, data []byte) (*ops.Host, error) {
	size := binary.Size(*new(T))
	list := make([]T, len(data)/size)
	if len(data)%size != 0 {
		return nil, wrong("it has %d bytes of data, of elements of %d bytes", len(data), size)
	}
	if _, err := binary.Decode(data, binary.LittleEndian, list); err != nil {
		return nil, err
	}
	wide, _ := any(list).([]int64)
	for _, v := range wide {
		n := int64(int32(v))
		if t == ops.UInt32 {
			n = int64(uint32(v))
		}
		if n != v {
			return nil, wrong("element %d doesn't fit in 32 bits", v)
		}
	}
	return ops.NewHost(shape, t, list)
}

// Write writes a host tensor, floats as float32. The error is that of w.
func Write(w io.Writer, h *ops.Host) error {
	descr, data := "<f4", h.Data
	switch h.DType {
	case ops.UInt8:
		descr = "|u1"
	case ops.UInt16:
		descr = "<u2"
	case ops.UInt32:
		descr = "<u4"
	case ops.Int32:
		descr = "<i4"
	default:
		data, _ = binary.Append(nil, binary.LittleEndian, ops.Values[float32](h))
	}
	var dims strings.Builder
	for _, d := range h.Shape {
		fmt.Fprintf(&dims, "%d, ", d)
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, strings.TrimSuffix(dims.String(), " "))
	// The data begins at a multiple of 64 bytes, and the header ends in a new line.
	header += strings.Repeat(" ", 63-(len(magic)+4+len(header))%64) + "\n"
	head := binary.LittleEndian.AppendUint16([]byte(magic+"\x01\x00"), uint16(len(header)))
	for _, b := range [][]byte{append(head, header...), data} {
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("npy: %w", err)
		}
	}
	return nil
}
