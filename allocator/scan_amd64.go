package allocator

import "golang.org/x/sys/cpu"

// wide reports whether this processor has the instructions (AVX2) that look at a leaf or a group at once.
func wide() bool { return cpu.X86.HasAVX2 }

// The functions of scan.go in assembly, for what is asked most. The layout of a leaf is written out there: 16 ends, then 16 sizes.

//go:noescape
func lowestWide(h *holes, size uint32) (e uint32, at int, rest uint32)

//go:noescape
func highestWide(h *holes, size uint32) (e uint32, at int, rest uint32)

//go:noescape
func settleWide(m *uint32, e, size uint32)

//go:noescape
func aroundWide(l, before *leaf, start, end uint32) uint64

// prefetchForWriting begins to fetch a block's cache line from memory, to be written.
//
//go:noescape
func prefetchForWriting(b *block)

func (h *holes) prefetch(b *block) {
	if h.wide { // no processor with AVX2 minds the instruction
		prefetchForWriting(b)
	}
}

func (h *holes) lowestOf(size uint32) (e uint32, at int, rest uint32) {
	if h.wide {
		return lowestWide(h, size)
	}
	return lowestOf(h, size)
}

func (h *holes) highestOf(size uint32) (e uint32, at int, rest uint32) {
	if h.wide {
		return highestWide(h, size)
	}
	return highestOf(h, size)
}

func (h *holes) around(l, before *leaf, start, end uint32) uint64 {
	if h.wide {
		return aroundWide(l, before, start, end)
	}
	return l.around(before, start, end)
}

func (h *holes) settleAbove(e, size uint32) {
	if h.wide {
		settleWide(&h.max[:e+1][0], e, size)
		return
	}
	settle(h.max, e, size)
}
