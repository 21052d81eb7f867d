package reprise

import (
	"fmt"
)

// Take allocates in the snapshot as NewBuffer would on the device: what comes later finds it there. It gives the address
// in every bank and a function that frees it in the snapshot. The device hears nothing of it.
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
