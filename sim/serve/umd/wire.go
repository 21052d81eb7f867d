package umd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrMessage is a message that isn't of the protocol.
var ErrMessage = errors.New("not a message of tt-umd's simulation servers")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMessage, fmt.Sprintf(format, args...))
}

// maxMessage is tt-umd's limit (simulation_server_transport.cpp).
const maxMessage = 1 << 30

// receive reads a message.
func receive(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxMessage {
		return nil, malformed("%d bytes, more than %d", n, maxMessage)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n))) // allocates as the bytes come
	if err == nil && len(b) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

func send(w io.Writer, message []byte) error {
	if _, err := w.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(message)))); err != nil {
		return err
	}
	_, err := w.Write(message)
	return err
}

type command uint8

const (
	read command = iota
	write
	getDeviceInfo
	getClusterDescriptor
	shutdown
)

type request struct {
	command command
	x, y    uint32
	address uint64
	size    uint32
	data    []byte
}

// requestFields are the widths of a request's fields in bytes; 0 is a vector.
var requestFields = []int{1, 4, 4, 8, 4, 0}

func decodeRequest(b []byte) (request, error) {
	f, err := decode(b, requestFields)
	if err != nil {
		return request{}, err
	}
	return request{command(f[0].value), uint32(f[1].value), uint32(f[2].value), f[3].value, uint32(f[4].value), f[5].data}, nil
}

// field is a number of a width in bytes, or a vector of bytes. A string is a vector of
// its bytes without the final zero, which follows.
type field struct {
	width int
	value uint64
	data  []byte
}

func text(s string) field { return field{data: []byte(s)} }

func number(width int, v uint64) field { return field{width: width, value: v} }

func align(n, to int) int { return (n + to - 1) &^ (to - 1) }

// encode returns a FlatBuffer with one table: the table's offset, its list of fields' offsets, the
// table, and its vectors, in this order.
func encode(fields ...field) []byte {
	const list = 4 // behind the table's offset
	table := align(list+4+2*len(fields), 8)
	offsets, end := make([]int, len(fields)), 4 // behind the list's offset
	for i, f := range fields {
		width := f.width
		if width == 0 {
			width = 4
		}
		offsets[i] = align(end, width)
		end = offsets[i] + width
	}
	b := make([]byte, table+end)
	le := binary.LittleEndian
	le.PutUint32(b, uint32(table))
	le.PutUint16(b[list:], uint16(4+2*len(fields)))
	le.PutUint16(b[list+2:], uint16(end))
	le.PutUint32(b[table:], uint32(table-list))
	for i, f := range fields {
		le.PutUint16(b[list+4+2*i:], uint16(offsets[i]))
		at := table + offsets[i]
		switch f.width {
		case 0:
			b = append(b, make([]byte, align(len(b), 4)-len(b))...)
			le.PutUint32(b[at:], uint32(len(b)-at))
			b = append(le.AppendUint32(b, uint32(len(f.data))), f.data...)
			b = append(b, 0) // of a string
		case 1:
			b[at] = byte(f.value)
		case 4:
			le.PutUint32(b[at:], uint32(f.value))
		case 8:
			le.PutUint64(b[at:], f.value)
		}
	}
	return b
}

// decode reads a table's fields of some widths; absent ones are 0. A field that isn't among them is
// an error: a newer client may mean something by it.
func decode(b []byte, widths []int) ([]field, error) {
	le := binary.LittleEndian
	in := func(at, n int64) bool { return at >= 0 && n >= 0 && at+n <= int64(len(b)) }
	if !in(0, 4) {
		return nil, malformed("%d bytes are no FlatBuffer", len(b))
	}
	table := int64(le.Uint32(b))
	if !in(table, 4) {
		return nil, malformed("the table at %d is not in the %d bytes", table, len(b))
	}
	list := table - int64(int32(le.Uint32(b[table:])))
	if !in(list, 4) {
		return nil, malformed("the table's list of fields at %d is not in the %d bytes", list, len(b))
	}
	bytes, size := int64(le.Uint16(b[list:])), int64(le.Uint16(b[list+2:]))
	if bytes < 4 || bytes%2 != 0 || !in(list, bytes) || size < 4 || !in(table, size) {
		return nil, malformed("a list of fields of %d bytes and a table of %d are not in the %d bytes", bytes, size, len(b))
	}
	fields := make([]field, len(widths))
	for i := range int(bytes-4) / 2 {
		off := int64(le.Uint16(b[list+4+2*int64(i):]))
		if off == 0 {
			continue
		}
		if i >= len(widths) {
			return nil, malformed("field %d, of a newer version", i)
		}
		width := int64(widths[i])
		if width == 0 {
			width = 4
		}
		if off < 4 || off+width > size {
			return nil, malformed("field %d at %d is not in the table of %d bytes", i, off, size)
		}
		at := table + off
		f := &fields[i]
		switch f.width = widths[i]; f.width {
		case 1:
			f.value = uint64(b[at])
		case 8:
			f.value = le.Uint64(b[at:])
		default:
			f.value = uint64(le.Uint32(b[at:]))
		}
		if f.width > 0 {
			continue
		}
		at += int64(f.value)
		if !in(at, 4) || !in(at+4, int64(le.Uint32(b[at:]))) {
			return nil, malformed("the bytes of field %d at %d are not in the %d bytes", i, at, len(b))
		}
		f.value, f.data = 0, b[at+4:at+4+int64(le.Uint32(b[at:]))]
	}
	return fields, nil
}
