package graph

import (
	"slices"
	"strings"
)

// Vertex is an operation of a levelized graph, or a tensor that the operations take. Its JSON is
// that of TT-NN's extract_levelized_graph; see levelized_graph.cpp of tt-metal's ttnn/core/graph.
type Vertex struct {
	Counter   int      `json:"counter"`        // its index in the levelized graph
	Level     int      `json:"stacking_level"` // number of open functions, itself included
	Name      string   `json:"name"`           // of the function, or tensor[ID]
	Arguments []string `json:"arguments"`
	// In are the vertices that make what this one takes, one for each tensor among its arguments,
	// in their order.
	In []int `json:"in_edges"`
	// Out are the vertices that take what this one makes, each once.
	Out       []int `json:"out_edges"`
	Internals []int `json:"internals"`
	// OutputInfo is how the first consumer of the same level names its first tensor.
	OutputInfo []string `json:"output_info"`
	// OutputShapes are the shapes of what the vertex makes, each once, in the form of the graph's
	// format.
	OutputShapes []string `json:"output_shape"`
}

// Levelized returns the data flow between the functions of a graph down to a level: 1 for those
// that no other function called, 2 for what these called too, and so on. Tensors that functions of
// level 1 take come first.
func Levelized(g *Graph, maxLevel int) []Vertex {
	l := levelizer{g: g, vertex: map[int]int{}, maker: map[int]int{}}
	l.addVertices(maxLevel)
	l.connect()
	return list(l.out)
}

type levelizer struct {
	g      *Graph
	out    []Vertex
	nodes  []int       // by vertex: the node that it was made of
	ends   []int       // by vertex: the end of the function, -1 without
	vertex map[int]int // by node: the inverse of nodes
	maker  map[int]int // by tensor: the vertex of the outermost function that returned it
}

func (l *levelizer) add(node, end int, v Vertex) {
	v.Counter, v.Level = len(l.out), l.g.Nodes[node].Level
	// TT-NN writes empty lists, not null.
	v.In, v.Out, v.Internals, v.OutputInfo = []int{}, []int{}, []int{}, []string{}
	l.vertex[node] = v.Counter
	l.nodes, l.ends, l.out = append(l.nodes, node), append(l.ends, end), append(l.out, v)
}

func (l *levelizer) addVertices(maxLevel int) {
	for i, n := range l.g.All(TensorNode) {
		if n.Level != 1 {
			continue
		}
		v := Vertex{Name: "tensor", Arguments: []string{}, OutputShapes: []string{}}
		if id := n.Params[ParamTensorID]; id != "" {
			v.Name = "tensor[" + id + "]"
		}
		if shape, ok := n.Params[ParamShape]; ok {
			v.OutputShapes = append(v.OutputShapes, shape)
		}
		l.add(i, -1, v)
	}
	for _, c := range l.g.Calls() { // outer ones first
		if n := &l.g.Nodes[c.Start]; n.Level <= maxLevel {
			shapes := l.returned(c.End, len(l.out), n.Level)
			l.add(c.Start, c.End, Vertex{Name: c.Name, Arguments: append([]string{}, n.Arguments...), OutputShapes: shapes})
		}
	}
}

// returned returns the shapes of what a function returns at its end, and notes the vertex as their
// maker unless an outer function returns them too.
func (l *levelizer) returned(end, vertex, level int) []string {
	shapes := []string{}
	if end < 0 {
		return shapes
	}
	for _, t := range l.g.tensors(l.g.Nodes[end].Connections) {
		if v, ok := l.maker[t]; !ok || level < l.out[v].Level {
			l.maker[t] = vertex
		}
		if s, ok := l.g.Nodes[t].Params[ParamShape]; ok && !slices.Contains(shapes, s) {
			shapes = append(shapes, s)
		}
	}
	return shapes
}

// source returns the vertex that a tensor comes from: the tensor's own, or its maker.
func (l *levelizer) source(tensor int) (int, bool) {
	v, ok := l.vertex[tensor]
	if !ok {
		v, ok = l.maker[tensor]
	}
	return v, ok
}

func (l *levelizer) connect() {
	takers := l.g.takers()
	for v, node := range l.nodes {
		n, own := &l.g.Nodes[node], &l.out[v]
		if n.Type == TensorNode {
			if from, ok := l.maker[node]; ok {
				own.In = append(own.In, from)
			}
			for _, c := range n.Connections {
				if to, ok := l.vertex[c]; ok {
					l.addOut(v, to)
				}
			}
			continue
		}
		for _, t := range takers[node] {
			if from, ok := l.source(t); ok && from != v {
				l.addOut(from, v)
			}
		}
		for _, t := range l.inputs(n, takers[node]) {
			if from, ok := l.source(t); ok {
				own.In = append(own.In, from)
			}
		}
		for w := v + 1; w < len(l.nodes) && l.nodes[w] < l.ends[v]; w++ {
			if l.out[w].Level == own.Level+1 {
				own.Internals = append(own.Internals, w)
			}
		}
	}
	for i := range l.out {
		v := &l.out[i]
		for _, to := range v.Out {
			c := &l.out[to]
			if c.Level == v.Level && len(c.Arguments) > 0 && strings.HasPrefix(c.Arguments[0], "Tensor(") {
				v.OutputInfo = c.Arguments[:1:1]
				break
			}
		}
	}
}

func (l *levelizer) addOut(from, to int) {
	if v := &l.out[from]; !slices.Contains(v.Out, to) {
		v.Out = append(v.Out, to)
	}
}

// inputs returns the tensors among a function's arguments: those that the format lists, or as many
// as arguments that begin with the word. Of [Format2025], which has no arguments, all.
func (l *levelizer) inputs(n *Node, takers []int) []int {
	if n.InputTensors != nil {
		return n.InputTensors
	}
	if l.g.Format == Format2025 {
		return takers
	}
	tensors := 0
	for _, a := range n.Arguments {
		if strings.HasPrefix(a, "Tensor(") {
			tensors++
		}
	}
	return takers[:min(tensors, len(takers))]
}
