package visualizer

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/reprise-tt/reprise/ops/graph"
)

// allocation returns the allocation of a deallocation, which is connected to it or to the buffer,
// or nil.
func (p *plan) allocation(n *graph.Node) *graph.Node {
	if a := p.g.First(n, graph.BufferAllocate); a != nil {
		return a
	}
	if b := p.g.First(n, graph.BufferNode); b != nil {
		return p.buf[b.Counter]
	}
	return nil
}

type place struct{ device, address int64 }

type live struct {
	place
	alloc  *graph.Node
	size   int64 // in the bank with most of it
	kind   int64
	layout int64
}

func (p *plan) buffer(n *graph.Node) live {
	dev, _ := n.Params.Int(graph.ParamDeviceID)
	addr, _ := n.Params.Int(graph.ParamAddress)
	l := live{place: place{p.device(dev), addr}, alloc: n, size: p.perBank(n, dev)}
	if t, ok := n.Params.Memory(); ok {
		l.kind = int64(t)
	}
	if v, ok := graph.ParseBufferLayout(n.Params[graph.ParamLayout]); ok {
		l.layout = int64(v)
	}
	return l
}

// listed returns a buffer that the report lists for an operation.
func (p *plan) listed(b graph.OperationBuffer) live {
	return live{place: place{p.device(int64(b.Device)), int64(b.Address)}, size: b.MaxPerBank, kind: int64(b.Type), layout: int64(b.Layout)}
}

// perBank returns the size in the bank with most of a buffer.
func (p *plan) perBank(n *graph.Node, device int64) int64 {
	memory, _ := n.Params.Memory()
	var banks int64 // of an interleaved buffer
	for _, d := range p.r.Devices {
		if d.ID == device {
			if banks = d.L1Banks; memory == graph.DRAM {
				banks = d.DRAMChannels
			}
		}
	}
	return graph.SizeOnCore(n, int(banks))
}

type allocated struct {
	p   *plan
	now map[int]live  // by node of the allocation
	at  map[place]int // latest allocation at a place
}

// allocate adds a buffer. An earlier buffer at its place is gone even without a deallocation. At
// address 0 TT-NN has every buffer of a capture without dispatch, so there all stay.
func (a *allocated) allocate(n *graph.Node) {
	b := a.p.buffer(n)
	if b.address != 0 {
		a.free(b.place)
	}
	a.now[n.Counter], a.at[b.place] = b, n.Counter
}

func (a *allocated) free(at place) {
	if c, ok := a.at[at]; ok {
		delete(a.now, c)
		delete(a.at, at)
	}
}

// deallocate removes the buffer that a deallocation is connected to, or else the buffer at its
// address.
func (a *allocated) deallocate(n *graph.Node) {
	if from := a.p.allocation(n); from != nil {
		delete(a.now, from.Counter)
	} else if addr, ok := n.Params.Int(graph.ParamAddress); ok {
		dev, _ := n.Params.Int(graph.ParamDeviceID)
		a.free(place{a.p.device(dev), addr})
	}
}

// buffers writes the buffers at the end of each operation, and their pages.
func (w *writer) buffers(p *plan) {
	all := allocated{p, map[int]live{}, map[place]int{}}
	ends := map[int][]int{} // by node: operations that end with it
	for i, o := range p.ops {
		ends[o.end] = append(ends[o.end], i)
	}
	pages := p.pages()
	for i, n := range p.g.All() {
		switch n.Type {
		case graph.BufferAllocate:
			all.allocate(n)
		case graph.BufferDeallocate:
			all.deallocate(n)
		}
		for _, k := range ends[i] {
			w.buffersAfter(p, &p.ops[k], all.now, pages)
		}
	}
}

func (w *writer) buffersAfter(p *plan, o *operation, now map[int]live, pages map[place][]graph.PageVersion) {
	if of, ok := p.r.OperationPages[o.start]; ok {
		w.pages(o, of, func(g graph.Page) int64 { return p.device(g.Device) })
		pages = nil
	}
	if snap, ok := p.r.OperationBuffers[o.start]; ok {
		for _, b := range snap {
			w.buffer(o, p.listed(b), pages)
		}
		return
	}
	for _, b := range slices.SortedFunc(maps.Values(now), func(a, b live) int {
		return a.alloc.Counter - b.alloc.Counter
	}) {
		w.buffer(o, b, pages)
	}
}

func (w *writer) buffer(o *operation, b live, pages map[place][]graph.PageVersion) {
	w.row("buffers", o.id, b.device, b.address, b.size, b.kind, b.layout)
	w.sum.Buffers++
	if b.kind == int64(graph.DRAM) {
		return
	}
	var now []graph.Page
	for _, v := range pages[b.place] {
		if v.Allocation <= o.end {
			now = v.Pages
		}
	}
	w.pages(o, now, func(graph.Page) int64 { return b.device })
}

// chunk is the pages of a buffer in one bank of a core.
type chunk struct {
	device, bank, x, y, kind int64
	buffer                   uint64
}

type extent struct {
	from, to uint64
	size, n  int64 // of the largest page, and how many
}

// pages writes pages as chunks.
func (w *writer) pages(o *operation, list []graph.Page, device func(graph.Page) int64) {
	var order []chunk
	all := map[chunk]*extent{}
	for _, g := range list {
		c := chunk{device(g), g.Bank, g.CoreX, g.CoreY, g.BufferType, g.Address}
		if all[c] == nil {
			order = append(order, c)
			all[c] = &extent{from: g.PageAddr}
		}
		e := all[c]
		e.from, e.to = min(e.from, g.PageAddr), max(e.to, g.PageAddr+uint64(g.PageSize))
		e.size = max(e.size, g.PageSize)
		e.n++
	}
	for _, c := range order {
		e := all[c]
		w.row("buffer_chunks", o.id, c.device, int64(c.buffer), c.bank, c.x, c.y, int64(e.from), int64(e.to-e.from), e.size, e.n, c.kind)
	}
	w.sum.Pages += len(list)
}

// pages returns the pages at a place after each allocation, in order; the chips of a mesh allocate
// at one address. Pages of a flat list exist from the beginning, at addresses without allocations.
func (p *plan) pages() map[place][]graph.PageVersion {
	out := map[place][]graph.PageVersion{}
	for _, g := range p.r.BufferPages {
		if k := (place{p.device(g.Device), int64(g.Address)}); p.r.PagesByAddress[g.Address] == nil {
			if out[k] == nil {
				out[k] = []graph.PageVersion{{Allocation: -1}}
			}
			out[k][0].Pages = append(out[k][0].Pages, g)
		}
	}
	for address, versions := range p.r.PagesByAddress {
		for _, v := range versions {
			on := map[int64][]graph.Page{} // by device
			for _, g := range v.Pages {
				on[p.device(g.Device)] = append(on[p.device(g.Device)], g)
			}
			for d, pages := range on {
				k := place{d, int64(address)}
				out[k] = append(out[k], graph.PageVersion{Allocation: v.Allocation, Pages: pages})
			}
		}
	}
	return out
}

// tensors writes the tensors, each from its first node. An unused tensor of the host is left out.
// known are nodes of tensors that only Python numbered, by those numbers, and described what
// Python's arguments say of others.
func (w *writer) tensors(p *plan, io *operands, known map[int64]int, described map[int64]graph.Params) {
	done, sizes := map[int64]bool{}, p.sizes()
	columns := "tensor_id, shape, dtype, layout, memory_config, device_id, address, buffer_type, storage_type, rank"
	var sized bool // a database of tt-metal has no sizes
	if w.scan(&sized, "SELECT count(*) > 0 FROM pragma_table_info('tensors') WHERE name = 'size'"); sized {
		columns += ", size"
	}
	write := func(id int64, i int, q graph.Params) {
		if done[id] {
			return
		}
		done[id] = true
		var device, address, memory, size, config, storage any
		if kind, ok := q.Memory(); ok {
			memory = int64(kind)
		}
		if a, ok := q.Int(graph.ParamAddress); ok {
			address = a
		}
		if c := q[graph.ParamMemoryConfig]; c != "" {
			config = c
		}
		if s := q["storage_type"]; s != "" {
			storage = s
		} else if config != nil || address != nil {
			storage = "DEVICE" // a format without storage types
		}
		if d, ok := q.Int(graph.ParamDeviceID); ok {
			device = p.device(d)
			if a, ok := address.(int64); ok {
				kind, _ := memory.(int64)
				if s, ok := sizes.before(place{p.device(d), a}, kind, i); ok {
					size = s
				}
			}
		} else if storage != "DEVICE" && !io.used[id] {
			return
		}
		row := []any{id, q[graph.ParamShape], dotted(q[graph.ParamDType]), dotted(q[graph.ParamLayout]), config, device, address, memory, storage,
			w.rank}
		if sized {
			row = append(row, size)
		}
		w.values("INSERT OR IGNORE", "tensors ("+columns+")", row)
		w.sum.Tensors++
		w.parts(p, id, q[graph.ParamDeviceTensors])
	}
	for i, n := range p.g.All(graph.TensorNode) {
		if id, ok := n.Params.Int(graph.ParamTensorID); ok {
			write(id, i, n.Params)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		write(id, known[id], p.g.Nodes[known[id]].Params)
	}
	for _, id := range slices.Sorted(maps.Keys(described)) {
		write(id, 0, described[id])
	}
}

// pythonTensor matches a tensor in the text of Python's arguments (_ttnn_tensor_summary, graph.py).
var pythonTensor = regexp.MustCompile(`ttnn\.Tensor\(shape=(Shape\(\[[^]]*\]\)), dtype=([\w.]+), layout=([\w.]+), ` +
	`memory_config=(MemoryConfig\(.*?\)), storage_type=StorageType\.(\w+), tensor_id=(\d+)`)

// pythonTensors returns what the arguments of operations say of tensors, by their numbers.
func pythonTensors(records []*graph.PythonRecord) map[int64]graph.Params {
	out := map[int64]graph.Params{}
	for _, r := range records {
		for _, text := range r.Arguments {
			for _, m := range pythonTensor.FindAllStringSubmatch(text, -1) {
				id, _ := strconv.ParseInt(m[6], 10, 64)
				out[id] = graph.Params{graph.ParamShape: m[1], graph.ParamDType: m[2], graph.ParamLayout: m[3],
					graph.ParamMemoryConfig: m[4], "storage_type": m[5]}
			}
		}
	}
	return out
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
	w.delete("device_tensors", "tensor_id", int(id), 1)
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
