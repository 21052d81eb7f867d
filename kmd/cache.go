package kmd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/chip"
)

const (
	controlWindows = 4   // bring-up uses a worker, its registers, the management processor and another tile
	bulkThreshold  = 256 // bytes from which a write goes through a write-combined window
)

// windowCache holds the Device's own windows, and re-targets the least recently used.
type windowCache struct {
	dev *Device

	mu      sync.Mutex // held during an access, which a re-target would misdirect
	control []cachedWindow
	bulk    []cachedWindow
	clock   uint64
	closed  bool
}

type cachedWindow struct {
	*Window
	target WindowConfig
	valid  bool
	used   uint64
}

// getLocked returns a window configured for c. If the pool is exhausted, a window of the other kind
// serves too.
func (k *windowCache) getLocked(c *WindowConfig, bulk bool) (*Window, error) {
	if k.closed {
		return nil, ErrClosed
	}
	set, other, most, caching := &k.control, &k.bulk, controlWindows, Uncached
	if bulk {
		set, other, most, caching = &k.bulk, &k.control, 1, WriteCombined
	}
	k.clock++
	e := find(*set, c)
	if e != nil && e.valid && e.target == *c {
		e.used = k.clock
		return e.Window, nil
	}
	if len(*set) < most {
		w, err := k.dev.openWindow(k.size(), caching)
		if err == nil {
			*set = append(*set, cachedWindow{Window: w})
			e = &(*set)[len(*set)-1]
		} else if e == nil {
			e = find(*other, c)
		}
		if err != nil && (e == nil || !errors.Is(err, ErrBusy)) {
			return nil, err
		}
	}
	if !e.valid || e.target != *c {
		e.valid = false
		if err := e.configure(c); err != nil {
			return nil, err
		}
	}
	e.target, e.valid, e.used = *c, true, k.clock
	return e.Window, nil
}

func find(set []cachedWindow, c *WindowConfig) *cachedWindow {
	var oldest *cachedWindow
	for i := range set {
		e := &set[i]
		if e.valid && e.target == *c {
			return e
		}
		if oldest == nil || e.used < oldest.used {
			oldest = e
		}
	}
	return oldest
}

// The smallest class has most windows.
func (k *windowCache) size() uint64 { return k.dev.params.Windows[0].Size }

func (k *windowCache) close() {
	k.mu.Lock()
	k.closed = true
	k.control, k.bulk = nil, nil
	k.mu.Unlock()
}

// Read copies len(p) bytes from addr of a tile at virtual NoC 0 coordinates. Four bytes at a
// multiple of four are exactly one access, as registers need. If the last bytes are ones and the
// device doesn't answer, the error matches ErrDeviceLost.
func (d *Device) Read(xy chip.XY, addr uint64, p []byte) error {
	err := d.transfer(WindowConfig{Target: xy}, addr, p, false)
	if tail := p[max(len(p)-4, 0):]; err == nil && bytes.Count(tail, []byte{0xFF}) == len(tail) && len(p) > 0 {
		err = d.alive()
	}
	if err != nil {
		return d.opError(err, "read %s at %v %#x", humanize.IBytes(uint64(len(p))), xy, addr)
	}
	return nil
}

// Write copies p to addr of a tile at virtual NoC 0 coordinates, four bytes at a multiple of four
// in one access. Writes of one caller arrive in order; a Read from the same tile proves their
// arrival. Edges are as in Window.Write.
func (d *Device) Write(xy chip.XY, addr uint64, p []byte) error {
	if err := d.transfer(WindowConfig{Target: xy}, addr, p, true); err != nil {
		return d.opError(err, "write %s at %v %#x", humanize.IBytes(uint64(len(p))), xy, addr)
	}
	return nil
}

// Multicast copies p to addr of every Tensix tile in a rectangle; both addr and len(p) are
// multiples of four.
func (d *Device) Multicast(start, end chip.XY, addr uint64, p []byte) error {
	err := error(nil)
	if addr&3 != 0 || len(p)&3 != 0 {
		err = fmt.Errorf("%w: address and length must be multiples of 4", ErrMisaligned)
	} else {
		err = d.transfer(WindowConfig{Target: end, Start: start, Multicast: true}, addr, p, true)
	}
	if err != nil {
		return d.opError(err, "multicast %s to %v-%v %#x", humanize.IBytes(uint64(len(p))), start, end, addr)
	}
	return nil
}

// Read32 loads one word at a multiple of four with one access. If the word is all ones and the
// device doesn't answer, the error matches ErrDeviceLost.
func (d *Device) Read32(xy chip.XY, addr uint64) (v uint32, err error) {
	c := WindowConfig{Target: xy}
	err = d.word(&c, addr, &v, false)
	if err == nil && v == allOnes {
		err = d.alive()
	}
	if err != nil {
		return v, d.opError(err, "read word at %v %#x", xy, addr)
	}
	return v, nil
}

// Write32 stores one word at a multiple of four with one access.
func (d *Device) Write32(xy chip.XY, addr uint64, v uint32) error {
	c := WindowConfig{Target: xy}
	if err := d.word(&c, addr, &v, true); err != nil {
		return d.opError(err, "write word at %v %#x", xy, addr)
	}
	return nil
}

func (d *Device) word(c *WindowConfig, addr uint64, v *uint32, store bool) error {
	if addr&3 != 0 {
		return fmt.Errorf("%w: a word's address must be a multiple of 4", ErrMisaligned)
	}
	if err := d.usable(); err != nil {
		return err
	}
	k := &d.cache
	k.mu.Lock()
	defer k.mu.Unlock()
	off := addr & (k.size() - 1)
	c.Addr = addr - off
	w, err := k.getLocked(c, false)
	if err != nil {
		return err
	}
	err = d.Guard(func() error {
		if store {
			w.Store32(off, *v)
			w.flush()
		} else {
			*v = w.Load32(off)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.checkFault()
}

func (d *Device) transfer(c WindowConfig, addr uint64, p []byte, store bool) error {
	if len(p) == 0 {
		return nil
	}
	if err := d.usable(); err != nil {
		return err
	}
	if addr+uint64(len(p))-1 < addr {
		return fmt.Errorf("%w: the end is beyond 64 bits", ErrOutOfRange)
	}
	k := &d.cache
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(p) > 0 {
		off := addr & (k.size() - 1)
		n := min(uint64(len(p)), k.size()-off)
		c.Addr = addr - off
		bulk := store && n >= bulkThreshold
		w, err := k.getLocked(&c, bulk)
		if err != nil {
			return err
		}
		if err := d.Guard(func() error { w.copy(off, p[:n], store); return nil }); err != nil {
			return err
		}
		p, addr = p[n:], addr+n
	}
	return d.checkFault()
}

// copy moves one piece. A write-combined piece leaves the processor before later accesses through
// another window.
func (w *Window) copy(off uint64, p []byte, store bool) {
	single := len(p) == 4 && off&3 == 0
	switch {
	case single && store:
		w.Store32(off, binary.LittleEndian.Uint32(p))
		w.flush()
	case single:
		binary.LittleEndian.PutUint32(p, w.Load32(off))
	case store:
		w.Write(off, p)
		w.flush()
	default:
		w.Read(off, p)
	}
}

func (w *Window) flush() {
	if w.caching == WriteCombined {
		w.Drain()
	}
}

func (d *Device) checkFault() error {
	if d.file.Fault() != nil {
		return d.lose("", nil)
	}
	return nil
}
