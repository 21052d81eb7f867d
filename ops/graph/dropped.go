package graph

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"
)

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
