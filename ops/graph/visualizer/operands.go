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
	p        *plan
	takers   map[int][]int64 // by node of a function's start: input tensors, for graphs that don't list them
	at       map[place]int64 // latest tensor at a place
	innerIn  [][]int64       // by operation: inputs of the functions inside
	innerOut [][]int64
}

func newOperands(p *plan) *operands {
	n := len(p.ops)
	s := &operandScan{
		operands: operands{in: make([][]int64, n), out: make([][]int64, n), used: map[int64]bool{}},
		p:        p, takers: map[int][]int64{}, at: map[place]int64{}, innerIn: make([][]int64, n), innerOut: make([][]int64, n),
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
		// An operation without operands of its own gets those of the functions inside.
		if len(s.in[k]) == 0 {
			s.in[k] = without(s.innerIn[k], s.innerOut[k])
		}
		if len(s.out[k]) == 0 {
			s.out[k] = without(s.innerOut[k], s.innerIn[k])
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
	if n.Type == graph.TensorNode {
		id, ok := n.Params.Int(graph.ParamTensorID)
		if a, placed := n.Params.Int(graph.ParamAddress); ok && placed {
			d, _ := n.Params.Int(graph.ParamDeviceID)
			s.at[place{s.p.device(d), a}] = id
		}
		return
	}
	if k < 0 {
		return
	}
	o := &s.p.ops[k]
	switch n.Type {
	case graph.FunctionStart:
		ids := s.ids(n.InputTensors)
		if n.InputTensors == nil {
			ids = s.takers[i]
		}
		if i == o.start {
			s.in[k] = ids
		} else {
			s.innerIn[k] = append(s.innerIn[k], ids...)
		}
	case graph.FunctionEnd:
		if i == o.end {
			s.out[k] = s.ids(n.Connections)
		} else {
			s.innerOut[k] = append(s.innerOut[k], s.ids(n.Connections)...)
		}
	case graph.BufferDeallocate:
		if o.free {
			s.freed(k, n)
		}
	}
}

// freed makes the tensor in a freed buffer the input of its deallocation.
func (s *operandScan) freed(k int, n *graph.Node) {
	a := n
	if _, ok := n.Params.Int(graph.ParamAddress); !ok {
		a = s.p.allocation(n)
	}
	if a == nil {
		return
	}
	if id, ok := s.at[s.p.buffer(a).place]; ok {
		s.in[k] = []int64{id}
	}
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
