package allocator

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"
)

// Allocator allocates extents of a device's memory. Its methods may be called from any goroutine.
type Allocator struct {
	cfg    Config
	mu     sync.Mutex
	region [numKinds]*region // nil for host memory; DRAM's and Trace's share holes if traces take what they need
	// By Extent.slot; names as far as any extent had one.
	state  []state
	blocks []block
	names  []name
	free   []uint32
	origin *Allocator
}

type region struct {
	holes     *holes // in units of the DRAM alignment, from low on
	low, high uint64
	shift     uint8 // log2 of a unit
	topDown   bool
	banks     int
	align     uint64

	allocated, peak uint64 // bytes of this kind in each bank
	extents         int
}

func (r *region) take(units uint32, p Policy, topDown bool) (addr uint64, ok bool) {
	start, ok := r.holes.take(p, units, topDown)
	return r.low + uint64(start)<<r.shift, ok
}

func (r *region) takeAt(addr uint64, units uint32) bool {
	if addr < r.low || addr >= r.high || uint64(units)<<r.shift > r.high-addr {
		return false
	}
	return r.holes.takeAt(uint32((addr-r.low)>>r.shift), units)
}

func (r *region) free() (sum, largest uint64) {
	return r.holes.units << r.shift, uint64(r.holes.largest()) << r.shift
}

// state counts how often a slot was taken or given up, odd while live, besides stateHeld. It isn't
// in block because with many extents a free costs mostly cache misses.
type state uint32

const stateHeld state = 1 << 31

func (s state) next() state { return (s + 1) &^ stateHeld }

func (s state) live() bool { return s&1 != 0 }

type block struct {
	addr, units uint32 // in units of its region, from its start
	size, page  uint64 // bytes over all banks, and of a page
	holds       uint16
	flags       uint16 // and the number of banks
}

const (
	blockBanks     = 1<<10 - 1
	blockInherited = 1 << 10 // copy of the block of another allocator
	blockNamed     = 1 << 11 // it has an entry in names
	blockFreed     = 1 << 12 // freed by its owner, kept by holds
	blockKind      = 13
)

func (b *block) kind() Kind { return Kind(b.flags >> blockKind) }

type name struct {
	owner, tag string
	site       uintptr
}

// Request says what to allocate.
type Request struct {
	Kind Kind
	Size uint64 // bytes over all banks, a multiple of PageSize
	// PageSize is the unit that is kept together in one bank; 0: the buffer is one page.
	PageSize uint64
	// Shards is the number of banks that pages of a sharded buffer are dealt to; 0: all banks,
	// interleaved. The extent takes its address in every bank anyway.
	Shards int
	// TopDown overrides the kind's direction.
	TopDown    *bool
	Owner, Tag string
	// Site is the program counter of the caller, from [runtime.Callers], or 0. [SiteOf] and
	// [Allocator.Map] resolve it.
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
		d := c.region(base, end, c.DRAMBanks, c.DRAMAlign, false)
		t := *d
		t.topDown = true
		a.region[DRAM], a.region[Trace] = d, &t
	} else {
		split := end - TracePerBank(c.TraceRegion, c.DRAMBanks, c.DRAMAlign)
		a.region[DRAM] = c.region(base, split, c.DRAMBanks, c.DRAMAlign, false)
		a.region[Trace] = c.region(split, end, c.DRAMBanks, c.DRAMAlign, true)
	}
	if c.L1Banks > 0 {
		base, end := up(c.L1Base, c.DRAMAlign), c.L1End&^(c.DRAMAlign-1)
		split := end - up(c.L1Small, c.DRAMAlign)
		a.region[L1] = c.region(base, split, c.L1Banks, c.L1Align, true)
		a.region[L1Small] = c.region(split, end, c.L1Banks, c.L1Align, true)
	}
	for k, r := range a.region {
		if r != nil && c.Gauge != nil {
			a.notifyLocked(Kind(k))
		}
	}
	return a, nil
}

func (c *Config) region(low, high uint64, banks int, align uint64, topDown bool) *region {
	shift := uint8(bits.TrailingZeros64(c.DRAMAlign))
	return &region{
		holes: newHoles(uint32((high - low) >> shift)), low: low, high: high, shift: shift,
		banks: banks, align: align, topDown: topDown,
	}
}

// Config returns the configuration that the allocator was made with.
func (a *Allocator) Config() Config { return a.cfg }

// Allocate allocates an extent: in the lowest hole that fits, or in the highest for a kind that
// grows downward, or by [Config.Policy]. Errors wrap [ErrRequest] or are an [*OutOfMemoryError].
func (a *Allocator) Allocate(r Request) (e Extent, err error) {
	reg, err := a.plan(&r, &e)
	if err != nil {
		return Extent{}, err
	}
	topDown := reg.topDown
	if r.TopDown != nil {
		topDown = *r.TopDown
	}
	units := e.PerBank >> reg.shift
	a.mu.Lock()
	addr, ok := uint64(0), false
	if units <= math.MaxUint32 {
		addr, ok = reg.take(uint32(units), a.cfg.Policy, topDown)
	}
	if !ok {
		err := a.outOfMemoryLocked(&e, &r, reg)
		a.mu.Unlock()
		return Extent{}, err
	}
	e.Addr = addr
	a.recordLocked(&e, &r, reg)
	a.mu.Unlock()
	return e, nil
}

// AllocateAt allocates an extent at an address, which must be a multiple of [Config.DRAMAlign].
// Errors wrap [ErrRequest] or are an [*OccupiedError].
func (a *Allocator) AllocateAt(r Request, addr uint64) (e Extent, err error) {
	reg, err := a.plan(&r, &e)
	if err != nil {
		return Extent{}, err
	}
	if addr&(a.cfg.DRAMAlign-1) != 0 || addr > math.MaxUint64-e.PerBank {
		return Extent{}, fmt.Errorf("allocator: allocate %s at %#x: %w: not a multiple of %d B, or out of range",
			r.Kind, addr, ErrRequest, a.cfg.DRAMAlign)
	}
	e.Addr = addr
	units := e.PerBank >> reg.shift
	a.mu.Lock()
	defer a.mu.Unlock()
	if units > math.MaxUint32 || !reg.takeAt(addr, uint32(units)) {
		return Extent{}, &OccupiedError{Kind: r.Kind, Addr: addr, End: e.End(), Low: reg.low, High: reg.high,
			By: a.extentsLocked(func(l *Live) bool { return l.Overlaps(e) })}
	}
	a.recordLocked(&e, &r, reg)
	return e, nil
}

func (a *Allocator) plan(r *Request, e *Extent) (*region, error) {
	if !a.has(r.Kind) {
		return nil, r.refuse("there is no such memory")
	}
	reg := a.region[r.Kind]
	page := r.PageSize
	if page == 0 {
		page = r.Size
	}
	switch {
	case r.Size == 0:
		return nil, r.refuse("the size is zero")
	case r.Size > math.MaxInt64 || page > math.MaxInt64:
		return nil, r.refuse("the size or page size %d is beyond 2^63-1", page)
	case page != r.Size && r.Size%page != 0:
		return nil, r.refuse("the size is not a multiple of the page size %d", page)
	case r.Shards < 0 || r.Shards > reg.banks:
		return nil, r.refuse("%d shards on %d banks", r.Shards, reg.banks)
	case r.Shards == 0 && r.Kind == L1Small:
		return nil, r.refuse("this region holds sharded buffers only: set the number of shards")
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
			return nil, r.refuse("pages of %d B do not fit an address space", page)
		}
		perBank = rows
	}
	e.PerBank, e.Size, e.PageSize, e.Stride = up(perBank, a.cfg.DRAMAlign), r.Size, page, stride
	e.Banks, e.Kind, e.from = uint32(banks), r.Kind, a
	return reg, nil
}

func (r *Request) refuse(format string, args ...any) error {
	return fmt.Errorf("allocator: allocate %d B of %s: %w: %s", r.Size, r.Kind, ErrRequest, fmt.Sprintf(format, args...))
}

func (a *Allocator) recordLocked(e *Extent, r *Request, reg *region) {
	if n := len(a.free); n > 0 {
		e.slot = a.free[n-1]
		a.free = a.free[:n-1]
	} else {
		e.slot = uint32(len(a.blocks))
		a.blocks, a.state = append(a.blocks, block{}), append(a.state, 0)
	}
	b := &a.blocks[e.slot]
	b.addr, b.units = uint32((e.Addr-reg.low)>>reg.shift), uint32(e.PerBank>>reg.shift)
	b.size, b.page, b.holds = e.Size, e.PageSize, 0
	b.flags = uint16(e.Banks) | uint16(e.Kind)<<blockKind
	a.state[e.slot] = a.state[e.slot].next()
	e.seal = a.state[e.slot] ^ e.mix()
	if r.Owner != "" || r.Tag != "" || r.Site != 0 {
		b.flags |= blockNamed
		for len(a.names) <= int(e.slot) {
			a.names = append(a.names, name{})
		}
		a.names[e.slot] = name{r.Owner, r.Tag, r.Site}
	}
	reg.extents++
	reg.allocated += e.PerBank
	reg.peak = max(reg.peak, reg.allocated)
	if a.cfg.Gauge != nil {
		a.notifyLocked(e.Kind)
	}
}

func (a *Allocator) lookupLocked(op string, e *Extent) (*block, error) {
	if e.from != a && !a.inherits(e) || int(e.slot) >= len(a.blocks) {
		return nil, fmt.Errorf("allocator: %s %s: %w", op, *e, ErrWrongAllocator)
	}
	b, s := &a.blocks[e.slot], a.state[e.slot]&^stateHeld
	if s == e.state() && (b.flags&blockFreed == 0 || op != opFree) {
		return b, nil
	}
	if l := a.liveLocked(e.slot); s.live() && l.seal == e.seal && b.flags&blockFreed == 0 {
		return nil, fmt.Errorf("allocator: %s %s: %w: it has been changed", op, *e, ErrWrongAllocator)
	}
	return nil, fmt.Errorf("allocator: %s %s: %w", op, *e, ErrDoubleFree)
}

const opFree, opHold, opUnhold = "free", "hold", "unhold"

// Free frees an extent. If it is held, the last [Allocator.Unhold] frees its memory. Errors wrap
// [ErrDoubleFree] or [ErrWrongAllocator].
func (a *Allocator) Free(e Extent) error {
	a.mu.Lock()
	if e.from == a && int(e.slot) < len(a.state) && a.state[e.slot] == e.state() {
		a.releaseLocked(&e)
		a.mu.Unlock()
		return nil
	}
	b, err := a.lookupLocked(opFree, &e)
	switch {
	case err != nil:
	case a.state[e.slot]&stateHeld != 0:
		b.flags |= blockFreed
	default:
		a.releaseLocked(&e)
	}
	a.mu.Unlock()
	return err
}

// Hold keeps an extent's memory, even if its owner frees it, until [Allocator.Unhold]. Holds are
// counted, up to 65535. Errors wrap [ErrDoubleFree], [ErrWrongAllocator] or [ErrRequest].
func (a *Allocator) Hold(e Extent) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.lookupLocked(opHold, &e)
	if err != nil {
		return err
	}
	if b.holds == math.MaxUint16 {
		return fmt.Errorf("allocator: hold %s: %w: it is held %d times", e, ErrRequest, b.holds)
	}
	b.holds++
	a.state[e.slot] |= stateHeld
	return nil
}

// Unhold ends one hold. Errors wrap [ErrNotHeld], [ErrDoubleFree] or [ErrWrongAllocator].
func (a *Allocator) Unhold(e Extent) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, err := a.lookupLocked(opUnhold, &e)
	if err != nil {
		return err
	}
	if b.holds == 0 {
		return fmt.Errorf("allocator: unhold %s: %w", e, ErrNotHeld)
	}
	if b.holds--; b.holds == 0 {
		a.state[e.slot] &^= stateHeld
		if b.flags&blockFreed != 0 {
			a.releaseLocked(&e)
		}
	}
	return nil
}

// releaseLocked frees the memory of a live extent that isn't held. It reads e and not the equal
// block, which is seldom in a cache.
func (a *Allocator) releaseLocked(e *Extent) {
	reg := a.region[e.Kind]
	reg.holes.give(uint32((e.Addr-reg.low)>>reg.shift), uint32(e.PerBank>>reg.shift))
	reg.extents--
	reg.allocated -= e.PerBank
	a.state[e.slot] = a.state[e.slot].next()
	a.free = append(a.free, e.slot)
	if a.cfg.Gauge != nil {
		a.notifyLocked(e.Kind)
	}
}

// NoCommonAddressError: no address is free in all of several allocators. It wraps [ErrOutOfMemory].
type NoCommonAddressError struct {
	Kind    Kind
	Need    uint64 // in each bank, of the largest request
	Largest uint64 // bytes in each bank of the largest range that is free in all
	Count   int
	Err     error
}

func (e *NoCommonAddressError) Error() string {
	return fmt.Sprintf("allocator: no address is free in all of %d memories: %d B of %v needed in each bank, the largest range that is free in all has %d B: %v",
		e.Count, e.Need, e.Kind, e.Largest, e.Err)
}

func (e *NoCommonAddressError) Unwrap() error { return e.Err }

const allocateAllTries = 64

// AllocateAll allocates rs[i] from as[i] for each i, all at one address. The requests are of one
// kind and may differ in size. If requests and fingerprints are equal, the address is the one that
// [Allocator.Allocate] of any would choose, and the fingerprints stay equal. Otherwise it is the
// lowest that is free in all, or the highest for a kind that grows downward. On an error, which
// wraps [ErrRequest] or [ErrOutOfMemory], nothing is allocated.
func AllocateAll(as []*Allocator, rs []Request) ([]Extent, error) {
	if len(as) == 0 || len(as) != len(rs) {
		return takeAll(as, rs, 0, -1, Extent{})
	}
	lead, need, topDown := 0, make([]uint64, len(as)), false
	for i, a := range as {
		var e Extent
		reg, err := a.plan(&rs[i], &e)
		if err == nil && rs[i].Kind != rs[0].Kind {
			err = rs[i].refuse("another request is of %v", rs[0].Kind)
		}
		if err != nil {
			return nil, err
		}
		if need[i] = e.PerBank; need[i] > need[lead] {
			lead = i
		}
		if i == 0 {
			topDown = reg.topDown
		}
	}
	if rs[0].TopDown != nil {
		topDown = *rs[0].TopDown
	}
	first, err := as[lead].Allocate(rs[lead])
	if err != nil {
		return nil, err
	}
	out, err := takeAll(as, rs, first.Addr, lead, first)
	for range allocateAllTries {
		if err == nil || !errors.Is(err, ErrOccupied) {
			return out, err
		}
		addr, largest, ok := common(as, rs[0].Kind, need, topDown)
		if !ok {
			return nil, &NoCommonAddressError{Kind: rs[0].Kind, Need: need[lead], Largest: largest, Count: len(as), Err: ErrOutOfMemory}
		}
		out, err = takeAll(as, rs, addr, -1, Extent{})
	}
	return out, err
}

// AllocateAllAt is AllocateAll at a given address, a multiple of [Config.DRAMAlign]. On an error
// nothing is allocated; it wraps [ErrRequest] or [ErrOccupied].
func AllocateAllAt(as []*Allocator, rs []Request, addr uint64) ([]Extent, error) {
	return takeAll(as, rs, addr, -1, Extent{})
}

// takeAll allocates at addr from all allocators, or frees everything; as[have] has e already if
// have isn't negative.
func takeAll(as []*Allocator, rs []Request, addr uint64, have int, e Extent) ([]Extent, error) {
	if len(as) == 0 || len(as) != len(rs) {
		return nil, fmt.Errorf("allocator: allocate on all: %w: %d requests for %d allocators", ErrRequest, len(rs), len(as))
	}
	out := make([]Extent, len(as))
	if have >= 0 {
		out[have] = e
	}
	for i, a := range as {
		if i == have {
			continue
		}
		var err error
		if out[i], err = a.AllocateAt(rs[i], addr); err != nil {
			for j, e := range out {
				if !e.IsZero() {
					err = errors.Join(err, as[j].Free(e))
				}
			}
			return nil, err
		}
	}
	return out, nil
}

// common returns the lowest or highest address that is free in all, and the size of the largest
// range that is.
func common(as []*Allocator, k Kind, need []uint64, topDown bool) (addr, largest uint64, ok bool) {
	free := as[0].Holes(k)
	starts := shorten(free, need[0])
	for i, a := range as[1:] {
		holes := a.Holes(k)
		free = intersect(free, holes)
		starts = intersect(starts, shorten(holes, need[i+1]))
	}
	for _, h := range free {
		largest = max(largest, h.Size)
	}
	if len(starts) == 0 {
		return 0, largest, false
	}
	if topDown {
		last := starts[len(starts)-1]
		return last.Addr + last.Size - 1, largest, true
	}
	return starts[0].Addr, largest, true
}

func shorten(holes []Hole, n uint64) []Hole {
	var out []Hole
	for _, h := range holes {
		if h.Size >= n {
			out = append(out, Hole{h.Addr, h.Size - n + 1})
		}
	}
	return out
}

func intersect(a, b []Hole) []Hole {
	var out []Hole
	for len(a) > 0 && len(b) > 0 {
		low, high := max(a[0].Addr, b[0].Addr), min(a[0].Addr+a[0].Size, b[0].Addr+b[0].Size)
		if low < high {
			out = append(out, Hole{low, high - low})
		}
		if a[0].Addr+a[0].Size < b[0].Addr+b[0].Size {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return slices.Clip(out)
}
