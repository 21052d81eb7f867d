package ops

import (
	"slices"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// rowOperation is a kernel of the engines that passes several times over each row of tiles of a tensor, of which a core has all.
type rowOperation struct {
	program *catalog.Program
	args    []uint32  // of the engines, after those of all these kernels
	passes  int       // over a row
	mask    *Tensor   // of the tensor's width, or nil
	weights []*Tensor // of one row each, or nil
	keeps   bool      // it keeps fp32 tiles of a row, if there is room, and has an argument after args that says so
}

// maxResident limits the bytes of circular buffers that hold the operands of whole rows. Longer rows are read again in each pass.
const maxResident = 512 << 10

// job returns the operation as a job.
func (o rowOperation) job(out, a *Tensor) job {
	wide, page := out.geo.wide, a.geo.pageBytes
	weights := present(slices.Clone(o.weights)...)
	in := append(present(a, o.mask), weights...)
	state := tileSize * tileSize * Float32.Size() // bytes of an fp32 tile
	resident, pages, kept := uint32(0), 2, 0
	if n := len(in) * wide * page; n <= maxResident {
		if o.keeps && n+wide*state <= maxResident {
			kept = wide
		}
		if resident, pages = 1, wide; 2*n+kept*state <= maxResident {
			pages = 2 * wide
		}
	}
	buffers := tiles(2, 1, 1, 1, 1, 1) // the result, operands, two fp32 tiles
	for i := range in {
		buffers[1+i].pages = pages
	}
	if o.keeps {
		o.args = append(slices.Clip(o.args), flag(kept > 0))
		buffers = append(buffers, tiles(kept)...)
	}
	columns := a.geo.dims[3] - (wide-1)*tileSize
	return job{
		program: o.program, args: []uint32{resident, uint32(o.passes), uint32(len(weights)), flag(o.mask != nil)}, out: out, in: in,
		engineArgs: append([]uint32{uint32(wide), uint32(columns), resident}, o.args...), buffers: buffers, together: wide,
	}
}
