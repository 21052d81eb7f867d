package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/tracebuf"
)

var (
	// ErrFormat is in errors about files that aren't in the format; the error is a [*FormatError].
	ErrFormat = errors.New("not a valid safetensors file")
	// ErrNoTensor is in errors about names of tensors that aren't in a file.
	ErrNoTensor = errors.New("no such tensor")
)

// FormatError says what is wrong with a file. It matches [ErrFormat].
type FormatError struct {
	Tensor string // whose entry in the header is wrong, or empty
	Why    string
	Offset int64 // in the file, after what is wrong in the header; otherwise 0
	Err    error
}

func (e *FormatError) Error() string {
	s := "safetensors: " + ErrFormat.Error() + ": "
	if e.Tensor != "" {
		s += fmt.Sprintf("tensor %q: ", e.Tensor)
	}
	if e.Offset != 0 {
		s += fmt.Sprintf("byte %d: ", e.Offset)
	}
	s += e.Why
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *FormatError) Is(target error) bool { return target == ErrFormat }

func (e *FormatError) Unwrap() error { return e.Err }

// Info describes a tensor in a file.
type Info struct {
	Name  string
	DType DType
	Shape []int64
	// Begin and End delimit the data, in bytes after the header.
	Begin, End int64
}

// File is an open file. Its methods may be called from several goroutines.
type File struct {
	r        io.ReaderAt
	close    func() error
	data     int64
	tensors  []Info
	byName   map[string]int
	metadata map[string]string
	shards   map[string]*File // by tensor, of an index
}

// Open opens a file and reads its header, or those of all files that the index of a sharded model
// (model.safetensors.index.json) names; tensors are then in the order of their names, each with the
// offsets in its own file. The error is a [*FormatError] for an invalid file.
func Open(path string) (*File, error) {
	f, err := openOne(path)
	if index := (*shardedError)(nil); errors.As(err, &index) {
		if f, err = openShards(filepath.Dir(path), index.shards, index.metadata); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return f, err
}

// shardedError is openOne's for an index.
type shardedError struct {
	FormatError
	shards, metadata map[string]string
}

func openOne(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: open: %w", err)
	}
	st, err := f.Stat()
	switch {
	case err != nil:
		err = fmt.Errorf("safetensors: open: %w", err)
	case !st.Mode().IsRegular():
		err = fmt.Errorf("safetensors: open: %w", &fs.PathError{Op: "read at any place", Path: path, Err: fs.ErrInvalid})
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	out, err := NewFile(f, st.Size())
	if err != nil {
		if shards, metadata := readIndex(f, st.Size()); shards != nil {
			err = &shardedError{FormatError{Why: "it is an index, in an index"}, shards, metadata}
		}
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	out.close = f.Close
	return out, nil
}

// NewFile reads the header of a file of size bytes. The File keeps using the reader.
func NewFile(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, close: func() error { return nil }, byName: map[string]int{}}
	if err := f.readHeader(size); err != nil {
		return nil, err
	}
	return f, nil
}

// Load reads all tensors of a file.
func Load(path string) (tensors map[string]*ops.Host, err error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	tensors = make(map[string]*ops.Host, len(f.tensors))
	for _, t := range f.tensors {
		if tensors[t.Name], err = f.Tensor(t.Name); err != nil {
			return nil, err
		}
	}
	return tensors, nil
}

// Close closes the file.
func (f *File) Close() error {
	if err := f.close(); err != nil {
		return fmt.Errorf("safetensors: close: %w", err)
	}
	return nil
}

// Tensors describes the tensors, in the order of their data.
func (f *File) Tensors() []Info {
	out := slices.Clone(f.tensors)
	for i := range out {
		out[i].Shape = slices.Clone(out[i].Shape)
	}
	return out
}

// Metadata returns the header's metadata.
func (f *File) Metadata() map[string]string { return maps.Clone(f.metadata) }

// Tensor reads a tensor, converted as [DType] says. The error wraps [ErrNoTensor], ops.ErrDataType
// for a type that no operation takes or for integers that don't fit into Int32, or ops.ErrShape for
// a tensor with more than eight dimensions.
func (f *File) Tensor(name string) (*ops.Host, error) {
	if shard := f.shards[name]; shard != nil {
		return shard.Tensor(name)
	}
	i, ok := f.byName[name]
	if !ok {
		return nil, fmt.Errorf("safetensors: %w: %q", ErrNoTensor, name)
	}
	t := f.tensors[i]
	h, err := f.read(t)
	if err != nil {
		return nil, fmt.Errorf("safetensors: tensor %q: %w", name, err)
	}
	return h, nil
}

func (f *File) read(t Info) (*ops.Host, error) {
	to, convert := t.DType.conversion()
	if convert == nil {
		return nil, fmt.Errorf("%w: operations don't take %s", ops.ErrDataType, t.DType)
	}
	if len(t.Shape) > 8 {
		return nil, fmt.Errorf("%w: %v: want up to 8 dimensions", ops.ErrShape, t.Shape)
	}
	shape := []int{}
	for _, n := range t.Shape {
		shape = append(shape, int(n))
	}
	data := make([]byte, t.End-t.Begin)
	if n, err := f.r.ReadAt(data, f.data+t.Begin); n != len(data) {
		return nil, fmt.Errorf("read %d bytes of data: %w", len(data), err)
	}
	data, err := convert(data)
	if err != nil {
		return nil, err
	}
	return &ops.Host{Shape: shape, DType: to, Data: data}, nil
}

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

// Refer leaves the contents of a trace's buffers to this file, where both have the same: a tensor
// of the file, rounded to the buffer's type and in its shape, as it is or with its last two
// dimensions in each other's places. [ops.Model.LoadWeights] reads them from it, or from a file
// with other weights. It returns the number of buffers. Tensors of types and shapes that ops
// doesn't have stay in the trace.
func (f *File) Refer(trace *tracebuf.File) int {
	type kind struct { // of buffers whose contents are made of a weight in the same way
		spec ops.Spec
		data []int // in trace.Data
	}
	kinds := map[string]*kind{}
	for i, d := range trace.Data {
		b := &trace.Image.Buffers[d.Buffer]
		s, err := ops.SpecOf(b)
		if err != nil || b.Tensor.Input || b.Tensor.Weight != "" || b.Output || len(d.Bytes) != b.Size {
			continue
		}
		name := fmt.Sprint(s)
		if kinds[name] == nil {
			kinds[name] = &kind{spec: s}
		}
		kinds[name].data = append(kinds[name].data, i)
	}
	given := map[int]bool{}
	for _, info := range f.tensors {
		h, err := f.Tensor(info.Name)
		if err != nil {
			continue
		}
		for _, k := range kinds {
			for _, transposed := range []bool{false, true} {
				content, err := ops.WeightOf(h, k.spec, transposed)
				if err != nil {
					continue
				}
				for _, i := range k.data {
					if !given[i] && bytes.Equal(content, trace.Data[i].Bytes) {
						t := trace.Image.Buffers[trace.Data[i].Buffer].Tensor
						t.Weight, t.Transposed, given[i] = info.Name, transposed, true
					}
				}
			}
		}
	}
	var kept []tracebuf.Data
	for i, d := range trace.Data {
		if !given[i] {
			kept = append(kept, d)
		}
	}
	trace.Data = kept
	return len(given)
}

// Write writes tensors to a file, in the order of their names. The metadata may be nil. The error
// wraps ops.ErrDataType for a type that files don't have, and ops.ErrShape for data that don't fit
// their shape.
func Write(w io.Writer, tensors map[string]*ops.Host, metadata map[string]string) error {
	header := map[string]any{}
	if metadata != nil {
		header[metadataKey] = metadata
	}
	names := slices.Sorted(maps.Keys(tensors))
	var at int64
	for _, name := range names {
		h := tensors[name]
		if name == metadataKey || h == nil {
			return fmt.Errorf("safetensors: write: %w: %q is no name of a tensor, or the tensor is nil", ops.ErrShape, name)
		}
		t := Info{Name: name, DType: types[h.DType]}
		if t.DType == "" {
			return fmt.Errorf("safetensors: write tensor %q: %w: %v", name, ops.ErrDataType, h.DType)
		}
		for _, n := range h.Shape {
			t.Shape = append(t.Shape, int64(n))
		}
		n, err := t.bytes()
		if err != nil || n != int64(len(h.Data)) {
			return fmt.Errorf("safetensors: write tensor %q: %w: %v with %d bytes", name, ops.ErrShape, h.Shape, len(h.Data))
		}
		header[name], at = entry{t.DType, t.Shape, [2]int64{at, at + n}}, at+n
	}
	text, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("safetensors: write: %w", err)
	}
	for len(text)%8 != 0 { // so that data are aligned
		text = append(text, ' ')
	}
	parts := [][]byte{binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text}
	for _, name := range names {
		parts = append(parts, tensors[name].Data)
	}
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return fmt.Errorf("safetensors: write: %w", err)
		}
	}
	return nil
}

// magics are the first bytes of files that are taken for safetensors files.
var magics = []struct{ start, what string }{
	{"PK\x03\x04", "a ZIP file, as PyTorch's .bin, .pt and .pth: convert it to safetensors"},
	{"\x80", "a pickle, as PyTorch's .bin, .pt and .pth: convert it to safetensors"},
	{"version https://git-lfs", "a Git LFS pointer instead of the file: run git lfs pull"},
	{"<", "an HTML or XML page: the download got a page instead of the file"},
	{"GGUF", "a GGUF file: get the model in safetensors"},
	{"{", "JSON: an index of shards has a weight_map and is for Open, which finds the shards beside it"},
}

// describe says what a file is instead, or nothing.
func describe(start []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(bytes.TrimLeft(start, "\xEF\xBB\xBF \t\r\n"), []byte(m.start)) {
			return "it is " + m.what + "; "
		}
	}
	return ""
}

// readIndex reads the index of a sharded model, or returns nil for any other file.
func readIndex(r io.ReaderAt, size int64) (shards map[string]string, metadata map[string]string) {
	start := make([]byte, 8)
	if n, _ := r.ReadAt(start, 0); n < len(start) || start[7] == 0 || size > maxHeader {
		return nil, nil
	}
	text := make([]byte, size)
	var index struct {
		Metadata map[string]any    `json:"metadata"`
		Shards   map[string]string `json:"weight_map"`
	}
	if n, _ := r.ReadAt(text, 0); n < len(text) || json.Unmarshal(text, &index) != nil {
		return nil, nil
	}
	metadata = map[string]string{}
	for k, v := range index.Metadata {
		metadata[k] = fmt.Sprint(v)
	}
	return index.Shards, metadata
}

func openShards(folder string, shards, metadata map[string]string) (out *File, err error) {
	files := map[string]*File{}
	closeAll := func() (err error) {
		for _, f := range files {
			err = errors.Join(err, f.close())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	out = &File{shards: map[string]*File{}, metadata: metadata, close: closeAll}
	for _, tensor := range slices.Sorted(maps.Keys(shards)) {
		name := shards[tensor]
		f, ok := files[name]
		switch {
		case !filepath.IsLocal(name):
			return nil, invalid(tensor, "the index has it in %q: want a file beside the index", name)
		case !ok:
			if f, err = openOne(filepath.Join(folder, name)); err != nil {
				return nil, fmt.Errorf("shard with tensor %q: %w", tensor, err)
			}
			files[name] = f
		}
		i, ok := f.byName[tensor]
		if !ok {
			return nil, invalid(tensor, "the index has it in %q, which doesn't have it", name)
		}
		out.shards[tensor] = f
		out.tensors = append(out.tensors, f.tensors[i])
	}
	return out, nil
}
