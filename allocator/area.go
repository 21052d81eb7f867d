package allocator

import (
	"fmt"
	"sync"
)

// Area is memory at the bottom of L1, from a base up to the highest end that any of its users
// needs. Programs, which run one after the other, share it for circular buffers.
type Area struct {
	sync.Mutex // while the area grows or shrinks, its place is free for a moment

	base uint64
	mem  *Allocator
	name string
	site func() uintptr
	ends map[uint64]int
	ext  Extent
}

// NewArea returns an area. name is its owner in maps and errors, site gives Request.Site.
func NewArea(a *Allocator, base uint64, name string, site func() uintptr) *Area {
	return &Area{base: base, mem: a, name: name, site: site, ends: map[uint64]int{}}
}

// Base is where the area begins.
func (a *Area) Base() uint64 { return a.base }

// Grow adds a user who needs the area up to end; an end at or below the base needs nothing.
func (a *Area) Grow(end uint64) error {
	if end <= a.base {
		return nil
	}
	a.Lock()
	defer a.Unlock()
	if a.ends[end]++; a.ends[end] > 1 && !a.ext.IsZero() {
		return nil
	}
	if err := a.fitLocked(); err != nil {
		a.removeLocked(end)
		if again := a.fitLocked(); again != nil {
			return again
		}
		return fmt.Errorf("%s need L1 up to %#x, where something else is: free it, or make them smaller: %w", a.name, end, err)
	}
	return nil
}

// Shrink removes a user and frees the memory that no other user needs.
func (a *Area) Shrink(end uint64) error {
	if end <= a.base {
		return nil
	}
	a.Lock()
	defer a.Unlock()
	a.removeLocked(end)
	if a.ends[end] > 0 && !a.ext.IsZero() {
		return nil
	}
	return a.fitLocked()
}

// Move changes a user's end from one address to a larger one. Nothing is allocated in between.
func (a *Area) Move(from, to uint64) error {
	if err := a.Grow(to); err != nil {
		return err
	}
	return a.Shrink(from)
}

func (a *Area) removeLocked(end uint64) {
	if a.ends[end]--; a.ends[end] <= 0 {
		delete(a.ends, end)
	}
}

func (a *Area) fitLocked() error {
	top := a.base
	for end := range a.ends {
		top = max(top, end)
	}
	if !a.ext.IsZero() {
		if a.ext.End() == top {
			return nil
		}
		if err := a.mem.Free(a.ext); err != nil {
			return err
		}
		a.ext = Extent{}
	}
	if top == a.base {
		return nil
	}
	perBank := top - a.base
	var err error
	a.ext, err = a.mem.AllocateAt(Request{Kind: L1, Size: perBank * uint64(a.mem.Config().L1Banks), PageSize: perBank, Owner: a.name,
		Tag: "shared by all programs", Site: a.site()}, a.base)
	return err
}
