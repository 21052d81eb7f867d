package allocator

import "golang.org/x/sys/cpu"

// wide reports whether this processor has the instructions (AVX2) that look at a leaf or a group at once.
func wide() bool { return cpu.X86.HasAVX2 }

// The functions of scan.go in assembly, for what is asked most. The layout of a leaf is written out there: 16 ends, then 16 sizes.

//go:noescape
func descendWide(m *uint32, levels int, size uint32) uint32

//go:noescape
func descendTopWide(m *uint32, levels int, size uint32) uint32

//go:noescape
func lowestWide(l *leaf, size uint32) (i int, rest uint32)

//go:noescape
func highestWide(l *leaf, size uint32) (i int, rest uint32)

//go:noescape
func settleWide(m *uint32, e, size uint32)

//go:noescape
func aroundWide(l *leaf, start, end uint32) uint64

func (h *holes) descend(from uint32, levels int, size uint32) uint32 {
	if h.wide {
		return descendWide(&h.group(from)[0], levels, size)
	}
	return descend(h.max[from:], levels, size)
}

func (h *holes) descendTop(from uint32, levels int, size uint32) uint32 {
	if h.wide {
		return descendTopWide(&h.group(from)[0], levels, size)
	}
	return descendTop(h.max[from:], levels, size)
}

func (h *holes) lowestOf(l *leaf, size uint32) (i int, rest uint32) {
	if h.wide {
		return lowestWide(l, size)
	}
	return l.lowest(size)
}

func (h *holes) highestOf(l *leaf, size uint32) (i int, rest uint32) {
	if h.wide {
		return highestWide(l, size)
	}
	return l.highest(size)
}

func (h *holes) around(l *leaf, start, end uint32) uint64 {
	if h.wide {
		return aroundWide(l, start, end)
	}
	return l.around(start, end)
}

func (h *holes) settleAbove(e, size uint32) {
	if h.wide {
		settleWide(&h.max[:e+1][0], e, size)
		return
	}
	settle(h.max, e, size)
}
