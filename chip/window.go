package chip

import (
	"fmt"
	"math/bits"
)

// WindowClass is a set of TLB windows of one size: pieces of a BAR that each show a piece of one
// tile's address space.
type WindowClass struct {
	Size   uint64 // windows start at multiples of it in the target's address space
	First  int    // id of the first window
	Count  int
	BAR    int
	Offset uint64 // BAR offset of the first window; the others follow without gaps
}

// Ordering is how a window's accesses are ordered on the NoC (tt-isa-documentation
// WormholeB0/PCIExpressTile/TLBs.md).
type Ordering uint8

// Orderings. The fourth value of the field is invalid.
const (
	Relaxed Ordering = 0 // writes may overtake writes unless the virtual channel is static
	Strict  Ordering = 1 // AXI order: every access waits for the one before
	Posted  Ordering = 2 // writes are not acknowledged; reads may overtake them too
)

func (o Ordering) String() string {
	if o <= Posted {
		return [...]string{"relaxed", "strict", "posted"}[o]
	}
	return fmt.Sprintf("ordering(%d)", uint8(o))
}

// WindowConfig is a TLB window's target and how accesses travel to it.
type WindowConfig struct {
	Addr      uint64 // in the target tile, a multiple of the window's size
	Target    XY     // by the name that software uses on NOC; with Multicast the end corner
	Start     XY     // with Multicast the start corner; otherwise zero
	NOC       NOC
	Multicast bool // Tensix tiles only, writes only
	Ordering  Ordering
	Linked    bool // never set by software
	StaticVC  bool
	VC        uint8 // Blackhole: the static virtual channel, 0-7
	Stream    bool  // Blackhole: stream header
}

// WindowRegs is a TLB window's configuration register, lowest word first: two words on Wormhole,
// three on Blackhole.
type WindowRegs [3]uint32

type windowLayout struct {
	sizeBits     uint
	addrBits     uint // width of the address field at bit 0
	xEnd         uint // end x, end y, start x, start y: 6 bits each
	noc, nocBits uint
	mcast        uint
	order        uint
	linked       uint
	static       uint
	stream, vc   uint // 1 and 3 bits; 0: no such field
}

// layoutOf returns the register layout of windows of a size (tt-isa-documentation
// WormholeB0/PCIExpressTile/TLBs.md; tt-umd device/arch/*_implementation.hpp).
func (a Arch) layoutOf(size uint64) (windowLayout, bool) {
	switch {
	case a == Wormhole && (size == 1<<20 || size == 2<<20 || size == 16<<20):
		s := uint(bits.TrailingZeros64(size))
		n := 36 - s
		return windowLayout{sizeBits: s, addrBits: n, xEnd: n, noc: n + 24, nocBits: 1, mcast: n + 25,
			order: n + 26, linked: n + 28, static: n + 29}, true
	case a == Blackhole && size == 2<<20:
		return windowLayout{sizeBits: 21, addrBits: 43, xEnd: 43, noc: 67, nocBits: 2, mcast: 69,
			order: 70, linked: 72, static: 73, stream: 74, vc: 75}, true
	case a == Blackhole && size == 4<<30:
		return windowLayout{sizeBits: 32, addrBits: 32, xEnd: 32, noc: 56, nocBits: 2, mcast: 58,
			order: 59, linked: 61, static: 62, stream: 63, vc: 64}, true
	}
	return windowLayout{}, false
}

func (r *WindowRegs) set(first, width uint, v uint64) {
	for width > 0 {
		w, b := first/32, first%32
		n := min(width, 32-b)
		r[w] |= uint32(v&(1<<n-1)) << b
		v >>= n
		first += n
		width -= n
	}
}

// EncodeWindow returns the configuration register of a TLB window of a size in bytes. The error is
// a [*WindowError].
func EncodeWindow(a Arch, size uint64, c WindowConfig) (WindowRegs, error) {
	fail := func(field string, v uint64, why string) (WindowRegs, error) {
		return WindowRegs{}, &WindowError{Arch: a, Size: size, Field: field, Value: v, Why: why}
	}
	l, ok := a.layoutOf(size)
	switch {
	case !ok:
		return fail("size", size, "the architecture has no windows of this size")
	case c.Addr&(size-1) != 0:
		return fail("address", c.Addr, "not a multiple of the window's size")
	case c.Addr>>l.sizeBits>>l.addrBits != 0:
		return fail("address", c.Addr, fmt.Sprintf("beyond the %d address bits of the window", l.sizeBits+l.addrBits))
	case c.Target.X > 63 || c.Target.Y > 63:
		return fail("target", uint64(c.Target.X)|uint64(c.Target.Y)<<8, "coordinates have 6 bits")
	case c.Start.X > 63 || c.Start.Y > 63:
		return fail("start", uint64(c.Start.X)|uint64(c.Start.Y)<<8, "coordinates have 6 bits")
	case !c.Multicast && c.Start != XY{}:
		return fail("start", uint64(c.Start.X)|uint64(c.Start.Y)<<8, "a start corner is for multicast windows only")
	case c.NOC > NOC1:
		return fail("noc", uint64(c.NOC), "there are two NoCs, 0 and 1")
	case c.Ordering > Posted:
		return fail("ordering", uint64(c.Ordering), "must be relaxed (0), strict (1) or posted (2)")
	case c.VC > 7 || c.VC != 0 && l.vc == 0:
		return fail("vc", uint64(c.VC), "the window's register cannot hold this virtual channel")
	case c.Stream && l.stream == 0:
		return fail("stream", 1, "the architecture's windows have no stream header field")
	}
	var r WindowRegs
	r.set(0, l.addrBits, c.Addr>>l.sizeBits)
	for i, v := range [4]uint8{c.Target.X, c.Target.Y, c.Start.X, c.Start.Y} {
		r.set(l.xEnd+6*uint(i), 6, uint64(v))
	}
	r.set(l.noc, l.nocBits, uint64(c.NOC))
	r.set(l.mcast, 1, bit(c.Multicast))
	r.set(l.order, 2, uint64(c.Ordering))
	r.set(l.linked, 1, bit(c.Linked))
	r.set(l.static, 1, bit(c.StaticVC))
	if l.vc != 0 {
		r.set(l.stream, 1, bit(c.Stream))
		r.set(l.vc, 3, uint64(c.VC))
	}
	return r, nil
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// WindowClassOf returns the class of the window with an id.
func (p *Params) WindowClassOf(id int) (WindowClass, bool) {
	for _, w := range p.Windows {
		if id >= w.First && id < w.First+w.Count {
			return w, true
		}
	}
	return WindowClass{}, false
}

// WindowOffset returns the BAR of the window with an id, and its offset there.
func (p *Params) WindowOffset(id int) (bar int, offset uint64, ok bool) {
	w, ok := p.WindowClassOf(id)
	return w.BAR, w.Offset + w.Size*uint64(id-w.First), ok
}

// WindowRegister returns the BAR 0 offset of a window's configuration register.
func (p *Params) WindowRegister(id int) uint64 {
	return uint64(p.BAR.WindowRegs) + uint64(id)*uint64(p.BAR.WindowRegsSize)
}
