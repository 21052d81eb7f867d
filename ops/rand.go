package ops

import (
	"context"
	"fmt"
	"math"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// Rand returns a tensor of random numbers, evenly distributed from low on and below high, or high by rounding. The spec is one of
// BFloat16 or Float32 in tile layout. The numbers are those of the engines' generators, one for each core, which start with seed plus
// the core's first tile: they are the same again for the same seed, spec and grid of cores.
//
// Errors wrap [ErrDataType], [ErrMemory] for another layout, or [ErrShape] for numbers that are no range.
func (d *Device) Rand(ctx context.Context, s Spec, low, high float32, seed uint32, opts ...OpOption) (*Tensor, error) {
	args := append(specArgs(s, d.id), low, high, seed)
	return d.do(ctx, "ttnn::rand", args, func(c *call) (*Tensor, error) {
		width := high - low
		if !(width >= 0 && width <= math.MaxFloat32) {
			return nil, fmt.Errorf("%w: numbers from %v to %v", ErrShape, low, high)
		}
		s.Memory = c.memoryOr(s.Memory)
		return c.compute("ttnn::prim::uniform", "UniformDeviceOperation", args, s, func(out *Tensor) job {
			return job{
				program: catalog.Rand, out: out, buffers: tiles(2), numbers: []uint32{seed, math.Float32bits(low), math.Float32bits(width)},
			}
		})
	}, opts...)
}
