// Package ops runs tensor operations on a device: add, multiply, matmul, relu, repeat, concat, argmax, and moves between
// layouts and memories, with the names that users of TT-NN know.
//
// A [Tensor] is device memory with a shape, a data type, a layout and a memory configuration; a [Host] is the same in the
// host's memory, row by row. Shapes have up to four dimensions.
//
//	d := ops.New(dev)
//	a, err := d.ToDevice(ctx, h, ops.Tile, ops.Interleaved(reprise.L1))
//	s, err := d.Add(ctx, a, b)
//	h, err = d.ToHost(ctx, s)
//
// Results are those of plain arithmetic, bit for bit: integers wrap around; floats are rounded to single precision after
// each addition and multiplication, to nearest with ties to even, and to bfloat16 once at the end. What is not a number
// comes out as the quiet one, 0x7FC00000. The chip's RISC-V cores compute it with integer instructions, so operations are
// slow; what they are good for is being exact, being traced and showing how programs are made.
//
// The first time that an operation runs with tensors of some kind, its program is made and loaded. Later ones find it in
// the program cache. Inside [Device.Capture] only what is in the cache can run: what isn't is a [CacheMissError].
//
// [Device.BeginCapture] records what runs and what it allocates as a graph, for TT-NN's visualizer.
package ops

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild ops
