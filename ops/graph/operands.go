package graph

import (
	"fmt"
	"maps"
	"slices"
)

// Operands are the tensors that a call takes and returns, as counters of tensor nodes: each once,
// though newer formats have a node for each use.
type Operands struct{ In, Out []int }

type tensorKey struct {
	id   string
	node int
}

func (g *Graph) tensorKey(c int) tensorKey {
	if id := g.Nodes[c].Params[ParamTensorID]; id != "" {
		return tensorKey{id: id}
	}
	return tensorKey{node: c}
}

// Operands returns the operands of calls, which [Graph.Calls] has returned. A call that names none
// gets those of its inner calls: inputs that none of them made, and outputs that none of them takes
// or frees. A freed tensor is an input.
func (g *Graph) Operands(calls []Call) []Operands {
	out := make([]Operands, len(calls))
	takers := g.takers()
	type inner struct{ in, out, made []int }
	within := make([]inner, len(calls))
	freed := g.freedIn(calls)
	for i := len(calls) - 1; i >= 0; i-- { // those inside first
		c := &calls[i]
		in := takers[c.Start]
		if listed := g.Nodes[c.Start].InputTensors; listed != nil {
			in = listed
		}
		in = g.distinct(g.tensors(in))
		var outputs []int
		if c.End >= 0 {
			outputs = g.distinct(g.tensors(g.Nodes[c.End].Connections))
		}
		w := &within[i]
		made := append(g.less(outputs, in), w.made...) // by this call and those inside
		out[i] = Operands{in, outputs}
		if len(in) == 0 {
			out[i].In = g.distinct(g.less(slices.Concat(w.in, freed[i]), w.made))
		}
		if len(outputs) == 0 {
			kept := g.less(w.made, slices.Concat(w.in, freed[i]))
			out[i].Out = g.distinct(g.less(w.out, g.less(w.made, kept)))
		}
		if p := c.Parent; p >= 0 {
			up := &within[p]
			up.in = slices.Concat(in, freed[i], w.in, up.in)
			up.out, up.made = slices.Concat(outputs, w.out, up.out), append(made, up.made...)
		}
	}
	return out
}

// takers returns the tensors by start of the function that takes them, once for each use.
func (g *Graph) takers() map[int][]int {
	out := map[int][]int{}
	for i, n := range g.All(TensorNode) {
		for _, c := range n.Connections {
			out[c] = append(out[c], i)
		}
	}
	return out
}

func (g *Graph) freedIn(calls []Call) [][]int {
	out := make([][]int, len(calls))
	freed, of := g.Freed(), g.Innermost(calls)
	for _, i := range slices.Sorted(maps.Keys(freed)) {
		if k := of[i]; k >= 0 {
			out[k] = append(out[k], freed[i])
		}
	}
	return out
}

// Freed returns the tensors that deallocations free, by node of the deallocation: the latest tensor
// in the buffer, or without such a connection the latest at the address. An address alone isn't
// enough, because TT-NN's captures without dispatch have every buffer at 0.
func (g *Graph) Freed() map[int]int {
	type place struct{ device, address int64 }
	latest := map[place]int{}
	allocated := map[int]*Node{} // by node of the buffer
	out := map[int]int{}
	for i, n := range g.All() {
		if a, ok := n.Params.Int(ParamAddress); ok && n.Type == TensorNode {
			latest[place{n.device(), a}] = i
		}
		if b := g.First(n, BufferNode); b != nil && n.Type == BufferAllocate {
			allocated[b.Counter] = n
		}
		if n.Type != BufferDeallocate {
			continue
		}
		at := n // which has the address
		if b := g.bufferOf(n); b != nil {
			last := -1
			for _, t := range g.tensors(b.Connections) {
				if t < i {
					last = max(last, t)
				}
			}
			if last >= 0 {
				out[i] = last
				continue
			}
			if _, ok := n.Params.Int(ParamAddress); !ok && allocated[b.Counter] != nil {
				at = allocated[b.Counter]
			}
		}
		if a, ok := at.Params.Int(ParamAddress); ok {
			if t, ok := latest[place{at.device(), a}]; ok {
				out[i] = t
			}
		}
	}
	return out
}

func (g *Graph) distinct(nodes []int) []int {
	seen := map[tensorKey]bool{}
	out := []int{}
	for _, c := range nodes {
		if k := g.tensorKey(c); !seen[k] {
			seen[k] = true
			out = append(out, c)
		}
	}
	return out
}

func (g *Graph) less(nodes, others []int) []int {
	drop := map[tensorKey]bool{}
	for _, c := range others {
		drop[g.tensorKey(c)] = true
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(c int) bool { return drop[g.tensorKey(c)] })
}

// OutputTensors returns the output tensors of the last function that returned some. The error wraps
// [ErrNoFunctions].
func OutputTensors(g *Graph) ([]int, error) {
	for _, n := range slices.Backward(g.Nodes) {
		if out := g.tensors(n.Connections); n.Type == FunctionEnd && len(out) > 0 {
			return out, nil
		}
	}
	return nil, fmt.Errorf("graph: output tensors: %w", ErrNoFunctions)
}

// tensors returns the tensors among nodes, each node once.
func (g *Graph) tensors(nodes []int) []int {
	out := []int{}
	seen := map[int]bool{}
	for _, c := range nodes {
		if t := g.At(c); t != nil && t.Type == TensorNode && !seen[c] {
			seen[c] = true
			out = append(out, c)
		}
	}
	return out
}

// CountTensors counts the tensors made by functions named create_device_tensor that are not
// outputs, and the tensors of [OutputTensors]. As in upstream, names with a namespace
// don't count. The error wraps [ErrNoFunctions].
func CountTensors(g *Graph) (intermediate, output int, err error) {
	outputs, err := OutputTensors(g)
	if err != nil {
		return 0, 0, err
	}
	made := map[int]bool{}
	for _, n := range g.All(FunctionEnd) {
		if n.Name() == "create_device_tensor" && len(n.Connections) > 0 {
			if t := g.At(n.Connections[0]); t != nil {
				made[t.Counter] = true
			}
		}
	}
	for _, c := range outputs {
		delete(made, c)
	}
	return len(made), len(outputs), nil
}

// Output is an output tensor and its memory.
type Output struct {
	Tensor  int
	Shape   []int // nil if the shape can't be parsed
	Size    int64 // bytes of its buffer
	Type    BufferType
	PerCore int64 // bytes on the core with most pages; 0 if the pages are unknown
}

// Outputs returns the output tensors that have a buffer, in the order of the buffers, for
// interleaved buffers spread over the given number of cores. The error wraps [ErrNoFunctions].
func Outputs(g *Graph, cores int) ([]Output, error) {
	counters, err := OutputTensors(g)
	if err != nil {
		return nil, err
	}
	alloc := g.allocations()
	var out []Output
	for i, b := range g.All(BufferNode) {
		for _, c := range g.tensors(b.Connections) {
			if !slices.Contains(counters, c) {
				continue
			}
			o := Output{Tensor: c, Shape: ParseShape(g.Nodes[c].Params[ParamShape]), Size: b.Params.Size(ParamSize), Type: DRAM}
			if b.inL1() {
				o.Type = L1
			}
			if a := alloc[i]; a != nil {
				o.PerCore = SizeOnCore(a, cores)
			}
			out = append(out, o)
		}
	}
	return out, nil
}
