package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// maxHeader is the format's limit for a header, in bytes.
const maxHeader = 100_000_000

const metadataKey = "__metadata__"

type entry struct {
	DType   DType    `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

func (f *File) readHeader(size int64) error {
	if size < 8 {
		return invalid("", "it has %d bytes: want at least the 8 of the header's length", size)
	}
	length := make([]byte, 8)
	if n, err := f.r.ReadAt(length, 0); n != len(length) {
		return &FormatError{Why: "can't read the header's length", Err: err}
	}
	n := binary.LittleEndian.Uint64(length)
	if n > maxHeader || int64(n) > size-8 {
		start := make([]byte, min(size, 64))
		_, _ = f.r.ReadAt(start, 0) // what can't be read has no description
		return invalid("", "%sa header of %d bytes: want at most %d, and no more than the %d that follow", describe(start), n, maxHeader, size-8)
	}
	text := make([]byte, n)
	if got, err := f.r.ReadAt(text, 8); got != len(text) {
		return &FormatError{Why: "can't read the header", Err: err}
	}
	if n == 0 || text[0] != '{' {
		return invalid("", "the header doesn't begin with {")
	}
	if err := f.parse(text); err != nil {
		return err
	}
	f.data = 8 + int64(n)
	return f.layOut(size - f.data)
}

func (f *File) parse(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	bad := func(err error) error { return notJSON(text, "", "the header isn't JSON of that form", 0, err) }
	if _, err := d.Token(); err != nil { // {
		return bad(err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return bad(err)
		}
		name, _ := key.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return bad(err)
		}
		start := d.InputOffset() - int64(len(value))
		if _, ok := f.byName[name]; ok || name == metadataKey && f.metadata != nil {
			return invalid(name, "it is there twice")
		}
		if name == metadataKey {
			f.metadata = map[string]string{}
			if err := json.Unmarshal(value, &f.metadata); err != nil {
				return notJSON(text, name, "it isn't JSON of that form", start, err)
			}
			continue
		}
		var e entry
		if err := json.Unmarshal(value, &e); err != nil {
			return notJSON(text, name, "the entry isn't JSON of that form", start, err)
		}
		f.byName[name] = 0
		f.tensors = append(f.tensors, Info{Name: name, DType: e.DType, Shape: e.Shape, Begin: e.Offsets[0], End: e.Offsets[1]})
	}
	if _, err := d.Token(); err != nil { // }
		return bad(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return notJSON(text, "", "something follows the header's object", 0, nil)
	}
	return nil
}

func invalid(tensor, format string, args ...any) error {
	return &FormatError{Tensor: tensor, Why: fmt.Sprintf(format, args...)}
}

// notJSON is the error of a header that isn't JSON, or of an unexpected value at start.
func notJSON(text []byte, tensor, why string, start int64, err error) error {
	e := &FormatError{Tensor: tensor, Why: why, Err: err}
	var whole json.RawMessage
	var syntax *json.SyntaxError
	var form *json.UnmarshalTypeError
	switch { // a decoder that has read tokens counts from the last one
	case errors.As(json.Unmarshal(text, &whole), &syntax):
		e.Offset, e.Err = 8+syntax.Offset, syntax
	case errors.As(err, &form):
		e.Offset = 8 + start + form.Offset
	}
	return e
}

// layOut checks that the tensors fill the data, one after another, and sorts them in that order.
func (f *File) layOut(size int64) error {
	slices.SortStableFunc(f.tensors, func(a, b Info) int { return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End)) })
	var at int64
	for i, t := range f.tensors {
		if t.Begin != at || t.End < t.Begin || t.End > size {
			return invalid(t.Name, "data from %d to %d: want it to begin at %d, where the one before ends, and to end within %d bytes", t.Begin,
				t.End, at, size)
		}
		want, err := t.bytes()
		if err != nil {
			return err
		}
		if want != t.End-t.Begin && t.DType.Size() != 0 {
			return invalid(t.Name, "%d bytes of data: want %d for %v of %s", t.End-t.Begin, want, t.Shape, t.DType)
		}
		f.byName[t.Name] = i
		at = t.End
	}
	if at != size {
		return invalid("", "%d bytes of data, of which tensors use %d", size, at)
	}
	return nil
}

func (t *Info) bytes() (int64, error) {
	n := int64(max(t.DType.Size(), 1))
	if t.DType == "" {
		return 0, invalid(t.Name, "no data type")
	}
	for _, d := range t.Shape {
		if d < 0 || d > math.MaxInt32 || d != 0 && n > math.MaxInt64/d {
			return 0, invalid(t.Name, "the shape %v", t.Shape)
		}
		n *= d
	}
	return n, nil
}
