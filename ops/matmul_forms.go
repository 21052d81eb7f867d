package ops

import "github.com/reprise-tt/reprise/ops/catalog"

// matmulBlock is the number of tiles of a product that a core computes at once; kBlock in kernels/blocks.h.
const matmulBlock = 4

// engineMatmul returns the job that multiplies matrices of tiles, and adds a bias unless it is nil. The function, which may be
// empty, is applied to the elements of the result.
func engineMatmul(out *Tensor, a, b operand, bias *Tensor, function string) job {
	j := job{
		program: catalog.Matmul, function: function, args: []uint32{flag(bias != nil)}, out: out,
		in: present(a.Tensor, b.Tensor, bias), engineArgs: append(words(out.geo.wide, a.inner()), flag(bias != nil)), buffers: tiles(2, 2, 2*matmulBlock),
	}
	if bias != nil {
		j.buffers = append(j.buffers, tiles(1)...)
	}
	j.transpose(a, b)
	return j
}

// engineMatmulRows returns the job that multiplies matrices in any layout: tiles are made of rows, and rows of tiles.
func engineMatmulRows(out *Tensor, a, b operand) job {
	d := out.geo.dims
	wide, high, inner := ceil(d[3], 32), ceil(d[2], 32), a.inner()
	j := job{
		program: catalog.MatmulRows, out: out, in: []*Tensor{a.Tensor, b.Tensor},
		engineArgs: []uint32{uint32(wide), uint32(inner), 0}, pieces: d[0] * d[1] * high * wide,
		buffers: append(tiles(2, 2, 2*matmulBlock, 0), ring{a.geo.pageBytes, 1}, ring{b.geo.pageBytes, 1}, ring{}),
	}
	if out.geo.spec.Layout != Tile {
		j.program, j.together = catalog.MatmulRowsOut, wide
		j.buffers[0].pages, j.buffers[6] = doubled(wide, tileElements*out.geo.spec.DType.Size()), ring{out.geo.pageBytes, 1}
	}
	j.transpose(a, b)
	return j
}
