package core

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// localBase is the address of every processor's local RAM (tt-isa-documentation
// */TensixTile/BabyRISCV/README.md).
const localBase = 0xFFB00000

// localOverNOC are Blackhole's NoC addresses of local RAM, by processor (tt-exalens
// ttexalens/hardware/blackhole/functional_worker_block.py). Processors in reset don't answer.
var localOverNOC = [chip.NumProcessors]uint64{
	chip.BRISC: 0xFFB14000, chip.NCRISC: 0xFFB16000, chip.TRISC0: 0xFFB18000, chip.TRISC1: 0xFFB1A000, chip.TRISC2: 0xFFB1C000,
}

// LocalRAM returns the bounds of the processor's local RAM.
func (c *Core) LocalRAM() (start, end uint32) {
	return localBase, localBase + c.tile.dev.Arch().Params().LocalRAMSize[c.proc]
}

// ReadsRunning reports whether local RAM can be read while the processor runs.
func (c *Core) ReadsRunning() bool { return c.tile.dev.Arch() == chip.Blackhole }

type kind uint8

const (
	inL1 kind = iota
	inLocalRAM
)

// find returns the memory of n bytes at an address.
func (c *Core) find(addr uint32, n int) (kind, error) {
	start, end := c.LocalRAM()
	at, last := uint64(addr), uint64(addr)+uint64(n)
	switch {
	case last <= uint64(c.tile.dev.Arch().Params().L1Size):
		return inL1, nil
	case at >= uint64(start) && last <= uint64(end):
		return inLocalRAM, nil
	}
	return 0, fmt.Errorf("%w: %d bytes at %#x", ErrAddress, n, addr)
}

// Read reads L1 or local RAM at the processor's addresses. Local RAM needs a paused processor on
// Wormhole, one out of reset on Blackhole. The error wraps ErrAddress, ErrRunning, or ErrInReset.
func (c *Core) Read(addr uint32, p []byte) error {
	where, err := c.find(addr, len(p))
	switch {
	case err != nil:
		return c.fail("read memory of", err)
	case where == inL1:
		err = c.tile.dev.Read(c.tile.xy, uint64(addr), p)
	case c.tile.dev.Arch() == chip.Blackhole:
		if err = c.released("read memory of"); err == nil {
			err = c.words(addr, p, false, func(a uint32, v *uint32) (err error) {
				*v, err = c.tile.dev.Read32(c.tile.xy, localOverNOC[c.proc]+uint64(a-localBase))
				return err
			})
		}
	default:
		return c.paused("read memory of", func() error {
			return c.words(addr, p, false, func(a uint32, v *uint32) (err error) {
				*v, err = c.loadLocked(a)
				return err
			})
		})
	}
	if err != nil {
		return c.fail("read memory of", err)
	}
	return nil
}

// Write writes memory: see Read. Instructions that the processor has fetched stay: see ForgetCode.
func (c *Core) Write(addr uint32, p []byte) error {
	where, err := c.find(addr, len(p))
	switch {
	case err != nil:
		return c.fail("write memory of", err)
	case where == inL1:
		err = c.tile.dev.Write(c.tile.xy, uint64(addr), p)
	case c.tile.dev.Arch() == chip.Blackhole:
		if err = c.released("write memory of"); err == nil {
			err = c.words(addr, p, true, func(a uint32, v *uint32) (err error) {
				at := localOverNOC[c.proc] + uint64(a-localBase)
				if err = c.tile.dev.Write32(c.tile.xy, at, *v); err == nil {
					_, err = c.tile.dev.Read32(c.tile.xy, at) // waits until it has arrived
				}
				return err
			}, func(a uint32, v *uint32) (err error) {
				*v, err = c.tile.dev.Read32(c.tile.xy, localOverNOC[c.proc]+uint64(a-localBase))
				return err
			})
		}
	default:
		return c.paused("write memory of", func() error {
			return c.words(addr, p, true, func(a uint32, v *uint32) error { return c.storeLocked(a, *v) },
				func(a uint32, v *uint32) (err error) {
					*v, err = c.loadLocked(a)
					return err
				})
		})
	}
	if err != nil {
		return c.fail("write memory of", err)
	}
	return nil
}

// released returns ErrInReset for a processor in reset.
func (c *Core) released(op string) error {
	held, err := c.Reset()
	if err == nil && held {
		err = ErrInReset
	}
	return err
}

// words accesses whole words for bytes at any address. Words stored in part are loaded first.
func (c *Core) words(addr uint32, p []byte, store bool, access func(a uint32, v *uint32) error,
	load ...func(a uint32, v *uint32) error) error {
	for len(p) > 0 {
		a, off := addr&^3, addr&3
		n := min(int(4-off), len(p))
		var b [4]byte
		v := uint32(0)
		if store {
			if n < 4 {
				if err := load[0](a, &v); err != nil {
					return err
				}
			}
			binary.LittleEndian.PutUint32(b[:], v)
			copy(b[off:], p[:n])
			v = binary.LittleEndian.Uint32(b[:])
		}
		if err := access(a, &v); err != nil {
			return err
		}
		if !store {
			binary.LittleEndian.PutUint32(b[:], v)
			copy(p[:n], b[off:])
		}
		addr, p = addr+uint32(n), p[n:]
	}
	return nil
}

// Load loads a word as the paused processor would, with all side effects, also from registers. The
// address is a multiple of 4. If nothing answers there the processor waits forever.
func (c *Core) Load(addr uint32) (v uint32, err error) {
	err = c.paused("load for", func() (err error) {
		v, err = c.loadLocked(addr)
		return err
	})
	return v, err
}

// Store stores a word as the paused processor would: see Load.
func (c *Core) Store(addr, v uint32) error {
	return c.paused("store for", func() error { return c.storeLocked(addr, v) })
}

func (c *Core) loadLocked(addr uint32) (uint32, error) {
	if err := c.writeLocked(drArg0, addr, drCommand, cmdSlow|cmdReadMemory); err != nil {
		return 0, err
	}
	if err := c.accessedLocked(addr); err != nil {
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

// accessedLocked waits until the processor has made an access.
func (c *Core) accessedLocked(addr uint32) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if s, err := c.statusLocked(); err != nil || s.Paused {
			return err
		}
	}
	return fmt.Errorf("%w: access to %#x", ErrStuck, addr)
}

// invalidateWord is the word of the Tensix configuration, RISCV_IC_INVALIDATE, that empties
// instruction caches, a bit each in the order B, T0, T1, T2, NC (tt-metal cfg_defines.h).
func invalidateWord(arch chip.Arch) uint32 {
	if arch == chip.Wormhole {
		return configBase + 4*157
	}
	return configBase + 4*185
}

// ForgetCode empties the instruction caches of the tile, by the paused processor, after code was
// written to L1.
func (c *Core) ForgetCode() error {
	return c.paused("empty the instruction caches by", func() error {
		return c.storeLocked(invalidateWord(c.tile.dev.Arch()), 0x1F)
	})
}
