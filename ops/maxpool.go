package ops

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// Pool2dConfig describes a pool of images. Pairs are of height and width.
type Pool2dConfig struct {
	Batch, Height, Width int // images
	Channels             int

	Kernel   [2]int // of the window
	Stride   [2]int // the default is the window's size
	Padding  [2]int // rows and columns on either side, at most half of the window
	Dilation [2]int // distance of the elements of the window; the default is 1, 1
}

// MaxPool2d slides a window over images and takes, of each channel, the largest of the elements under it, on the engines. Padding is
// smaller than any element. The images are as for [Device.Conv2d]; the result is [1, 1, Batch * height * width, Channels] in tile
// layout, where height and width are the number of the window's positions. It is exact, but that subnormal numbers count as zero.
//
// The error wraps [ErrShape], [ErrDataType] or [ErrMemory].
func (d *Device) MaxPool2d(ctx context.Context, images *Tensor, cfg Pool2dConfig, opts ...OpOption) (*Tensor, error) {
	w := windows{
		cfg.Batch, [2]int{cfg.Height, cfg.Width}, cfg.Channels, cfg.Kernel, orElse(cfg.Stride, cfg.Kernel), cfg.Padding,
		orElse(cfg.Dilation, [2]int{1, 1}),
	}
	args := argList{images, cfg.Batch, cfg.Height, cfg.Width, cfg.Channels, w.kernel, w.stride, w.padding, w.dilation}
	return d.do(ctx, "ttnn::max_pool2d", args, func(c *call) (*Tensor, error) {
		positions, err := w.positions()
		if err == nil {
			err = w.check(images)
		}
		if err != nil {
			return nil, err
		}
		if 2*w.padding[0] > w.kernel[0] || 2*w.padding[1] > w.kernel[1] {
			return nil, fmt.Errorf("%w: a padding of %v for a window of %v: want at most half of it", ErrShape, w.padding, w.kernel)
		}
		s, err := c.windowed(&w, images, positions, w.channels)
		if err != nil {
			return nil, err
		}
		args := argList{images, w.kernel, s.DType, s.Memory}
		return c.compute("ttnn::prim::pool2d", "Pool2D", args, s, func(out *Tensor) job { return w.largest(out, images, positions) })
	}, opts...)
}

// largest returns the job of a pool.
func (w *windows) largest(out, images *Tensor, positions [2]int) job {
	slots := w.slots(images.geo, positions)
	return job{
		program: catalog.MaxPool2d, out: out, in: []*Tensor{images}, args: w.args(positions, images.geo.spec.DType.lowest(), slots),
		engineArgs: []uint32{uint32(w.kernel[0] * w.kernel[1])}, buffers: append(tiles(2, 2), w.rings(images.geo, slots)...),
	}
}
