//go:build !amd64

package allocator

func wide() bool { return false }

func (h *holes) descend(from uint32, levels int, size uint32) uint32 {
	return descend(h.max[from:], levels, size)
}

func (h *holes) descendTop(from uint32, levels int, size uint32) uint32 {
	return descendTop(h.max[from:], levels, size)
}

func (h *holes) lowestOf(l *leaf, size uint32) (i int, rest uint32) { return l.lowest(size) }

func (h *holes) highestOf(l *leaf, size uint32) (i int, rest uint32) { return l.highest(size) }

func (h *holes) around(l *leaf, start, end uint32) uint64 { return l.around(start, end) }

func (h *holes) settleAbove(e, size uint32) { settle(h.max, e, size) }
