package ops

import (
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
)

// engineMatmulBlocks returns the job that multiplies matrices of tiles in blocks, and adds a bias unless it is nil.
func engineMatmulBlocks(k *blocking, out, a, b, bias *Tensor, function string) job {
	j := job{
		kernel: kernelMatmulLeft, args: k.common(), out: out, in: []*Tensor{a, b}, blocks: k, buffers: k.rings(),
		engine: &engineKernel{name: "matmul_blocks", function: function},
	}
	if bias != nil {
		j.in = append(j.in, bias)
	}
	return j
}

// common returns the common arguments of all kernels, as kernels/matmul_blocks.h has them.
func (k *blocking) common() []uint32 {
	flag := map[bool]int{true: 1}
	var words []uint32
	for _, n := range []int{
		(k.grid.End.Y - k.grid.Start.Y + 1) * k.perM, k.m, (k.grid.End.X - k.grid.Start.X + 1) * k.perN, k.n, k.matrices, flag[!k.one],
		k.perM, k.perN, k.inner, k.step, k.passSteps, k.passes, k.subRows, k.subWidth, flag[k.bias], int(k.skip),
	} {
		words = append(words, uint32(n))
	}
	return words
}

// kernels returns the kernels of the product. Their unique arguments are few, since each core's are sent by themselves.
func (k *blocking) kernels(c *call, j *job, common []uint32) ([]reprise.Kernel, error) {
	left, right, blocks := map[chip.Core][]uint32{}, map[chip.Core][]uint32{}, map[chip.Core][]uint32{}
	for at := range k.grid.Cores() {
		block := []uint32{uint32((at.Y - k.grid.Start.Y) * k.perM), uint32((at.X - k.grid.Start.X) * k.perN)}
		row := chip.Range{Start: chip.Core{X: k.grid.Start.X, Y: at.Y}, End: chip.Core{X: k.grid.End.X, Y: at.Y}}
		rowShare, err := shareArgs(c.d.dev, at, row, chip.Core{X: 1})
		if err != nil {
			return nil, err
		}
		column := chip.Range{Start: chip.Core{X: at.X, Y: k.grid.Start.Y}, End: chip.Core{X: at.X, Y: k.grid.End.Y}}
		columnShare, err := shareArgs(c.d.dev, at, column, chip.Core{Y: 1})
		if err != nil {
			return nil, err
		}
		blocks[at], left[at], right[at] = block, append(block[:2:2], rowShare...), append(block[:2:2], columnShare...)
	}
	images := j.images()
	var list []reprise.Kernel
	for i, x := range []struct {
		name   string
		common []uint32
		args   map[chip.Core][]uint32
	}{
		{kernelMatmulLeft, common, left}, {kernelMatmulRight, common, right},
		{images[0], j.args, blocks}, {images[1], j.args, blocks}, {images[2], j.args, blocks},
	} {
		im, err := c.d.image(x.name)
		if err != nil {
			return nil, err
		}
		list = append(list, reprise.Kernel{
			Name: x.name, Image: im, Processor: chip.BRISC + chip.Processor(i), Cores: []chip.Range{k.grid},
			Common: x.common, Args: func(at chip.Core) []uint32 { return x.args[at] },
		})
	}
	return list, nil
}

// isReceiver marks a receiver of tiles; Share::kReceiver in kernels/matmul_multicast.h.
const isReceiver = 1<<32 - 1

// shareArgs returns the arguments of Share in kernels/matmul_multicast.h, for a core of a row or a column of cores, whose first one
// sends. The second one is a step away from it.
func shareArgs(d *reprise.Device, at chip.Core, cores chip.Range, step chip.Core) ([]uint32, error) {
	if at != cores.Start {
		v, err := d.Virtual(cores.Start)
		return []uint32{isReceiver, v.Packed()}, err
	}
	to := chip.Range{Start: chip.Core{X: at.X + step.X, Y: at.Y + step.Y}, End: cores.End}
	if to.Empty() {
		return []uint32{0, 0}, nil
	}
	r, err := d.Multicast(to)
	return []uint32{uint32(r.Cores), r.Start.Packed() | r.End.Packed()<<12}, err
}

// semaphores returns those of kernels/matmul_blocks.h.
func (k *blocking) semaphores() []reprise.Semaphore {
	var out []reprise.Semaphore
	for id := range 4 {
		out = append(out, reprise.Semaphore{ID: id, Cores: []chip.Range{k.grid}})
	}
	return out
}
