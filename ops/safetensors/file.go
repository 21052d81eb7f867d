package safetensors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/reprise-tt/reprise/ops"
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
