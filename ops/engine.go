package ops

import "github.com/reprise-tt/reprise/kernels"

// engineFormats are the formats that data types have in the engines, for those that the engines compute with.
var engineFormats = map[DataType]kernels.Format{BFloat16: kernels.BF16, Float32: kernels.FP32}

// onEngines reports whether the engines compute a result: all tensors are tiles, the operands bfloat16 and the result a float.
func onEngines(out *Tensor, in ...*Tensor) bool {
	for _, t := range in {
		if t.geo.spec.Layout != Tile || t.geo.spec.DType != BFloat16 {
			return false
		}
	}
	return out.geo.spec.Layout == Tile && out.geo.spec.DType.Float()
}

// engineKernel returns the name of an engines' kernel for the formats of operands and result.
func engineKernel(name string, in, out *Tensor) string {
	return "compute/" + name + "_" + engineFormats[in.geo.spec.DType].String() + "_" + engineFormats[out.geo.spec.DType].String()
}

// matmulBlock is the number of tiles of a product that a core computes at once; kBlock in kernels/blocks.h.
const matmulBlock = 4

// matmulOnEngines returns the job that computes a product of tiles.
func matmulOnEngines(out, a, b *Tensor) job {
	return job{
		kernel: kernelMatmulReader, engine: engineKernel("matmul", a, out), out: out, in: []*Tensor{a, b},
		engineArgs: []uint32{uint32(out.geo.wide), uint32(a.geo.wide)},
		buffers:    []ring{{a.geo.pageBytes, 2}, {b.geo.pageBytes, 2 * matmulBlock}, {out.geo.pageBytes, 2}},
	}
}
