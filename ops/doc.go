// Package ops runs tensor operations on a device, under the names of TT-NN: add, multiply, matmul, relu, repeat, concat,
// argmax, and copies between layouts and memories.
//
// A [Tensor] is device memory with a shape, a data type, a layout and a memory configuration; a [Host] is a tensor in the
// host's memory, row by row. Shapes have one to four dimensions.
//
//	d := ops.New(dev)
//	a, err := d.ToDevice(ctx, h, ops.Tile, ops.Interleaved(allocator.L1))
//	s, err := d.Add(ctx, a, b)
//	h, err = d.ToHost(ctx, s)
//
// Products of matrices of BFloat16 in tile layout run on the Tensix engines of all cores (see [Device.Matmul]), with the same
// bits on every backend.
//
// All other results are those of plain arithmetic, bit for bit: integers wrap around; floats are rounded to single precision
// after each addition and multiplication, to nearest with ties to even, and to bfloat16 once at the end. Every NaN result is
// the quiet NaN 0x7FC00000. Their kernels compute with integer instructions of the RISC-V cores, which is slow.
//
// The padding of tiles is zero in every result.
//
// An operation makes and loads a program for each kind of tensors that it runs with; later calls find it in the program
// cache. Inside [Device.Capture] only programs in the cache can run: for any other the operation returns a
// [*CacheMissError].
//
// [Device.BeginCapture] records operations and their allocations as a graph, for TT-NN's visualizer.
package ops

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild ops
