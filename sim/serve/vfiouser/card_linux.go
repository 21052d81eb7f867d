package vfiouser

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/driver"
)

// Card presents a function as a device for virtual machines.
type Card struct {
	fn     driver.Function
	p      *chip.Params
	space  *space
	mem    guest
	irqs   interrupts
	report func(error)
	board  controller

	stopped atomic.Bool // the function's fault was reported
	serving sync.Mutex  // held while a client is connected
}

// New presents a function as a card and becomes its DMA. The error wraps ErrConfig.
func New(fn driver.Function, cfg Config) (*Card, error) {
	p := cfg.Arch.Params()
	if p == nil {
		return nil, fmt.Errorf("vfiouser: architecture %v: %w: want Wormhole or Blackhole", cfg.Arch, ErrConfig)
	}
	if id := fn.ConfigRead(0); id != uint32(p.PCI.Vendor)|uint32(p.PCI.Device)<<16 {
		return nil, fmt.Errorf("vfiouser: %w: the function's ids are %#08x, those of %v are %#04x%04x",
			ErrConfig, id, cfg.Arch, p.PCI.Device, p.PCI.Vendor)
	}
	c := &Card{fn: fn, p: p, space: newSpace(p, cfg.Board), report: cfg.Report}
	if c.report == nil {
		c.report = func(error) {}
	}
	c.mem.master = func() bool { return c.space.word(regCommand)&commandMaster != 0 }
	fn.AttachDMA(&c.mem)
	c.board.reset = func() { _ = c.reset() } // reset reports its error
	if a, ok := fn.(driver.ResetAsker); ok {
		a.OnResetAsked(c.board.ask)
	}
	return c, nil
}

// Serve answers the clients that connect to l, one at a time, until ctx ends, and closes l.
// Config.Report gets the reason of a disconnection.
func (c *Card) Serve(ctx context.Context, l *net.UnixListener) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	defer func() { _ = l.Close() }()
	for {
		conn, err := l.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case err != nil:
			return fmt.Errorf("vfiouser: accept: %w", err)
		}
		if err := c.ServeConn(ctx, conn); err != nil && ctx.Err() == nil {
			c.report(err)
		}
	}
}

// ServeConn answers one client, after earlier ones, until it disconnects, ctx ends or it breaks the
// protocol, which the error says. It closes the connection and releases the client's memory and
// descriptors; the chip keeps its state.
func (c *Card) ServeConn(ctx context.Context, conn *net.UnixConn) error {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	c.serving.Lock()
	defer c.serving.Unlock()
	c.board.begin()
	defer c.board.end()
	s := &session{card: c}
	defer s.end()
	if err := s.run(conn); ctx.Err() == nil {
		return err
	}
	return nil
}

func (c *Card) reset() error {
	r, ok := c.fn.(driver.Resetter)
	if !ok {
		return syscall.EOPNOTSUPP
	}
	if err := r.Reset(); err != nil {
		c.report(err)
		return syscall.EIO
	}
	c.space.reset()
	c.stopped.Store(false)
	return nil
}

// A stopped chip is reported once.
func (c *Card) looked(ones bool) {
	if !ones || c.stopped.Load() {
		return
	}
	if err := c.fn.Fault(); err != nil && !c.stopped.Swap(true) {
		c.report(fmt.Errorf("vfiouser: the chip has stopped: %w", err))
	}
}

func (c *Card) inside(a *access) error {
	if n := c.space.regionSize(a.Region); n == 0 || a.Offset > n || uint64(a.Count) > n-a.Offset {
		return syscall.EINVAL
	}
	return nil
}

func (c *Card) load(a *access, p []byte) error {
	if err := c.inside(a); err != nil {
		return err
	}
	if a.Region == regionConfig {
		c.space.read(int(a.Offset), p)
		return nil
	}
	bar, off := int(a.Region), a.Offset
	if len(p) > 8 && isBulk(a.Region) {
		c.fn.BARRead(bar, off, p)
		c.looked(allOnes(p[:8]))
		return nil
	}
	for len(p) > 0 {
		n := natural(off, len(p))
		v := c.fn.BARLoad(bar, off, n)
		var b [8]byte
		order.PutUint64(b[:], v)
		copy(p[:n], b[:])
		c.looked(allOnes(p[:n]))
		off, p = off+uint64(n), p[n:]
	}
	return nil
}

func (c *Card) store(a *access) error {
	if err := c.inside(a); err != nil {
		return err
	}
	bar, off, p := int(a.Region), a.Offset, a.data
	if a.Region == regionConfig {
		if c.space.write(int(off), p) {
			return c.reset()
		}
		return nil
	}
	if len(p) > 8 && isBulk(a.Region) {
		c.fn.BARWrite(bar, off, p)
		return nil
	}
	for len(p) > 0 {
		n := natural(off, len(p))
		var b [8]byte
		copy(b[:], p[:n])
		if v := order.Uint64(b[:]); v != 0 || !c.strided(bar, off) {
			c.fn.BARStore(bar, off, n, v)
		}
		off, p = off+uint64(n), p[n:]
	}
	return nil
}

// strided reports whether an offset is a register of Blackhole's strided multicasts, which the
// emulator and the vendor's simulator lack. The driver stores zero to them with each window
// configuration (tt-kmd blackhole.c).
func (c *Card) strided(bar int, off uint64) bool {
	b := &c.p.BAR
	return bar == 0 && off-uint64(b.StridedRegs) < 4*uint64(b.StridedCount)
}

func natural(off uint64, n int) int {
	w := 8
	for off&uint64(w-1) != 0 || w > n {
		w /= 2
	}
	return w
}

func allOnes(p []byte) bool { return !slices.ContainsFunc(p, func(b byte) bool { return b != 0xFF }) }
