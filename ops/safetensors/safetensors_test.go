package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/safetensors"
)

func file(header string, data ...byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

func read(b []byte) (*safetensors.File, error) {
	return safetensors.NewFile(bytes.NewReader(b), int64(len(b)))
}

func TestWriteAndLoad(t *testing.T) {
	want := map[string]*ops.Host{}
	for name, dt := range map[string]ops.DataType{"a": ops.UInt8, "b.c": ops.UInt16, "d": ops.UInt32, "e": ops.Int32, "weight": ops.BFloat16,
		"z": ops.Float32} {
		h, err := ops.NewHost([]int{2, 3}, dt, []float32{0, 1, 2, 3, 4, 250})
		devtest.Must(t, err)
		want[name] = h
	}
	var b bytes.Buffer
	devtest.Must(t, safetensors.Write(&b, want, map[string]string{"format": "pt"}))
	path := filepath.Join(t.TempDir(), "model.safetensors")
	devtest.Must(t, os.WriteFile(path, b.Bytes(), 0o644))
	got := expect.Value(safetensors.Load(path))(t)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	f := expect.Value(safetensors.Open(path))(t)
	expect.NoDiff(t, f.Metadata(), map[string]string{"format": "pt"}, "f.Metadata()")
	if info := f.Tensors()[1]; info.Name != "b.c" || info.DType != safetensors.U16 || info.Begin != 6 || info.End != 18 {
		t.Errorf("%+v", info)
	}
	if _, err := f.Tensor("none"); !errors.Is(err, safetensors.ErrNoTensor) {
		t.Error(err)
	}
	expect.Fails(t, f.Close(), nil, "f.Close()")
}

func TestConversions(t *testing.T) {
	for name, c := range map[string]struct {
		dtype string
		data  []byte
		to    ops.DataType
		want  []float32
		err   error
	}{
		"half": {"F16", []byte{0, 0x3C, 1, 0, 0xFF, 0x7B, 0, 0xFC}, ops.Float32,
			[]float32{1, 1.0 / (1 << 24), 65504, float32(math.Inf(-1))}, nil},
		"int8":            {"I8", []byte{0xFF, 5}, ops.Int32, []float32{-1, 5}, nil},
		"int16":           {"I16", []byte{0, 0x80}, ops.Int32, []float32{-32768}, nil},
		"bool":            {"BOOL", []byte{0, 1}, ops.UInt8, []float32{0, 1}, nil},
		"int64":           {"I64", []byte{0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, ops.Int32, []float32{-2}, nil},
		"uint64":          {"U64", []byte{7, 0, 0, 0, 0, 0, 0, 0}, ops.Int32, []float32{7}, nil},
		"a large integer": {"I64", []byte{0, 0, 0, 0, 1, 0, 0, 0}, 0, nil, ops.ErrDataType},
		"a larger one":    {"U64", []byte{0, 0, 0, 0, 0, 0, 0, 0x80}, 0, nil, ops.ErrDataType},
		"double":          {"F64", make([]byte, 8), 0, nil, ops.ErrDataType},
		"float8":          {"F8_E4M3", []byte{1}, 0, nil, ops.ErrDataType},
	} {
		t.Run(name, func(t *testing.T) {
			size := safetensors.DType(c.dtype).Size()
			f, err := read(file(`{"x":{"dtype":"`+c.dtype+`","shape":[`+string(rune('0'+len(c.data)/size))+`],"data_offsets":[0,`+
				string(rune('0'+len(c.data)))+`]}}  `, c.data...))
			devtest.Must(t, err)
			h, err := f.Tensor("x")
			if !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if err == nil && (h.DType != c.to || !cmp.Equal(ops.Values[float32](h), c.want)) {
				t.Errorf("%v of %v, want %v of %v", ops.Values[float32](h), h.DType, c.want, c.to)
			}
		})
	}
}

func TestShapes(t *testing.T) {
	f, err := read(file(`{"scalar":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"deep":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[1,2]},"none":{"dtype":"U8","shape":[0,4],"data_offsets":[2,2]}}`, 1, 2))
	devtest.Must(t, err)
	for name, want := range map[string][]int{"scalar": {}, "none": {0, 4}} {
		if h, err := f.Tensor(name); err != nil || !cmp.Equal(h.Shape, want) {
			t.Errorf("%v, %v", h, err)
		}
	}
	if _, err := f.Tensor("deep"); !errors.Is(err, ops.ErrShape) {
		t.Error(err)
	}
}

func TestFormatErrors(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":                  nil,
		"no header":                {1, 2, 3},
		"a length beyond the file": file("")[:8:8],
		"a huge length":            {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, '{', '}'},
		"a list":                   file(`[]`),
		"no JSON":                  file(`{"x"`),
		"something after it":       file(`{} {}`),
		"a tensor twice":           file(`{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1),
		"metadata twice":           file(`{"__metadata__":{},"__metadata__":{}}`),
		"no type":                  file(`{"x":{"shape":[1],"data_offsets":[0,1]}}`, 1),
		"a hole":                   file(`{"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 1, 2),
		"more data":                file(`{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1, 2),
		"less data":                file(`{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 1),
		"another size":             file(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,1]}}`, 1),
		"a negative dimension":     file(`{"x":{"dtype":"U8","shape":[-1,-1],"data_offsets":[0,1]}}`, 1),
		"an overflow":              file(`{"x":{"dtype":"U8","shape":[2147483647,2147483647,2147483647],"data_offsets":[0,1]}}`, 1),
		"offsets backwards":        file(`{"x":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}}`, 1),
		"a shape of text":          file(`{"x":{"dtype":"U8","shape":["a"],"data_offsets":[0,1]}}`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			var e *safetensors.FormatError
			if _, err := read(b); !errors.As(err, &e) || !errors.Is(err, safetensors.ErrFormat) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestUnknownTypes(t *testing.T) {
	for _, dtype := range []string{"F8_E8M0", "F4", "F6_E2M3", "C64", "F7"} {
		f, err := read(file(`{"y":{"dtype":"`+dtype+`","shape":[2,4],"data_offsets":[0,3]},"x":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}`,
			1, 2, 3, 4))
		devtest.Must(t, err)
		expect.Equal(t, expect.Value(f.Tensor("x"))(t).Data[0], 4, "%s", dtype)
		expect.Says(t, expect.ErrOf(f.Tensor("y")), ops.ErrDataType, dtype)
	}
}

func TestOtherFiles(t *testing.T) {
	for text, want := range map[string]string{
		"PK\x03\x04\x00\x00\x08\x08\x00":                           "a ZIP file",
		"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00}":            "a pickle",
		"version https://git-lfs.github.com/spec/v1\noid sha256:1": "git lfs pull",
		"\n<!DOCTYPE html>":                                        "HTML",
		`{"weight_map":{"x":"a"}}`:                                 "an index",
		"nothing of all these things":                              "a header of",
	} {
		expect.Says(t, expect.ErrOf(read([]byte(text))), safetensors.ErrFormat, want)
	}
}

func writeIndex(t *testing.T, folder, index string) (path string) {
	path = filepath.Join(folder, "model.safetensors.index.json")
	devtest.Must(t, os.WriteFile(path, []byte(index), 0o644))
	return path
}

func TestShards(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"x", "y"} {
		b := file(`{"`+name+`":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, byte(i+1))
		devtest.Must(t, os.WriteFile(filepath.Join(dir, name+".safetensors"), b, 0o644))
	}
	const index = `{"metadata":{"total_size":2},"weight_map":{"y":"y.safetensors","x":"x.safetensors"}}`
	path := writeIndex(t, dir, index)
	got := expect.Value(safetensors.Load(path))(t)
	want := map[string]*ops.Host{}
	for i, name := range []string{"x", "y"} {
		want[name] = &ops.Host{Shape: []int{1}, DType: ops.UInt8, Data: []byte{byte(i + 1)}}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for from, to := range map[string]string{`"y.s`: `"z.s`, `"y.`: `"../y.`, `"y"`: `"z"`, "y.safetensors": filepath.Base(path)} {
		_, err := safetensors.Open(writeIndex(t, dir, strings.Replace(index, from, to, 1)))
		if !errors.Is(err, safetensors.ErrFormat) && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", to, err)
		}
	}
	expect.Error(t, expect.ErrOf(safetensors.Open(dir)))
}

func FuzzIndex(f *testing.F) {
	f.Add(`{"metadata":{"total_size":2},"weight_map":{"y":"y.safetensors"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := safetensors.Open(writeIndex(t, t.TempDir(), text)); err == nil {
			devtest.Must(t, s.Close())
		}
	})
}

func TestFormatErrorOffset(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		before string // what of the header comes before the place
	}{
		"a bracket for a value":      {`{"x":{"dtype":"U8","shape":[1]},"y":{"dtype":]}}`, `{"x":{"dtype":"U8","shape":[1]},"y":{"dtype":]`},
		"no comma":                   {`{"x":{"dtype":"U8"} "y":{}}`, `{"x":{"dtype":"U8"} "`},
		"an end in the middle":       {`{"x":{"dtype":"U8"`, `{"x":{"dtype":"U8"`},
		"a number for a type":        {`{"x":{"dtype":"U8"},"y" : {"dtype":5}}`, `{"x":{"dtype":"U8"},"y" : {"dtype":5`},
		"metadata of numbers":        {`{"__metadata__":{"a":"b","c":1}}`, `{"__metadata__":{"a":"b","c":1`},
		"something after the header": {`{} {}`, `{} {`},
	} {
		var e *safetensors.FormatError
		_, err := read(file(c.header))
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := int64(8 + len(c.before)); e.Offset != want || !strings.Contains(err.Error(), fmt.Sprintf("byte %d: ", want)) {
			t.Errorf("%s: %v, want byte %d", name, err, want)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add(file(`{"x":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]},"__metadata__":{"a":"b"}}`, 1, 2, 3, 4))
	f.Add(file(`{"x":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"y":{"dtype":"BOOL","shape":[0],"data_offsets":[8,8]}}`, 1, 2, 3, 4,
		5, 6, 7, 8))
	f.Add([]byte{0xFF, 0xFF, 0, 0, 0, 0, 0, 0, '{'})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := read(b)
		if err != nil {
			expect.Fails(t, err, safetensors.ErrFormat, "error")
			return
		}
		for _, info := range s.Tensors() {
			h, err := s.Tensor(info.Name)
			switch {
			case err == nil:
				ops.Values[float32](h)
			case !errors.Is(err, ops.ErrShape) && !errors.Is(err, ops.ErrDataType):
				t.Error(err)
			}
		}
	})
}
