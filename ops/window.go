package ops

import "fmt"

// windows are windows that slide over images, of a convolution or a pool. Pairs are of height and width.
type windows struct {
	batch    int
	image    [2]int
	channels int

	kernel, stride, padding, dilation [2]int
}

// positions returns how many positions the window has in an image. The error wraps ErrShape.
func (w *windows) positions() ([2]int, error) {
	var out [2]int
	for i, side := range []string{"height", "width"} {
		least := min(w.batch, w.image[i], w.channels, w.kernel[i], w.stride[i], w.dilation[i])
		most := max(w.batch, w.image[i], w.channels, w.kernel[i], w.stride[i], w.dilation[i], w.padding[i])
		if least < 1 || w.padding[i] < 0 || most >= 1<<16 {
			return out, fmt.Errorf("%w: %d images with a %s of %d and %d channels, a window of %d with stride %d, padding %d and dilation %d: want positive numbers below 65536, and no negative padding",
				ErrShape, w.batch, side, w.image[i], w.channels, w.kernel[i], w.stride[i], w.padding[i], w.dilation[i])
		}
		covers := (w.kernel[i]-1)*w.dilation[i] + 1
		if covers > w.image[i]+2*w.padding[i] {
			return out, fmt.Errorf("%w: a window with a %s of %d in images of %d with a padding of %d: it has no position", ErrShape, side, covers,
				w.image[i], w.padding[i])
		}
		out[i] = (w.image[i]+2*w.padding[i]-covers)/w.stride[i] + 1
	}
	return out, nil
}

// check returns an error unless a tensor has the images: a row for each of their positions, and a column for each channel.
func (w *windows) check(a *Tensor) error {
	rows, d := w.batch*w.image[0]*w.image[1], a.geo.dims
	if d[0] != 1 || d[1] != 1 || d[2] != rows || d[3] != w.channels {
		return fmt.Errorf("%w: images in %v: %d images of %d by %d with %d channels are [1 1 %d %d]",
			ErrShape, a.geo.spec.Shape, w.batch, w.image[0], w.image[1], w.channels, rows, w.channels)
	}
	if !a.geo.spec.DType.Float() {
		return fmt.Errorf("%w: images of %v: want BFloat16 or Float32", ErrDataType, a.geo.spec.DType)
	}
	return nil
}

// slots returns the number of pages of the images that a core has to hold to compute a row of tiles of the result: those from the
// image row under the top of the window at the first position to that under its bottom at the last. It is what Windows.place in
// kernels/windows.h brings.
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

// args returns the arguments of Windows in kernels/windows.h. outside are the bits of the element outside of the images.
func (w *windows) args(positions [2]int, outside uint32, slots int) []uint32 {
	out := words(w.image[0], w.image[1], w.channels)
	for _, pair := range [][2]int{positions, w.kernel, w.stride, w.padding, w.dilation} {
		out = append(out, words(pair[:]...)...)
	}
	return append(out, outside, uint32(slots))
}

// rings returns the circular buffers for the slots: their pages, and a word for each.
func (w *windows) rings(a *geometry, slots int) []ring {
	return []ring{{ceil(a.pageBytes, 64) * 64, slots}, {4 * slots, 1}}
}

// orElse returns a pair, or another one if it is zero.
func orElse(pair, other [2]int) [2]int {
	if pair == [2]int{} {
		return other
	}
	return pair
}
