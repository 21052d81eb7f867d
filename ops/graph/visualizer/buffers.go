package visualizer

import (
	"maps"
	"slices"

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

func (w *writer) pages(o *operation, list []graph.Page, device func(graph.Page) int64) {
	for _, g := range list {
		w.row("buffer_pages", o.id, device(g), int64(g.Address), g.CoreY, g.CoreX, g.Bank, g.Index, int64(g.PageAddr), g.PageSize,
			g.BufferType)
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
