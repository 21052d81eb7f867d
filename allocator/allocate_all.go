package allocator

import (
	"errors"
	"fmt"
	"slices"
)

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
