package allocator

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
)

// ErrHeld is returned by [Allocator.Restore] if an extent that it would have to free is held.
var ErrHeld = errors.New("extent is held")

// Clone returns an independent copy without a gauge. The live extents of a are valid in the copy,
// but not the reverse.
func (a *Allocator) Clone() *Allocator {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &Allocator{
		cfg: a.cfg, state: slices.Clone(a.state), blocks: slices.Clone(a.blocks), names: slices.Clone(a.names), free: slices.Clone(a.free),
		origin: a,
	}
	c.cfg.Gauge = nil
	for k, r := range a.region {
		if r != nil {
			n := *r
			n.holes = r.holes.clone()
			c.region[k] = &n
		}
	}
	if a.shared() {
		c.region[Trace].holes = c.region[DRAM].holes
	}
	for i, s := range c.state {
		if s.live() {
			c.blocks[i].flags |= blockInherited
		} else {
			c.state[i] ^= 1 << 30
		}
	}
	return c
}

func (a *Allocator) inherits(e *Extent) bool {
	return a.origin != nil && e.from == a.origin && int(e.slot) < len(a.blocks) && a.blocks[e.slot].flags&blockInherited != 0
}

// Fits returns where requests would be placed one after the other. The error is that of the first
// request that doesn't fit.
func (a *Allocator) Fits(rs ...Request) ([]Extent, error) {
	c := a.Clone()
	out := make([]Extent, 0, len(rs))
	for _, r := range rs {
		e, err := c.Allocate(r)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// Fingerprint returns a hash of everything that decides where extents of a kind are placed:
// geometry, policy and holes, but not owners. Allocators with equal fingerprints give the same
// requests the same addresses. It is 0 if the device lacks the kind.
func (a *Allocator) Fingerprint(k Kind) uint64 {
	if !a.has(k) {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.region[k]
	f := fnv.New64a()
	var b [8]byte
	put := func(vs ...uint64) {
		for _, v := range vs {
			f.Write(binary.LittleEndian.AppendUint64(b[:0], v))
		}
	}
	put(r.low, r.high, uint64(r.banks), r.align, a.cfg.DRAMAlign, uint64(a.cfg.Policy), uint64(bit(r.topDown)))
	r.holes.each(func(start, size uint32) bool {
		put(uint64(start)<<32 | uint64(size))
		return true
	})
	return f.Sum64()
}

// Change is a difference between two states of an allocator.
type Change struct {
	Live
	Added   bool // in the later state only; otherwise in the earlier one only, unless Changed
	Changed bool // in both, but with other holds, or freed by its owner; Live is the later one
}

func (c Change) String() string {
	switch {
	case c.Changed:
		return "~ " + c.Live.String()
	case c.Added:
		return "+ " + c.Live.String()
	}
	return "- " + c.Live.String()
}

type identity struct {
	kind                Kind
	addr, perBank, size uint64
	page                uint64
	banks               uint32
	owner, tag          string
	site                uintptr
}

func (l *Live) identity() identity {
	return identity{l.Kind, l.Addr, l.PerBank, l.Size, l.PageSize, l.Banks, l.Owner, l.Tag, l.Site}
}

// Diff returns the changes since an earlier [Allocator.Clone], by kind and address.
func (a *Allocator) Diff(earlier *Allocator) []Change {
	was := map[identity]Live{}
	for _, l := range earlier.all() {
		was[l.identity()] = l
	}
	var out []Change
	for _, l := range a.all() {
		old, ok := was[l.identity()]
		delete(was, l.identity())
		if !ok {
			out = append(out, Change{Live: l, Added: true})
		} else if old.Holds != l.Holds || old.Freed != l.Freed {
			out = append(out, Change{Live: l, Changed: true})
		}
	}
	for _, l := range was {
		out = append(out, Change{Live: l})
	}
	slices.SortFunc(out, func(x, y Change) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Addr, y.Addr), cmp.Compare(bit(x.Added), bit(y.Added)))
	})
	return out
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (a *Allocator) all() []Live {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.extentsLocked(func(*Live) bool { return true })
}

// Restore goes back to an earlier state, of this allocator or of one with the same configuration.
// Extents that are live only now are freed; those that were live only then are allocated again at
// their addresses ([Allocator.Extents]). High-water marks stay. If an extent that would be freed is
// held, or the configurations differ, nothing changes and the error wraps [ErrHeld] or [ErrConfig].
func (a *Allocator) Restore(earlier *Allocator) error {
	mine, theirs := a.cfg, earlier.cfg
	mine.Gauge, theirs.Gauge = nil, nil
	mine.Policy = theirs.Policy // which has no influence on addresses
	if mine != theirs {
		return fmt.Errorf("allocator: restore: %w: the state is of another memory", ErrConfig)
	}
	want := earlier.all()
	slices.SortStableFunc(want, func(x, y Live) int { return cmp.Compare(x.Kind, y.Kind) })
	missing := make(map[identity]*Live, len(want))
	for i := range want {
		missing[want[i].identity()] = &want[i]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var drop []uint32
	keep := make(map[uint32]*Live)
	for i, s := range a.state {
		if !s.live() {
			continue
		}
		l := a.liveLocked(uint32(i))
		if w := missing[l.identity()]; w != nil {
			keep[uint32(i)] = w
			delete(missing, l.identity())
		} else if s&stateHeld != 0 {
			return fmt.Errorf("allocator: restore: %w: %s", ErrHeld, l)
		} else {
			drop = append(drop, uint32(i))
		}
	}
	for _, i := range drop {
		l := a.liveLocked(i)
		a.releaseLocked(&l.Extent)
	}
	for i, w := range keep {
		if !w.Freed {
			a.blocks[i].flags &^= blockFreed
		}
	}
	for i := range want {
		l := &want[i]
		if missing[l.identity()] == nil || l.Freed { // if only a hold kept it, it isn't needed now
			continue
		}
		reg := a.region[l.Kind]
		if !reg.takeAt(l.Addr, uint32(l.PerBank>>reg.shift)) {
			return &OccupiedError{Kind: l.Kind, Addr: l.Addr, End: l.End(), Low: reg.low, High: reg.high, By: a.overlappingLocked(l.Extent)}
		}
		e := l.Extent
		e.from = a
		a.recordLocked(&e, &Request{Owner: l.Owner, Tag: l.Tag, Site: l.Site}, reg)
	}
	return nil
}
