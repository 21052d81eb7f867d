package remote

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// window accesses a remote chip by words, and by blocks for bulk copies. A smaller store is a
// read-modify-write, not atomic. A failed load returns all ones, like an aborted bus access.
type window struct {
	tun    *Tunnel
	size   uint64
	target atomic.Pointer[windowTarget] // nil until configured
	id     bool                         // every word reads as the NoC interface's node id
}

type windowTarget struct {
	addr      uint64
	to, from  chip.XY
	multicast bool
}

func (w *window) word(off uint64) uint32 {
	v, err := uint32(0), ErrRange
	if l := w.target.Load(); w.id {
		v, err = w.tun.nodeID()
	} else if l != nil && !l.multicast {
		v, err = w.tun.Load32(context.Background(), l.to, l.addr+off)
	}
	if err != nil {
		return 0xFFFFFFFF
	}
	return v
}

func (w *window) Load(off uint64, width int) uint64 {
	switch width {
	case 8:
		return uint64(w.word(off)) | uint64(w.word(off+4))<<32
	case 4:
		return uint64(w.word(off))
	}
	return uint64(w.word(off&^3) >> (8 * (off & 3)) & (1<<(8*width) - 1))
}

func (w *window) Store(off uint64, width int, v uint64) {
	if width == 8 {
		w.Store(off, 4, v&0xFFFFFFFF)
		w.Store(off+4, 4, v>>32)
		return
	}
	if width < 4 {
		shift, mask := 8*(off&3), uint64(1)<<(8*width)-1
		v = uint64(w.word(off&^3))&^(mask<<shift) | v&mask<<shift
		off &^= 3
	}
	l := w.target.Load()
	if l == nil || w.id {
		return
	}
	store := func(xy chip.XY) error { return w.tun.Store32(context.Background(), xy, l.addr+off, uint32(v)) }
	// An error loses the tunnel.
	if l.multicast {
		_ = l.each(store)
	} else {
		_ = store(l.to)
	}
}

func (w *window) Read(off uint64, p []byte) {
	l := w.target.Load()
	if l == nil || l.multicast || w.tun.move(l.to, l.addr+off, p, false) != nil {
		for i := range p {
			p[i] = 0xFF
		}
	}
}

func (w *window) Write(off uint64, p []byte) {
	l := w.target.Load()
	switch {
	case l == nil:
	case l.multicast:
		_ = w.tun.multicast(l, l.addr+off, p)
	default:
		_ = w.tun.move(l.to, l.addr+off, p, true)
	}
}

// registers is where a Tensix or Ethernet tile's word-only registers start.
const registers = 0xFFB00000

// move copies between a tile and p: aligned blocks at once, the rest by words.
func (t *Tunnel) move(xy chip.XY, addr uint64, p []byte, store bool) (err error) {
	block := t.Read
	if store {
		block = t.Write
	}
	for len(p) > 0 && err == nil {
		n := len(p) &^ 31
		if addr%32 == 0 && n > 0 && addr < registers {
			err = block(context.Background(), xy, addr, p[:n])
		} else {
			n = min(len(p), 4-int(addr&3))
			err = t.moveWord(xy, addr, p[:n], store)
		}
		p, addr = p[n:], addr+uint64(n)
	}
	return err
}

// moveWord copies a word or a part of one.
func (t *Tunnel) moveWord(xy chip.XY, addr uint64, p []byte, store bool) error {
	var b [4]byte
	if !store || len(p) < 4 {
		v, err := t.Load32(context.Background(), xy, addr&^3)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint32(b[:], v)
	}
	if store {
		copy(b[addr&3:], p)
		return t.Store32(context.Background(), xy, addr&^3, binary.LittleEndian.Uint32(b[:]))
	}
	copy(p, b[addr&3:])
	return nil
}

func (l *windowTarget) each(do func(xy chip.XY) error) error {
	for y := l.from.Y; y <= l.to.Y; y++ {
		for x := l.from.X; x <= l.to.X; x++ {
			if err := do(chip.XY{X: x, Y: y}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Command buffer 0 of a Wormhole tile's NoC interface 0, and CTRL's value for a multicast
// (tt-isa-documentation WormholeB0/NoC/MemoryMap.md; kernels/include/reprise/noc.h).
const (
	niuBase     = 0xFFB20000
	niuTarget   = 0x00
	niuTargetXY = 0x04
	niuReturn   = 0x0C
	niuReturnXY = 0x10
	niuTag      = 0x18
	niuControl  = 0x1C
	niuBytes    = 0x20
	niuCommand  = 0x28
	niuNodeID   = 0x2C
	niuAcks     = 0x204

	multicastWrite = 1<<1 | 1<<4 | 1<<5 | 1<<7 | 1<<8 | 4<<13
	maxBurst       = 8192
)

// bulkMulticast is from how many bytes on a tile multicasts itself, by a dozen words of requests.
const bulkMulticast = 64

// multicast writes long data to one tile, whose NoC interface multicasts it: loading all cores'
// firmware would take 80 times as long otherwise.
func (t *Tunnel) multicast(l *windowTarget, addr uint64, p []byte) error {
	if len(p) < bulkMulticast || addr >= registers || addr%16 != 0 || l.from == l.to {
		return l.each(func(xy chip.XY) error { return t.move(xy, addr, p, true) })
	}
	if err := t.move(l.from, addr, p, true); err != nil {
		return err
	}
	others := uint32(l.to.X-l.from.X+1)*uint32(l.to.Y-l.from.Y+1) - 1
	pack := func(xy chip.XY) uint32 { return uint32(xy.X) | uint32(xy.Y)<<6 }
	before, err := t.Load32(context.Background(), l.from, niuBase+niuAcks)
	if err != nil {
		return err
	}
	for left := len(p); left > 0; left -= maxBurst {
		n := min(left, maxBurst)
		at := uint32(addr) + uint32(len(p)-left)
		for _, r := range [...]struct {
			reg uint64
			v   uint32
		}{
			{niuTarget, at}, {niuTargetXY, pack(l.from) << 4}, {niuReturn, at},
			{niuReturnXY, (pack(l.from)<<12 | pack(l.to)) << 4}, {niuTag, 0}, {niuControl, multicastWrite}, {niuBytes, uint32(n)},
			{niuCommand, 1},
		} {
			if err := t.Store32(context.Background(), l.from, niuBase+r.reg, r.v); err != nil {
				return err
			}
		}
		before += others
		for start := time.Now(); ; {
			v, err := t.Load32(context.Background(), l.from, niuBase+niuAcks)
			if err != nil {
				return err
			}
			if v == before {
				break
			}
			if time.Since(start) > t.limit {
				t.mu.Lock()
				defer t.mu.Unlock()
				t.lost = cmp.Or(t.lost, fmt.Errorf("%w: a multicast of %d bytes from %v: %d tiles have not acknowledged", ErrNoAnswer, n,
					l.from, before-v))
				return t.lost
			}
		}
	}
	return nil
}
