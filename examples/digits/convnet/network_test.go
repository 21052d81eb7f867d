package convnet

import (
	"bytes"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/safetensors"
)

// The committed file is what its weights make.
func TestWeightsAreTheirFile(t *testing.T) {
	n, err := Trained()
	devtest.Must(t, err)
	b, err := n.Encode()
	devtest.Must(t, err)
	if !bytes.Equal(b, weightsFile) {
		t.Errorf("%d bytes that differ from the %d of the file", len(b), len(weightsFile))
	}
}

// Files of other weights, and damaged ones, are refused.
func TestDecodeRefuses(t *testing.T) {
	file := func(t *testing.T, change func(map[string]*ops.Host)) []byte {
		t.Helper()
		f, err := safetensors.NewFile(bytes.NewReader(weightsFile), int64(len(weightsFile)))
		devtest.Must(t, err)
		all := map[string]*ops.Host{}
		for _, info := range f.Tensors() {
			if all[info.Name], err = f.Tensor(info.Name); err != nil {
				t.Fatal(err)
			}
		}
		change(all)
		var b bytes.Buffer
		devtest.Must(t, safetensors.Write(&b, all, nil))
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"cut":              {weightsFile[:len(weightsFile)-1], safetensors.ErrFormat},
		"without a tensor": {file(t, func(m map[string]*ops.Host) { delete(m, "conv2.bias") }), safetensors.ErrNoTensor},
		"another shape":    {file(t, func(m map[string]*ops.Host) { m["linear.bias"].Shape = []int{2, 5} }), ErrShape},
		"another type":     {file(t, func(m map[string]*ops.Host) { m["linear.bias"].DType = ops.UInt16 }), ErrShape},
	} {
		if _, err := Decode(c.file); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := New(nil); !errors.Is(err, ErrShape) {
		t.Errorf("no weights: %v", err)
	}
}
