package graph

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
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
		} else if k == "program_cache_hit" { // of Format2026v3
			params[k] = v == "true"
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

// Limits bound what [Decode] reads. A zero field stands for its default.
type Limits struct {
	Bytes int64 // of the file; 1 GiB
	Nodes int   // of the graph; 10 million
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 1 << 30
	}
	if l.Nodes <= 0 {
		l.Nodes = 10_000_000
	}
	return l
}

// readReport is a report file of any [Format]. Its fields hide Report's of the same names.
type readReport struct {
	Report
	Version  *int                       `json:"version"`
	Graph    json.RawMessage            `json:"graph"`
	Metadata map[string]json.RawMessage `json:"metadata"`
	Python   json.RawMessage            `json:"python_io"`

	PagesByAddress   map[uint64][]readPages `json:"buffer_pages_by_address"`
	OperationBuffers map[int][]readBuffer   `json:"per_operation_buffers"`
}

// Decode reads a report of any [Format]: a report file, or only the array of nodes. Errors are a
// [*FormatError], or wrap [ErrVersion] or [ErrTooLarge].
func Decode(r io.Reader, lim Limits) (*Report, error) {
	lim = lim.withDefaults()
	b, err := io.ReadAll(io.LimitReader(r, lim.Bytes+1))
	if err != nil {
		return nil, fmt.Errorf("graph: decode: %w", err)
	}
	if int64(len(b)) > lim.Bytes {
		return nil, fmt.Errorf("graph: decode: %w: more than %d B", ErrTooLarge, lim.Bytes)
	}
	report, err := decodeReport(b, lim)
	return report, placed(err, b)
}

func decodeReport(b []byte, lim Limits) (*Report, error) {
	var f readReport
	d := dropped{}
	if text := bytes.TrimLeft(b, " \t\r\n"); len(text) > 0 && text[0] == '[' {
		version := Version
		f.Version, f.Graph = &version, text
	} else if err := json.Unmarshal(b, &f); err != nil {
		return nil, &FormatError{Node: -1, Want: "a report's JSON object", Found: clip(b), Err: err}
	} else {
		d.find("", b, reflect.TypeFor[readReport]())
	}
	switch {
	case f.Version == nil:
		return nil, &FormatError{Node: -1, Field: "version", Want: strconv.Itoa(Version), Found: "none"}
	case *f.Version != Version:
		return nil, fmt.Errorf("graph: decode: %w: %d, this reads %d", ErrVersion, *f.Version, Version)
	}
	out := &f.Report
	out.Version, out.Graph = Version, &Graph{Format: Format2025}
	var err error
	var old []int
	if len(f.Graph) > 0 {
		if out.Graph, old, err = decodeNodes(f.Graph, lim, d); err != nil {
			return nil, err
		}
	}
	if out.Python, err = DecodePython(f.Python); err != nil {
		return nil, err
	}
	d.find("python_io.", f.Python, reflect.TypeFor[[]PythonRecord]())
	out.Metadata = metadata(texts(f.Metadata))
	f.pagesByAddress()
	f.operationBuffers(d)
	if out.renumber(old, d); len(d) > 0 {
		out.Dropped = d
	}
	return out, nil
}

func metadata(fields map[string]string) (m Metadata) {
	for k, s := range fields {
		n, err := strconv.ParseInt(s, 10, 64)
		switch {
		case k == metaCaptured && err == nil:
			m.Captured = time.Unix(0, n).UTC()
		case k == metaTotal && err == nil && n > 0:
			m.Total = time.Duration(n)
		default:
			put(&m.More, k, s)
		}
	}
	return m
}

// DecodePython reads the records of TT-NN's Python layer: a JSON array, as a report has it under
// python_io or in a file beside it (NAME.python_io.json). Empty input gives no records. Errors are
// a [*FormatError].
func DecodePython(b []byte) ([]PythonRecord, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, nil
	}
	var raw []struct {
		PythonRecord
		Arguments ordered `json:"arguments"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, &FormatError{Node: -1, Field: "python_io", Want: "an array of records", Found: clip(b), Err: err}
	}
	out := make([]PythonRecord, len(raw))
	for i, r := range raw {
		out[i] = r.PythonRecord
		out[i].Arguments, out[i].Names = r.Arguments.texts, r.Arguments.names
	}
	return out, nil
}

// ordered is a JSON object of which the order counts.
type ordered struct {
	texts map[string]string
	names []string
}

func (o *ordered) UnmarshalJSON(b []byte) error {
	values := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &values); err != nil {
		return err
	}
	o.texts = texts(values)
	d := json.NewDecoder(bytes.NewReader(b))
	for _, _ = d.Token(); d.More(); {
		name, _ := d.Token() // json has checked b
		var value json.RawMessage
		_ = d.Decode(&value)
		if k, ok := name.(string); ok && !slices.Contains(o.names, k) {
			o.names = append(o.names, k)
		}
	}
	return nil
}

// dropped counts what a report has and nothing reads, by its path of keys.
type dropped map[string]int

// find adds the keys of a JSON value that its type doesn't have.
func (d dropped) find(path string, b []byte, t reflect.Type) {
	fields := map[string]reflect.Type{}
	switch kind := t.Kind(); {
	case kind == reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields[name] = f.Type
		}
	case kind == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		var list []json.RawMessage
		_ = json.Unmarshal(b, &list) // Decode reports what isn't of the type
		for _, v := range list {
			d.find(path, v, t.Elem())
		}
		return
	case kind != reflect.Map || t.Elem().Kind() != reflect.Slice:
		return
	}
	var values map[string]json.RawMessage
	_ = json.Unmarshal(b, &values)
	for k, v := range values {
		if field, ok := fields[k]; ok {
			d.find(path+k+".", v, field)
		} else if t.Kind() == reflect.Map {
			d.find(path, v, t.Elem())
		} else {
			d[path+k]++
		}
	}
}

// Warnings says what [Decode] found in a file and doesn't read, and how often.
func (r *Report) Warnings() []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(r.Dropped)) {
		out = append(out, fmt.Sprintf("not read: %s (%d×)", k, r.Dropped[k]))
	}
	return out
}

// readPages is an entry of buffer_pages_by_address: the pages after an allocation, or one page of
// older reports, which have a plain list.
type readPages struct {
	PageVersion
	Page
}

func (f *readReport) pagesByAddress() {
	for address, list := range f.PagesByAddress {
		var out []PageVersion
		var pages []Page
		for _, v := range list {
			if v.PageVersion.Pages != nil {
				out = append(out, v.PageVersion)
			} else {
				pages = append(pages, v.Page)
			}
		}
		if pages != nil {
			out = append(out, PageVersion{Allocation: -1, Pages: pages})
		}
		slices.SortStableFunc(out, func(a, b PageVersion) int { return a.Allocation - b.Allocation })
		put(&f.Report.PagesByAddress, address, out)
	}
}

// put sets a value in a map, which it makes if needed.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// readBuffer is a buffer of per_operation_buffers, also with the keys of buffers in nodes.
type readBuffer struct {
	OperationBuffer
	Size   int64           `json:"size"`
	Kind   json.RawMessage `json:"type"`
	Spread json.RawMessage `json:"layout"`
}

func (f *readReport) operationBuffers(d dropped) {
	for op, list := range f.OperationBuffers {
		out := make([]OperationBuffer, 0, len(list))
		for _, b := range list {
			b.MaxPerBank = cmp.Or(b.MaxPerBank, b.Size)
			if b.Kind != nil {
				kind, ok := ParseBufferType(text(b.Kind))
				if !ok {
					d["per_operation_buffers with type "+text(b.Kind)]++
					continue
				}
				b.Type = int(kind)
			}
			if b.Spread != nil {
				layout, ok := ParseBufferLayout(text(b.Spread))
				if !ok && json.Unmarshal(b.Spread, &layout) != nil {
					d["per_operation_buffers.layout "+text(b.Spread)]++
				}
				b.Layout = int(layout)
			}
			out = append(out, b.OperationBuffer)
		}
		put(&f.Report.OperationBuffers, op, out)
	}
}

// renumber makes counters indexes. old are the counters of nodes, with gaps; nil without.
func (r *Report) renumber(old []int, d dropped) {
	if old == nil {
		return
	}
	index := func(counter int, what string) (int, bool) {
		i, ok := slices.BinarySearch(old, counter)
		if !ok {
			d[what+" of nodes that are missing"]++
		}
		return i, ok
	}
	nodes := func(list *[]int, what string) {
		out := (*list)[:0]
		for _, c := range *list {
			if i, ok := index(c, what); ok {
				out = append(out, i)
			}
		}
		*list = out
	}
	for i, n := range r.Graph.All() {
		n.Counter = i
		nodes(&n.Connections, "graph.connections")
		nodes(&n.InputTensors, "graph.input_tensors")
	}
	r.OperationBuffers = renumbered(r.OperationBuffers, index, "per_operation_buffers")
	r.OperationPages = renumbered(r.OperationPages, index, "per_operation_buffer_pages")
	for _, versions := range r.PagesByAddress {
		for i := range versions {
			versions[i].Allocation = sort.SearchInts(old, versions[i].Allocation+1) - 1 // the last node until then
		}
	}
	for i := range r.Programs {
		p := &r.Programs[i]
		if f, ok := index(p.Function, "programs.function"); ok {
			p.Function = f
		} else {
			p.Function = -1
		}
	}
}

func renumbered[V any](from map[int]V, index func(int, string) (int, bool), what string) map[int]V {
	out := make(map[int]V, len(from))
	for c, v := range from {
		if i, ok := index(c, what); ok {
			out[i] = v
		}
	}
	return out
}
