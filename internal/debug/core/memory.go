package core

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// LocalRAM returns the bounds of the processor's local RAM.
func (c *Core) LocalRAM() (start, end uint32) {
	p := c.tile.dev.Arch().Params()
	return p.LocalRAM, p.LocalRAM + p.LocalRAMSize[c.proc]
}

// ReadsRunning reports whether local RAM can be read while the processor runs.
func (c *Core) ReadsRunning() bool { return c.blackhole() }

func (c *Core) blackhole() bool { return c.tile.dev.Arch() == chip.Blackhole }

func (c *Core) inL1(addr uint32, n int) (bool, error) {
	start, end := c.LocalRAM()
	at, last := uint64(addr), uint64(addr)+uint64(n)
	switch {
	case last <= uint64(c.tile.dev.Arch().Params().L1Size):
		return true, nil
	case at >= uint64(start) && last <= uint64(end):
		return false, nil
	}
	return false, fmt.Errorf("%w: %d bytes at %#x", ErrAddress, n, addr)
}

// Read reads L1 or local RAM at the processor's addresses. Local RAM needs a paused processor on
// Wormhole, one out of reset on Blackhole. The error wraps ErrAddress, ErrRunning, or ErrInReset.
func (c *Core) Read(addr uint32, p []byte) error { return c.access("read memory of", addr, p, false) }

// Write writes memory: see Read. Instructions that the processor has fetched stay: see ForgetCode.
func (c *Core) Write(addr uint32, p []byte) error { return c.access("write memory of", addr, p, true) }

func (c *Core) access(op string, addr uint32, p []byte, store bool) error {
	dev, xy := c.tile.dev, c.tile.xy
	l1, err := c.inL1(addr, len(p))
	switch {
	case err != nil:
	case l1 && store:
		err = dev.Write(xy, uint64(addr), p)
	case l1:
		err = dev.Read(xy, uint64(addr), p)
	case c.blackhole():
		params := dev.Arch().Params()
		alias := uint64(params.LocalRAMAlias[c.proc] - params.LocalRAM)
		if err = c.released(); err == nil {
			err = words(addr, p, store, func(a uint32) (uint32, error) { return dev.Read32(xy, alias+uint64(a)) },
				func(a, v uint32) error {
					err := dev.Write32(xy, alias+uint64(a), v)
					if err == nil {
						_, err = dev.Read32(xy, alias+uint64(a)) // waits until it has arrived
					}
					return err
				})
		}
	default:
		return c.paused(op, func() error { return words(addr, p, store, c.loadLocked, c.storeLocked) })
	}
	return c.fail(op, err)
}

func (c *Core) released() error {
	held, err := c.Reset()
	if err == nil && held {
		err = ErrInReset
	}
	return err
}

func words(addr uint32, p []byte, store bool, load func(a uint32) (uint32, error), save func(a, v uint32) error) error {
	for len(p) > 0 {
		a, off := addr&^3, addr&3
		n := min(int(4-off), len(p))
		var b [4]byte
		if n < 4 || !store {
			v, err := load(a)
			if err != nil {
				return err
			}
			binary.LittleEndian.PutUint32(b[:], v)
		}
		if store {
			copy(b[off:], p[:n])
			if err := save(a, binary.LittleEndian.Uint32(b[:])); err != nil {
				return err
			}
		} else {
			copy(p[:n], b[off:])
		}
		addr, p = addr+uint32(n), p[n:]
	}
	return nil
}

// Load loads a word at a multiple of 4 as the paused processor would, also from registers. If
// nothing answers there the processor waits forever.
func (c *Core) Load(addr uint32) (v uint32, err error) {
	err = c.paused("load for", func() (err error) {
		v, err = c.loadLocked(addr)
		return err
	})
	return v, err
}

// Store stores a word as the paused processor would.
func (c *Core) Store(addr, v uint32) error {
	return c.paused("store for", func() error { return c.storeLocked(addr, v) })
}

func (c *Core) loadLocked(addr uint32) (uint32, error) {
	err := c.writeLocked(drArg0, addr, drCommand, cmdSlow|cmdReadMemory)
	if err == nil {
		err = c.accessedLocked(addr)
	}
	if err != nil {
		return 0, err
	}
	return c.tile.readLocked(c.which, drResult)
}

func (c *Core) storeLocked(addr, v uint32) error {
	if err := c.writeLocked(drArg0, addr, drArg1, v, drCommand, cmdSlow|cmdWriteMemory); err != nil {
		return err
	}
	return c.accessedLocked(addr)
}

func (c *Core) accessedLocked(addr uint32) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if s, err := c.statusLocked(); err != nil || s.Paused {
			return err
		}
	}
	return fmt.Errorf("%w: access to %#x", ErrStuck, addr)
}

// ForgetCode makes the paused processor empty the tile's instruction caches, after code was written
// to L1. The word of the Tensix configuration for that, RISCV_IC_INVALIDATE, has a bit for each
// processor (tt-metal cfg_defines.h).
func (c *Core) ForgetCode() error {
	word := uint32(157)
	if c.blackhole() {
		word = 185
	}
	return c.paused("empty the instruction caches by", func() error { return c.storeLocked(configBase+4*word, 0x1F) })
}
