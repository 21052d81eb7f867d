// Package safetensors reads and writes the files in which weights of models are published
// (https://github.com/huggingface/safetensors): 8 bytes with the length of a header, the header in
// JSON, and the tensors' data.
//
//	f, err := safetensors.Open("model.safetensors")
//	...
//	defer f.Close()
//	w, err := f.Tensor("layers.0.weight") // an *ops.Host
//	...
//	w, err = w.Convert(ops.BFloat8B) // for ToDevice
//
// [Open] reads only the header, and [File.Tensor] only the data of one tensor, so a file may be
// larger than memory. A sharded model is opened by its index. A file from anywhere may be opened:
// what is wrong with it is a [*FormatError].
package safetensors
