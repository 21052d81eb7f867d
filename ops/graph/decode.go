package graph

import (
	"bytes"
	"cmp"
	"encoding/json"
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
		Arguments map[string]json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, &FormatError{Node: -1, Field: "python_io", Want: "an array of records", Found: clip(b), Err: err}
	}
	out := make([]PythonRecord, len(raw))
	for i, r := range raw {
		out[i] = r.PythonRecord
		out[i].Arguments = texts(r.Arguments)
	}
	return out, nil
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
