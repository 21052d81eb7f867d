package convnet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func TestWeightsAreTheirFile(t *testing.T) {
	n, err := Trained()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(n.Encode(), weightsFile) {
		t.Error("the network's file is another one than it was read from")
	}
}

// Files of weights that were damaged are refused.
func TestDecodeRefuses(t *testing.T) {
	file := func(header string, data int) []byte {
		b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		return append(append(b, header...), make([]byte, data)...)
	}
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"empty":             {nil, ErrFormat},
		"cut in the header": {weightsFile[:100], ErrFormat},
		"cut in the data":   {weightsFile[:len(weightsFile)-1], ErrFormat},
		"no JSON":           {file("{", 0), ErrFormat},
		"no tensor":         {file(`{"x":1}`, 0), ErrFormat},
		"another type":      {file(`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4), ErrFormat},
		"backwards":         {file(`{"x":{"dtype":"BF16","shape":[1],"data_offsets":[4,2]}}`, 4), ErrFormat},
		"half an element":   {file(`{"x":{"dtype":"BF16","shape":[1],"data_offsets":[0,3]}}`, 4), ErrFormat},
		"other tensors":     {file(`{"__metadata__":{},"x":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}`, 2), ErrShape},
	} {
		if _, err := Decode(c.file); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := New(nil); !errors.Is(err, ErrShape) {
		t.Errorf("no weights: %v", err)
	}
}
