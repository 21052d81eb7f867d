package visualizer

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

func (w *writer) captured(p *plan, i int) {
	o := &p.ops[i]
	nodes := []int{}
	for c := o.start; c <= o.end; c++ {
		if p.of[c] == i {
			nodes = append(nodes, c)
		}
	}
	if o.finished && !o.free {
		for _, c := range p.g.At(o.end).Connections {
			if n := p.g.At(c); n != nil && n.Type == graph.TensorNode && !slices.Contains(nodes, c) {
				nodes = append(nodes, c)
			}
		}
	}
	text, to, err := subgraph(p, nodes, o.end)
	if err != nil && w.err == nil {
		w.err = err
		return
	}
	w.row("captured_graph", o.id, text)
	for from, sinks := range to {
		for k, sink := range sinks {
			w.row("edges", o.id, from, sink, k, 0, k)
			w.sum.Edges++
		}
	}
}

func (p *plan) shown(q graph.Params) graph.Params {
	q = maps.Clone(q)
	if d, ok := q.Int(graph.ParamDeviceID); ok {
		q[graph.ParamDeviceID] = strconv.FormatInt(p.device(d), 10)
	}
	if _, ok := q[graph.ParamGloballyAllocated]; ok {
		number := "0"
		if q.Bool(graph.ParamGloballyAllocated) {
			number = "1"
		}
		q[graph.ParamGloballyAllocated] = number
	}
	if c := q[graph.ParamCoreRangeSet]; strings.HasPrefix(c, "[") { // the visualizer doesn't parse the JSON array
		q[graph.ParamCoreRangeSet] = graph.FormatCores(graph.ParseCores(c))
	}
	return q
}

// subgraph returns nodes as the JSON of a graph with a start and an end, numbered from 0, and the
// connections of each, without those to other nodes.
func subgraph(p *plan, nodes []int, end int) (string, [][]int, error) {
	number := map[int]int{}
	for i, c := range nodes {
		number[c] = i + 1
	}
	sub := &graph.Graph{Format: p.g.Format}
	sub.Nodes = append(sub.Nodes, graph.Node{Type: graph.CaptureStart, Params: graph.Params{}, Connections: []int{1}})
	for i, c := range nodes {
		n := *p.g.At(c)
		n.Counter = i + 1
		n.Connections = renumbered(number, n.Connections)
		if n.InputTensors != nil {
			n.InputTensors = renumbered(number, n.InputTensors)
		}
		n.Params = p.shown(n.Params)
		sub.Nodes = append(sub.Nodes, n)
	}
	if n, ok := number[end]; ok {
		sub.Nodes[n].Connections = append(sub.Nodes[n].Connections, len(sub.Nodes))
	}
	sub.Nodes = append(sub.Nodes, graph.Node{Counter: len(sub.Nodes), Type: graph.CaptureEnd, Params: graph.Params{}})
	b, err := json.Marshal(sub)
	if err != nil {
		return "", nil, err
	}
	var raw []map[string]json.RawMessage // each node gets an id
	if err := json.Unmarshal(b, &raw); err != nil {
		return "", nil, err
	}
	to := make([][]int, len(sub.Nodes))
	for i := range raw {
		raw[i]["id"] = raw[i]["counter"]
		to[i] = sub.Nodes[i].Connections
	}
	b, err = json.Marshal(raw)
	return string(b), to, err
}

func renumbered(number map[int]int, counters []int) []int {
	out := []int{}
	for _, c := range counters {
		if n, ok := number[c]; ok {
			out = append(out, n)
		}
	}
	return out
}
