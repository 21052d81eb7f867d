// Package digits is a data set of handwritten digits, and a small int8 neural network that reads
// them: the trained weights, and an exact host reference to compare a device's results with.
// Package convnet is a network in bfloat16 for the same digits.
//
// # The network
//
// Three dense layers, 64 to 64 to 32 to 10, with a rectifier after the first two. Everything the
// device does is integer arithmetic with RV32IM instructions, so host and device agree bit for bit:
//
//	for o in 0..out-1:
//	    acc = bias[o]                                     // int32
//	    for i in 0..in-1:
//	        acc += int32(weight[o][i]) * int32(x[i])      // int8 times int8, signed
//	    if scores flag: y[o] = acc                        // int32, the last layer
//	    else:
//	        y = (acc*multiplier + (1 << (shift-1))) >> shift   // int32, arithmetic shift: rounds half towards +infinity
//	        out[o] = int8(min(max(y, 0), 127))                 // the rectifier, and saturation
//
// No step overflows an int32 for any input.
//
// # Pages
//
// Activations travel as pages of 64 bytes, one image a page ([Page]). A page of the network's input
// holds the 64 pixels (0 to 16) as int8; between layers it holds one int8 for each output of the
// layer, then zeros; after the last layer it holds ten little-endian int32 scores, then zeros. The
// largest score is the answer; among equal scores the lowest digit wins.
//
// # weights.bin
//
// The weights were trained once, on the first result of [Split], by a Go program that the
// repository's history has (examples/digits/train), and quantised. The file is a header of 64
// bytes, then the packed layers in order. All integers are little endian:
//
//	offset size
//	0      8    magic "RPDIGIT1"
//	8      4    number of layers
//	12     4    CRC-32 (IEEE) of every byte after the header
//	16     4    size of the file
//	20     44   zero
//
// A device kernel reads a packed layer from L1 as the file holds it. Every part starts at a
// multiple of 64 bytes:
//
//	offset size
//	0      4    magic "RPDL" (0x4C445052 as uint32)
//	4      4    in: inputs, a multiple of 4, at most 64
//	8      4    out: outputs, at most 64 (at most 16 for a layer of scores)
//	12     4    rows: rows of weights and biases stored, out rounded up to a multiple of 16; rows from out on are zero
//	16     4    multiplier (0 for a layer of scores)
//	20     4    shift, 1 to 31 (0 for a layer of scores)
//	24     4    flags: bit 0 set: the result is int32 scores; clear: requantise, rectify, saturate to int8
//	28     4    offset of the biases from the start of the header
//	32     4    offset of the weights from the start of the header
//	36     4    size of everything, a multiple of 64
//	40     24   float64: values of one unit of the input, a weight and the output, which no arithmetic uses
//	64          biases: rows int32
//	...         weights: rows times in int8, row by row: weight of output o for input i at o*in + i
package digits
