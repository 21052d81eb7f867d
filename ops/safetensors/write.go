package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/ops"
)

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
