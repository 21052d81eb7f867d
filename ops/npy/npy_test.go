package npy_test

import (
	"bytes"
	"errors"
	"math"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/npy"
)

func TestRoundTrip(t *testing.T) {
	for _, of := range []ops.DataType{ops.UInt8, ops.UInt16, ops.UInt32, ops.Int32, ops.BFloat16, ops.Float32} {
		h, err := ops.NewHost([]int{2, 3}, of, []float32{0, 1, 2, 100, 77, 5})
		expect.Must(t, err)
		var b bytes.Buffer
		expect.Must(t, npy.Write(&b, h))
		got, err := npy.Read(&b, of)
		if diff := cmp.Diff(h, got); diff != "" || err != nil {
			t.Errorf("%v: %v (-written +read):\n%s", of, err, diff)
		}
	}
}

// file is an array as NumPy writes it.
func file(descr, shape, data string) string {
	header := "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n"
	return "\x93NUMPY\x01\x00" + string([]byte{byte(len(header)), 0}) + header + data
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, file string
		of         ops.DataType
		want       []float32
		err        error
	}{
		{"int64", file("<i8", "(2,)", "\x05\x00\x00\x00\x00\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff"), ops.Int32, []float32{5, -2}, nil},
		{"int64 too large", file("<i8", "(1,)", "\x00\x00\x00\x00\x01\x00\x00\x00"), ops.Int32, nil, npy.ErrFormat},
		{"float64", file("<f8", "(1, 1)", "\x00\x00\x00\x00\x00\x00\xf0\x3f"), ops.BFloat16, []float32{1}, nil},
		{"int16", file("<i2", "(1,)", "\xff\xff"), ops.Int32, []float32{-1}, nil},
		{"other shape", file("|u1", "(3,)", "ab"), ops.UInt8, nil, ops.ErrShape},
		{"half an element", file("<u2", "(1,)", "abc"), ops.UInt8, nil, npy.ErrFormat},
		{"objects", file("|O", "(1,)", "a"), ops.UInt8, nil, npy.ErrFormat},
		{"huge", file("<f4", "(99999999999999999999,)", ""), ops.UInt8, nil, npy.ErrFormat},
		{"Fortran", strings.Replace(file("|u1", "(1,1)", "a"), "False", "True ", 1), ops.UInt8, nil, npy.ErrFormat},
		{"cut off", "\x93NUMPY\x01\x00\xff\xff{", ops.UInt8, nil, npy.ErrFormat},
		{"text", "1 2 3", ops.UInt8, nil, npy.ErrFormat},
	} {
		h, err := npy.Read(strings.NewReader(c.file), c.of)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		} else if err == nil {
			expect.NoDiff(t, ops.Values[float32](h), c.want, "%s", c.name)
		}
	}
}

// NumPy reads what Write writes.
func TestNumPy(t *testing.T) {
	h, err := ops.NewHost([]int{1, 2}, ops.Float32, []float32{1.5, -math.Pi})
	expect.Must(t, err)
	var b bytes.Buffer
	expect.Must(t, npy.Write(&b, h))
	if err := exec.CommandContext(t.Context(), "python3", "-c", "import numpy").Run(); err != nil {
		t.Skip("python3 has no numpy:", err)
	}
	c := exec.CommandContext(t.Context(), "python3", "-c", "import numpy,sys,io; print(repr(numpy.load(io.BytesIO(sys.stdin.buffer.read()))))")
	c.Stdin = &b
	out, err := c.CombinedOutput()
	if want := "array([[ 1.5      , -3.1415927]], dtype=float32)\n"; err != nil || string(out) != want {
		t.Errorf("%v, NumPy has %q, want %q", err, out, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(file("<i8", "(1,)", "12345678")), uint8(ops.Int32))
	f.Add([]byte(file("|u1", "(2, 1)", "ab")), uint8(ops.BFloat16))
	f.Fuzz(func(_ *testing.T, b []byte, of uint8) { _, _ = npy.Read(bytes.NewReader(b), ops.DataType(of)) })
}
