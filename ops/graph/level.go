package graph

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Vertex is a function or a tensor of a levelized graph. Its JSON form is TT-NN's.
type Vertex struct {
	ID          int      `json:"counter"` // its index
	Level       int      `json:"stacking_level"`
	Name        string   `json:"name"` // tensor[ID] for a tensor
	Arguments   []string `json:"arguments"`
	In          []int    `json:"in_edges"`  // one for each use of a tensor, in the order of the arguments
	Out         []int    `json:"out_edges"` // each consumer once
	Internals   []int    `json:"internals"` // functions that this one called directly
	OutputInfo  []string `json:"output_info"`
	OutputShape []string `json:"output_shape"`
	node        int
}

// Levelize returns the graph of the data flow between functions: the functions of level 1 to maxLevel, and the tensors of
// level 1. The passes are those of levelized_graph.cpp. Unlike upstream it also accepts graphs of [Format2025], whose levels
// Decode computes, and functions that didn't end, which have no outputs. It fails if maxLevel is below 1.
func Levelize(g *Graph, maxLevel int) ([]Vertex, error) {
	if maxLevel < 1 {
		return nil, fmt.Errorf("graph: levelize: up to level %d: levels count from 1", maxLevel)
	}
	l := &levels{g: g, vertex: map[int]int{}, producer: map[int]int{}, start: map[int]int{}, end: map[int]int{}, takes: map[int][]int{}}
	l.vertices(maxLevel)
	l.functions()
	l.edges()
	l.internals(maxLevel)
	l.outputs()
	return l.out, nil
}

// levels is a graph that is being levelized. Nodes are given by counter, vertices by index.
type levels struct {
	g        *Graph
	out      []Vertex
	vertex   map[int]int   // of a node
	start    map[int]int   // of a function's end: its start
	end      map[int]int   // of a function's start: its end
	producer map[int]int   // of a tensor: the start of the outermost function that returns it
	takes    map[int][]int // of a function's start: its input tensors, with multiplicity
}

func (l *levels) add(n *Node, name string) {
	l.vertex[n.Counter] = len(l.out)
	l.out = append(l.out, Vertex{ID: len(l.out), Level: n.Level, Name: name, Arguments: list(slices.Clone(n.Arguments)), In: []int{}, Out: []int{},
		Internals: []int{}, OutputInfo: []string{}, OutputShape: []string{}, node: n.Counter})
}

func (l *levels) vertices(maxLevel int) {
	for i := range l.g.Nodes {
		if n := &l.g.Nodes[i]; n.Type == TensorNode && n.Level == 1 {
			name := "tensor"
			if id := n.Params[ParamTensorID]; id != "" {
				name = "tensor[" + id + "]"
			}
			l.add(n, name)
			v := &l.out[len(l.out)-1]
			v.Arguments, v.OutputShape = []string{}, []string{n.Params[ParamShape]}
		}
	}
	for i := range l.g.Nodes {
		if n := &l.g.Nodes[i]; n.Type == FunctionStart && n.Level <= maxLevel {
			l.add(n, n.Name())
		}
	}
}

// functions finds the ends and inputs of functions and the producers of tensors.
func (l *levels) functions() {
	for i := range l.g.Nodes {
		n := &l.g.Nodes[i]
		switch n.Type {
		case FunctionStart:
			for _, c := range n.Connections {
				if e := l.g.at(c); e != nil && e.Type == FunctionEnd && e.Name() == n.Name() {
					l.end[i], l.start[c] = c, i
					break
				}
			}
		case TensorNode:
			for _, c := range n.Connections {
				if f := l.g.at(c); f != nil && f.Type == FunctionStart {
					l.takes[c] = append(l.takes[c], i)
				}
			}
		}
	}
	best := map[int]int{} // level of a tensor's producer
	for i := range l.g.Nodes {
		n := &l.g.Nodes[i]
		s, ok := l.start[i]
		if n.Type != FunctionEnd || !ok {
			continue
		}
		for _, t := range l.g.tensorsOf(n) {
			if level, have := best[t]; !have || n.Level < level {
				best[t], l.producer[t] = n.Level, s
			}
		}
	}
}

// source returns the vertex of a tensor, or else that of its producer.
func (l *levels) source(tensor int) (int, bool) {
	if v, ok := l.vertex[tensor]; ok {
		return v, true
	}
	if f, ok := l.producer[tensor]; ok {
		v, ok := l.vertex[f]
		return v, ok
	}
	return 0, false
}

func (l *levels) edges() {
	type edge struct{ from, to int }
	seen := map[edge]bool{}
	link := func(from, to int) {
		if !seen[edge{from, to}] {
			seen[edge{from, to}] = true
			l.out[from].Out = append(l.out[from].Out, to)
		}
	}
	for i := range l.out {
		v := &l.out[i]
		n := &l.g.Nodes[v.node]
		if n.Type == TensorNode {
			for _, c := range n.Connections {
				if to, ok := l.vertex[c]; ok {
					link(i, to)
				}
			}
			if f, ok := l.producer[v.node]; ok {
				if from, ok := l.vertex[f]; ok {
					v.In = append(v.In, from)
				}
			}
			continue
		}
		for _, t := range l.takes[v.node] {
			if from, ok := l.source(t); ok && from != i {
				link(from, i)
			}
		}
		inputs := n.InputTensors
		if inputs == nil {
			inputs = l.takes[v.node]
		}
		for _, t := range inputs {
			if m := l.g.at(t); m == nil || m.Type != TensorNode {
				continue
			}
			if from, ok := l.source(t); ok {
				v.In = append(v.In, from)
			}
		}
	}
}

func (l *levels) internals(maxLevel int) {
	starts := map[int][]int{} // of each level, in the order of time
	for i := range l.g.Nodes {
		if n := &l.g.Nodes[i]; n.Type == FunctionStart && n.Level <= maxLevel {
			starts[n.Level] = append(starts[n.Level], i)
		}
	}
	for i := range l.out {
		v := &l.out[i]
		if l.g.Nodes[v.node].Type != FunctionStart {
			continue
		}
		inner := starts[v.Level+1]
		end, ok := l.end[v.node]
		if !ok { // it didn't end: take the functions up to the next one of its level
			end = len(l.g.Nodes)
			same := starts[v.Level]
			if k := sort.SearchInts(same, v.node+1); k < len(same) {
				end = same[k]
			}
		}
		for _, c := range inner[sort.SearchInts(inner, v.node+1):] {
			if c >= end {
				break
			}
			v.Internals = append(v.Internals, l.vertex[c])
		}
	}
}

func (l *levels) outputs() {
	for i := range l.out {
		v := &l.out[i]
		for _, c := range v.Out {
			to := &l.out[c]
			if to.Level == v.Level && len(to.Arguments) > 0 && strings.HasPrefix(to.Arguments[0], "Tensor(") {
				v.OutputInfo = append(v.OutputInfo, to.Arguments[0])
				break
			}
		}
		if end, ok := l.end[v.node]; ok {
			for _, t := range l.g.tensorsOf(&l.g.Nodes[end]) {
				if s := l.g.Nodes[t].Params[ParamShape]; !slices.Contains(v.OutputShape, s) {
					v.OutputShape = append(v.OutputShape, s)
				}
			}
		}
	}
}
