package ops

import "context"

// Heads are queries, keys and values of the heads of attention.
type Heads struct{ Q, K, V *Tensor }

// SplitHeads cuts rows of queries, keys and values into heads, as TT-NN's nlp_create_qkv_heads. The
// tensor is [batches, 1, rows, (heads + 2 kvHeads) width], in tile layout, of any data type: the
// queries of all heads, then keys, then values. The results are [batches, heads, rows, width] and
// twice [batches, kvHeads, rows, width]; width is a multiple of 32.
//
// [IntoEach] takes three tensors.
func (d *Device) SplitHeads(ctx context.Context, a *Tensor, heads, kvHeads int, opts ...OpOption) (Heads, error) {
	args := argList{a, heads, kvHeads}
	var out [3]*Tensor
	_, err := d.do(ctx, "ttnn::experimental::nlp_create_qkv_heads", args, func(c *call) (*Tensor, error) {
		dims := a.dims
		all := heads + 2*kvHeads
		if heads < 1 || kvHeads < 1 || dims[1] != 1 || dims[3]%(all*tileSize) != 0 {
			return nil, shapeError("%v into %d heads and twice %d: want [batches, 1, rows, %d width], where width is a multiple of %d", a.spec.Shape,
				heads, kvHeads, all, tileSize)
		}
		if err := c.checkEach(3); err != nil {
			return nil, err
		}
		width := dims[3] / all
		wide := width / tileSize
		begin := 0
		err := c.results(out[:], func(i int) (*Tensor, error) {
			n, first := []int{heads, kvHeads, kvHeads}[i], begin
			begin += n * wide
			return c.gather("nlp_create_qkv_heads", "NlpCreateHeadsDeviceOperation", a, []int{dims[0], n, dims[2], width},
				first, [][2]int{{dims[0], a.high * a.wide}, {n, wide}, {a.high, a.wide}, {wide, 1}})
		})
		c.others = out[1:]
		return out[0], err
	}, opts...)
	if err != nil {
		return Heads{}, err
	}
	return Heads{out[0], out[1], out[2]}, nil
}

// ConcatHeads puts the rows of heads side by side, as TT-NN's nlp_concat_heads: [batches, heads,
// rows, width] becomes [batches, 1, rows, heads width]. Otherwise it is as [Device.SplitHeads].
func (d *Device) ConcatHeads(ctx context.Context, a *Tensor, opts ...OpOption) (*Tensor, error) {
	return d.do(ctx, "ttnn::experimental::nlp_concat_heads", argList{a}, func(c *call) (*Tensor, error) {
		g := a.geometry
		if g.dims[3]%tileSize != 0 {
			return nil, shapeError("heads of %v: want a width that is a multiple of %d", g.spec.Shape, tileSize)
		}
		return c.gather("nlp_concat_heads", "NLPConcatHeadsDeviceOperation", a, []int{g.dims[0], 1, g.dims[2], g.dims[1] * g.dims[3]},
			0, [][2]int{{g.dims[0], g.dims[1] * g.high * g.wide}, {g.high, g.wide}, {g.dims[1], g.high * g.wide}, {g.wide, 1}})
	}, opts...)
}

// gather copies tiles (see strided).
func (c *call) gather(name, class string, a *Tensor, shape []int, first int, axes [][2]int) (*Tensor, error) {
	if err := inTiles(a); err != nil {
		return nil, err
	}
	s := c.shaped(a, shape)
	return c.deviceOp(name, class, argList{a, shape, s.Memory}, s, func(out *Tensor) error {
		if err := inTiles(out); err != nil {
			return err
		}
		return c.run(c.pages(strided(first, axes), out, a))
	})
}
