package dispatch

import "slices"

// CircularAddr appends to dst the offsets, as those of CommonArg, of the words that hold the address of a circular buffer.
// p is the program that the image was compiled from. On each core that has the buffer there must be a kernel with common
// arguments: the configuration of its circular buffers follows them. The error is a *ProgramError.
func (im *Image) CircularAddr(dst []int, p *Program, index int) ([]int, error) {
	lay := layoutSlot(p, nil, im.argCount)
	n := len(dst)
	for i := range p.CircularBuffers {
		b := &p.CircularBuffers[i]
		if b.Index != index {
			continue
		}
		for _, r := range b.Cores {
			for c := range r.Cores() {
				if !slices.ContainsFunc(p.Kernels, func(k Kernel) bool { return len(k.Common) > 0 && rangesContain(k.Cores, c) }) {
					return dst[:n], p.fail("circular buffer", "buffer %d can't be moved: core %v has no kernel with common arguments", index, c)
				}
			}
		}
		for k := range p.Kernels {
			// Common arguments of a core begin at those of its first processor.
			after := lay.cbs + 16*uint32(index) - lay.common[p.Kernels[k].Processor] - lay.count
			for _, at := range im.args[k].common {
				if word := int(at) + int(after); !slices.Contains(dst[n:], word) {
					dst = append(dst, word)
				}
			}
		}
	}
	if len(dst) == n {
		return dst, p.fail("circular buffer", "there is no buffer %d", index)
	}
	return dst, nil
}
