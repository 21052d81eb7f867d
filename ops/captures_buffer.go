package ops

import (
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops/graph"
)

// planned is the memory of a tensor in a capture without dispatch.
type planned struct {
	gen    uint64 // of the capture
	addr   uint32
	buffer *graph.Buffer
	undo   func() error // frees it in the snapshot; nil if it didn't fit
}

// allocate plans a tensor's memory in the snapshot. A tensor that doesn't fit is at address 0.
func (c *captures) allocate(g *geometry, cfg reprise.BufferConfig) (*planned, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &planned{gen: c.gen}
	var err error
	var page func(int) (reprise.Place, bool)
	if p.addr, page, p.undo, err = c.snap.Take(cfg); err != nil && !errors.Is(err, reprise.ErrOutOfMemory) {
		return nil, err
	}
	p.buffer = &graph.Buffer{
		ID: c.bufferID(), Device: c.id, Type: bufferType(cfg.Kind), Layout: graph.BufferLayout(g.spec.Memory.Layout),
		Size:     int64(g.pages) * int64(g.pageBytes),
		PageSize: int64(g.pageBytes), Address: uint64(p.addr),
	}
	banks := c.dev.DRAMBanks()
	if cfg.Kind == allocator.L1 {
		banks = c.dev.Grid().Size()
	}
	if s := g.sharding; s != nil {
		p.buffer.Cores = ceil(s.Tensor[0], s.Shard[0]) * ceil(s.Tensor[1], s.Shard[1])
		p.buffer.MaxPerBank = int64(s.Shard[0]) * int64(s.Shard[1]) * int64(g.pageBytes)
	} else {
		p.buffer.MaxPerBank = int64(ceil(g.pages, banks)) * int64(g.pageBytes)
	}
	if err == nil {
		p.buffer.Pages = func() []graph.Page { return pagesOf(p.buffer, page) }
	}
	c.memoryLocked(func(r *graph.Recorder) { r.Allocate(p.buffer) })
	return p, nil
}

func (c *captures) bufferID() uint64 {
	c.next++
	return uint64(c.id)<<40 | c.next
}

func (c *captures) buffer(b *reprise.Buffer) *graph.Buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bufferLocked(b)
}

func (c *captures) bufferLocked(b *reprise.Buffer) *graph.Buffer {
	g := c.bufs[b]
	if g != nil {
		return g
	}
	if c.bufs == nil {
		c.bufs = map[*reprise.Buffer]*graph.Buffer{}
	}
	g = &graph.Buffer{
		ID: c.bufferID(), Device: c.id, Type: bufferType(b.Kind()), Layout: graph.BufferLayout(b.Layout()), Size: int64(b.Size()),
		PageSize: int64(b.PageSize()),
		Cores:    len(b.Cores()), Address: uint64(b.Addr()), MaxPerBank: maxPerBank(b),
	}
	g.Pages = func() []graph.Page { return pagesOf(g, b.Page) }
	c.bufs[b] = g
	return g
}

func bufferType(k allocator.Kind) graph.BufferType {
	switch k {
	case allocator.DRAM:
		return graph.DRAM
	case allocator.L1Small:
		return graph.L1Small
	}
	return graph.L1
}

func maxPerBank(b *reprise.Buffer) int64 {
	count, most := map[int]int64{}, int64(0)
	for i := range b.Pages() {
		p, ok := b.Page(i)
		if !ok {
			break
		}
		if b.Layout() == allocator.Interleaved && i > 0 && p.Bank == 0 {
			most = int64(ceil(b.Pages(), i)) // the first i pages are in different banks, and the others repeat them
			break
		}
		count[p.Bank]++
		most = max(most, count[p.Bank])
	}
	return most * int64(b.PageStride())
}

func pagesOf(b *graph.Buffer, page func(int) (reprise.Place, bool)) []graph.Page {
	out := []graph.Page{}
	for i := 0; ; i++ {
		p, ok := page(i)
		if !ok {
			return out
		}
		out = append(out, graph.Page{Device: int64(b.Device), Address: b.Address, PageSize: b.PageSize, BufferType: int64(b.Type),
			CoreY: int64(p.Core.Y), CoreX: int64(p.Core.X), Bank: int64(p.Bank), Index: int64(i), PageAddr: uint64(p.Addr)})
	}
}
