//go:build !amd64

package allocator

func wide() bool { return false }

func (h *holes) lowestOf(size uint32) (e uint32, at int, rest uint32) { return lowestOf(h, size) }

func (h *holes) highestOf(size uint32) (e uint32, at int, rest uint32) { return highestOf(h, size) }

func (h *holes) around(l, before *leaf, start, end uint32) uint64 {
	return l.around(before, start, end)
}

func (h *holes) settleAbove(e, size uint32) { settle(h.max, e, size) }

func (h *holes) prefetch(*block) {}
