package visualizer

import (
	"cmp"
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
	rank    int
	ids     map[int]*tensorIDs // by rank
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

// row writes a row of a table whose last column is the rank. It replaces the row with its key, if
// the table has one.
func (w *writer) row(table string, values ...any) {
	w.values("INSERT OR REPLACE", table, append(values, w.rank))
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
		io.names(i, r)
	}
	w.tensors(p, io, known, pythonTensors(python))
	for i := range p.ops {
		o, start, r := &p.ops[i], p.g.At(p.ops[i].start), python[i]
		var duration float64
		if o.finished && !o.free {
			duration = float64(p.g.At(o.end).Duration) / 1e9
		}
		w.row("operations", o.id, o.name, duration)
		w.sum.Operations++
		w.row("nodes", o.id, o.start, o.id-p.base, o.name)
		w.arguments(o, start, r)
		for k, t := range io.in[i] {
			w.row("input_tensors", o.id, k, t)
		}
		for k, t := range io.out[i] {
			w.row("output_tensors", o.id, k, t)
		}
		w.trace(o, start, r)
		w.captured(p, i, r)
		w.executions(p, i)
	}
	w.errors(p, python)
	w.buffers(p)
}

func (w *writer) clear(p *plan) {
	for _, t := range []string{"operations", "operation_arguments", "buffers", "captured_graph", "nodes", "edges", "errors", "stack_traces",
		"input_tensors", "output_tensors", "buffer_chunks", "operation_executions"} {
		w.delete(t, "operation_id", p.base, max(OperationStride, len(p.ops)+1))
	}
	w.delete("execution_sub_devices", "execution_id", p.base*executionStride, max(OperationStride, len(p.ops)+1)*executionStride)
}

// delete deletes n rows of the rank, from one value of a column on.
func (w *writer) delete(table, column string, from, n int) {
	w.insert("DELETE FROM "+table+" WHERE "+column+" >= ? AND "+column+" < ? AND rank = ?", from, from+n, w.rank)
}

func (w *writer) devices(p *plan) {
	for _, d := range p.r.Devices {
		id := p.device(d.ID)
		w.delete("devices", "device_id", int(id), 1) // the table has no key
		w.row("devices", id, d.GridY, d.GridX, d.ComputeY, d.ComputeX, d.WorkerL1Size, d.L1Banks, d.L1BankSize, d.FirstL1Bank,
			d.FirstCircularBuffer, d.BanksPerStorageCore, d.ComputeCores, d.StorageCores, d.TotalL1, d.TotalL1Tensors,
			d.TotalL1Interleaved, d.TotalL1Sharded, d.CircularBufferLimit)
		w.sum.Devices++
	}
}

func (w *writer) metadata(p *plan) {
	m := map[string]string{"git_url": "", "git_sha": ""}
	maps.Copy(m, p.r.Metadata.More)
	if t := p.r.Metadata.Captured; !t.IsZero() {
		m["capture_timestamp_ns"] = strconv.FormatInt(t.UnixNano(), 10)
	}
	if d := p.r.Metadata.Total; d > 0 {
		m["total_duration_ns"] = strconv.FormatInt(d.Nanoseconds(), 10)
	}
	delete(m, "schema_version") // the tables have their own
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.insert("INSERT OR REPLACE INTO report_metadata VALUES (?, ?)", k, m[k])
	}
}

func (w *writer) arguments(o *operation, n *graph.Node, r *graph.PythonRecord) {
	if len(r.Arguments) > 0 {
		for _, k := range r.Names {
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

// errors writes an error for each operation that failed, Python's if it recorded one.
func (w *writer) errors(p *plan, python []*graph.PythonRecord) {
	aborted := make([]*graph.Node, len(p.ops)) // an operation's end, or else the innermost one
	for i, n := range p.g.All() {
		k := p.of[i]
		switch {
		case n.Type == graph.FunctionEnd && k >= 0 && n.Params["aborted"] == "true" && (aborted[k] == nil || i == p.ops[k].end):
			aborted[k] = n
		case n.Type == graph.ErrorNode && (k < 0 || python[k].Error == nil):
			id := p.base
			if k >= 0 {
				id = p.ops[k].id
			}
			w.fault(id, n.Params[graph.ParamErrorOperation], n.Params[graph.ParamErrorType], n.Params[graph.ParamErrorMessage], "")
		}
	}
	for k, o := range p.ops {
		trace := strings.Join(python[k].StackTrace, "\n")
		switch e, n := python[k].Error, aborted[k]; {
		case e != nil:
			w.fault(o.id, o.name, e.Type, e.Message, trace)
		case n != nil:
			w.fault(o.id, o.name, "aborted_operation",
				cmp.Or(n.Params["abort_reason"], fmt.Sprintf("Operation '%s' was aborted by an exception", n.Name())), trace)
		case !o.finished:
			w.fault(o.id, o.name, "incomplete_operation", "the operation began and didn't end",
				cmp.Or(trace, strings.Join(p.g.At(o.start).StackTrace, "\n")))
		}
	}
}

// python assigns Python's records to operations: as TT-NN does, each function takes the next record
// of its name, also one inside of an operation. An operation with the name of C++ takes a record
// that has Python's. Operations without a record get an empty one.
func (p *plan) python() []*graph.PythonRecord {
	out, next := make([]*graph.PythonRecord, len(p.ops)), map[string][]*graph.PythonRecord{}
	for i := range p.r.Python {
		r := &p.r.Python[i]
		next[r.Name] = append(next[r.Name], r)
	}
	ops := map[int]int{} // by node of the start
	for i, o := range p.ops {
		ops[o.start], out[i] = i, &graph.PythonRecord{}
	}
	for _, c := range p.calls {
		name := c.Name
		i, isOp := ops[c.Start]
		if isOp && len(next[name]) == 0 {
			name = dotted(name)
		}
		if records := next[name]; len(records) > 0 {
			next[name] = records[1:]
			if isOp {
				out[i] = records[0]
			}
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

// captured writes the graph of an operation: Python's if it recorded one.
func (w *writer) captured(p *plan, i int, r *graph.PythonRecord) {
	sub := r.Graph
	if sub == nil {
		sub = p.subgraph(i)
	}
	for k := range sub.Nodes {
		sub.Nodes[k].Params = p.shown(sub.Nodes[k].Params)
	}
	b, err := json.Marshal(sub)
	var raw []map[string]json.RawMessage // each node gets an id
	if err == nil {
		err = json.Unmarshal(b, &raw)
	}
	for k := range raw {
		raw[k]["id"] = raw[k]["counter"]
	}
	if err == nil {
		b, err = json.Marshal(raw)
	}
	if w.err = cmp.Or(w.err, err); w.err != nil {
		return
	}
	id := p.ops[i].id
	w.row("captured_graph", id, string(b))
	for from, n := range sub.All() {
		for k, sink := range n.Connections {
			w.row("edges", id, from, sink, k, 0, k)
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

// subgraph returns the nodes of an operation, numbered from 1, between a start and an end. A
// connection that leaves the operation has the other node's number in the report, if no node here
// has the same, or else that number and the length of the report's graph.
func (p *plan) subgraph(i int) *graph.Graph {
	o, nodes := &p.ops[i], []int{}
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
	number := map[int]int{}
	for i, c := range nodes {
		number[c] = i + 1
	}
	last := len(nodes) + 1
	renumbered := func(counters []int) []int {
		out := []int{}
		for _, c := range counters {
			n, inside := number[c]
			if !inside {
				if n = c; n <= last {
					n += len(p.g.Nodes)
				}
			}
			out = append(out, n)
		}
		return out
	}
	sub := &graph.Graph{Format: p.g.Format, Nodes: []graph.Node{{Type: graph.CaptureStart, Connections: []int{1}}}}
	for i, c := range nodes {
		n := *p.g.At(c)
		n.Counter = i + 1
		n.Connections = renumbered(n.Connections)
		if o.free {
			n.Connections = append([]int{last}, n.Connections...)
		}
		if n.InputTensors != nil {
			n.InputTensors = renumbered(n.InputTensors)
		}
		sub.Nodes = append(sub.Nodes, n)
	}
	sub.Nodes = append(sub.Nodes, graph.Node{Counter: last, Type: graph.CaptureEnd})
	return sub
}

// executionStride is the distance of the first numbers of program executions of consecutive
// operations (graph_report.py).
const executionStride = 1024

// executions writes the sub-devices that the capture lists in an operation, and where its programs
// ran.
func (w *writer) executions(p *plan, i int) {
	o := &p.ops[i]
	id := o.id * executionStride
	for c := o.start; c <= o.end; c++ {
		n := p.g.At(c)
		if p.of[c] != i || n.Type != "sub_device_manager" && n.Type != "program_execution" {
			continue
		}
		num := func(key string) int64 { v, _ := n.Params.Int(key); return v }
		device, manager := p.device(num(graph.ParamDeviceID)), num("sub_device_manager_id")
		if n.Type == "sub_device_manager" {
			w.row("sub_device_managers", device, manager)
			var parts []struct {
				ID    int64           `json:"sub_device_id"`
				Cores json.RawMessage `json:"worker_core_ranges"`
			}
			if err := json.Unmarshal([]byte(cmp.Or(n.Params["sub_devices"], "[]")), &parts); err != nil {
				w.warn("node %d: its sub-devices can't be read: %v", c, err)
			}
			for _, s := range parts {
				w.row("sub_devices", device, manager, s.ID, string(s.Cores))
			}
			continue
		}
		physical, ok := n.Params.Int("physical_device_id")
		if !ok {
			physical = device
		}
		w.row("operation_executions", id, o.id, device, physical, num("runtime_id"), num("global_call_count"), num("command_queue_id"))
		if part, ok := n.Params.Int("sub_device_id"); ok {
			w.row("execution_sub_devices", id, device, manager, part)
		}
		id++
	}
}

// SchemaVersion is the version of the tables, which is in report_metadata.
const SchemaVersion = "3.5"

// schema creates the tables that don't exist. tt-metal's tables don't have the size of tensors yet:
// with it the visualizer takes tensors as they are; without it, it finds no size for tensors that
// are freed next (ttnn-visualizer, query_tensors in queries.py; its issue 1298).
var (
	//go:embed schema.sql
	schema string
	//go:embed upgrade.sql
	upgrade string
	//go:embed derive.sql
	derive string
)

// createTables makes the tables, and gives those of older schemas the columns that they lack.
func (w *writer) createTables() {
	w.exec(schema)
	for column, tables := range map[string]string{"rank int NOT NULL DEFAULT 0": "%", "storage_type text": "tensors"} {
		name, _, _ := strings.Cut(column, " ")
		var list string
		w.scan(&list, `SELECT ifnull(group_concat(name), '') FROM sqlite_master t WHERE type = 'table' AND name LIKE ?
			AND name NOT IN ('report_metadata', 'source_files') AND NOT EXISTS (SELECT 1 FROM pragma_table_info(t.name) WHERE name = ?)`,
			tables, name)
		for table := range strings.SplitSeq(list, ",") {
			if table != "" {
				w.exec("ALTER TABLE " + table + " ADD COLUMN " + column)
			}
		}
	}
	w.exec(upgrade)
	w.insert("INSERT OR REPLACE INTO report_metadata VALUES ('schema_version', ?)", SchemaVersion)
}

func (w *writer) exec(text string) {
	if w.err == nil {
		_, w.err = w.tx.ExecContext(w.ctx, text)
	}
}
