package ops

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/kernels"
)

// engineFormats are the formats that data types have in the engines, for those that the engines compute with.
var engineFormats = map[DataType]kernels.Format{BFloat16: kernels.BF16, Float32: kernels.FP32, Int32: kernels.Int32, BFloat8B: kernels.BFP8}

// onEngines reports whether the engines compute a result: all tensors are floats in tile layout, the operands of one data type.
func onEngines(out *Tensor, in ...*Tensor) bool {
	return firstUnsupported(append(slices.Clip(in), out)...) == nil
}

// firstUnsupported returns the first tensor that the engines can't compute with, or nil.
func firstUnsupported(ts ...*Tensor) *Tensor {
	for _, t := range ts {
		if t.geo.spec.Layout != Tile || !t.geo.spec.DType.Float() {
			return t
		}
	}
	return nil
}

// unsupportedError is the error of an operation that only the engines do, for a tensor that they can't compute with.
func (t *Tensor) unsupportedError() error {
	s := t.geo.spec
	if !s.DType.Float() {
		return fmt.Errorf("%w: %v: want BFloat16 or Float32", ErrDataType, s.DType)
	}
	return fmt.Errorf("%w: a tensor in %v: want tiles (see ToLayout)", ErrMemory, s.Layout)
}

// engineKernel is a kernel of the engines, of which each thread has an image.
type engineKernel struct {
	name     string   // of its source in kernels/compute
	function string   // of elements of the result, by its name in the compute API, or empty
	packs    bool     // the pack thread packs operands too, and has an image for each of their data types
	args     []uint32 // arguments after those of each core: first tile of the result, number of tiles
}

// images returns the names of the images for TRISC0, TRISC1 and TRISC2, for data types of operands and result. An image is named
// after what it depends on; the second operand's type is only named if it isn't the first one's.
func (k *engineKernel) images(in, right, out DataType) [3]string {
	from, to, function := "_"+engineFormats[in].String(), "_"+engineFormats[out].String(), ""
	if right == BFloat8B {
		from += "_" + engineFormats[right].String()
	}
	if k.packs && in != out {
		to = "_" + engineFormats[in].String() + to
	}
	if k.function != "" {
		function = "_" + k.function
	}
	name := "compute/" + k.name
	return [3]string{name + from + ".unpack", name + function + from + ".math", name + to + ".pack"}
}

// matmulBlock is the number of tiles of a product that a core computes at once; kBlock in kernels/blocks.h.
const matmulBlock = 4

// engineMatmul returns the job that multiplies matrices of tiles, and adds a bias unless it is nil. The function, which may be
// empty, is applied to the elements of the result.
func engineMatmul(out *Tensor, a, b operand, bias *Tensor, function string) job {
	j := job{
		kernel: kernelMatmulReader, args: []uint32{0}, out: out, in: []*Tensor{a.Tensor, b.Tensor},
		engine:  &engineKernel{name: "matmul", function: function, args: []uint32{uint32(out.geo.wide), uint32(a.inner()), 0}},
		buffers: []ring{{out.geo.pageBytes, 2}, {a.geo.pageBytes, 2}, {b.geo.pageBytes, 2 * matmulBlock}},
	}
	if bias != nil {
		j.args[0], j.engine.args[2] = 1, 1
		j.in, j.buffers = append(j.in, bias), append(j.buffers, ring{a.geo.pageBytes, 1})
	}
	if j.transposedKernel(a, b); a.transposed {
		j.buffers = turnRings(j.buffers)
	}
	return j
}

// engineRight is the circular buffer of a second operand; kRight in kernels/blocks.h.
const engineRight = 2

// engineBinary returns the job that computes an operation on the elements of two tensors of tiles.
func engineBinary(op uint32, out, a, b *Tensor) job {
	return job{
		kernel: kernelTileReader, args: []uint32{2}, out: out, in: []*Tensor{a, b}, allCores: true,
		engine:  &engineKernel{name: "binary", args: []uint32{op, engineRight}},
		buffers: rings(2, out.geo.pageBytes, a.geo.pageBytes, b.geo.pageBytes),
	}
}

// engineEach returns the job of a kernel that computes a tensor of tiles from one of them, element by element, with numbers.
func engineEach(kernel, function string, out, a *Tensor, numbers ...uint32) job {
	return job{
		kernel: kernelTileReader, args: []uint32{1}, out: out, in: []*Tensor{a},
		engine:  &engineKernel{name: kernel, function: function},
		numbers: numbers,
		buffers: rings(2, out.geo.pageBytes, a.geo.pageBytes),
	}
}

// engineUnary returns the job that computes a function of the elements of a tensor of tiles.
func engineUnary(function string, out, a *Tensor) job {
	return engineEach("unary", function, out, a)
}
