package ops

import "fmt"

// WithTransposeA makes [Device.Matmul] and [Device.Linear] take the left operand with its last two dimensions exchanged: the result has
// the bits of a product of what [Device.Transpose] returns, without a copy in memory. Tiles are turned on a core, by the engines.
func WithTransposeA() OpOption { return func(r *result) { r.transposeA = true } }

// WithTransposeB is [WithTransposeA] for the right operand. The unpackers turn its tiles on their way to the matrix unit.
func WithTransposeB() OpOption { return func(r *result) { r.transposeB = true } }

// operand is an operand of a product: the matrices of a tensor, or those with rows and columns exchanged.
type operand struct {
	*Tensor
	transposed bool
}

// operands returns those of a product of two tensors, as options say.
func (r *result) operands(a, b *Tensor) (left, right operand) {
	return operand{a, r.transposeA}, operand{b, r.transposeB}
}

// dims returns the dimensions of the matrices as the product has them.
func (o operand) dims() [4]int {
	d := o.geo.dims
	if o.transposed {
		d[2], d[3] = d[3], d[2]
	}
	return d
}

// text returns the shape for errors.
func (o operand) text() string {
	if o.transposed {
		return fmt.Sprint(o.geo.spec.Shape) + " transposed"
	}
	return fmt.Sprint(o.geo.spec.Shape)
}

// inner returns the number of tiles of a row of a left operand.
func (o operand) inner() int { return ceil(o.dims()[3], tileSize) }

// transpose makes a job that of transposed operands, if there are any. The kernel of the engines then has flags as arguments after the
// others, and turns tiles of a left operand.
func (j *job) transpose(a, b operand) {
	if j.transposed = [2]bool{a.transposed, b.transposed}; j.transposed == [2]bool{} {
		return
	}
	j.engineArgs = append(j.engineArgs, flag(a.transposed), flag(b.transposed))
	if a.transposed {
		j.buffers = turnRings(j.buffers)
	}
}

// words returns numbers as arguments of kernels.
func words(n ...int) []uint32 {
	out := make([]uint32, len(n))
	for i, v := range n {
		out[i] = uint32(v)
	}
	return out
}

// flag returns 1 for true.
func flag(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

// engineTurned and engineTurn are kTurned and kTurn in kernels/compute/transposed.h: the circular buffer of turned tiles of a left
// operand, and how many are turned at once.
const engineTurned, engineTurn = 7, 4

// turnRings adds the circular buffer of turned tiles to those of a product in the simple form. There is room for as many tiles of the
// operands as are turned at once.
func turnRings(buffers []ring) []ring {
	buffers[1].pages, buffers[engineRight].pages = 2*engineTurn, (engineTurn+1)*matmulBlock
	for len(buffers) < engineTurned {
		buffers = append(buffers, ring{})
	}
	return append(buffers, tiles(2*engineTurn)...)
}
