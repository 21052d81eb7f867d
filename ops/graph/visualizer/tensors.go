package visualizer

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/ops/graph"
)

// tensors writes the tensors, each from its first node. An unused tensor without a device is left
// out. known are nodes of tensors that only Python numbered, by those numbers.
func (w *writer) tensors(p *plan, io *operands, known map[int64]int) {
	done, sizes := map[int64]bool{}, p.sizes()
	columns := "tensor_id, shape, dtype, layout, memory_config, device_id, address, buffer_type"
	var sized bool // a database of tt-metal has no sizes
	if w.scan(&sized, "SELECT count(*) > 0 FROM pragma_table_info('tensors') WHERE name = 'size'"); sized {
		columns += ", size"
	}
	write := func(id int64, i int) {
		if done[id] {
			return
		}
		done[id] = true
		q := p.g.Nodes[i].Params
		var device, address, memory, size any
		if d, ok := q.Int(graph.ParamDeviceID); ok {
			kind, _ := q.Memory()
			device, memory = p.device(d), int64(kind)
			if a, ok := q.Int(graph.ParamAddress); ok {
				address = a
				if s, ok := sizes.before(place{p.device(d), a}, int64(kind), i); ok {
					size = s
				}
			}
		} else if !io.used[id] {
			return
		}
		row := []any{id, q[graph.ParamShape], dotted(q[graph.ParamDType]), dotted(q[graph.ParamLayout]), q[graph.ParamMemoryConfig],
			device, address, memory}
		if sized {
			row = append(row, size)
		}
		w.values("INSERT OR IGNORE", "tensors ("+columns+")", row)
		w.sum.Tensors++
		w.parts(p, id, q[graph.ParamDeviceTensors])
	}
	for i, n := range p.g.All(graph.TensorNode) {
		if id, ok := n.Params.Int(graph.ParamTensorID); ok {
			write(id, i)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		io.used[id] = true
		write(id, known[id])
	}
}

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
	seen := map[place]bool{}
	for _, t := range parts {
		if t.MeshDevice != nil {
			t.Device = *t.MeshDevice
		}
		at := place{p.device(int64(t.Device)), int64(t.Address)}
		if seen[at] {
			continue
		}
		seen[at] = true
		w.row("device_tensors", id, at.device, at.address)
		w.sum.DeviceTensors++
	}
}

type sizeAt struct {
	node       int
	kind, size int64 // size in the bank with most of it
	found      bool  // in the buffers of an operation: it may have been there before
}

type sizes map[place][]sizeAt

// sizes returns the sizes of the buffers that the report allocates, or lists for operations.
func (p *plan) sizes() sizes {
	out := sizes{}
	add := func(at place, s sizeAt) {
		if list := out[at]; len(list) > 0 {
			last := list[len(list)-1]
			if last.node = s.node; last == s { // most operations list the same buffers as the ones before
				return
			}
		}
		out[at] = append(out[at], s)
	}
	for i, n := range p.g.All(graph.BufferAllocate) {
		b := p.buffer(n)
		add(b.place, sizeAt{node: i, kind: b.kind, size: b.size})
	}
	for _, op := range slices.Sorted(maps.Keys(p.r.OperationBuffers)) {
		for _, b := range p.r.OperationBuffers[op] {
			l := p.listed(b)
			add(l.place, sizeAt{node: op, kind: l.kind, size: l.size, found: true})
		}
	}
	for _, list := range out {
		slices.SortStableFunc(list, func(a, b sizeAt) int { return cmp.Compare(a.node, b.node) })
	}
	return out
}

// before returns the size of the latest buffer of a kind at a place before a node, or else of the
// first one that an operation found there later.
func (s sizes) before(at place, kind int64, node int) (size int64, ok bool) {
	for _, b := range s[at] {
		switch {
		case b.kind != kind:
		case b.node <= node:
			size, ok = b.size, true
		case !ok && b.found:
			return b.size, true
		}
	}
	return size, ok
}
