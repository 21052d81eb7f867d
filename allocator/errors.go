package allocator

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
)

var (
	// ErrOutOfMemory: no hole is large enough. An [*OutOfMemoryError] wraps it.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrConfig: the configuration leaves a region empty, overlapping or misaligned.
	ErrConfig = errors.New("impossible configuration")
	// ErrRequest: the request is wrong whatever is free: an unknown kind, a size of zero or no
	// multiple of the page size, or more shards than banks.
	ErrRequest = errors.New("impossible request")
	// ErrOccupied: the range for [Allocator.AllocateAt] isn't free. An [*OccupiedError] wraps it.
	ErrOccupied = errors.New("range is not free")
	// ErrDoubleFree.
	ErrDoubleFree = errors.New("extent has been freed already")
	// ErrWrongAllocator: this allocator didn't return the extent, or its fields were changed.
	ErrWrongAllocator = errors.New("extent belongs to another allocator or to none")
	// ErrNotHeld.
	ErrNotHeld = errors.New("extent is not held")
)

// OwnerUsage is the memory of one owner in each bank.
type OwnerUsage struct {
	Owner   string
	Kind    Kind
	Extents int
	PerBank uint64
}

// OutOfMemoryError says what was asked for, what is free, and who owns the rest, in bytes of each
// bank unless a field says otherwise. It wraps [ErrOutOfMemory].
type OutOfMemoryError struct {
	Kind   Kind
	Owner  string
	Tag    string
	Size   uint64
	Banks  int
	Need   uint64
	Have   uint64
	Hole   uint64
	Total  uint64
	Owners []OwnerUsage // the five with most in the region
	// TraceRegion is the [Config.TraceRegion] that would have been enough for a trace; 0 if it
	// isn't fixed.
	TraceRegion uint64
}

func (e *OutOfMemoryError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "allocator: allocate %s of %s", bytesOf(e.Size), e.Kind)
	if e.Owner != "" || e.Tag != "" {
		fmt.Fprintf(&b, " for %q", strings.TrimSpace(e.Owner+" "+e.Tag))
	}
	fmt.Fprintf(&b, ": %v: each of %d banks must hold %s, have %s free of %s with a largest hole of %s",
		ErrOutOfMemory, e.Banks, bytesOf(e.Need), bytesOf(e.Have), bytesOf(e.Total), bytesOf(e.Hole))
	switch {
	case e.TraceRegion != 0:
		fmt.Fprintf(&b, "; a trace region of %s, or one that grows, would do", bytesOf(e.TraceRegion))
	case e.Need > e.Total:
		b.WriteString("; it would not fit an empty device")
	case e.Have >= e.Need:
		b.WriteString("; there is enough, but in pieces: free or reorder allocations")
	default:
		b.WriteString("; free something first")
	}
	for i, u := range e.Owners {
		if i == 0 {
			b.WriteString("; most is held by ")
		} else {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s %s", cmp.Or(u.Owner, "(no owner)"), u.Kind, bytesOf(u.PerBank))
	}
	return b.String()
}

func (e *OutOfMemoryError) Unwrap() error { return ErrOutOfMemory }

// OccupiedError says why a range can't be allocated at its address. It wraps [ErrOccupied].
type OccupiedError struct {
	Kind      Kind
	Addr, End uint64 // the range asked for, in each bank
	Low, High uint64
	By        []Live // live extents in the way, by address; none if the range leaves the region
}

func (e *OccupiedError) Error() string {
	s := fmt.Sprintf("allocator: allocate %s at [%#x,%#x): %v", e.Kind, e.Addr, e.End, ErrOccupied)
	if e.Addr < e.Low || e.End > e.High {
		return s + fmt.Sprintf(": it reaches beyond the region [%#x,%#x)", e.Low, e.High)
	}
	if len(e.By) > 0 {
		s += fmt.Sprintf(": %d live extents are in the way, first %s", len(e.By), e.By[0])
	}
	return s
}

func (e *OccupiedError) Unwrap() error { return ErrOccupied }

func bytesOf(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%d B (%s)", n, humanize.IBytes(n))
}
