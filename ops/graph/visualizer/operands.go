package visualizer

import "github.com/reprise-tt/reprise/ops/graph"

// operands are the tensors that operations take and return, by index of the operation.
type operands struct {
	in, out [][]int64
	used    map[int64]bool // tensors of any operation
}

// operandScan finds operands. It reads the nodes once.
type operandScan struct {
	operands
	p      *plan
	takers map[int][]int64 // by node of a function's start: input tensors, for graphs that don't list them
	at     map[place]int64 // latest tensor at a place
	inner  []inner         // by operation
	starts map[int]int     // of functions by their ends
	takes  map[int][]int64 // inputs of functions by their starts
}

// inner are the tensors of the functions inside of an operation.
type inner struct {
	in, out []int64
	made    []int64 // outputs that are no inputs of the function that returns them
}

func newOperands(p *plan) *operands {
	n := len(p.ops)
	s := &operandScan{
		operands: operands{in: make([][]int64, n), out: make([][]int64, n), used: map[int64]bool{}},
		p:        p, takers: map[int][]int64{}, at: map[place]int64{}, inner: make([]inner, n), starts: map[int]int{}, takes: map[int][]int64{},
	}
	for _, c := range p.g.Calls() {
		if c.End >= 0 {
			s.starts[c.End] = c.Start
		}
	}
	for i := range p.g.Nodes {
		if n := &p.g.Nodes[i]; n.Type == graph.TensorNode {
			if id, ok := n.Params.Int(graph.ParamTensorID); ok {
				for _, c := range n.Connections {
					s.takers[c] = append(s.takers[c], id)
				}
			}
		}
	}
	for i := range p.g.Nodes {
		s.node(i)
	}
	for k := range p.ops {
		// An operation without operands of its own gets those of the functions inside: the inputs that none of them made, and
		// the outputs that none of them takes. An operation in place takes what it returns, which is both.
		f := &s.inner[k]
		if len(s.in[k]) == 0 {
			s.in[k] = without(f.in, f.made)
		}
		if len(s.out[k]) == 0 {
			s.out[k] = without(f.out, both(f.made, f.in))
		}
		s.in[k], s.out[k] = unique(s.in[k]), unique(s.out[k])
		for _, ids := range [][]int64{s.in[k], s.out[k]} {
			for _, id := range ids {
				s.used[id] = true
			}
		}
	}
	return &s.operands
}

func (s *operandScan) node(i int) {
	n, k := &s.p.g.Nodes[i], s.p.of[i]
	switch n.Type {
	case graph.TensorNode:
		s.tensor(n)
	case graph.FunctionStart:
		ids := s.ids(n.InputTensors)
		if n.InputTensors == nil {
			ids = s.takers[i]
		}
		s.takes[i] = ids
		if k >= 0 && i == s.p.ops[k].start {
			s.in[k] = ids
		} else if k >= 0 {
			s.inner[k].in = append(s.inner[k].in, ids...)
		}
	case graph.FunctionEnd:
		out := s.ids(n.Connections)
		if k >= 0 && i == s.p.ops[k].end {
			s.out[k] = out
		} else if k >= 0 {
			f := &s.inner[k]
			f.out = append(f.out, out...)
			if start, ok := s.starts[i]; ok {
				out = without(out, s.takes[start])
			}
			f.made = append(f.made, out...)
		}
	case graph.BufferDeallocate:
		// A freed tensor is an input of the operation that frees it.
		if id, ok := s.freed(n); ok && k >= 0 {
			s.inner[k].in = append(s.inner[k].in, id)
		}
	}
}

// tensor notes where a tensor is.
func (s *operandScan) tensor(n *graph.Node) {
	id, ok := n.Params.Int(graph.ParamTensorID)
	if a, placed := n.Params.Int(graph.ParamAddress); ok && placed {
		d, _ := n.Params.Int(graph.ParamDeviceID)
		s.at[place{s.p.device(d), a}] = id
	}
}

// freed returns the latest tensor in the buffer that a deallocation frees. Addresses don't say which one it is in a capture
// without dispatch, where TT-NN has every buffer at 0, so the connections of the buffer come first.
func (s *operandScan) freed(n *graph.Node) (int64, bool) {
	of := n
	for _, c := range n.Connections {
		if a := s.p.at(c); a != nil && a.Type == graph.BufferAllocate { // some writers connect a deallocation to the allocation
			of = a
		}
	}
	latest, found := int64(0), false
	for _, c := range of.Connections {
		b := s.p.at(c)
		if b == nil || b.Type != graph.BufferNode {
			continue
		}
		for _, c := range b.Connections {
			if t := s.p.at(c); t != nil && t.Type == graph.TensorNode && c < n.Counter {
				if id, ok := t.Params.Int(graph.ParamTensorID); ok {
					latest, found = id, true
				}
			}
		}
	}
	if found {
		return latest, true
	}
	a := n
	if _, ok := n.Params.Int(graph.ParamAddress); !ok {
		a = s.p.allocation(n)
	}
	if a == nil {
		return 0, false
	}
	id, ok := s.at[s.p.buffer(a).place]
	return id, ok
}

// ids returns the tensors among nodes, which are given by counter.
func (s *operandScan) ids(counters []int) []int64 {
	var out []int64
	for _, c := range counters {
		if n := s.p.at(c); n != nil && n.Type == graph.TensorNode {
			if id, ok := n.Params.Int(graph.ParamTensorID); ok {
				out = append(out, id)
			}
		}
	}
	return out
}

// unique returns each number once, in order.
func unique(ids []int64) []int64 {
	seen := map[int64]bool{}
	out := []int64{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

// without returns the ids that are not in others.
func without(ids, others []int64) []int64 {
	drop := map[int64]bool{}
	for _, id := range others {
		drop[id] = true
	}
	var out []int64
	for _, id := range ids {
		if !drop[id] {
			out = append(out, id)
		}
	}
	return out
}

// both returns the ids that are in others too.
func both(ids, others []int64) []int64 { return without(ids, without(ids, others)) }
