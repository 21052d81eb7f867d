package reprise

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
)

// CircularPlace is where a circular buffer of a loaded program lies.
type CircularPlace struct {
	Index int
	Cores []chip.Range
	Addr  uint32 // in the L1 of each of its cores
	Size  uint32 // bytes on each of its cores
	Given bool   // CircularBuffer.Addr said where it lies, so the runtime allocated nothing for it
}

// CircularBuffers returns where the program's circular buffers lie, in the order in which the program names them.
func (x *Executable) CircularBuffers() []CircularPlace {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make([]CircularPlace, len(x.cbs))
	for i, c := range x.cbs {
		out[i] = CircularPlace{Index: c.Index, Cores: slices.Clone(c.Cores), Addr: c.Addr, Size: c.PageSize * c.Pages, Given: c.Given}
	}
	return out
}

// SetCircularAddr moves a circular buffer that the program was loaded with an address for to another address, for later
// runs and captures. What is in a queue or a trace already keeps its address. Each core with the buffer needs a kernel with
// common arguments. It writes nothing to the device.
func (x *Executable) SetCircularAddr(index int, addr uint32) error {
	if x == nil {
		return fmt.Errorf("reprise: set circular buffer: %w", x.checkDeviceLocked(nil))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.checkDeviceLocked(x.d)
	at := x.given[index]
	if err == nil && at == nil {
		err = &dispatch.ProgramError{Program: x.Name(), Part: fmt.Sprintf("circular buffer %d", index),
			Why: "its place can't be changed: it must be loaded with an address, and each of its cores needs a kernel with common arguments"}
	}
	if err == nil {
		i := slices.IndexFunc(x.cbs, func(c dispatch.CircularBuffer) bool { return c.Index == index && c.Given })
		c := &x.cbs[i]
		if err = x.checkInL1(x.Name(), index, addr, uint64(c.PageSize)*uint64(c.Pages)); err == nil {
			c.Addr = addr
			x.image.SetWords(at, addr)
		}
	}
	if err != nil {
		return fmt.Errorf("reprise: set circular buffer of executable %q: %w", x.Name(), err)
	}
	return nil
}

// placedCircular describes a circular buffer that the caller placed.
func (x *Executable) placedCircular(program string, c *CircularBuffer) (dispatch.CircularBuffer, error) {
	out := dispatch.CircularBuffer{Index: c.Index, Cores: c.Cores, Addr: c.Addr, Given: true}
	if c.PageSize > math.MaxUint32/c.Pages {
		return out, &dispatch.ProgramError{Program: program, Part: fmt.Sprintf("circular buffer %d", c.Index),
			Why: fmt.Sprintf("%d pages of %d B are more than any core has", c.Pages, c.PageSize)}
	}
	out.PageSize, out.Pages = uint32(c.PageSize), uint32(c.Pages)
	return out, x.checkInL1(program, c.Index, c.Addr, uint64(c.PageSize)*uint64(c.Pages))
}

// checkInL1 checks that a circular buffer can lie at an address.
func (x *Executable) checkInL1(program string, index int, addr uint32, size uint64) error {
	l1 := &x.d.disp.WorkerLayout().L1
	if addr%16 == 0 && addr >= l1.Unreserved && uint64(addr)+size <= uint64(l1.Size) {
		return nil
	}
	return &dispatch.ProgramError{Program: program, Part: fmt.Sprintf("circular buffer %d", index),
		Why: fmt.Sprintf("%d B at %#x don't lie 16-aligned in the L1 that is for buffers, %#x..%#x", size, addr, l1.Unreserved, l1.Size)}
}

// findGiven finds where the commands have the addresses that the caller may change.
func (x *Executable) findGiven(p *dispatch.Program) error {
	for _, c := range x.cbs {
		if !c.Given {
			continue
		}
		at, err := x.image.CircularAddr(nil, p, c.Index)
		var fixed *dispatch.ProgramError
		if errors.As(err, &fixed) {
			continue // SetCircularAddr says why it can't
		}
		if err != nil {
			return err
		}
		if x.given == nil {
			x.given = map[int][]int{}
		}
		x.given[c.Index] = at
	}
	return nil
}

// cbArea is the part of every worker's L1 that circular buffers use: from the bottom up to the highest end that any
// loaded program or live trace needs. Programs share it, since they run one after the other; buffers aren't put there.
type cbArea struct {
	mem  *allocator.Allocator
	base uint64

	mu   sync.Mutex
	ends map[uint64]int // number of users that end at each address
	ext  allocator.Extent
}

// grow adds a user whose circular buffers end at end.
func (a *cbArea) grow(end uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ends == nil {
		a.ends = map[uint64]int{}
	}
	if a.ends[end]++; a.ends[end] > 1 && !a.ext.IsZero() {
		return nil // others end there as well
	}
	if err := a.fitLocked(); err != nil {
		a.removeLocked(end)
		if again := a.fitLocked(); again != nil {
			return again
		}
		return fmt.Errorf("circular buffers need L1 up to %#x, where something else is: free it, or make them smaller: %w", end, err)
	}
	return nil
}

// shrink removes a user, and returns memory that no other needs.
func (a *cbArea) shrink(end uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removeLocked(end)
	if a.ends[end] > 0 && !a.ext.IsZero() {
		return nil
	}
	return a.fitLocked()
}

// removeLocked removes a user.
func (a *cbArea) removeLocked(end uint64) {
	if a.ends[end]--; a.ends[end] <= 0 {
		delete(a.ends, end)
	}
}

// fitLocked makes the reserved extent reach up to the highest end.
func (a *cbArea) fitLocked() error {
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
		a.ext = allocator.Extent{}
	}
	if top == a.base {
		return nil
	}
	perBank := top - a.base
	banks := uint64(a.mem.Config().L1Banks)
	var err error
	a.ext, err = a.mem.AllocateAt(allocator.Request{Kind: allocator.L1, Size: perBank * banks, PageSize: perBank, Owner: "circular buffers",
		Tag: "shared by all programs", Site: userPC()}, a.base)
	return err
}
