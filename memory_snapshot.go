package reprise

import (
	"fmt"

	"github.com/reprise-tt/reprise/allocator"
)

// MemorySnapshot is what was allocated at a moment. It says what would fit, also without some of the buffers.
type MemorySnapshot struct {
	d   *Device
	mem *allocator.Allocator
}

// MemorySnapshot copies the state of the device's memory, not its content.
func (d *Device) MemorySnapshot() *MemorySnapshot {
	// While circular buffers grow or shrink, their place is free for a moment.
	d.cbs.mu.Lock()
	defer d.cbs.mu.Unlock()
	return &MemorySnapshot{d: d, mem: d.mem.Clone()}
}

// Map returns what lay where when the snapshot was taken.
func (s *MemorySnapshot) Map() *MemoryMap { return s.mem.Map() }

// Changes lists what was allocated and freed since, by kind and address.
func (s *MemorySnapshot) Changes() []MemoryChange { return s.d.mem.Diff(s.mem) }

// Without takes a buffer out of the snapshot, as if it were freed.
func (s *MemorySnapshot) Without(b *Buffer) error {
	if b == nil || b.d != s.d {
		return fmt.Errorf("reprise: memory snapshot: %w", b.checkDevice(s.d))
	}
	free := s.mem.Free
	if b.root != nil {
		free = s.mem.Unhold
	}
	if err := free(b.ext); err != nil {
		return fmt.Errorf("reprise: memory snapshot: buffer %q: %w", b.name, err)
	}
	return nil
}

// Take allocates in the snapshot as NewBuffer would on the device; WouldFit and later Takes see the memory as taken. It
// returns the address in every bank and a function that frees it in the snapshot. The device's memory stays as it is.
func (s *MemorySnapshot) Take(c BufferConfig) (addr uint32, free func() error, err error) {
	_, r, err := s.d.plan(&c)
	if err != nil {
		return 0, nil, fmt.Errorf("reprise: take buffer %q of a snapshot: %w", c.Name, err)
	}
	e, err := place(s.mem, &c, r)
	if err != nil {
		return 0, nil, fmt.Errorf("reprise: take buffer %q of a snapshot: %w", c.Name, err)
	}
	return uint32(e.Addr), func() error { return s.mem.Free(e) }, nil
}

// WouldFit returns the addresses that buffers would get if they were allocated one after the other in the snapshot, which
// stays as it is.
func (s *MemorySnapshot) WouldFit(cs ...BufferConfig) ([]uint32, error) {
	mem := s.mem.Clone()
	out := make([]uint32, 0, len(cs))
	for i := range cs {
		_, r, err := s.d.plan(&cs[i])
		if err == nil {
			var e allocator.Extent
			e, err = place(mem, &cs[i], r)
			out = append(out, uint32(e.Addr))
		}
		if err != nil {
			return nil, fmt.Errorf("reprise: buffer %q would not fit: %w", cs[i].Name, err)
		}
	}
	return out, nil
}
