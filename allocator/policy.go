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
	var e hole
	if p == WorstFit {
		if h.largest() < size {
			return 0, false
		}
		e = h.extreme(h.largest(), topDown)
	} else if e = h.best(h.root, size, topDown, 0); e == 0 {
		return 0, false
	}
	start = e.start()
	if topDown {
		start = e.end() - size
	}
	return start, h.takeAt(start, size)
}

// extreme returns the lowest, or the highest, hole of at least a size, which there must be.
func (h *holes) extreme(size uint32, last bool) (e hole) {
	k := h.root
	for k&1 != 0 {
		n := &h.nodes[k>>1]
		for i, m := range n.max {
			if m >= size {
				k = n.kid[i]
				if !last {
					break
				}
			}
		}
	}
	l := &h.leaves[k>>1]
	for _, x := range l.hole[:l.n] {
		if x.size() >= size {
			e = x
			if !last {
				break
			}
		}
	}
	return e
}

// best returns the smallest hole below k of at least size that is smaller than found, or found if there is none. Of
// equal ones it is the first, or with last the last. A zero found is larger than all.
func (h *holes) best(k kid, size uint32, last bool, found hole) hole {
	if k&1 != 0 {
		n := &h.nodes[k>>1]
		for i, m := range n.max {
			if m >= size {
				found = h.best(n.kid[i], size, last, found)
				if found.size() == size && !last {
					return found
				}
			}
		}
		return found
	}
	l := &h.leaves[k>>1]
	for _, x := range l.hole[:l.n] {
		if s := x.size(); s >= size && (found == 0 || s < found.size() || last && s == found.size()) {
			found = x
		}
	}
	return found
}
