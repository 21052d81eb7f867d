package ops

// WithDim makes [Device.ArgMax] and [Device.TopK] search along another dimension than the last one; negative ones count from the end.
//
// As in TT-NN, the tensor is permuted first, and so is the result of TopK at the end. What is permuted is kept in DRAM that belongs to
// the program cache: [Device.ClearProgramCache] releases it, and a trace holds it.
func WithDim(dim int) OpOption { return func(r *result) { r.dim = &dim } }

// WithSmallest makes [Device.TopK] find the smallest elements, smallest first. TT-NN: largest=False.
func WithSmallest() OpOption { return func(r *result) { r.smallest = true } }

// along returns the dimension that an option says, or -1.
func (r result) along() int {
	if r.dim != nil {
		return *r.dim
	}
	return -1
}

// lastAlong returns a tensor with a dimension moved to the end, and the order of dimensions that moves it back: the tensor itself and
// nil if it is the last one.
func (c *call) lastAlong(a *Tensor, dim int) (*Tensor, []int, error) {
	s := a.geo.spec.clone()
	rank := len(s.Shape)
	along, err := dimension(dim, s.Shape)
	if err != nil {
		return nil, nil, err
	}
	if along == rank-1 {
		return a, nil, nil
	}
	var order []int
	for i := range rank {
		if i != along {
			order = append(order, i)
		}
	}
	order = append(order, along)
	back := make([]int, rank)
	for i, k := range order {
		s.Shape[i], back[k] = a.geo.spec.Shape[k], i
	}
	t, err := c.scratch(0, s)
	if err != nil {
		return nil, nil, err
	}
	return t, back, c.leaving(t, func() (*Tensor, error) { return c.permuteAs(a, order) })
}

// permuteAs is permute for an operation that isn't one of permuting.
func (c *call) permuteAs(a *Tensor, order []int) (*Tensor, error) {
	return c.permute("ttnn::prim::permute", "PermuteDeviceOperation", a, order, order)
}

// movedBack permutes a result in scratch memory to where it belongs: its memory is like that of the operand.
func (c *call) movedBack(t, like *Tensor, back []int) (*Tensor, error) {
	own := c.result
	defer func() { c.result = own }()
	if c.memory == nil {
		shape := make([]int, len(back))
		for i, k := range back {
			shape[i] = t.geo.spec.Shape[k]
		}
		m := c.memoryLike(like, shape, like.geo.spec.Layout)
		c.memory = &m
	}
	return c.permuteAs(t, back)
}
