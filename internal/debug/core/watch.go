package core

import "fmt"

const Watchpoints = 8 // breakpoints and watchpoints of a processor

// Mode is what a watchpoint pauses at, DebugInterface.md "Breakpoints and memory watchpoints".
type Mode uint8

const (
	Execute Mode = 8  // after the instruction at the address
	Load    Mode = 9  // before or after a load from exactly the address
	StoreTo Mode = 10 // after a store to exactly the address, or a few instructions later
	Access  Mode = 11 // Load and StoreTo
)

// Watch sets a free watchpoint and returns its number. The processor may run. The error wraps
// ErrNoWatchpoint.
func (c *Core) Watch(m Mode, addr uint32) (slot int, err error) {
	if m < Execute || m > Access {
		return 0, c.fail("watch", fmt.Errorf("%w: mode %d", ErrUnsupported, m))
	}
	err = c.watches("watch", func(modes uint32) (uint32, error) {
		for slot = range Watchpoints {
			if modes>>(4*slot)&8 == 0 {
				return modes&^(15<<(4*slot)) | uint32(m)<<(4*slot), c.writeLocked(drAddress+uint32(slot), addr)
			}
		}
		return 0, ErrNoWatchpoint
	})
	return slot, err
}

// Unwatch frees a watchpoint.
func (c *Core) Unwatch(slot int) error {
	if slot < 0 || slot >= Watchpoints {
		return c.fail("free a watchpoint of", fmt.Errorf("%w: watchpoint %d", ErrUnsupported, slot))
	}
	return c.watches("free a watchpoint of", func(modes uint32) (uint32, error) { return modes &^ (15 << (4 * slot)), nil })
}

func (c *Core) watches(op string, change func(uint32) (uint32, error)) error {
	return c.locked(op, func() error {
		modes, err := c.tile.readLocked(c.which, drModes)
		if err == nil {
			modes, err = change(modes)
		}
		if err == nil {
			err = c.writeLocked(drModes, modes)
		}
		return err
	})
}
