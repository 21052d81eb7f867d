package vfiouser

import (
	"slices"
	"syscall"
)

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
