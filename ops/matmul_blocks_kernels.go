package ops

import (
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops/catalog"
)

// job returns the job that multiplies matrices of tiles in blocks, and adds a bias unless it is nil.
func (k *blocking) job(c *call, out *Tensor, a, b operand, bias *Tensor) (job, error) {
	args, err := k.args(c.d.dev)
	j := job{
		program: catalog.MatmulBlocks, function: string(c.activation), args: args, out: out, in: present(a.Tensor, b.Tensor, bias), grid: k.grid,
		buffers: k.rings(), semaphores: 4, transposed: [2]bool{a.transposed, b.transposed},
	}
	if k.narrow {
		j.program = catalog.MatmulNarrow
	}
	return j, err
}

// args returns the arguments of all kernels, as kernels/matmul_blocks.h has them.
func (k *blocking) args(d *reprise.Device) ([]uint32, error) {
	across, down := k.grid.End.X-k.grid.Start.X+1, k.grid.End.Y-k.grid.Start.Y+1
	args := words(
		down*k.perM, k.m, across*k.perN, k.n, k.matrices, int(flag(!k.one)),
		k.perM, k.perN, k.inner, k.step, k.passSteps, k.passes, k.subRows, k.subWidth, int(flag(k.bias)), int(k.flags),
		k.grid.Start.X, k.grid.Start.Y,
	)
	// A core's x depends on its column only, and y on its row.
	var x, y uint32
	for i, at := range []chip.Core{
		k.grid.Start, {X: k.grid.Start.X + min(1, across-1), Y: k.grid.Start.Y + min(1, down-1)}, k.grid.End,
	} {
		v, err := d.Virtual(at)
		if err != nil {
			return nil, err
		}
		x, y = x|uint32(v.X)<<(6*i), y|uint32(v.Y)<<(6*i)
	}
	return append(args, x, y), nil
}
