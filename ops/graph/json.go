package graph

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// jsonNode is a node in a file, with keys in alphabetical order as upstream. Only Format2026v1 and
// later have all of them.
type jsonNode[Param any] struct {
	Arguments    []string         `json:"arguments"`
	Connections  []int            `json:"connections"`
	Counter      *int             `json:"counter"`
	Duration     int64            `json:"duration_ns,omitempty"`
	InputTensors []int            `json:"input_tensors"`
	Type         NodeType         `json:"node_type"`
	Params       map[string]Param `json:"params"`
	Level        *int             `json:"stacking_level"`
	StackTrace   []string         `json:"stack_trace,omitempty"`
}

type readNode = jsonNode[json.RawMessage]

// list returns s, or an empty slice for nil, so that JSON has [] instead of null.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// MarshalJSON writes the nodes as an array, in the graph's format or Format2026v2.
func (g *Graph) MarshalJSON() ([]byte, error) {
	format := cmp.Or(g.Format, Format2026v2)
	out := make([]any, len(g.Nodes))
	for i := range g.Nodes {
		out[i] = wire(format, &g.Nodes[i])
	}
	return encode(out)
}

func wire(format Format, n *Node) any {
	params := make(map[string]any, len(n.Params))
	for k, v := range n.Params {
		params[k] = v
		if format.hasNumber(k) {
			if i, ok := n.Params.Int(k); ok {
				params[k] = i
			}
		}
	}
	if format == Format2025 {
		return map[string]any{"connections": list(n.Connections), "counter": n.Counter, "node_type": n.Type, "params": params}
	}
	w := jsonNode[any]{Arguments: list(n.Arguments), Connections: list(n.Connections), Counter: &n.Counter, InputTensors: list(n.InputTensors),
		Type: n.Type, Params: params, Level: &n.Level}
	switch n.Type {
	case FunctionEnd, CaptureEnd:
		w.Duration = max(n.Duration.Nanoseconds(), 0)
	case FunctionStart, BufferDeallocate:
		w.StackTrace = n.StackTrace
	}
	return w
}

// UnmarshalJSON reads an array of nodes of any [Format], within the default [Limits]. Errors are a
// [*FormatError] or wrap [ErrTooLarge].
func (g *Graph) UnmarshalJSON(b []byte) error {
	nodes, old, err := decodeNodes(b, Limits{}.withDefaults(), dropped{})
	if err != nil {
		return err
	}
	(&Report{Graph: nodes}).renumber(old, dropped{})
	*g = *nodes
	return nil
}

// decodeNodes reads one JSON array of nodes and detects its format. old are the nodes' counters, if
// these have gaps.
func decodeNodes(b []byte, lim Limits, lost dropped) (g *Graph, old []int, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	bad := func(node int, want string, err error) (*Graph, []int, error) {
		return nil, nil, &FormatError{Node: node, Want: want, Err: err}
	}
	switch t, err := d.Token(); {
	case err != nil:
		return bad(-1, "a graph that is an array of nodes", err)
	case t == nil:
		return &Graph{Format: Format2025}, nil, nil
	case t != json.Delim('['):
		return nil, nil, &FormatError{Node: -1, Want: "a graph that is an array of nodes", Found: clip(fmt.Append(nil, t))}
	}
	g = &Graph{}
	var leveled, numbers, newest bool
	for d.More() {
		i := len(g.Nodes)
		if i >= lim.Nodes {
			return nil, nil, fmt.Errorf("graph: decode: %w: more than %d nodes", ErrTooLarge, lim.Nodes)
		}
		var r readNode
		var text json.RawMessage
		if err = d.Decode(&text); err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			return bad(i, "a node", err)
		}
		lost.find("graph.", text, reflect.TypeFor[readNode]())
		least := 0
		if i > 0 {
			least = old[i-1] + 1
		}
		n, err := parseNode(&r, i, least)
		if err != nil {
			return nil, nil, err
		}
		leveled = leveled || r.Level != nil
		isNumber := func(k string) bool { v, ok := r.Params[k]; return ok && v[0] != '"' }
		numbers = numbers || slices.ContainsFunc([]string{ParamSize, ParamAddress, ParamTensorID, ParamDeviceID}, isNumber)
		newest = newest || n.Type == DataflowAllocate || n.Type == ScratchpadAllocate || n.Type != BufferNode && isNumber(ParamBufferType)
		g.Nodes, old = append(g.Nodes, n), append(old, n.Counter)
	}
	if _, err := d.Token(); err != nil {
		return bad(-1, "the end of the array of nodes", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bad(-1, "nothing after the array of nodes", err)
	}
	switch {
	case newest:
		g.Format = Format2026v3
	case numbers:
		g.Format = Format2026v2
	case leveled:
		g.Format = Format2026v1
	default:
		g.Format = Format2025
		g.relevel()
	}
	if n := len(old); n == 0 || old[n-1] == n-1 {
		old = nil
	}
	return g, old, nil
}

func parseNode(r *readNode, i, least int) (Node, error) {
	bad := func(field, want, found string) (Node, error) {
		return Node{}, &FormatError{Node: i, Field: field, Want: want, Found: found}
	}
	switch {
	case r.Counter == nil:
		return bad("counter", strconv.Itoa(i), "none")
	case *r.Counter < least:
		return bad("counter", fmt.Sprintf("at least %d", least), strconv.Itoa(*r.Counter))
	case r.Type == "" || len(r.Type) > maxNodeType:
		return bad("node_type", "the type of a node", clip([]byte(r.Type)))
	}
	n := Node{Counter: *r.Counter, Type: r.Type, Params: texts(r.Params), Connections: r.Connections, Arguments: r.Arguments,
		InputTensors: r.InputTensors, Duration: time.Duration(max(r.Duration, 0)), StackTrace: r.StackTrace}
	if r.Level != nil {
		n.Level = max(*r.Level, 0)
	}
	return n, nil
}

// text returns a JSON string as it is, null as "", and any other value as compact JSON.
func text(v json.RawMessage) (s string) {
	if v[0] == '"' || v[0] == 'n' {
		_ = json.Unmarshal(v, &s) // the decoder has checked v
		return s
	}
	var b bytes.Buffer
	_ = json.Compact(&b, v)
	return b.String()
}

func texts(values map[string]json.RawMessage) map[string]string {
	out := make(map[string]string, len(values))
	for k, v := range values {
		out[k] = text(v)
	}
	return out
}

func (g *Graph) relevel() {
	open := 0
	outputs := map[int]int{} // nodes that are outputs of a function that has ended, and its level
	for i, n := range g.All() {
		switch n.Type {
		case FunctionStart:
			open++
			n.Level = open
		case FunctionEnd:
			n.Level = max(open, 1)
			open = max(open-1, 0)
			for _, c := range n.Connections {
				if _, old := outputs[c]; c > i && !old {
					outputs[c] = n.Level
				}
			}
		case TensorNode:
			n.Level = open
			if l, ok := outputs[i]; ok {
				n.Level = l
			}
		case CaptureStart, CaptureEnd:
		default:
			n.Level = open
		}
	}
}
