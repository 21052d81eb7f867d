package allocator

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"
)

// Stats describes the region of one kind, in bytes of each bank.
type Stats struct {
	Kind  Kind `json:"kind"`
	Banks int  `json:"banks"`
	// Low and High bound the region. Without a trace region of fixed size, Trace's Low is the
	// lowest trace's address.
	Low         uint64 `json:"low"`
	High        uint64 `json:"high"`
	Total       uint64 `json:"total"` // what the kind could have if nothing were allocated
	Allocated   uint64 `json:"allocated"`
	Free        uint64 `json:"free"`
	LargestHole uint64 `json:"largest_hole"` // the most that one extent can get
	Peak        uint64 `json:"peak"`         // most that was ever allocated at once
	Extents     int    `json:"extents"`
	Holes       int    `json:"holes"`
}

// Fragmentation returns the share of free memory outside of the largest hole: 0 for one piece,
// towards 1 for many small ones.
func (s Stats) Fragmentation() float64 {
	if s.Free == 0 {
		return 0
	}
	return 1 - float64(s.LargestHole)/float64(s.Free)
}

func (s Stats) String() string {
	return fmt.Sprintf("%s: %d banks of [%#x,%#x): %s of %s allocated in %d extents (peak %s), %s free in %d holes, largest %s, fragmentation %.0f%%",
		s.Kind, s.Banks, s.Low, s.High, humanize.IBytes(s.Allocated), humanize.IBytes(s.Total), s.Extents, humanize.IBytes(s.Peak),
		humanize.IBytes(s.Free), s.Holes, humanize.IBytes(s.LargestHole), 100*s.Fragmentation())
}

// Stats returns the numbers of one kind; the zero Stats if the device lacks it. Where traces have
// no region of their own, DRAM and Trace share Free, LargestHole and Holes.
func (a *Allocator) Stats(k Kind) Stats {
	if !a.has(k) {
		return Stats{Kind: k}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.region[k]
	free, largest := r.free()
	s := Stats{
		Kind: k, Banks: r.banks, Low: r.low, High: r.high,
		Total: r.high - r.low, Allocated: r.allocated, Free: free, LargestHole: largest,
		Peak: r.peak, Extents: r.extents, Holes: r.holes.count,
	}
	if k == Trace && a.shared() {
		s.Low = s.High
		for i, st := range a.state {
			if b := &a.blocks[i]; st.live() && b.kind() == Trace {
				s.Low = min(s.Low, r.low+uint64(b.addr)<<r.shift)
			}
		}
	}
	return s
}

func (a *Allocator) has(k Kind) bool { return k.Valid() && a.region[k] != nil }

func (a *Allocator) shared() bool { return a.region[Trace].holes == a.region[DRAM].holes }

// Extents returns the live extents of a kind by address, including those that only holds keep.
func (a *Allocator) Extents(k Kind) []Live {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.extentsLocked(func(l *Live) bool { return l.Kind == k })
}

func (a *Allocator) extentsLocked(want func(*Live) bool) []Live {
	var out []Live
	for i, s := range a.state {
		if !s.live() {
			continue
		}
		if l := a.liveLocked(uint32(i)); want(&l) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(x, y Live) int { return cmp.Compare(x.Addr, y.Addr) })
	return out
}

func (a *Allocator) liveLocked(slot uint32) Live {
	b, n := &a.blocks[slot], a.nameOfLocked(slot)
	r := a.region[b.kind()]
	l := Live{
		Extent: Extent{
			Kind: b.kind(), Addr: r.low + uint64(b.addr)<<r.shift, PerBank: uint64(b.units) << r.shift, Size: b.size, PageSize: b.page,
			Stride: up(b.page, r.align), Banks: uint32(b.flags & blockBanks), from: a, slot: slot,
		},
		Owner: n.owner, Tag: n.tag, Site: n.site, Holds: int(b.holds), Freed: b.flags&blockFreed != 0,
	}
	l.seal = a.state[slot]&^stateHeld ^ l.mix()
	return l
}

func (a *Allocator) nameOfLocked(slot uint32) name {
	if a.blocks[slot].flags&blockNamed != 0 {
		return a.names[slot]
	}
	return name{}
}

// Hole is a free range of every bank.
type Hole struct{ Addr, Size uint64 }

// Holes returns the free ranges for a kind by address.
func (a *Allocator) Holes(k Kind) []Hole {
	if !a.has(k) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Hole
	r := a.region[k]
	r.holes.each(func(start, size uint32) bool {
		out = append(out, Hole{r.low + uint64(start)<<r.shift, uint64(size) << r.shift})
		return true
	})
	return out
}

// usageLocked returns the memory of each owner and kind in a region, most bytes in a bank first.
func (a *Allocator) usageLocked(reg *region) []OwnerUsage {
	type key struct {
		owner string
		kind  Kind
	}
	sum := make(map[key]*OwnerUsage)
	for i, s := range a.state {
		b := &a.blocks[i]
		if !s.live() || a.region[b.kind()].holes != reg.holes {
			continue
		}
		k := key{a.nameOfLocked(uint32(i)).owner, b.kind()}
		u := sum[k]
		if u == nil {
			u = &OwnerUsage{Owner: k.owner, Kind: k.kind}
			sum[k] = u
		}
		u.Extents++
		u.PerBank += uint64(b.units) << a.region[k.kind].shift
	}
	out := make([]OwnerUsage, 0, len(sum))
	for _, u := range sum {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(x, y OwnerUsage) int {
		return cmp.Or(-cmp.Compare(x.PerBank, y.PerBank), cmp.Compare(x.Owner, y.Owner), cmp.Compare(x.Kind, y.Kind))
	})
	return out
}

func (a *Allocator) outOfMemoryLocked(e *Extent, r *Request, reg *region) error {
	owners := a.usageLocked(reg)
	free, largest := reg.free()
	err := &OutOfMemoryError{
		Kind: e.Kind, Owner: r.Owner, Tag: r.Tag, Size: e.Size, Banks: reg.banks,
		Need: e.PerBank, Have: free, Hole: largest, Total: reg.high - reg.low,
		Owners: owners[:min(len(owners), 5)],
	}
	if e.Kind == Trace && !a.shared() {
		more := reg.allocated + e.PerBank
		if free >= e.PerBank { // in pieces: only room beyond the present region is sure to do
			more = reg.high - reg.low + e.PerBank
		}
		err.TraceRegion = uint64(reg.banks) * up(more, tracePage)
	}
	return err
}

// Usage is the use of one kind's memory, in bytes over all banks.
type Usage struct {
	// Capacity is what the kind could have if nothing else were allocated; DRAM and Trace may share
	// it.
	Capacity  uint64 `json:"capacity"`
	Allocated uint64 `json:"allocated"`
	Peak      uint64 `json:"peak"`    // most that was ever allocated at once
	Extents   uint64 `json:"extents"` // live buffers, or traces
}

// Gauge is told of every change of a kind's memory, and of each kind once by New. Set must be quick
// and not call the allocator, whose lock is held.
type Gauge interface {
	Set(k Kind, u Usage)
}

func (a *Allocator) notifyLocked(k Kind) {
	r := a.region[k]
	n := uint64(r.banks)
	a.cfg.Gauge.Set(k, Usage{Capacity: (r.high - r.low) * n, Allocated: r.allocated * n, Peak: r.peak * n, Extents: uint64(r.extents)})
}
