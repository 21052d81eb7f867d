package graph

import "fmt"

// OutputTensors returns the output tensors of the last function that ended. The error wraps
// [ErrNoFunctions].
func OutputTensors(g *Graph) ([]int, error) {
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if n := &g.Nodes[i]; n.Type == FunctionEnd {
			return g.tensorsOf(n), nil
		}
	}
	return nil, fmt.Errorf("graph: output tensors: %w", ErrNoFunctions)
}

func (g *Graph) tensorsOf(n *Node) []int {
	out := []int{}
	seen := map[int]bool{}
	for _, c := range n.Connections {
		if t := g.at(c); t != nil && t.Type == TensorNode && !seen[c] {
			seen[c] = true
			out = append(out, c)
		}
	}
	return out
}

// CountTensors counts the tensors made by functions named create_device_tensor that are not
// outputs, and the outputs of the last function that ended. As in upstream, names with a namespace
// don't count. The error wraps [ErrNoFunctions].
func CountTensors(g *Graph) (intermediate, output int, err error) {
	outputs, err := OutputTensors(g)
	if err != nil {
		return 0, 0, err
	}
	made := map[int]bool{}
	for i := range g.Nodes {
		if n := &g.Nodes[i]; n.Type == FunctionEnd && n.Name() == "create_device_tensor" && len(n.Connections) > 0 {
			if t := g.at(n.Connections[0]); t != nil {
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
	Tensor  int   // counter of its node
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
	isOutput := map[int]bool{}
	for _, c := range counters {
		isOutput[c] = true
	}
	alloc := g.allocations()
	var out []Output
	for i := range g.Nodes {
		b := &g.Nodes[i]
		if b.Type != BufferNode {
			continue
		}
		for _, c := range g.tensorsOf(b) {
			if !isOutput[c] {
				continue
			}
			o := Output{Tensor: c, Shape: ParseShape(g.Nodes[c].Params[ParamShape]), Size: b.Params.Size(ParamSize), Type: DRAM}
			if b.inL1() {
				o.Type = L1
			}
			if a := alloc[i]; a != nil {
				o.PerCore = perCore(a.Params, cores)
			}
			out = append(out, o)
		}
	}
	return out, nil
}
