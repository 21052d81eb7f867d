package visualizer

import "github.com/reprise-tt/reprise/ops/graph"

// tensors says which tensors operations take and give.
type tensors struct {
	p    *plan
	in   [][]int64
	out  [][]int64
	used map[int64]bool
}

func newTensors(p *plan) *tensors {
	t := &tensors{p: p, in: make([][]int64, len(p.ops)), out: make([][]int64, len(p.ops)), used: map[int64]bool{}}
	takers := map[int][]int64{} // of a start's node, where the graph doesn't tell inputs
	at := map[place]int64{}     // tensors by where they are
	for i := range p.g.Nodes {
		n := &p.g.Nodes[i]
		if n.Type != graph.TensorNode {
			continue
		}
		if id, ok := n.Params.Int(graph.ParamTensorID); ok {
			for _, c := range n.Connections {
				takers[c] = append(takers[c], id)
			}
		}
	}
	inner := make([]struct{ in, out []int64 }, len(p.ops)) // of the functions inside
	for i := range p.g.Nodes {
		n := &p.g.Nodes[i]
		k := p.of[i]
		switch n.Type {
		case graph.TensorNode:
			id, ok := n.Params.Int(graph.ParamTensorID)
			if a, on := n.Params.Int(graph.ParamAddress); ok && on {
				d, _ := n.Params.Int(graph.ParamDeviceID)
				at[place{p.device(d), a}] = id
			}
		case graph.FunctionStart:
			if k < 0 {
				continue
			}
			ids := t.ids(n.InputTensors)
			if n.InputTensors == nil {
				ids = takers[i]
			}
			if i == p.ops[k].start {
				t.in[k] = ids
			} else {
				inner[k].in = append(inner[k].in, ids...)
			}
		case graph.FunctionEnd:
			if k < 0 {
				continue
			}
			if i == p.ops[k].end {
				t.out[k] = t.ids(n.Connections)
			} else {
				inner[k].out = append(inner[k].out, t.ids(n.Connections)...)
			}
		case graph.BufferDeallocate:
			if k < 0 || !p.ops[k].free {
				continue
			}
			a := n
			if _, ok := n.Params.Int(graph.ParamAddress); !ok {
				a = p.allocation(n)
			}
			if a != nil {
				b := p.buffer(a)
				if id, ok := at[b.place]; ok {
					t.in[k] = []int64{id}
				}
			}
		}
	}
	for k := range p.ops {
		// What an operation doesn't tell itself, the functions inside of it do.
		if len(t.in[k]) == 0 {
			t.in[k] = without(inner[k].in, inner[k].out)
		}
		if len(t.out[k]) == 0 {
			t.out[k] = without(inner[k].out, inner[k].in)
		}
		t.in[k], t.out[k] = unique(t.in[k]), unique(t.out[k])
		for _, id := range append(append([]int64{}, t.in[k]...), t.out[k]...) {
			t.used[id] = true
		}
	}
	return t
}

// of returns what operation k takes and gives.
func (t *tensors) of(k int) (in, out []int64) { return t.in[k], t.out[k] }

// ids returns the tensors among nodes. Counters that no node has give none.
func (t *tensors) ids(counters []int) []int64 {
	var out []int64
	for _, c := range counters {
		if n := t.p.at(c); n != nil && n.Type == graph.TensorNode {
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

// without leaves out of ids what is in others.
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
