package bf16

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/safetensors"
)

func TestFiles(t *testing.T) {
	host := func(dtype ops.DataType, shape ...int) *ops.Host {
		h, err := ops.NewHost(shape, dtype, []float32{1, 2})
		devtest.Must(t, err)
		return h
	}
	file := func(name string, h *ops.Host) []byte {
		var b bytes.Buffer
		devtest.Must(t, safetensors.Write(&b, map[string]*ops.Host{name: h}, nil))
		return b.Bytes()
	}
	var got []Number
	parts := []Part{{"a", []int{1, 2}, &got}}
	good := file("a", host(ops.BFloat16, 1, 2))
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"good":             {good, nil},
		"cut":              {good[:len(good)-1], safetensors.ErrFormat},
		"without a tensor": {file("b", host(ops.BFloat16, 1, 2)), safetensors.ErrNoTensor},
		"another shape":    {file("a", host(ops.BFloat16, 2)), ErrShape},
		"another type":     {file("a", host(ops.Float32, 1, 2)), ErrShape},
	} {
		got = nil
		if err := Decode(c.file, parts); !errors.Is(err, c.want) || (err == nil) != slices.Equal(got, []Number{0x3F80, 0x4000}) {
			t.Errorf("%s: %v, want %v; read %v", name, err, c.want, got)
		}
	}
}
