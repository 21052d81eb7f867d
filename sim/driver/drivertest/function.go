// Package drivertest is a minimal chip for testing drivers: windows onto tiles of plain memory,
// outbound regions, and a management processor. It records every access with its width. It decodes
// registers itself, from tt-isa-documentation WormholeB0/PCIExpressTile/TLBs.md and tt-kmd
// blackhole.c, so that encoding errors don't cancel out.
package drivertest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/driver"
)

// Access is one access of the host to a BAR.
type Access struct {
	BAR   int
	Off   uint64
	Width int // bytes; for bulk accesses the length
	Store bool
	Bulk  bool
	Value uint64
}

// Target is a window's configuration.
type Target struct {
	Addr                       uint64
	X, Y, StartX, StartY       uint8
	NOC, Multicast, Ordering   uint8
	Linked, StaticVC, Reserved uint8
}

// Function is the chip. Set its fields before the first access.
type Function struct {
	Arch       chip.Arch
	Subsystem  uint32                    // PCI subsystem vendor (low half) and id
	Harvesting uint32                    // Wormhole's answer to message 0x57
	Telemetry  map[uint16]uint32         // the management processor's table by tag
	Messages   func([8]uint32) [8]uint32 // answers the firmware's queue; nil echoes with the first word 0
	Mute       bool                      // the management processor doesn't answer messages
	OnReset    func()                    // runs inside Reset
	Stuck      bool                      // resets fail

	mu      sync.Mutex
	command uint32
	regs    map[uint64]uint32 // BAR 0 configuration registers by offset
	bar2    map[uint64]uint32
	pages   map[page]*[pageSize]byte
	log     []Access
	dma     driver.DMA
	quiet   bool
	dead    bool // reads are all-ones
	fault   error
}

const pageSize = 4096

type page struct {
	x, y uint8
	n    uint64
}

var (
	_ driver.Function  = (*Function)(nil)
	_ driver.Resetter  = (*Function)(nil)
	_ driver.Messenger = (*Function)(nil)
)

// New returns a chip of an architecture with nothing harvested.
func New(a chip.Arch) *Function {
	return &Function{Arch: a, regs: map[uint64]uint32{}, bar2: map[uint64]uint32{}, pages: map[page]*[pageSize]byte{},
		Telemetry: map[uint16]uint32{14: 1000}}
}

// Kill makes every read return all ones.
func (f *Function) Kill() { f.locked(func() { f.dead = true }) }

// Break makes Fault report err.
func (f *Function) Break(err error) { f.locked(func() { f.fault = err }) }

// Quiet stops recording, which allocates.
func (f *Function) Quiet(on bool) { f.locked(func() { f.quiet = on }) }

func (f *Function) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *Function) record(a Access) {
	if !f.quiet {
		f.log = append(f.log, a)
	}
}

// Log returns the accesses since its last call.
func (f *Function) Log() []Access {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.log
	f.log = nil
	return l
}

// ConfigRead implements driver.Function.
func (f *Function) ConfigRead(off uint32) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return 0xFFFFFFFF
	}
	switch off {
	case 0:
		if f.Arch == chip.Wormhole {
			return 0x401E1E52
		}
		return 0xB1401E52
	case 4:
		return f.command
	case 0x2C:
		return f.Subsystem
	}
	return 0
}

// ConfigWrite implements driver.Function.
func (f *Function) ConfigWrite(off uint32, v uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if off == 4 {
		f.command = v & 0xFFFF
	}
}

// Reset implements driver.Resetter.
func (f *Function) Reset() error {
	if f.OnReset != nil {
		f.OnReset()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Stuck {
		return fmt.Errorf("drivertest: reset: the chip doesn't come back")
	}
	f.command &^= 1 << 6
	clear(f.bar2)
	return nil
}

// Message implements driver.Messenger.
func (f *Function) Message(request [8]uint32) [8]uint32 {
	if f.Messages != nil {
		return f.Messages(request)
	}
	request[0] = 0
	return request
}

// AttachDMA implements driver.Function.
func (f *Function) AttachDMA(d driver.DMA) { f.dma = d }

// Fault implements driver.Function.
func (f *Function) Fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault
}

// Close implements driver.Function.
func (f *Function) Close() error { return nil }

// BARLoad implements driver.Function.
func (f *Function) BARLoad(bar int, off uint64, width int) uint64 {
	var b [8]byte
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accessLocked(bar, off, b[:width], false)
	v := binary.LittleEndian.Uint64(b[:])
	f.record(Access{BAR: bar, Off: off, Width: width, Value: v})
	return v
}

// BARStore implements driver.Function.
func (f *Function) BARStore(bar int, off uint64, width int, v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record(Access{BAR: bar, Off: off, Width: width, Store: true, Value: v})
	f.accessLocked(bar, off, b[:width], true)
}

// BARRead implements driver.Function.
func (f *Function) BARRead(bar int, off uint64, p []byte) { f.bulk(bar, off, p, false) }

// BARWrite implements driver.Function.
func (f *Function) BARWrite(bar int, off uint64, p []byte) { f.bulk(bar, off, p, true) }

func (f *Function) bulk(bar int, off uint64, p []byte, store bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.record(Access{BAR: bar, Off: off, Width: len(p), Store: store, Bulk: true})
	f.accessLocked(bar, off, p, store)
}

// accessLocked panics on undefined behaviour of the caller.
func (f *Function) accessLocked(bar int, off uint64, p []byte, store bool) {
	if f.dead {
		for i := range p {
			if !store {
				p[i] = 0xFF
			}
		}
		return
	}
	width := uint64(len(p))
	switch {
	case bar == 2:
		f.word(f.bar2, off, p, store)
	case bar == 0 && off >= 0x1FC00000 && off < 0x1FC01000:
		if f.Arch == chip.Blackhole && width != 4 || off%width != 0 || width < 4 {
			panic(fmt.Sprintf("drivertest: access of %d bytes to window register %#x", width, off))
		}
		for i := uint64(0); i < width; i += 4 {
			f.word(f.regs, off+i, p[i:i+4], store)
		}
	case bar == 0 && f.Arch == chip.Blackhole && off == 0x1FD04044:
		binary.LittleEndian.PutUint32(p, 0x2)
	case bar == 0 && f.Arch == chip.Wormhole && off == 0x1FF5002C:
		binary.LittleEndian.PutUint32(p, 0x280)
	default:
		f.window(bar, off, p, store)
	}
}

func (f *Function) word(regs map[uint64]uint32, off uint64, p []byte, store bool) {
	if len(p) != 4 || off%4 != 0 {
		panic(fmt.Sprintf("drivertest: access of %d bytes to register %#x", len(p), off))
	}
	if store {
		regs[off] = binary.LittleEndian.Uint32(p)
		return
	}
	binary.LittleEndian.PutUint32(p, regs[off])
}

// WindowTarget returns a window's configuration.
func (f *Function) WindowTarget(id int) Target {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, size := f.windowSpan(id)
	return f.decode(id, size)
}

func (f *Function) windowSpan(id int) (start, size uint64) {
	n := uint64(id)
	switch {
	case f.Arch == chip.Blackhole && n < 202:
		return n << 21, 1 << 21
	case f.Arch == chip.Blackhole:
		return (n - 202) << 32, 1 << 32
	case n < 156:
		return n << 20, 1 << 20
	case n < 166:
		return 156<<20 + (n-156)<<21, 1 << 21
	}
	return 176<<20 + (n-166)<<24, 1 << 24
}

func (f *Function) decode(id int, size uint64) Target {
	n, noc, words := uint(36), uint(1), uint64(2)
	if f.Arch == chip.Blackhole {
		n, noc, words = 64, 2, 3
	}
	at := 0x1FC00000 + 4*words*uint64(id)
	lo, hi := uint64(f.regs[at])|uint64(f.regs[at+4])<<32, uint64(0)
	if words == 3 {
		hi = uint64(f.regs[at+8])
	}
	field := func(width uint) uint64 { // the next bits
		v := lo & (1<<width - 1)
		lo, hi = lo>>width|hi<<(64-width), hi>>width
		return v
	}
	unit := uint(bits.TrailingZeros64(size))
	t := Target{Addr: field(n-unit) << unit}
	for _, v := range []struct {
		to    *uint8
		width uint
	}{
		{&t.X, 6}, {&t.Y, 6}, {&t.StartX, 6}, {&t.StartY, 6}, {&t.NOC, noc}, {&t.Multicast, 1}, {&t.Ordering, 2}, {&t.Linked, 1},
		{&t.StaticVC, 1},
	} {
		*v.to = uint8(field(v.width))
	}
	return t
}

func (f *Function) window(bar int, off uint64, p []byte, store bool) {
	count := 186
	if f.Arch == chip.Blackhole {
		count = 210
	}
	for id := range count {
		start, size := f.windowSpan(id)
		if in4 := f.Arch == chip.Blackhole && id >= 202; in4 != (bar == 4) || off < start || off-start >= size {
			continue
		}
		if off-start+uint64(len(p)) > size {
			panic(fmt.Sprintf("drivertest: access of %d bytes beyond window %d", len(p), id))
		}
		t := f.decode(id, size)
		addr := t.Addr + off - start
		if t.Multicast == 0 {
			if t.StartX|t.StartY != 0 {
				panic(fmt.Sprintf("drivertest: window %d has a start corner without multicast", id))
			}
			f.tileLocked(t.X, t.Y, addr, p, store)
			return
		}
		if !store {
			panic(fmt.Sprintf("drivertest: read through multicast window %d", id))
		}
		for y := t.StartY; y <= t.Y; y++ {
			for x := t.StartX; x <= t.X; x++ {
				f.tileLocked(x, y, addr, p, true)
			}
		}
		return
	}
	panic(fmt.Sprintf("drivertest: access to BAR %d offset %#x", bar, off))
}

// Tile copies memory of a tile.
func (f *Function) Tile(x, y uint8, addr uint64, n int) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := make([]byte, n)
	f.memory(x, y, addr, b, false)
	return b
}

// SetTile stores to memory of a tile.
func (f *Function) SetTile(x, y uint8, addr uint64, p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.memory(x, y, addr, p, true)
}

func (f *Function) memory(x, y uint8, addr uint64, p []byte, store bool) {
	for len(p) > 0 {
		k := page{x, y, addr / pageSize}
		in := addr % pageSize
		n := min(uint64(len(p)), pageSize-in)
		m := f.pages[k]
		if m == nil {
			m = new([pageSize]byte)
			f.pages[k] = m
		}
		if store {
			copy(m[in:], p[:n])
		} else {
			copy(p[:n], m[in:])
		}
		p, addr = p[n:], addr+n
	}
}

// Addresses of the management processor (tt-kmd wormhole.c and blackhole.c).
const (
	resetUnitWormhole  = 0x8_8003_0000
	resetUnitBlackhole = 0x8003_0000
	table              = 0x1000_1000 // on its bus; Wormhole's NoC adds 0x8_0000_0000
	tableValues        = table + 0x1000
)

func (f *Function) tileLocked(x, y uint8, addr uint64, p []byte, store bool) {
	unit := uint64(resetUnitWormhole)
	at := [2]uint8{0, 10}
	if f.Arch == chip.Blackhole {
		unit, at = resetUnitBlackhole, [2]uint8{8, 0}
	}
	if [2]uint8{x, y} != at || addr < 0x1000_0000 {
		f.memory(x, y, addr, p, store)
		return
	}
	if len(p) != 4 || addr%4 != 0 {
		panic(fmt.Sprintf("drivertest: access of %d bytes to ARC register %#x", len(p), addr))
	}
	if store {
		f.memory(x, y, addr, p, true)
		if f.Arch == chip.Wormhole && addr == unit+0x100 && binary.LittleEndian.Uint32(p)&(1<<16) != 0 {
			f.message(x, y, unit)
		}
		return
	}
	f.fillTable(x, y)
	f.memory(x, y, addr, p, false)
}

func (f *Function) message(x, y uint8, unit uint64) {
	var b [4]byte
	f.memory(x, y, unit+0x60+20, b[:], false)
	code := binary.LittleEndian.Uint32(b[:])
	if f.Mute || code&0xFF00 != 0xAA00 {
		return
	}
	result := uint32(0)
	if code&0xFF == 0x57 {
		result = f.Harvesting
	}
	binary.LittleEndian.PutUint32(b[:], result)
	f.memory(x, y, unit+0x60+12, b[:], true)
	binary.LittleEndian.PutUint32(b[:], code&0xFF)
	f.memory(x, y, unit+0x60+20, b[:], true)
}

func (f *Function) fillTable(x, y uint8) {
	var b [4]byte
	put := func(addr uint64, v uint32) {
		binary.LittleEndian.PutUint32(b[:], v)
		f.memory(x, y, addr, b[:], true)
	}
	noc, unit, ptr := uint64(0), uint64(resetUnitBlackhole), [2]uint64{0x434, 0x430}
	if f.Arch == chip.Wormhole {
		noc, unit, ptr = 0x8_0000_0000, resetUnitWormhole, [2]uint64{0x1D0, 0x1D4}
		put(unit+0x60, 0xC0DE0001)
	}
	if f.Telemetry == nil {
		return
	}
	put(unit+ptr[0], table)
	put(unit+ptr[1], tableValues)
	put(noc+table, 0x10000)
	put(noc+table+4, uint32(len(f.Telemetry)))
	for i, t := range slices.Sorted(maps.Keys(f.Telemetry)) {
		put(noc+table+8+4*uint64(i), uint32(t)|uint32(i)<<16)
		put(noc+tableValues+4*uint64(i), f.Telemetry[t])
	}
}

// HostAddress translates an offset of the aperture that the NoC reaches through the outbound
// regions.
func (f *Function) HostAddress(off uint64, size int) (bus uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	base := uint64(0x1000)
	if f.Arch == chip.Wormhole {
		base = 0x1200
	}
	for r := range uint64(16) {
		reg := func(n uint64) uint64 { return uint64(f.bar2[base+0x200*r+n]) }
		if reg(4)&(1<<31) == 0 {
			continue
		}
		first := reg(8) | reg(0xC)<<32
		limit := reg(0x10) | reg(0xC)<<32
		if f.Arch == chip.Blackhole {
			limit = reg(0x10) | reg(0x20)<<32
		}
		if off >= first && off+uint64(size)-1 <= limit {
			return (reg(0x14) | reg(0x18)<<32) + off - first, true
		}
	}
	return off, false
}

// ReadHost loads host memory at a NoC address.
func (f *Function) ReadHost(noc uint64, p []byte) error {
	return f.host(noc, p, f.dma.ReadHost)
}

// WriteHost stores to host memory at a NoC address.
func (f *Function) WriteHost(noc uint64, p []byte) error {
	return f.host(noc, p, f.dma.WriteHost)
}

func (f *Function) host(noc uint64, p []byte, do func(bus uint64, p []byte) error) error {
	base := uint64(1 << 60)
	if f.Arch == chip.Wormhole {
		base = 0x8_0000_0000
	}
	bus, ok := f.HostAddress(noc-base, len(p))
	if !ok {
		return fmt.Errorf("drivertest: no outbound region for NoC address %#x", noc)
	}
	return do(bus, p)
}
