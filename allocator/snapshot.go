package allocator

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
)

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

// identity is l without what differs between allocators, and with time.
func (l Live) identity() Live {
	l.from, l.slot, l.seal, l.Holds, l.Freed = nil, 0, 0, 0, false
	return l
}

// Diff returns the changes since an earlier [Allocator.Clone], by kind and address.
func (a *Allocator) Diff(earlier *Allocator) []Change {
	was := map[Live]Live{}
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
