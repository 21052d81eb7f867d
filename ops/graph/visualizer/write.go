package visualizer

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

// writer puts rows into a database. The first error stays, and nothing is written behind it.
type writer struct {
	ctx     context.Context
	tx      *sql.Tx
	err     error
	sum     *Summary
	to      *output
	yaml    []string
	numbers numbers
	stmts   map[string]*sql.Stmt
	sources map[string]int64 // numbers of source files by the lines of traces that name them; 0 for one that isn't kept
}

func (w *writer) warn(format string, args ...any) {
	w.sum.Warnings = append(w.sum.Warnings, fmt.Sprintf(format, args...))
}

// insert runs a statement. It is prepared once.
func (w *writer) insert(query string, args ...any) {
	if w.err != nil {
		return
	}
	s := w.stmts[query]
	if s == nil {
		if s, w.err = w.tx.PrepareContext(w.ctx, query); w.err != nil {
			return
		}
		if w.stmts == nil {
			w.stmts = map[string]*sql.Stmt{}
		}
		w.stmts[query] = s
	}
	_, w.err = s.ExecContext(w.ctx, args...)
}

// report writes all rows of a report.
func (w *writer) report(p *plan) {
	w.devices(p)
	w.metadata(p)
	w.clear(p)
	io := newTensors(p)
	w.tensors(p, io)
	python := p.python()
	for i := range p.ops {
		o := &p.ops[i]
		var duration float64
		n := p.at(o.end)
		if o.finished && !o.free {
			duration = n.Duration.Seconds()
		}
		w.insert("INSERT OR REPLACE INTO operations VALUES (?, ?, ?)", o.id, o.name, duration)
		w.sum.Operations++
		w.insert("INSERT INTO nodes VALUES (?, ?, ?, ?)", o.id, o.start, o.id, o.name)
		w.arguments(o, p.at(o.start), python[i])
		in, out := io.of(i)
		if r := python[i]; r != nil {
			if len(r.Inputs) > 0 {
				in = unique(r.Inputs)
			}
			if len(r.Outputs) > 0 {
				out = unique(r.Outputs)
			}
		}
		for k, t := range in {
			w.insert("INSERT INTO input_tensors VALUES (?, ?, ?)", o.id, k, t)
		}
		for k, t := range out {
			w.insert("INSERT INTO output_tensors VALUES (?, ?, ?)", o.id, k, t)
		}
		w.trace(o, p.at(o.start), python[i])
		w.captured(p, i)
		if !o.finished {
			w.problem(o.id, o.name, "incomplete_operation", "the operation began and didn't end", strings.Join(p.at(o.start).StackTrace, "\n"))
		}
	}
	w.problems(p)
	w.buffers(p)
}

// clear takes out what the operations of an earlier import of the same report left.
func (w *writer) clear(p *plan) {
	for _, t := range []string{"operations", "operation_arguments", "buffers", "captured_graph", "nodes", "edges", "errors", "stack_traces", "input_tensors", "output_tensors", "buffer_pages"} {
		w.insert("DELETE FROM "+t+" WHERE operation_id >= ? AND operation_id < ?", p.base, p.base+max(Apart, len(p.ops)+1))
	}
}

func (w *writer) devices(p *plan) {
	for _, d := range p.r.Devices {
		id := p.device(d.ID)
		w.insert("DELETE FROM devices WHERE device_id = ?", id) // the table has no key
		w.insert("INSERT INTO devices VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", id, d.GridY, d.GridX, d.ComputeY, d.ComputeX, d.WorkerL1Size, d.L1Banks,
			d.L1BankSize, d.FirstL1Bank, d.FirstCircularBuffer, d.BanksPerStorageCore, d.ComputeCores, d.StorageCores, d.TotalL1, d.TotalL1Tensors,
			d.TotalL1Interleaved, d.TotalL1Sharded, d.CircularBufferLimit)
		w.sum.Devices++
	}
}

func (w *writer) metadata(p *plan) {
	m := maps.Clone(p.r.Metadata.More)
	if m == nil {
		m = map[string]string{}
	}
	if t := p.r.Metadata.Captured; !t.IsZero() {
		m["capture_timestamp_ns"] = strconv.FormatInt(t.UnixNano(), 10)
	}
	if d := p.r.Metadata.Total; d > 0 {
		m["total_duration_ns"] = strconv.FormatInt(d.Nanoseconds(), 10)
	}
	delete(m, "schema_version") // that of the tables stays
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.insert("INSERT OR REPLACE INTO report_metadata VALUES (?, ?)", k, m[k])
	}
}

func (w *writer) arguments(o *operation, n *graph.Node, r *graph.PythonRecord) {
	if r != nil && len(r.Arguments) > 0 {
		for _, k := range slices.Sorted(maps.Keys(r.Arguments)) {
			w.insert("INSERT INTO operation_arguments VALUES (?, ?, ?)", o.id, k, r.Arguments[k])
		}
		return
	}
	for i, a := range n.Arguments {
		w.insert("INSERT INTO operation_arguments VALUES (?, ?, ?)", o.id, "arg_"+strconv.Itoa(i), a)
	}
}

// trace writes who called an operation, and the file that it was called in if that is here.
func (w *writer) trace(o *operation, n *graph.Node, r *graph.PythonRecord) {
	lines := n.StackTrace
	if r != nil && len(r.StackTrace) > 0 {
		lines = r.StackTrace
	}
	if len(lines) > 0 {
		text := strings.Join(lines, "\n")
		w.insert("INSERT INTO stack_traces VALUES (?, ?, ?)", o.id, text, w.source(text))
		w.sum.StackTraces++
	}
}

func (w *writer) problem(op int, name, kind, message, trace string) {
	w.insert("INSERT INTO errors VALUES (?, ?, ?, ?, ?, '')", op, name, kind, message, trace)
	w.sum.Errors++
}

// problems writes error nodes, each for the operation that it was met in.
func (w *writer) problems(p *plan) {
	for i := range p.g.Nodes {
		n := &p.g.Nodes[i]
		if n.Type != graph.ErrorNode {
			continue
		}
		id := p.base
		if k := p.of[i]; k >= 0 {
			id = p.ops[k].id
		}
		w.problem(id, n.Params[graph.ParamErrorOperation], n.Params[graph.ParamErrorType], n.Params[graph.ParamErrorMessage], "")
	}
}

// captured writes an operation's part of the graph and its edges.
func (w *writer) captured(p *plan, i int) {
	o := &p.ops[i]
	nodes := []int{}
	for c := o.start; c <= o.end; c++ {
		if p.of[c] == i {
			nodes = append(nodes, c)
		}
	}
	if o.finished && !o.free {
		for _, c := range p.at(o.end).Connections {
			if n := p.at(c); n != nil && n.Type == graph.TensorNode && !slices.Contains(nodes, c) {
				nodes = append(nodes, c)
			}
		}
	}
	text, to, err := captured(p, nodes, o.end)
	if err != nil && w.err == nil {
		w.err = err
		return
	}
	w.insert("INSERT INTO captured_graph VALUES (?, ?)", o.id, text)
	for from, sinks := range to {
		for k, sink := range sinks {
			w.insert("INSERT INTO edges VALUES (?, ?, ?, ?, 0, ?)", o.id, from, sink, k, k)
			w.sum.Edges++
		}
	}
}

// shown are parameters as the visualizer wants them, with its numbers of devices.
func (p *plan) shown(q graph.Params) graph.Params {
	q = maps.Clone(q)
	if d, ok := q.Int(graph.ParamDeviceID); ok {
		q[graph.ParamDeviceID] = strconv.FormatInt(p.device(d), 10)
	}
	if b, ok := q[graph.ParamGloballyAllocated]; ok && b != "1" && b != "0" {
		q[graph.ParamGloballyAllocated] = "0"
		if (graph.Params{"b": b}).Bool("b") {
			q[graph.ParamGloballyAllocated] = "1"
		}
	}
	if c := q[graph.ParamCoreRangeSet]; strings.HasPrefix(c, "[") { // an array, of which the visualizer finds no core
		q[graph.ParamCoreRangeSet] = graph.FormatCores(graph.ParseCores(c))
	}
	return q
}

// python finds the records of operations: in order, by name.
func (p *plan) python() []*graph.PythonRecord {
	out := make([]*graph.PythonRecord, len(p.ops))
	next := 0
	for i := range p.ops {
		for k := next; k < len(p.r.Python); k++ {
			if same(p.r.Python[k].Name, p.ops[i].name) {
				out[i], next = &p.r.Python[k], k+1
				break
			}
		}
	}
	return out
}

// same compares names of C++ and of Python.
func same(a, b string) bool {
	return strings.ReplaceAll(a, "::", ".") == strings.ReplaceAll(b, "::", ".")
}

// buffers writes, for each operation, the buffers that live at its end, and their pages.
func (w *writer) buffers(p *plan) {
	now := map[place]live{}
	ends := map[int][]int{} // of a node: operations that end with it
	for i, o := range p.ops {
		ends[o.end] = append(ends[o.end], i)
	}
	flat := map[int64][]graph.Page{}
	for _, g := range p.r.BufferPages {
		flat[int64(g.Address)] = append(flat[int64(g.Address)], g)
	}
	for i := range p.g.Nodes {
		n := &p.g.Nodes[i]
		switch n.Type {
		case graph.BufferAllocate:
			b := p.buffer(n)
			now[b.place] = b
		case graph.BufferDeallocate:
			if addr, ok := n.Params.Int(graph.ParamAddress); ok {
				dev, _ := n.Params.Int(graph.ParamDeviceID)
				delete(now, place{p.device(dev), addr})
			} else if a := p.allocation(n); a != nil {
				if b := p.buffer(a); now[b.place].alloc == a {
					delete(now, b.place)
				}
			}
		}
		for _, k := range ends[i] {
			w.after(p, &p.ops[k], now, flat)
		}
	}
}

// after writes what lives after an operation.
func (w *writer) after(p *plan, o *operation, now map[place]live, flat map[int64][]graph.Page) {
	if snap, ok := p.r.OperationBuffers[o.start]; ok {
		for _, b := range snap {
			w.buffer(p, o, live{place: place{p.device(int64(b.Device)), int64(b.Address)}, size: b.MaxPerBank, kind: int64(b.Type), lay: int64(b.Layout)}, flat)
		}
		return
	}
	for _, b := range slices.SortedFunc(maps.Values(now), func(a, b live) int {
		return a.alloc.Counter - b.alloc.Counter
	}) {
		w.buffer(p, o, b, flat)
	}
}

func (w *writer) buffer(p *plan, o *operation, b live, flat map[int64][]graph.Page) {
	w.insert("INSERT INTO buffers VALUES (?, ?, ?, ?, ?, ?)", o.id, b.device, b.address, b.size, b.kind, b.lay)
	w.sum.Buffers++
	if b.kind == int64(graph.DRAM) {
		return
	}
	pages := flat[b.address]
	if versions, ok := p.r.PagesByAddress[uint64(b.address)]; ok {
		pages = nil
		for _, v := range versions { // in the order of their allocations
			if v.Allocation <= o.end {
				pages = v.Pages
			}
		}
	}
	for _, g := range pages {
		if p.device(g.Device) != b.device {
			continue
		}
		w.insert("INSERT INTO buffer_pages VALUES (?,?,?,?,?,?,?,?,?,?)", o.id, b.device, int64(g.Address), g.CoreY, g.CoreX, g.Bank, g.Index,
			int64(g.PageAddr), g.PageSize, g.BufferType)
		w.sum.Pages++
	}
}

// tensors writes the tensors: the first node of each counts. One without a device is left out if no operation uses it.
func (w *writer) tensors(p *plan, io *tensors) {
	done := map[int64]bool{}
	for i := range p.g.Nodes {
		n := &p.g.Nodes[i]
		id, ok := n.Params.Int(graph.ParamTensorID)
		if n.Type != graph.TensorNode || !ok || done[id] {
			continue
		}
		done[id] = true
		q := n.Params
		var device, address, memory any
		if d, ok := q.Int(graph.ParamDeviceID); ok {
			device, memory = p.device(d), int64(kind(graph.Params{graph.ParamBufferTypeValue: q[graph.ParamBufferTypeValue], graph.ParamBufferType: q[graph.ParamBufferType]}))
			if a, ok := q.Int(graph.ParamAddress); ok {
				address = a
			}
		} else if !io.used[id] {
			continue
		}
		dots := strings.NewReplacer("::", ".")
		w.insert("INSERT OR IGNORE INTO tensors VALUES (?, ?, ?, ?, ?, ?, ?, ?)", id, q[graph.ParamShape], dots.Replace(q[graph.ParamDType]),
			dots.Replace(q[graph.ParamLayout]), q[graph.ParamMemoryConfig], device, address, memory)
		w.sum.Tensors++
		w.parts(p, id, q[graph.ParamDeviceTensors])
	}
}

// parts writes where a tensor's parts are.
func (w *writer) parts(p *plan, id int64, text string) {
	if text == "" {
		return
	}
	var parts []graph.DeviceTensor
	if err := json.Unmarshal([]byte(text), &parts); err != nil {
		w.warn("tensor %d: its parts on devices can't be read: %v", id, err)
		return
	}
	w.insert("DELETE FROM device_tensors WHERE tensor_id = ?", id)
	type part struct{ device, address int64 }
	seen := map[part]bool{}
	for _, t := range parts {
		d := p.device(int64(t.Device))
		if t.MeshDevice != nil {
			d = p.device(int64(*t.MeshDevice))
		}
		k := part{d, int64(t.Address)}
		if seen[k] {
			continue
		}
		seen[k] = true
		w.insert("INSERT INTO device_tensors VALUES (?, ?, ?)", id, d, int64(t.Address))
		w.sum.DeviceTensors++
	}
}

// validate warns of rows that name what isn't there.
func (w *writer) validate() {
	for what, query := range map[string]string{
		"inputs of operations name tensors that aren't there":  "SELECT count(*) FROM input_tensors WHERE tensor_id NOT IN (SELECT tensor_id FROM tensors)",
		"outputs of operations name tensors that aren't there": "SELECT count(*) FROM output_tensors WHERE tensor_id NOT IN (SELECT tensor_id FROM tensors)",
		"buffers name devices that aren't there":               "SELECT count(*) FROM buffers WHERE device_id NOT IN (SELECT device_id FROM devices)",
		"parts of tensors name tensors that aren't there":      "SELECT count(*) FROM device_tensors WHERE tensor_id NOT IN (SELECT tensor_id FROM tensors)",
	} {
		var n int
		if w.err != nil {
			return
		}
		if w.err = w.tx.QueryRowContext(w.ctx, query).Scan(&n); w.err == nil && n > 0 {
			w.warn("%d %s", n, what)
		}
	}
	slices.Sort(w.sum.Warnings)
}
