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

func (h *holes) pick(p Policy, size uint32, topDown bool) (at place, ok bool) {
	switch {
	case p == BestFit:
		return h.best(size, topDown)
	case p == WorstFit:
		size = max(size, h.largest())
	}
	if topDown {
		return h.highest(size)
	}
	return h.lowest(size)
}

func (h *holes) best(size uint32, last bool) (found place, ok bool) {
	least := uint32(0)
	for c := range h.dir {
		if h.dir[c].most < size {
			continue
		}
		for i, x := range h.of(c) {
			if x.size() < size || ok && (x.size() > least || x.size() == least && !last) {
				continue
			}
			found, least, ok = place{c, i}, x.size(), true
			if least == size && !last {
				return found, true
			}
		}
	}
	return found, ok
}
