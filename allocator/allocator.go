package allocator

import (
	"fmt"
	"math"
	"math/bits"
	"sync"
)

// Allocator hands out extents of a device's memory. Its methods may be called from any goroutine.
type Allocator struct {
	cfg    Config
	mu     sync.Mutex
	region [numKinds]*region // nil for host memory; DRAM's and Trace's share their space if traces take what they need
	blocks []block           // by Extent.slot
	names  []name            // by Extent.slot, as far as any extent had a name
	free   []uint32          // recycled slots
}

// region is the part of every bank that one kind lives in.
type region struct {
	holes     *holes
	low, high uint64
	banks     int
	align     uint64 // of pages
	topDown   bool   // default direction

	allocated uint64 // bytes of this kind
	peak      uint64
	extents   int
}

// block is the record of a live extent. It is small because with many extents the time to free one is mostly the time
// to fetch its record from memory; names are apart for the same reason.
type block struct {
	addr, perBank  uint64
	size, pageSize uint64
	gen            uint32 // odd while live
	banks          uint32
	holds          uint16
	kind           Kind
	freed          bool // freed by its owner, kept by holds
	named          bool // has an entry in names
}

// name says whose an extent is and what it is.
type name struct {
	owner, tag string
	site       uintptr
}

// Request says what to allocate.
type Request struct {
	Kind Kind
	Size uint64 // bytes over all banks, a multiple of PageSize
	// PageSize is the unit that is kept together in one bank; 0 means that the buffer is one page.
	PageSize uint64
	// Shards is the number of banks that pages are dealt to, for sharded buffers; 0 means all banks, interleaved.
	// The extent still takes its address in every bank.
	Shards int
	// TopDown, if set, overrides the kind's direction.
	TopDown *bool
	// Owner and Tag say whose it is and what it is, for statistics and errors.
	Owner, Tag string
	// Site is the program counter of the call that asked, as [runtime.Callers] gives it, or 0. It is resolved to a file
	// and line only when somebody looks.
	Site uintptr
}

// New returns an allocator with everything free. The error wraps [ErrConfig].
func New(c Config) (*Allocator, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	a := &Allocator{cfg: c}
	base := up(c.DRAMBase, c.DRAMAlign)
	end := c.DRAMEnd &^ (c.DRAMAlign - 1)
	if c.TraceRegion == 0 {
		d := newRegion(base, end, c.DRAMBanks, c.DRAMAlign, false)
		t := *d
		t.topDown = true
		a.region[DRAM], a.region[Trace] = d, &t
	} else {
		split := end - TracePerBank(c.TraceRegion, c.DRAMBanks, c.DRAMAlign)
		a.region[DRAM] = newRegion(base, split, c.DRAMBanks, c.DRAMAlign, false)
		a.region[Trace] = newRegion(split, end, c.DRAMBanks, c.DRAMAlign, true)
	}
	if c.L1Banks > 0 {
		base, end := up(c.L1Base, c.DRAMAlign), c.L1End&^(c.DRAMAlign-1)
		split := end - up(c.L1Small, c.DRAMAlign)
		a.region[L1] = newRegion(base, split, c.L1Banks, c.L1Align, true)
		a.region[L1Small] = newRegion(split, end, c.L1Banks, c.L1Align, true)
	}
	for k, r := range a.region {
		if r != nil {
			a.notify(Kind(k))
		}
	}
	return a, nil
}

func newRegion(low, high uint64, banks int, align uint64, topDown bool) *region {
	if high < low {
		high = low
	}
	return &region{holes: newHoles(low, high-low), low: low, high: high, banks: banks, align: align, topDown: topDown}
}

// Config returns the configuration that the allocator was made with.
func (a *Allocator) Config() Config { return a.cfg }

// Allocate finds room. Errors wrap [ErrRequest] or are an [*OutOfMemoryError].
func (a *Allocator) Allocate(r Request) (Extent, error) {
	e, reg, err := a.plan(&r)
	if err != nil {
		return Extent{}, err
	}
	topDown := reg.topDown
	if r.TopDown != nil {
		topDown = *r.TopDown
	}
	a.mu.Lock()
	addr, ok := reg.holes.take(e.PerBank, topDown)
	if !ok {
		err := a.outOfMemory(&e, &r, reg)
		a.mu.Unlock()
		return Extent{}, err
	}
	e.Addr = addr
	a.record(&e, &r, reg)
	a.mu.Unlock()
	return e, nil
}

// AllocateAt takes room at an address, which must be a multiple of [Config.DRAMAlign]. Errors wrap [ErrRequest] or
// are an [*OccupiedError].
func (a *Allocator) AllocateAt(r Request, addr uint64) (Extent, error) {
	e, reg, err := a.plan(&r)
	if err != nil {
		return Extent{}, err
	}
	if addr&(a.cfg.DRAMAlign-1) != 0 || addr > math.MaxUint64-e.PerBank {
		return Extent{}, fmt.Errorf("allocator: allocate %s at %#x: %w: not a multiple of %d B, or out of range",
			r.Kind, addr, ErrRequest, a.cfg.DRAMAlign)
	}
	e.Addr = addr
	a.mu.Lock()
	defer a.mu.Unlock()
	if !reg.holes.takeAt(addr, e.PerBank) {
		return Extent{}, &OccupiedError{
			Kind: r.Kind, Addr: addr, End: e.End(), Low: reg.low, High: reg.high, By: a.overlapping(e),
		}
	}
	a.record(&e, &r, reg)
	return e, nil
}

// plan checks a request and works out how much each bank must hold.
func (a *Allocator) plan(r *Request) (Extent, *region, error) {
	bad := func(format string, args ...any) (Extent, *region, error) {
		return Extent{}, nil, fmt.Errorf("allocator: allocate %d B of %s: %w: %s", r.Size, r.Kind, ErrRequest,
			fmt.Sprintf(format, args...))
	}
	if !r.Kind.valid() || a.region[r.Kind] == nil {
		return bad("there is no such memory")
	}
	reg := a.region[r.Kind]
	page := r.PageSize
	if page == 0 {
		page = r.Size
	}
	switch {
	case r.Size == 0:
		return bad("the size is zero")
	case r.Size > math.MaxInt64 || page > math.MaxInt64:
		return bad("the size or page size %d is beyond 2^63-1", page)
	case page != r.Size && r.Size%page != 0:
		return bad("the size is not a multiple of the page size %d", page)
	case r.Shards < 0 || r.Shards > reg.banks:
		return bad("%d shards on %d banks", r.Shards, reg.banks)
	case r.Shards == 0 && r.Kind == L1Small:
		return bad("this region holds sharded buffers only: set the number of shards")
	}
	banks := reg.banks
	if r.Shards != 0 {
		banks = r.Shards
	}
	stride := up(page, reg.align)
	perBank := stride
	if page != r.Size {
		n := uint64(banks)
		over, rows := bits.Mul64((r.Size/page+n-1)/n, stride)
		if over != 0 || rows > math.MaxInt64 {
			return bad("pages of %d B do not fit an address space", page)
		}
		perBank = rows
	}
	return Extent{
		Kind: r.Kind, PerBank: up(perBank, a.cfg.DRAMAlign), Size: r.Size,
		PageSize: page, Stride: stride, Banks: uint32(banks), from: a,
	}, reg, nil
}

// record notes a new extent and gives it its slot.
func (a *Allocator) record(e *Extent, r *Request, reg *region) {
	if n := len(a.free); n > 0 {
		e.slot = a.free[n-1]
		a.free = a.free[:n-1]
	} else {
		e.slot = uint32(len(a.blocks))
		a.blocks = append(a.blocks, block{})
	}
	b := &a.blocks[e.slot]
	b.addr, b.perBank, b.size, b.pageSize = e.Addr, e.PerBank, e.Size, e.PageSize
	b.banks, b.kind = e.Banks, e.Kind
	b.gen++
	e.gen = b.gen
	if b.named = r.Owner != "" || r.Tag != "" || r.Site != 0; b.named {
		for len(a.names) <= int(e.slot) {
			a.names = append(a.names, name{})
		}
		a.names[e.slot] = name{r.Owner, r.Tag, r.Site}
	}
	reg.extents++
	reg.allocated += e.PerBank
	reg.peak = max(reg.peak, reg.allocated)
	a.notify(e.Kind)
}

// lookup returns the live block of an extent.
func (a *Allocator) lookup(op string, e *Extent) (*block, error) {
	if e.from != a || int(e.slot) >= len(a.blocks) {
		return nil, fmt.Errorf("allocator: %s %s: %w", op, *e, ErrForeign)
	}
	b := &a.blocks[e.slot]
	if b.gen == e.gen && (b.addr != e.Addr || b.perBank != e.PerBank || b.kind != e.Kind) {
		return nil, fmt.Errorf("allocator: %s %s: %w: it has been changed", op, *e, ErrForeign)
	}
	if b.gen != e.gen || b.freed && op == "free" {
		return nil, fmt.Errorf("allocator: %s %s: %w", op, *e, ErrDoubleFree)
	}
	return b, nil
}

// Free gives an extent up. Its memory becomes free at once or, if it is held, with the last [Allocator.Unhold].
// Errors wrap [ErrDoubleFree] or [ErrForeign].
func (a *Allocator) Free(e Extent) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.lookup("free", &e)
	if err != nil {
		return err
	}
	if b.holds != 0 {
		b.freed = true
		return nil
	}
	a.release(b, &e)
	return nil
}

// Hold keeps an extent's memory from being handed out again until [Allocator.Unhold], even if its owner frees it.
// That is how a trace keeps what its commands write to. Holds are counted. Errors wrap [ErrDoubleFree] or
// [ErrForeign].
func (a *Allocator) Hold(e Extent) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.lookup("hold", &e)
	if err != nil {
		return err
	}
	if b.holds == math.MaxUint16 {
		return fmt.Errorf("allocator: hold %s: %w: it is held %d times", e, ErrRequest, b.holds)
	}
	b.holds++
	return nil
}

// Unhold ends one hold. Errors wrap [ErrNotHeld], [ErrDoubleFree] or [ErrForeign].
func (a *Allocator) Unhold(e Extent) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.lookup("unhold", &e)
	if err != nil {
		return err
	}
	if b.holds == 0 {
		return fmt.Errorf("allocator: unhold %s: %w", e, ErrNotHeld)
	}
	b.holds--
	if b.holds == 0 && b.freed {
		a.release(b, &e)
	}
	return nil
}

// release returns the memory of a live block. It reads e, which lookup has found equal to the block, because the
// caller has it at hand while the block may still be on its way from memory: so the two waits overlap.
func (a *Allocator) release(b *block, e *Extent) {
	reg := a.region[e.Kind]
	reg.holes.give(e.Addr, e.PerBank)
	reg.extents--
	reg.allocated -= e.PerBank
	b.gen++
	b.freed = false
	a.free = append(a.free, e.slot)
	a.notify(e.Kind)
}
