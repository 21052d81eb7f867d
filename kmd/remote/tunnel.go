// Package remote drives Wormholes without a PCI interface, for package kmd. A [Tunnel] accesses
// such a chip through the Ethernet firmware of another Wormhole. A [Target] opens it as a device
// whose windows use a tunnel.
package remote

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
)

// The command queues of Wormhole's Ethernet firmware in its tile's L1, and their format (tt-umd
// device/api/umd/device/arch/wormhole_implementation.hpp and
// device/tt_device/remote_communication).
const (
	requestQueue   = 0x11080
	responseQueue  = requestQueue + 2*0xC0
	queueWrite     = 0x20 // pointers count modulo 8, the queue has 4 slots
	queueRead      = 0x30
	queueCommands  = 0x40 // 32 bytes each: address, chip and tile; data or size; flags
	commandBuffers = 0x12000

	commandWrite    = 1 << 0
	commandRead     = 1 << 2
	commandReadData = 1 << 3
	commandBlock    = 1 << 6

	LinkState = 0x1104 // in an Ethernet tile's L1: 0 training, 1 trained, 3 not connected; others are failures
	LinkUp    = 1

	BlockSize = 1024 // bytes of one command at most
)

// Place is the coordinate of a chip in Wormhole's Ethernet firmware.
type Place struct{ X, Y uint8 }

func (p Place) String() string { return fmt.Sprintf("(%d,%d)", p.X, p.Y) }

// Tunnel accesses the tiles of a remote Wormhole. Each command waits for its answer, under the
// driver's lock kmd.LockNonMMIO as in tt-umd. Methods may be called from several goroutines.
type Tunnel struct {
	mu    sync.Mutex
	dev   *kmd.Device
	w     *kmd.Window
	place Place
	name  string
	limit time.Duration
	lost  error
}

const (
	// answerTime bounds a command while its link is up: microseconds on silicon, long in the
	// vendor's simulator and a fully checked emulator.
	answerTime   = time.Minute
	eagerPolls   = 64                     // before the first sleep, which takes as long as fifty polls
	linkPatience = 500 * time.Millisecond // a link may retrain during a command
	drainTime    = 10 * time.Second       // for earlier commands that were abandoned, while the link is up
)

// OpenTunnel returns a tunnel to the chip at a place through an Ethernet tile of d, a raw NoC 0
// coordinate, whose link must be up. It holds a window until Close. The error wraps
// [ErrUnreachable] unless d is a Wormhole.
func OpenTunnel(d *kmd.Device, tile chip.XY, to Place) (*Tunnel, error) {
	t := &Tunnel{dev: d, place: to, limit: answerTime, name: fmt.Sprintf("chip %v behind %v, tile %v", to, d, tile)}
	if d.Arch() != chip.Wormhole {
		return nil, fmt.Errorf("remote: open tunnel to %s: %w: only Wormhole's Ethernet firmware forwards", t.name, ErrUnreachable)
	}
	w, err := d.OpenWindow(d.Params().Windows[0].Size, kmd.Uncached) // of the smallest, there are most
	if err == nil {
		if err = w.Configure(kmd.WindowConfig{Target: tile}); err != nil {
			w.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("remote: open tunnel to %s: %w", t.name, err)
	}
	t.w = w
	return t, nil
}

func (t *Tunnel) String() string { return t.name }

// Close releases the window.
func (t *Tunnel) Close() error { return t.w.Close() }

func (t *Tunnel) locked(ctx context.Context, f func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, err := t.dev.Lock(ctx, kmd.LockNonMMIO)
	if err != nil {
		return fmt.Errorf("remote: %s: %w", t.name, err)
	}
	defer func() { _ = l.Unlock() }() // fails if the device is lost, which the next access reports
	return f()
}

// Load32 loads the word at addr, a multiple of 4, of the remote tile at virtual NoC 0 coordinates.
func (t *Tunnel) Load32(ctx context.Context, xy chip.XY, addr uint64) (v uint32, err error) {
	err = t.locked(ctx, func() error {
		slot, err := t.commandLocked(ctx, xy, addr, 4, 0, commandRead)
		if err == nil {
			v = t.w.Load32(slot + 8)
		}
		return err
	})
	return v, err
}

// Store32 stores a word, and returns after the write.
func (t *Tunnel) Store32(ctx context.Context, xy chip.XY, addr uint64, v uint32) error {
	return t.locked(ctx, func() error {
		_, err := t.commandLocked(ctx, xy, addr, 4, v, commandWrite)
		return err
	})
}

// Read reads a remote tile's memory; address and length are multiples of 32. Errors wrap
// [ErrRange], [ErrNoAnswer] or those of package kmd.
func (t *Tunnel) Read(ctx context.Context, xy chip.XY, addr uint64, p []byte) error {
	return t.blocks(ctx, xy, addr, p, commandRead|commandBlock)
}

// Write writes a remote tile's memory, aligned as for Read, and returns after the last write.
func (t *Tunnel) Write(ctx context.Context, xy chip.XY, addr uint64, p []byte) error {
	return t.blocks(ctx, xy, addr, p, commandWrite|commandBlock)
}

func (t *Tunnel) blocks(ctx context.Context, xy chip.XY, addr uint64, p []byte, flags uint32) error {
	if addr%32 != 0 || len(p)%32 != 0 {
		return fmt.Errorf("remote: %s: %d bytes at %v %#x: %w: want multiples of 32", t.name, len(p), xy, addr, ErrRange)
	}
	return t.locked(ctx, func() error {
		for b := range slices.Chunk(p, BlockSize) {
			if flags&commandWrite != 0 {
				at := commandBuffers + uint64(t.w.Load32(requestQueue+queueWrite)&3)*BlockSize
				for i := 0; i < len(b); i += 4 {
					t.w.Store32(at+uint64(i), binary.LittleEndian.Uint32(b[i:]))
				}
			}
			slot, err := t.commandLocked(ctx, xy, addr, len(b), uint32(len(b)), flags)
			if err != nil {
				return err
			}
			if flags&commandRead != 0 {
				at := commandBuffers + (slot-responseQueue-queueCommands)/32*BlockSize
				for i := 0; i < len(b); i += 4 {
					binary.LittleEndian.PutUint32(b[i:], t.w.Load32(at+uint64(i)))
				}
			}
			addr += uint64(len(b))
		}
		return nil
	})
}

// The firmware executes abandoned commands when the link is up again.
func (t *Tunnel) drainLocked(ctx context.Context) error {
	p := t.patience(min(drainTime, t.limit))
	for {
		left := (t.w.Load32(requestQueue+queueWrite) - t.w.Load32(requestQueue+queueRead)) & 7
		if left == 0 {
			return nil
		}
		if err := p.over(ctx, true); err != nil {
			return fmt.Errorf("%w: %d earlier commands are not finished: %w", ErrNoAnswer, left, err)
		}
		time.Sleep(time.Millisecond)
	}
}

type patience struct {
	t        *Tunnel
	deadline time.Time
	down     time.Time // first poll since the link is down; zero while it is up
}

func (t *Tunnel) patience(limit time.Duration) patience {
	return patience{t: t, deadline: time.Now().Add(limit)}
}

// A link's limit starts with the first poll that finds it down: this process may have been stopped
// meanwhile.
func (p *patience) over(ctx context.Context, pollLink bool) error {
	t := p.t
	if err := cmp.Or(t.w.Err(), t.dev.RemoteFault(t.place.X, t.place.Y), t.dev.Fault(), ctx.Err()); err != nil {
		return err
	}
	if time.Now().After(p.deadline) {
		return context.DeadlineExceeded
	}
	if !pollLink {
		return nil
	}
	now := time.Now()
	switch state := t.w.Load32(LinkState); {
	case state == LinkUp:
		p.down = time.Time{}
	case p.down.IsZero():
		p.down = time.Now()
	case now.Sub(p.down) > linkPatience:
		return fmt.Errorf("%w: the tile's link says state %d", kmd.ErrLinkDown, state)
	}
	return nil
}

// commandLocked returns the address of a read's answer.
func (t *Tunnel) commandLocked(ctx context.Context, xy chip.XY, addr uint64, n int, data, flags uint32) (uint64, error) {
	fail := func(err error) (uint64, error) {
		return 0, fmt.Errorf("remote: %s: %d bytes at %v %#x: %w", t.name, n, xy, addr, err)
	}
	switch {
	case t.lost != nil:
		return fail(t.lost)
	case addr%4 != 0 || addr >= 1<<36 || xy.X > 63 || xy.Y > 63:
		return fail(ErrRange)
	}
	w := t.w
	if err := t.drainLocked(ctx); err != nil {
		return fail(err)
	}
	wr, resp := w.Load32(requestQueue+queueWrite)&7, w.Load32(responseQueue+queueWrite)&7
	full := addr | uint64(xy.X)<<36 | uint64(xy.Y)<<42 | uint64(t.place.X)<<48 | uint64(t.place.Y)<<54
	slot := requestQueue + queueCommands + uint64(wr&3)*32
	w.Store32(slot, uint32(full))
	w.Store32(slot+4, uint32(full>>32))
	w.Store32(slot+8, data)
	w.Store32(slot+12, flags)
	w.Store32(requestQueue+queueWrite, (wr+1)&7)
	wait := t.patience(t.limit)
	polls, pause := 0, time.Microsecond
	for w.Load32(requestQueue+queueRead)&7 != (wr+1)&7 {
		if err := wait.over(ctx, pause == time.Millisecond); err != nil {
			if e := w.Err(); e != nil {
				return fail(e)
			}
			t.lost = fmt.Errorf("%w: %w", ErrNoAnswer, err) // the next command would get a late answer
			return fail(t.lost)
		}
		if polls++; polls <= eagerPolls {
			runtime.Gosched()
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, time.Millisecond)
	}
	if flags&commandRead == 0 {
		return 0, nil
	}
	slot = responseQueue + queueCommands + uint64(resp&3)*32
	got := w.Load32(slot + 12)
	w.Store32(responseQueue+queueRead, (resp+1)&7)
	if want := commandReadData | flags&commandBlock; got != want {
		return fail(fmt.Errorf("%w: answer %#x, want %#x", ErrNoAnswer, got, want))
	}
	return slot, nil
}

var (
	// ErrNoAnswer: the Ethernet firmware did not execute a command in time: the link is down, or it
	// doesn't run.
	ErrNoAnswer = errors.New("the Ethernet firmware doesn't answer")
	// ErrUnreachable: the chip's card is missing or not given to this process, or the firmware on
	// the way doesn't forward.
	ErrUnreachable = errors.New("no way leads to the chip")
	// ErrRange: an access through a tunnel has an invalid size or address.
	ErrRange = errors.New("out of range")
)
