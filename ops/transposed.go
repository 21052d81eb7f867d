package ops

import "slices"

// WithTransposeA makes [Device.Matmul] and [Device.Linear] take the left operand with its last two dimensions exchanged. The
// transposed copy needs memory for the time of the call, so a trace can't hold such a call: [Device.Transpose] [Into] a tensor can.
func WithTransposeA() OpOption { return func(r *result) { r.transposeA = true } }

// WithTransposeB is [WithTransposeA] for the right operand, which isn't BFloat8B then.
func WithTransposeB() OpOption { return func(r *result) { r.transposeB = true } }

// withTransposed calls f with the operands of a product, of which those that options say are transposed.
func (c *call) withTransposed(a, b *Tensor, f func(a, b *Tensor) (*Tensor, error)) (out *Tensor, err error) {
	pair := [2]*Tensor{a, b}
	var copies []*Tensor
	for i, exchange := range [2]bool{c.transposeA, c.transposeB} {
		if !exchange {
			continue
		}
		own := c.result
		c.result = result{}
		pair[i], err = c.transpose(pair[i], -2, -1)
		c.result = own
		if err != nil {
			break
		}
		copies = append(copies, pair[i])
	}
	if err == nil {
		out, err = f(pair[0], pair[1])
	}
	for _, t := range slices.Backward(copies) {
		if free := t.releaseLocked(); free != nil && err == nil {
			err = free
		}
	}
	return out, err
}
