// Package ops runs tensor operations on a device, under the names of TT-NN: matmul and linear, add,
// subtract, multiply, functions of elements such as relu and gelu, sums and maxima, permute,
// reshape, pad, slice, repeat, concat, embedding, argmax, topk, and copies between layouts and
// memories.
//
// A [Tensor] is device memory with a shape, a data type, a layout and a memory configuration; a
// [Host] is a tensor in the host's memory, row by row. Shapes have up to eight dimensions: a scalar
// has none, and a tensor with a dimension of 0 has no elements. docs/operations.md says which
// operations want fewer.
//
//	d := ops.New(dev)
//	a, err := d.ToDevice(ctx, h, ops.Tile, ops.Interleaved(allocator.L1))
//	s, err := d.Add(ctx, a, b)
//	h, err = d.ToHost(ctx, s)
//
// Products of matrices, arithmetic, functions of elements, reductions, softmax and norms of floats
// run on the Tensix engines, with the same bits on every backend. Packers round to bfloat16 to
// nearest, ties away from zero; they replace subnormal numbers by zero and NaNs by infinities.
//
// Matmul, Add, Subtract, Multiply, Divide and Relu take floats in any layout, more slowly in rows,
// and but for Divide integers, which wrap around on the RISC-V cores. ArgMax and copies run on the
// RISC-V cores and take any tensor, as Typecast does; Dequantize and Requantize take tiles of
// Int32. The other operations take tiles of floats only: see [Device.ToLayout] and
// [Device.Typecast]. docs/operations.md has a table, and docs/special-values.md what infinities and
// NaN become. The padding of tiles is zero in every result.
//
// Errors about operands and results wrap [ErrShape], [ErrDataType] or [ErrMemory].
//
// An operation loads a program for each kind of tensors into the program cache. Inside
// [Device.Capture] only cached programs run; otherwise the operation returns a [*CacheMissError].
// [WithParam] makes a position a parameter of the trace, so that one trace decodes a sequence.
//
// [Device.BeginCapture] records operations and their allocations as a graph, for TT-NN's
// visualizer.
package ops

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild ops
