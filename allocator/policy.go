package allocator

import "fmt"

// Policy says which of the holes that are large enough an allocation takes. The cost of [FirstFit] and [WorstFit] grows
// with the logarithm of the number of holes, that of [BestFit] in the worst case with the number itself.
type Policy uint8

// The policies. Where several holes are as good, the lowest is taken, or the highest by an allocation from the top.
const (
	// FirstFit takes the lowest hole, or from the top down the highest. It keeps addresses repeatable and the other end
	// of the memory free.
	FirstFit Policy = iota
	// BestFit takes the smallest hole.
	BestFit
	// WorstFit takes the largest hole.
	WorstFit

	numPolicies
)

// String returns the policy's name.
func (p Policy) String() string {
	switch p {
	case FirstFit:
		return "first fit"
	case BestFit:
		return "best fit"
	case WorstFit:
		return "worst fit"
	}
	return fmt.Sprintf("policy(%d)", uint8(p))
}

func (p Policy) valid() bool { return p < numPolicies }

// takeBy carves size units from the hole that a policy other than FirstFit chooses, from its low end or its high end.
func (h *holes) takeBy(p Policy, size uint32, topDown bool) (start uint32, ok bool) {
	if h.largest() < size {
		return 0, false
	}
	var x hole
	switch {
	case p == BestFit:
		x = h.best(0, size, topDown, 0)
	case topDown:
		e, i, _ := h.highest(h.largest())
		x = h.leaf(e).hole(i)
	default:
		e, i, _ := h.lowest(h.largest())
		x = h.leaf(e).hole(i)
	}
	start = x.start()
	if topDown {
		start = x.end() - size
	}
	return start, h.takeAt(start, size)
}

// best returns the smallest hole below a group of at least size that is smaller than found, or found if there is none.
// Of equal ones it is the first, or with last the last. A zero found is larger than all.
func (h *holes) best(group, size uint32, last bool, found hole) hole {
	for i, m := range h.group(group) {
		if m < size {
			continue
		}
		e := group + uint32(i)
		if g := h.below(e); g != 0 {
			found = h.best(g, size, last, found)
		} else {
			for i := range leafWidth {
				if x := h.leaf(e).hole(i); x.size() >= size && (found == 0 || better(x, found, last)) {
					found = x
				}
			}
		}
		if found.size() == size && !last {
			return found
		}
	}
	return found
}

// better reports whether a hole is smaller than another, or as large and, by last, higher or lower.
func better(x, than hole, last bool) bool {
	if x.size() != than.size() {
		return x.size() < than.size()
	}
	return (x > than) == last
}
