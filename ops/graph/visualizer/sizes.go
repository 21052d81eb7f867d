package visualizer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/ops/graph"
)

// sizeAt is a buffer at a node of a report.
type sizeAt struct {
	node       int
	kind, size int64 // size in the bank with most of it, in bytes
	found      bool  // in the buffers of an operation: it may have been there before
}

type sizes map[place][]sizeAt

// sizes returns the sizes of the buffers that the report allocates, or lists for operations.
func (p *plan) sizes() sizes {
	out := sizes{}
	add := func(at place, s sizeAt) {
		if list := out[at]; len(list) > 0 {
			last := list[len(list)-1]
			if last.node = s.node; last == s { // most operations list the same buffers as the ones before
				return
			}
		}
		out[at] = append(out[at], s)
	}
	for i := range p.g.Nodes {
		if n := &p.g.Nodes[i]; n.Type == graph.BufferAllocate {
			b := p.buffer(n)
			add(b.place, sizeAt{node: i, kind: b.kind, size: b.size})
		}
	}
	for _, op := range slices.Sorted(maps.Keys(p.r.OperationBuffers)) {
		for _, b := range p.r.OperationBuffers[op] {
			add(place{p.device(int64(b.Device)), int64(b.Address)}, sizeAt{node: op, kind: int64(b.Type), size: b.MaxPerBank, found: true})
		}
	}
	for _, list := range out {
		slices.SortStableFunc(list, func(a, b sizeAt) int { return cmp.Compare(a.node, b.node) })
	}
	return out
}

// before returns the size of the latest buffer of a kind at a place before a node, or else of the
// first one that an operation found there later.
func (s sizes) before(at place, kind int64, node int) (size int64, ok bool) {
	for _, b := range s[at] {
		switch {
		case b.kind != kind:
		case b.node <= node:
			size, ok = b.size, true
		case !ok && b.found:
			return b.size, true
		}
	}
	return size, ok
}
