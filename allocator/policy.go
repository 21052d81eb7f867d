package allocator

// Policy says which of the large enough holes an allocation takes. [BestFit] may look at all holes,
// the others at one number for some hundred holes.
type Policy uint8

// Of equal holes the lowest is taken, or the highest from the top down.
const (
	FirstFit Policy = iota // the lowest hole: repeatable addresses, and the other end stays free
	BestFit
	WorstFit

	numPolicies
)

func (p Policy) String() string {
	return nameOf([]string{"first fit", "best fit", "worst fit"}, p, "policy")
}

func (p Policy) valid() bool { return p < numPolicies }

func (h *holes) takeBy(p Policy, size uint32, topDown bool) (start uint32, ok bool) {
	if h.largest() < size {
		return 0, false
	}
	var x hole
	if p == BestFit {
		x = h.best(size, topDown)
	} else {
		find := h.lowest
		if topDown {
			find = h.highest
		}
		at, _ := find(h.largest())
		x = h.of(at.c)[at.i]
	}
	start = x.start()
	if topDown {
		start = x.end() - size
	}
	return start, h.takeAt(start, size)
}

// The hole must exist.
func (h *holes) best(size uint32, last bool) (found hole) {
	for c := range h.dir {
		if h.dir[c].most < size {
			continue
		}
		for _, x := range h.of(c) {
			if x.size() < size || found != 0 && (x.size() > found.size() || x.size() == found.size() && !last) {
				continue
			}
			if found = x; x.size() == size && !last {
				return found
			}
		}
	}
	return found
}
