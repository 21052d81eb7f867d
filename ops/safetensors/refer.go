package safetensors

import (
	"bytes"
	"fmt"

	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/tracebuf"
)

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
