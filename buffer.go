package reprise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
)

// BufferConfig says what to allocate.
type BufferConfig struct {
	Kind allocator.Kind // DRAM, L1 or L1Small
	// Size is in bytes, a multiple of PageSize. It may be 0 for a sharded buffer, whose shape gives
	// the size.
	Size     int
	PageSize int    // bytes that stay together in one bank; 0 means Size
	Name     string // for statistics and errors
	// Sharding deals the pages to chosen cores; nil interleaves them over all banks. L1Small is for
	// sharded buffers only.
	Sharding *allocator.ShardSpec
	// Addr, if not 0, is the buffer's address in every bank, a multiple of the DRAM alignment.
	// Otherwise the runtime chooses.
	Addr uint32
}

// Buffer is device memory in pages. Page p of an interleaved buffer lies in bank p mod banks of its
// kind, at Addr + p/banks*PageStride. Of a sharded buffer, each core has some shards; [Buffer.Page]
// says which page is where.
type Buffer struct {
	d     *Device
	name  string
	ext   allocator.Extent
	mem   dispatch.Buffer         // page layout for the queues
	dist  *allocator.Distribution // mem.Sharding; nil unless sharded
	spec  *allocator.ShardSpec    // source of dist; immutable
	pool  *Pool                   // nil unless taken from a pool
	root  *Buffer                 // the whole buffer of a part, else nil
	freed atomic.Bool
}

// NewBuffer allocates a buffer with undefined content. The error is a *allocator.OutOfMemoryError
// if there is no room, and an *allocator.OccupiedError if something is in the way of a fixed
// address.
func (d *Device) NewBuffer(c BufferConfig) (b *Buffer, err error) {
	ctx := context.Background()
	call := d.observe(ctx, CallAllocate, nil, c.Name, nil, c.Size)
	defer func() {
		if call != nil && b != nil {
			call.Object, call.Bytes = b, b.Size()
		}
		call.end(ctx, &err)
	}()
	if err := d.admit(ctx, nil, "new buffer", opAllocate, c.Name); err != nil {
		return nil, err
	}
	if b, err = d.newBuffer(&c); err != nil {
		return nil, fmt.Errorf("reprise: new buffer %q: %w", c.Name, err)
	}
	return b, nil
}

func (d *Device) newBuffer(c *BufferConfig) (*Buffer, error) {
	b, r, err := d.plan(c)
	if err != nil {
		return nil, err
	}
	r.Site = userPC()
	if c.Kind == allocator.L1 { // while circular buffers grow or shrink, their place is free for a moment
		d.cbs.Lock()
		defer d.cbs.Unlock()
	}
	ext, err := place(d.mem, c, r)
	if err != nil {
		if d.mem.Stats(c.Kind).Total == 0 {
			return nil, fmt.Errorf("%w; this memory is only there if the device is opened with WithL1Small", err)
		}
		return nil, err
	}
	b.setExtent(ext)
	return b, nil
}

// NewBuffers allocates a buffer of the same configuration on each of several devices, all at one
// address. Devices with equal fingerprints ([Device.MemoryFingerprint]) have equal ones afterwards.
// Either all devices have their buffer or none. Errors are those of NewBuffer, or an
// *allocator.NoCommonAddressError if no address is free on all devices.
func NewBuffers(ds []*Device, c BufferConfig) (bufs []*Buffer, err error) {
	if err := distinct(ds); err != nil {
		return nil, fmt.Errorf("reprise: new buffer %q: %w", c.Name, err)
	}
	ctx := context.Background()
	begun := beginAll(ctx, callsOn(ds), func(int) *Call { return &Call{Kind: CallAllocate, Name: c.Name, Bytes: c.Size} })
	defer endAll(ctx, begun, func(i int, call *Call) { call.Object, call.Bytes = bufs[i], bufs[i].Size() }, &err)
	made := make([]*Buffer, len(ds))
	if err := newBuffers(ds, made, &c); err != nil {
		return nil, err
	}
	return made, nil
}

func newBuffers(ds []*Device, bufs []*Buffer, c *BufferConfig) error {
	fail := func(err error) error {
		return fmt.Errorf("reprise: new buffer %q on %d devices: %w", c.Name, len(ds), err)
	}
	rs, mems := make([]allocator.Request, len(ds)), memories(ds)
	site := userPC()
	for i, d := range ds {
		err := d.admit(context.Background(), nil, "new buffer", opAllocate, c.Name)
		if err != nil {
			return err
		}
		if bufs[i], rs[i], err = d.plan(c); err != nil {
			return fail(err)
		}
		rs[i].Site = site
	}
	if c.Kind == allocator.L1 {
		for _, d := range lockOrder(ds) { // as in newBuffer
			d.cbs.Lock()
			defer d.cbs.Unlock()
		}
	}
	var exts []allocator.Extent
	var err error
	if c.Addr == 0 {
		exts, err = allocator.AllocateAll(mems, rs)
	} else {
		exts, err = allocator.AllocateAllAt(mems, rs, uint64(c.Addr))
	}
	if err != nil {
		return fail(err)
	}
	for i, b := range bufs {
		b.setExtent(exts[i])
	}
	return nil
}

// plan returns a buffer without memory, and the request for its memory.
func (d *Device) plan(c *BufferConfig) (*Buffer, allocator.Request, error) {
	bad := func(format string, args ...any) (*Buffer, allocator.Request, error) {
		return nil, allocator.Request{}, fmt.Errorf(format, args...)
	}
	if c.Kind != allocator.DRAM && c.Kind != allocator.L1 && c.Kind != allocator.L1Small {
		return bad("kind %v is not DRAM, L1 or L1 small", c.Kind)
	}
	b := &Buffer{d: d, name: c.Name}
	size, page := c.Size, c.PageSize
	if c.Sharding != nil {
		var err error
		if b.dist, err = allocator.NewDistribution(*c.Sharding); err != nil {
			return bad("%w", err)
		}
		b.spec, b.mem.Sharding, b.mem.Pages = cloneSharding(c.Sharding), b.dist, b.dist.Pages()
		if page < 1 || page > math.MaxInt/b.dist.DevicePages() {
			return bad("pages of %d B: a sharded buffer needs a page size, and a size that can be counted", page)
		}
		if size == 0 {
			size = b.mem.Pages * page
		}
		if size != b.mem.Pages*page {
			return bad("%d B: %d pages of %d B are %d B; give no size or this one", size, b.mem.Pages, page, b.mem.Pages*page)
		}
		if b.mem.Banks, err = d.banksOf(c.Kind, b.dist); err != nil {
			return bad("%w", err)
		}
		size = b.dist.DevicePages() * page
	} else {
		if page == 0 {
			page = size
		}
		if size <= 0 || page < 0 || size%page != 0 {
			return bad("%d B in pages of %d B: the size must be a positive multiple of the page", size, page)
		}
		b.mem.Pages = size / page
	}
	return b, allocator.Request{
		Kind: c.Kind, Size: uint64(size), PageSize: uint64(page), Shards: len(b.mem.Banks), Owner: c.Name, Tag: "buffer",
	}, nil
}

func place(mem *allocator.Allocator, c *BufferConfig, r allocator.Request) (allocator.Extent, error) {
	if c.Addr != 0 {
		return mem.AllocateAt(r, uint64(c.Addr))
	}
	return mem.Allocate(r)
}

func interleaved(e allocator.Extent) dispatch.Interleaved {
	return dispatch.Interleaved{
		DRAM: e.Kind == allocator.DRAM || e.Kind == allocator.Trace, Addr: uint32(e.Addr), PageSize: uint32(e.Stride),
		HostPage: uint32(e.PageSize), Pages: int(e.Pages()), Banks: int(e.Banks),
	}
}

func (b *Buffer) setExtent(e allocator.Extent) { b.ext, b.mem.Whole = e, interleaved(e) }

// Addr returns the buffer's address, the same in every bank, which kernels take as an argument. A
// part of a buffer has that of the whole.
func (b *Buffer) Addr() uint32 { return b.mem.Whole.Addr }

// Kind returns the memory that the buffer is in.
func (b *Buffer) Kind() allocator.Kind { return b.ext.Kind }

// Size returns the buffer's size in bytes.
func (b *Buffer) Size() int { return b.Pages() * b.PageSize() }

// Pages returns the number of pages.
func (b *Buffer) Pages() int { return b.mem.Pages }

// PageSize returns the bytes of a page.
func (b *Buffer) PageSize() int { return int(b.mem.Whole.HostPage) }

// PageStride returns the bytes from one page to the next in a bank: PageSize, aligned for the
// memory. Kernels that address pages take it as an argument.
func (b *Buffer) PageStride() uint32 { return b.mem.Whole.PageSize }

// Device returns the buffer's device.
func (b *Buffer) Device() *Device { return b.d }

// Name returns the buffer's name.
func (b *Buffer) Name() string { return b.name }

// Layout returns how the pages are dealt to banks.
func (b *Buffer) Layout() allocator.Layout {
	if b.dist == nil {
		return allocator.Interleaved
	}
	return b.dist.Layout()
}

// Release releases the buffer. Its memory can be allocated again once the executables and traces
// that use it, and all parts of it, are released. The error of a second Release matches
// ErrReleased.
func (b *Buffer) Release() (err error) {
	ctx := context.Background()
	defer b.d.observe(ctx, CallReleaseBuffer, nil, b.name, b, b.Size()).end(ctx, &err)
	err = ErrReleased
	if !b.freed.Swap(true) {
		err = b.freeMemory()
	}
	if err != nil {
		return fmt.Errorf("reprise: release buffer %q: %w", b.name, err)
	}
	return nil
}

func (b *Buffer) checkDevice(d *Device) error {
	if b == nil {
		return errors.New("no buffer: it is nil")
	}
	return checkObject("buffer", b.name, b.d == d, b.freed.Load())
}

func cloneSharding(s *allocator.ShardSpec) *allocator.ShardSpec {
	c := *s
	c.Tensor, c.Shard, c.Cores = slices.Clone(s.Tensor), slices.Clone(s.Shard), slices.Clone(s.Cores)
	return &c
}

// Sub returns a part of the buffer: pages from byte off on, size bytes, both multiples of the page.
// The part shares the memory, which stays allocated until the buffer and all its parts are
// released. Pages of the part are numbered from 0.
func (b *Buffer) Sub(off, size int) (*Buffer, error) {
	if err := b.checkDevice(b.d); err != nil {
		return nil, fmt.Errorf("reprise: part of a buffer: %w", err)
	}
	page, have := b.PageSize(), b.Size()
	var err error
	switch {
	case off < 0 || size <= 0 || off%page != 0 || size%page != 0 || off > have || size > have-off:
		err = &dispatch.TransferError{Op: "part", Offset: off, Size: size, Have: have, Page: page}
	case b.pool != nil:
		err = fmt.Errorf("it is in pool %q: take the part from the pool", b.pool.name)
	default:
		err = b.d.mem.Hold(b.ext)
	}
	if err != nil {
		return nil, fmt.Errorf("reprise: part of buffer %q: %w", b.name, err)
	}
	return b.part(off/page, size/page), nil
}

func (b *Buffer) part(first, pages int) *Buffer {
	page, mem := b.PageSize(), b.mem
	mem.First, mem.Pages = mem.First+first, pages
	return &Buffer{
		d: b.d, name: fmt.Sprintf("%s[%d:%d]", b.name, first*page, (first+pages)*page), ext: b.ext, mem: mem, dist: b.dist, spec: b.spec,
		root: b.whole(),
	}
}

func (b *Buffer) whole() *Buffer {
	if b.root != nil {
		return b.root
	}
	return b
}

// FirstPage returns the number of the part's first page in the whole buffer; 0 if the buffer is no
// part. Kernels that address pages of an interleaved buffer add it to the page numbers of a part.
func (b *Buffer) FirstPage() int { return b.mem.First }

// Place is where a page lies.
type Place struct {
	Bank int
	Core chip.Core // the worker whose L1 it is, or (bank,0) for DRAM
	Addr uint32
}

// Page returns where page i lies; false if there is no such page.
func (b *Buffer) Page(i int) (Place, bool) {
	if i < 0 || i >= b.mem.Pages {
		return Place{}, false
	}
	bank, addr := b.mem.Page(i)
	return Place{bank, b.d.coreOf(b.ext.Kind, bank), addr}, true
}

// PageAt is the inverse of [Buffer.Page]: the page at an address of a bank, and the byte offset in
// the page. ok is false where no page of the buffer lies. PageAt ignores p.Core.
func (b *Buffer) PageAt(p Place) (page, off int, ok bool) {
	if b.dist == nil {
		at, o, found := b.ext.PageAt(p.Bank, uint64(p.Addr))
		page, off, ok = int(at), int(o), found
	} else if core := slices.Index(b.mem.Banks, p.Bank); core >= 0 && p.Addr >= b.mem.Whole.Addr {
		at, stride := p.Addr-b.mem.Whole.Addr, b.mem.Whole.PageSize
		off = int(at % stride)
		page, ok = b.dist.PageAt(core, int(at/stride))
		ok = ok && off < b.PageSize()
	}
	page -= b.mem.First
	return page, off, ok && page >= 0 && page < b.mem.Pages
}

// Cores returns the cores that hold shards, in the order in which shards are dealt; nil if the
// buffer is interleaved.
func (b *Buffer) Cores() []chip.Core {
	if b.dist == nil {
		return nil
	}
	return b.dist.Cores()
}

// coreOf returns the core of a bank. L1 banks are the workers, row by row.
func (d *Device) coreOf(k allocator.Kind, bank int) chip.Core {
	if k == allocator.DRAM {
		return chip.Core{X: bank}
	}
	w := d.Grid().End.X + 1
	return chip.Core{X: bank % w, Y: bank / w}
}

func (d *Device) banksOf(k allocator.Kind, dist *allocator.Distribution) ([]int, error) {
	var out []int
	for _, c := range dist.Cores() {
		switch {
		case k == allocator.DRAM && (c.Y != 0 || c.X >= d.DRAMBanks()):
			return nil, fmt.Errorf("core %v: shards in DRAM are on (bank,0), with banks up to %d", c, d.DRAMBanks()-1)
		case k == allocator.DRAM:
			out = append(out, c.X)
		case !d.Grid().Contains(c):
			return nil, fmt.Errorf("core %v is not one of the workers %v", c, d.Grid())
		default:
			out = append(out, c.Y*(d.Grid().End.X+1)+c.X)
		}
	}
	return out, nil
}

// Pool is device memory that buffers are taken from: scratch for programs, shared by traces that
// never overlap in time. Those are all traces of one queue.
//
// A trace that uses a buffer of a pool holds the whole pool until the trace is released. Released
// buffers can be taken again, by programs of the next trace, so a replay may change any buffer of
// the pool, also one that its trace doesn't use. Copy results to buffers outside of the pool, or
// read them before another trace is replayed.
//
// Buffers can be taken during a capture, and from any goroutine.
type Pool struct {
	d     *Device
	name  string
	kind  allocator.Kind
	ext   allocator.Extent
	mem   *allocator.Allocator // allocator inside of ext
	cores []chip.Range         // that shards may be on; nil for all
	freed atomic.Bool
}

// PoolConfig says what memory a pool takes.
type PoolConfig struct {
	Kind allocator.Kind // DRAM or L1
	// Size is in bytes over all banks. Each bank gives an equal share, rounded up to the alignment
	// of DRAM. Leave room: a buffer takes whole rows of pages over the banks.
	Size int
	Name string // for statistics and errors
}

// NewPool takes memory for a pool. The error is a *allocator.OutOfMemoryError if there is no room.
func (d *Device) NewPool(c PoolConfig) (*Pool, error) {
	if err := d.admit(context.Background(), nil, "new pool", opAllocate, c.Name); err != nil {
		return nil, err
	}
	p, err := d.newPool(c)
	if err != nil {
		return nil, fmt.Errorf("reprise: new pool %q: %w", c.Name, err)
	}
	return p, nil
}

func (d *Device) newPool(c PoolConfig) (*Pool, error) {
	inside := d.mem.Config()
	banks := inside.DRAMBanks
	switch {
	case c.Kind != allocator.DRAM && c.Kind != allocator.L1:
		return nil, fmt.Errorf("kind %v is not DRAM or L1", c.Kind)
	case c.Size <= 0:
		return nil, fmt.Errorf("%d B: the size must be positive", c.Size)
	case c.Kind == allocator.L1:
		banks = inside.L1Banks
		d.cbs.Lock()
		defer d.cbs.Unlock()
	}
	row := banks * int(inside.DRAMAlign)
	if c.Size > math.MaxInt-row {
		return nil, fmt.Errorf("%d B are more than can be counted", c.Size)
	}
	share := (c.Size + row - 1) / row * int(inside.DRAMAlign)
	p := &Pool{d: d, name: c.Name, kind: c.Kind}
	var err error
	p.ext, err = d.mem.Allocate(allocator.Request{Kind: c.Kind, Size: uint64(share * banks), PageSize: uint64(share), Owner: c.Name,
		Tag: "pool", Site: userPC()})
	if err != nil {
		return nil, err
	}
	inside.TraceRegion, inside.L1Small, inside.Gauge = 0, 0, nil
	if c.Kind == allocator.L1 {
		inside.L1Base, inside.L1End = p.ext.Addr, p.ext.End()
	} else {
		inside.DRAMBase, inside.DRAMEnd, inside.L1Banks = p.ext.Addr, p.ext.End(), 0
	}
	if p.mem, err = allocator.New(inside); err != nil {
		return nil, errors.Join(err, d.mem.Free(p.ext))
	}
	return p, nil
}

// NewBuffer takes a buffer of the pool's kind from the pool. Its content is undefined. The error is
// a *allocator.OutOfMemoryError if the pool has no room.
func (p *Pool) NewBuffer(c BufferConfig) (*Buffer, error) {
	if err := p.d.usable("new buffer"); err != nil {
		return nil, err
	}
	b, err := p.newBuffer(&c)
	if err != nil {
		return nil, fmt.Errorf("reprise: new buffer %q in pool %q: %w", c.Name, p.name, err)
	}
	return b, nil
}

func (p *Pool) newBuffer(c *BufferConfig) (*Buffer, error) {
	if p.freed.Load() {
		return nil, ErrReleased
	}
	c.Kind = p.kind
	if err := p.inside(c); err != nil {
		return nil, err
	}
	b, r, err := p.d.plan(c)
	if err != nil {
		return nil, err
	}
	r.Site = userPC()
	// As long as the buffer lives, the pool's memory does.
	if err := p.d.mem.Hold(p.ext); err != nil {
		return nil, err
	}
	ext, err := place(p.mem, c, r)
	if err != nil {
		return nil, errors.Join(err, p.d.mem.Unhold(p.ext))
	}
	b.pool = p
	b.setExtent(ext)
	return b, nil
}

// Memory returns how much of the pool is taken and free.
func (p *Pool) Memory() allocator.Stats { return p.mem.Stats(p.kind) }

// Name returns the pool's name.
func (p *Pool) Name() string { return p.name }

// Release releases the pool. Its memory can be allocated again once its buffers, and the traces and
// executables that use them, are released.
func (p *Pool) Release() error {
	err := ErrReleased
	if !p.freed.Swap(true) {
		err = p.d.mem.Free(p.ext)
	}
	if err != nil {
		return fmt.Errorf("reprise: release pool %q: %w", p.name, err)
	}
	return nil
}

// owned is the extent that users hold: that of the buffer's pool, if it has one.
func (b *Buffer) owned() allocator.Extent {
	if b.pool != nil {
		return b.pool.ext
	}
	return b.ext
}

func (b *Buffer) freeMemory() error {
	switch {
	case b.pool != nil:
		return errors.Join(b.pool.mem.Free(b.ext), b.d.mem.Unhold(b.pool.ext))
	case b.root != nil:
		return b.d.mem.Unhold(b.ext)
	}
	return b.d.mem.Free(b.ext)
}
