package ops

import (
	"cmp"
	"context"
	"slices"

	"github.com/reprise-tt/reprise/ops/catalog"
)

// windows are the sliding windows of a convolution or a pool. Pairs are height and width.
type windows struct {
	batch    int
	image    [2]int
	channels int

	kernel, stride, dilation [2]int
	padding, after           [2]int // above and to the left, below and to the right
	paddedTwice              bool   // by Padding and Edges
	ceiling                  bool
}

// windows returns the windows with defaults instead of zeros.
func (c Conv2dConfig) windows() windows {
	one := [2]int{1, 1}
	w := windows{batch: c.Batch, image: [2]int{c.Height, c.Width}, channels: c.In, kernel: c.Kernel, stride: cmp.Or(c.Stride, one),
		dilation: cmp.Or(c.Dilation, one), padding: c.Padding, after: c.Padding}
	if e := c.Edges; e != [4]int{} {
		w.padding, w.after, w.paddedTwice = [2]int{e[0], e[2]}, [2]int{e[1], e[3]}, c.Padding != [2]int{}
	}
	return w
}

// paddings returns the padding for graphs and errors.
func (w *windows) paddings() any {
	if w.padding == w.after {
		return w.padding
	}
	return [4]int{w.padding[0], w.after[0], w.padding[1], w.after[1]}
}

// positions checks the windows and the images, and returns how many windows an image has.
func (w *windows) positions(images *Tensor) ([2]int, error) {
	var out [2]int
	if w.paddedTwice {
		return out, shapeError("Padding and Edges: want one of them")
	}
	for i, side := range []string{"height", "width"} {
		sizes := []int{w.batch, w.image[i], w.channels, w.kernel[i], w.stride[i], w.dilation[i]}
		most := max(slices.Max(sizes), w.padding[i], w.after[i])
		if slices.Min(sizes) < 1 || min(w.padding[i], w.after[i]) < 0 || most >= 1<<16 {
			return out, shapeError("%d images with a %s of %d and %d channels, a window of %d with stride %d, padding %d and %d and dilation %d: "+
				"want positive numbers below 65536, and no negative padding", w.batch, side, w.image[i], w.channels, w.kernel[i], w.stride[i],
				w.padding[i], w.after[i], w.dilation[i])
		}
		covers := (w.kernel[i]-1)*w.dilation[i] + 1
		left := w.image[i] + w.padding[i] + w.after[i] - covers
		if left < 0 {
			return out, shapeError("a window with a %s of %d in images of %d with a padding of %d and %d: it has no position", side, covers,
				w.image[i], w.padding[i], w.after[i])
		}
		out[i] = left/w.stride[i] + 1
		if w.ceiling && left%w.stride[i] != 0 && out[i]*w.stride[i] < w.image[i]+w.padding[i] {
			out[i]++
		}
	}
	if rows := w.batch * w.image[0] * w.image[1]; images.dims != [4]int{1, 1, rows, w.channels} {
		return out, shapeError("images in %v: %d images of %d by %d with %d channels are [1 1 %d %d]", images.spec.Shape, w.batch,
			w.image[0], w.image[1], w.channels, rows, w.channels)
	}
	if !floats(images) {
		return out, typeError("images of %v: want BFloat16 or Float32", images.spec.DType)
	}
	return out, nil
}

// slots returns how many pages of the images a core holds for a row of result tiles, as
// Windows.place in kernels/windows.h uses them: from the image row under the window's top at the
// first position to that under its bottom at the last.
func (w *windows) slots(a *geometry, positions [2]int) int {
	each, rows := positions[0]*positions[1], 1
	if a.spec.Layout == Tile {
		rows = tileSize
	}
	clamp := func(y int) int { return min(max(y, 0), w.image[0]-1) }
	most := 0
	for first := 0; first < w.batch*each; first += tileSize {
		last := min(first+tileSize, w.batch*each) - 1
		top := clamp(first%each/positions[1]*w.stride[0] - w.padding[0])
		bottom := clamp(last%each/positions[1]*w.stride[0] - w.padding[0] + (w.kernel[0]-1)*w.dilation[0])
		from := (first/each*w.image[0] + top) * w.image[1]
		to := (last/each*w.image[0]+bottom+1)*w.image[1] - 1
		most = max(most, to/rows-from/rows+1)
	}
	return most * a.wide
}

// args returns the arguments of Windows in kernels/windows.h; outside is a padding element.
func (w *windows) args(positions [2]int, outside uint32, slots int) []uint32 {
	out := words(w.image[0], w.image[1], w.channels)
	for _, pair := range [][2]int{positions, w.kernel, w.stride, w.padding, w.dilation} {
		out = append(out, words(pair[:]...)...)
	}
	return append(out, outside, uint32(slots))
}

// rings returns the circular buffers of the slots: their pages, and a word for each.
func (w *windows) rings(a *geometry, slots int) []ring {
	return []ring{{ceil(a.pageBytes, 64) * 64, slots}, {4 * slots, 1}}
}

// Conv2dConfig describes a convolution of images. Pairs are of height and width.
type Conv2dConfig struct {
	Batch, Height, Width int // images
	In, Out              int // channels

	Kernel   [2]int // of the window
	Stride   [2]int // the default is 1, 1
	Padding  [2]int // rows and columns of zeros on either side
	Edges    [4]int // instead of Padding: rows and columns at the top, bottom, left and right
	Dilation [2]int // distance of the elements of the window; the default is 1, 1
}

// Conv2dWeights prepares the weights of a convolution on the host: elements [out channels, in
// channels / groups, height, width], as in TT-NN, become the matrix [1, 1, height * width * in
// channels, out channels] that [Device.Conv2d] takes, with zeros between channels of different
// groups. The error wraps [ErrShape].
func Conv2dWeights(h *Host, groups int) (*Host, error) {
	err := h.check()
	if err == nil && (len(h.Shape) != 4 || groups < 1 || h.Shape[0]%groups != 0) {
		err = shapeError("%v in %d groups: want [out, in, height, width], and as many channels out in each group", h.Shape, groups)
	}
	if err != nil {
		return nil, &opError{"conv2d weights", err}
	}
	out, in, high, wide := h.Shape[0], h.Shape[1], h.Shape[2], h.Shape[3]
	size, each := h.DType.Size(), out/groups
	m := &Host{Shape: []int{1, 1, high * wide * in * groups, out}, DType: h.DType}
	m.Data = make([]byte, m.Shape[2]*out*size)
	for o := range out {
		for c := range in {
			for k := range high * wide {
				row := k*in*groups + o/each*in + c
				from := (o*in+c)*high*wide + k
				copy(m.Data[(row*out+o)*size:][:size], h.Data[from*size:])
			}
		}
	}
	return m, nil
}

// Conv2d slides a window over images, and sums the elements under it times weights, plus a bias.
// [WithActivation] applies a function to the sums, and [WithDataType] sets the type of the result.
//
// The images are [1, 1, Batch * Height * Width, In], of BFloat16 or Float32, in either layout. The
// weights are a matrix from [Conv2dWeights] in tile layout; the bias is [1, 1, 1, Out] in tile
// layout, or nil. All have one data type. The result is [1, 1, Batch * height * width, Out] in tile
// layout, where height and width are the numbers of positions.
//
// The engines multiply as in [Device.Linear]. For BFloat16 the error is at most 2^-11 of the sum of
// the absolute values of products and bias, and 2^-8 of the result for rounding; for Float32 it is
// at most 2^-9 of that sum. The images' pages for a row of result tiles must fit in L1.
func (d *Device) Conv2d(ctx context.Context, images, weights, bias *Tensor, cfg Conv2dConfig, opts ...OpOption) (*Tensor, error) {
	w := cfg.windows()
	args := argList{images, weights, d.id, cfg.In, cfg.Out, cfg.Batch, cfg.Height, cfg.Width,
		w.kernel, w.stride, w.paddings(), w.dilation, optional(bias)}
	return d.do(ctx, "ttnn::conv2d", args, func(c *call) (*Tensor, error) {
		positions, s, err := c.convolved(&w, images, weights, bias, cfg.Out)
		if err != nil {
			return nil, err
		}
		args := argList{images, weights, optional(bias), s.DType, s.Memory}
		slots := w.slots(images.geometry, positions)
		return c.compute("conv2d", "Conv2dDeviceOperation", args, s, func(out *Tensor) job {
			return job{ // engineMatmul's with another reader
				program: catalog.Conv2d, function: string(c.activation), out: out, in: present(images, weights, bias),
				args:       append([]uint32{flag(bias != nil)}, w.args(positions, 0, slots)...),
				engineArgs: append(words(out.wide, weights.high), flag(bias != nil)),
				buffers:    append(tiles(2, 2, 2*matmulBlock, 1), w.rings(images.geometry, slots)...),
			}
		})
	}, opts...)
}

// convolved checks a convolution's operands, and returns the positions in an image and the result's
// spec.
func (c *call) convolved(w *windows, images, weights, bias *Tensor, channels int) ([2]int, Spec, error) {
	positions, err := w.positions(images)
	if err != nil {
		return positions, Spec{}, err
	}
	t := images.spec.DType
	shapes := [][4]int{{1, 1, w.kernel[0] * w.kernel[1] * w.channels, channels}, {1, 1, 1, channels}}
	for i, o := range present(weights, bias) {
		switch s := o.spec; {
		case s.DType != t:
			return positions, Spec{}, typeError("images of %v, weights or bias of %v: want one type", t, s.DType)
		case o.dims != shapes[i]:
			return positions, Spec{}, shapeError("weights or bias of %v: want %v (see Conv2dWeights)", s.Shape, shapes[i])
		case s.Layout != Tile:
			return positions, Spec{}, o.unsupportedError()
		}
	}
	s, err := c.windowed(w, images, positions, channels)
	if c.dtype != nil {
		s.DType = *c.dtype
	}
	return positions, s, err
}

func (c *call) windowed(w *windows, images *Tensor, positions [2]int, channels int) (Spec, error) {
	s := Spec{Shape: []int{1, 1, w.batch * positions[0] * positions[1], channels}, DType: images.spec.DType, Layout: Tile}
	s.Memory = c.memoryOr(Interleaved(images.spec.Memory.Kind))
	_, err := s.geometry()
	return s, err
}

// Pool2dConfig describes a pool of images. Pairs are of height and width.
type Pool2dConfig struct {
	Batch, Height, Width int // images
	Channels             int

	Kernel   [2]int // of the window
	Stride   [2]int // the default is the window's size
	Padding  [2]int // rows and columns on either side, at most half of the window
	Edges    [4]int // instead of Padding: rows and columns at the top, bottom, left and right
	Dilation [2]int // distance of the elements of the window; the default is 1, 1
	// Ceil adds a position where a window begins in the images or the padding before them, but
	// ends after the padding. TT-NN: ceil_mode.
	Ceil bool
}

// MaxPool2d slides a window over images, and takes the largest element under it for each channel.
// Padding is smaller than any element, and subnormal numbers count as zero. The images are as for
// [Device.Conv2d]; the result is [1, 1, Batch * height * width, Channels] in tile layout, where
// height and width are the numbers of positions.
func (d *Device) MaxPool2d(ctx context.Context, images *Tensor, cfg Pool2dConfig, opts ...OpOption) (*Tensor, error) {
	w := Conv2dConfig{Batch: cfg.Batch, Height: cfg.Height, Width: cfg.Width, In: cfg.Channels, Kernel: cfg.Kernel,
		Stride: cmp.Or(cfg.Stride, cfg.Kernel), Padding: cfg.Padding, Edges: cfg.Edges, Dilation: cfg.Dilation}.windows()
	w.ceiling = cfg.Ceil
	args := argList{images, cfg.Batch, cfg.Height, cfg.Width, cfg.Channels, w.kernel, w.stride, w.paddings(), w.dilation}
	if cfg.Ceil {
		args = append(args, "ceil_mode=true")
	}
	return d.do(ctx, "ttnn::max_pool2d", args, func(c *call) (*Tensor, error) {
		positions, err := w.positions(images)
		if err != nil {
			return nil, err
		}
		if 2*max(w.padding[0], w.after[0]) > w.kernel[0] || 2*max(w.padding[1], w.after[1]) > w.kernel[1] {
			return nil, shapeError("a padding of %v for a window of %v: want at most half of it", w.paddings(), w.kernel)
		}
		s, err := c.windowed(&w, images, positions, w.channels)
		if err != nil {
			return nil, err
		}
		args := argList{images, w.kernel, s.DType, s.Memory}
		slots := w.slots(images.geometry, positions)
		return c.compute("pool2d", "Pool2D", args, s, func(out *Tensor) job {
			return job{
				program: catalog.MaxPool2d, out: out, in: []*Tensor{images}, args: w.args(positions, images.spec.DType.lowest(), slots),
				engineArgs: words(w.kernel[0] * w.kernel[1]), buffers: append(tiles(2, 2), w.rings(images.geometry, slots)...),
			}
		})
	}, opts...)
}
