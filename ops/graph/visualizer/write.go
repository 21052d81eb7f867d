package visualizer

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

// writer inserts rows into a database until the first error, which it keeps.
type writer struct {
	ctx     context.Context
	tx      *sql.Tx
	err     error
	sum     *Summary
	to      *output
	yaml    []string
	ids     tensorIDs
	stmts   map[string]*sql.Stmt
	sources map[string]any // ids by line of a stack trace; nil for a file that isn't stored
}

func (w *writer) warn(format string, args ...any) {
	w.sum.Warnings = append(w.sum.Warnings, fmt.Sprintf(format, args...))
}

// insert runs a statement, prepared once.
func (w *writer) insert(query string, args ...any) {
	if w.err != nil {
		return
	}
	s := w.stmts[query]
	if s == nil {
		if s, w.err = w.tx.PrepareContext(w.ctx, query); w.err != nil {
			return
		}
		w.stmts[query] = s
	}
	_, w.err = s.ExecContext(w.ctx, args...)
}

func (w *writer) row(table string, values ...any) { w.values("INSERT", table, values) }

func (w *writer) replace(table string, values ...any) {
	w.values("INSERT OR REPLACE", table, values)
}

func (w *writer) values(verb, table string, values []any) {
	w.insert(verb+" INTO "+table+" VALUES (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
}

// scan reads the only value of a query.
func (w *writer) scan(to any, query string, args ...any) {
	if w.err == nil {
		w.err = w.tx.QueryRowContext(w.ctx, query, args...).Scan(to)
	}
}

func (w *writer) report(p *plan) {
	w.devices(p)
	w.metadata(p)
	w.clear(p)
	io := newOperands(p)
	python := p.python()
	known := map[int64]int{}
	for i, r := range python {
		for k, node := range io.nodes[i] {
			if k < len(r.Outputs) { // Python gives some outputs new numbers
				known[r.Outputs[k]] = node
			}
		}
	}
	w.tensors(p, io, known)
	for i := range p.ops {
		o, start, r := &p.ops[i], p.g.At(p.ops[i].start), &python[i]
		var duration float64
		if o.finished && !o.free {
			duration = p.g.At(o.end).Duration.Seconds()
		}
		w.replace("operations", o.id, o.name, duration)
		w.sum.Operations++
		w.row("nodes", o.id, o.start, o.id, o.name)
		w.arguments(o, start, r)
		in, out := io.in[i], io.out[i]
		if len(r.Inputs) > 0 {
			in = unique(r.Inputs)
		}
		if len(r.Outputs) > 0 {
			out = unique(r.Outputs)
		}
		for k, t := range in {
			w.row("input_tensors", o.id, k, t)
		}
		for k, t := range out {
			w.row("output_tensors", o.id, k, t)
		}
		w.trace(o, start, r)
		w.captured(p, i)
		if !o.finished {
			w.fault(o.id, o.name, "incomplete_operation", "the operation began and didn't end", strings.Join(start.StackTrace, "\n"))
		}
	}
	w.errors(p)
	w.buffers(p)
}

func (w *writer) clear(p *plan) {
	for _, t := range []string{"operations", "operation_arguments", "buffers", "captured_graph", "nodes", "edges", "errors", "stack_traces",
		"input_tensors", "output_tensors", "buffer_pages"} {
		w.insert("DELETE FROM "+t+" WHERE operation_id >= ? AND operation_id < ?", p.base, p.base+max(OperationStride, len(p.ops)+1))
	}
}

func (w *writer) devices(p *plan) {
	for _, d := range p.r.Devices {
		id := p.device(d.ID)
		w.insert("DELETE FROM devices WHERE device_id = ?", id) // the table has no key
		w.row("devices", id, d.GridY, d.GridX, d.ComputeY, d.ComputeX, d.WorkerL1Size, d.L1Banks, d.L1BankSize, d.FirstL1Bank,
			d.FirstCircularBuffer, d.BanksPerStorageCore, d.ComputeCores, d.StorageCores, d.TotalL1, d.TotalL1Tensors,
			d.TotalL1Interleaved, d.TotalL1Sharded, d.CircularBufferLimit)
		w.sum.Devices++
	}
}

func (w *writer) metadata(p *plan) {
	m := map[string]string{}
	maps.Copy(m, p.r.Metadata.More)
	if t := p.r.Metadata.Captured; !t.IsZero() {
		m["capture_timestamp_ns"] = strconv.FormatInt(t.UnixNano(), 10)
	}
	if d := p.r.Metadata.Total; d > 0 {
		m["total_duration_ns"] = strconv.FormatInt(d.Nanoseconds(), 10)
	}
	delete(m, "schema_version") // the tables have their own
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.replace("report_metadata", k, m[k])
	}
}

func (w *writer) arguments(o *operation, n *graph.Node, r *graph.PythonRecord) {
	if len(r.Arguments) > 0 {
		for _, k := range slices.Sorted(maps.Keys(r.Arguments)) {
			w.row("operation_arguments", o.id, k, r.Arguments[k])
		}
		return
	}
	for i, a := range n.Arguments {
		w.row("operation_arguments", o.id, "arg_"+strconv.Itoa(i), a)
	}
}

// trace writes an operation's call stack, and its caller's source file if it is on this machine.
func (w *writer) trace(o *operation, n *graph.Node, r *graph.PythonRecord) {
	lines := n.StackTrace
	if len(r.StackTrace) > 0 {
		lines = r.StackTrace
	}
	if len(lines) > 0 {
		text := strings.Join(lines, "\n")
		w.row("stack_traces", o.id, text, w.source(text))
		w.sum.StackTraces++
	}
}

func (w *writer) fault(op int, name, kind, message, trace string) {
	w.row("errors", op, name, kind, message, trace, "")
	w.sum.Errors++
}

func (w *writer) errors(p *plan) {
	for i, n := range p.g.All(graph.ErrorNode) {
		id := p.base
		if k := p.of[i]; k >= 0 {
			id = p.ops[k].id
		}
		w.fault(id, n.Params[graph.ParamErrorOperation], n.Params[graph.ParamErrorType], n.Params[graph.ParamErrorMessage], "")
	}
}

// python assigns Python records to operations, in order, by name; operations without get empty
// ones.
func (p *plan) python() []graph.PythonRecord {
	out := make([]graph.PythonRecord, len(p.ops))
	left := p.r.Python
	for i := range p.ops {
		k := slices.IndexFunc(left, func(r graph.PythonRecord) bool { return dotted(r.Name) == dotted(p.ops[i].name) })
		if k >= 0 {
			out[i], left = left[k], left[k+1:]
		}
	}
	return out
}

// dotted returns a name of C++ as Python has it.
func dotted(name string) string { return strings.ReplaceAll(name, "::", ".") }

// validate warns of numbers in a column that a table of tensors or devices doesn't have.
func (w *writer) validate() {
	for _, c := range []struct{ what, table, column, all string }{
		{"inputs of operations name tensors", "input_tensors", "tensor_id", "tensors"},
		{"outputs of operations name tensors", "output_tensors", "tensor_id", "tensors"},
		{"buffers name devices", "buffers", "device_id", "devices"},
		{"parts of tensors name tensors", "device_tensors", "tensor_id", "tensors"},
	} {
		var n int
		w.scan(&n, fmt.Sprintf("SELECT count(*) FROM %s WHERE %[2]s NOT IN (SELECT %[2]s FROM %s)", c.table, c.column, c.all))
		if n > 0 {
			w.warn("%d %s that aren't there", n, c.what)
		}
	}
	slices.Sort(w.sum.Warnings)
}

// source stores the first file of a stack trace and returns its id in the table, or nil.
func (w *writer) source(trace string) any {
	line := graph.TraceLine(trace)
	if id, known := w.sources[line]; known {
		return id
	}
	w.sources[line] = nil
	f, ok := graph.SourceOf(line)
	if !ok {
		return nil
	}
	w.insert("INSERT INTO source_files (path, contents) VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET contents = excluded.contents",
		f.Path, f.Text)
	var id int64
	w.scan(&id, "SELECT id FROM source_files WHERE path = ?", f.Path)
	w.sources[line] = id
	return id
}

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

// SchemaVersion is the version of the tables, which is in report_metadata.
const SchemaVersion = "2.1"

// schema creates the tables that don't exist. tt-metal's tables don't have the size of tensors yet:
// with it the visualizer takes tensors as they are; without it, it repeats addresses for each
// operation and finds no size for tensors that are freed next (ttnn-visualizer, query_tensors in
// queries.py; its issue 1298).
//
//go:embed schema.sql
var schema string
