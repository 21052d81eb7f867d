package graph

import (
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
	switch t.Kind() {
	case reflect.Struct:
		var values map[string]json.RawMessage
		if json.Unmarshal(b, &values) != nil {
			return
		}
		fields := map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields[name] = f.Type
		}
		for k, v := range values {
			if field, ok := fields[k]; ok {
				d.find(path+k+".", v, field)
			} else {
				d[path+k]++
			}
		}
	case reflect.Slice:
		var values []json.RawMessage
		if t.Elem().Kind() == reflect.Struct && json.Unmarshal(b, &values) == nil {
			for _, v := range values {
				d.find(path, v, t.Elem())
			}
		}
	case reflect.Map:
		var values map[string]json.RawMessage
		if t.Elem().Kind() == reflect.Slice && json.Unmarshal(b, &values) == nil {
			for _, v := range values {
				d.find(path, v, t.Elem())
			}
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
		for _, v := range list {
			switch {
			case v.PageVersion.Pages != nil:
				out = append(out, v.PageVersion)
			case len(out) == 0 || out[0].Allocation >= 0:
				out = slices.Insert(out, 0, PageVersion{Allocation: -1, Pages: []Page{v.Page}})
			default:
				out[0].Pages = append(out[0].Pages, v.Page)
			}
		}
		slices.SortStableFunc(out, func(a, b PageVersion) int { return a.Allocation - b.Allocation })
		if f.Report.PagesByAddress == nil {
			f.Report.PagesByAddress = map[uint64][]PageVersion{}
		}
		f.Report.PagesByAddress[address] = out
	}
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
			if b.MaxPerBank == 0 {
				b.MaxPerBank = b.Size
			}
			if s, err := text(b.Kind); b.Kind != nil {
				kind, ok := ParseBufferType(s)
				if b.Type = int(kind); err != nil || !ok {
					d["per_operation_buffers with type "+s]++
					continue
				}
			}
			if s, err := text(b.Spread); b.Spread != nil {
				layout, ok := ParseBufferLayout(s)
				if !ok {
					err = json.Unmarshal(b.Spread, &layout)
				}
				if b.Layout = int(layout); err != nil {
					d["per_operation_buffers.layout "+s]++
				}
			}
			out = append(out, b.OperationBuffer)
		}
		if f.Report.OperationBuffers == nil {
			f.Report.OperationBuffers = map[int][]OperationBuffer{}
		}
		f.Report.OperationBuffers[op] = out
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
	nodes := func(list []int, what string) []int {
		out := list[:0]
		for _, c := range list {
			if i, ok := index(c, what); ok {
				out = append(out, i)
			}
		}
		return out
	}
	for i, n := range r.Graph.All() {
		n.Counter, n.Connections = i, nodes(n.Connections, "graph.connections")
		n.InputTensors = nodes(n.InputTensors, "graph.input_tensors")
	}
	r.OperationBuffers = renumbered(r.OperationBuffers, index, "per_operation_buffers")
	r.OperationPages = renumbered(r.OperationPages, index, "per_operation_buffer_pages")
	for _, versions := range r.PagesByAddress {
		for i := range versions {
			versions[i].Allocation = sort.SearchInts(old, versions[i].Allocation+1) - 1 // the last node until then
		}
	}
	for i := range r.Programs {
		if f, ok := index(r.Programs[i].Function, "programs.function"); ok {
			r.Programs[i].Function = f
		} else {
			r.Programs[i].Function = -1
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
