package ops

import (
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
)

// job returns the job that multiplies matrices of tiles in blocks, and adds a bias unless it is nil.
func (k *blocking) job(c *call, out *Tensor, a, b operand, bias *Tensor) (job, error) {
	args, err := k.args(c.d.dev)
	j := job{
		kernel: kernelMatmulLeft, args: args, out: out, in: []*Tensor{a.Tensor, b.Tensor}, blocks: k, buffers: k.rings(),
		engine: &engineKernel{name: "matmul_blocks", function: string(c.activation)},
	}
	if k.narrow {
		j.engine.name += "_narrow"
	}
	j.transposedKernel(a, b)
	if bias != nil {
		j.in = append(j.in, bias)
	}
	return j, err
}

// args returns the arguments of all kernels, as kernels/matmul_blocks.h has them.
func (k *blocking) args(d *reprise.Device) ([]uint32, error) {
	flag := map[bool]int{true: 1}
	across, down := k.grid.End.X-k.grid.Start.X+1, k.grid.End.Y-k.grid.Start.Y+1
	var words []uint32
	for _, n := range []int{
		down * k.perM, k.m, across * k.perN, k.n, k.matrices, flag[!k.one],
		k.perM, k.perN, k.inner, k.step, k.passSteps, k.passes, k.subRows, k.subWidth, flag[k.bias], int(k.flags),
		k.grid.Start.X, k.grid.Start.Y,
	} {
		words = append(words, uint32(n))
	}
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
	return append(words, x, y), nil
}

// kernels returns the kernels of the product.
func (k *blocking) kernels(c *call, j *job, common []uint32) ([]reprise.Kernel, error) {
	images := j.images()
	var list []reprise.Kernel
	for i, name := range []string{kernelMatmulLeft, kernelMatmulRight, images[0], images[1], images[2]} {
		im, err := c.d.image(name)
		if err != nil {
			return nil, err
		}
		x := reprise.Kernel{Name: name, Image: im, Processor: chip.BRISC + chip.Processor(i), Cores: []chip.Range{k.grid}, Common: common}
		if i >= 2 {
			x.Common = j.args
		}
		list = append(list, x)
	}
	return list, nil
}

// semaphores returns those of kernels/matmul_blocks.h.
func (k *blocking) semaphores() []reprise.Semaphore {
	var out []reprise.Semaphore
	for id := range 4 {
		out = append(out, reprise.Semaphore{ID: id, Cores: []chip.Range{k.grid}})
	}
	return out
}
