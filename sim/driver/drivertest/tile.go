package drivertest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

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
