package ttsim

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// A DMA is the host memory that a device can reach. A Function calls it from a goroutine of its Sim, also while a
// load of the same device is waiting for its answer, so it must not wait for anything that does loads.
type DMA interface {
	// ReadHost copies host memory from bus address bus into p.
	ReadHost(bus uint64, p []byte) error
	// WriteHost copies p to host memory at bus address bus. Aligned accesses of 4 and 8 bytes are atomic.
	WriteHost(bus uint64, p []byte) error
}

// A Function is one simulated chip as a PCI function. Its methods may be called from any goroutine.
type Function struct {
	sim    *Sim
	device uint32
	id     uint32
	bars   [3]uint64 // addresses of BAR 0, 2 and 4 in the library's address space
	dma    atomic.Pointer[DMA]
	closed atomic.Bool
}

// ID returns the function's PCI vendor and device id: 0x1E52, and 0x401E for a Wormhole or 0xB140 for a Blackhole
// (tt-kmd enumerate.h).
func (f *Function) ID() (vendor, device uint16) { return uint16(f.id), uint16(f.id >> 16) }

// Sim returns the simulator that the function belongs to.
func (f *Function) Sim() *Sim { return f.sim }

// String names the function in errors and reports: the library and the PCI address.
func (f *Function) String() string { return fmt.Sprintf("%s:00:%02x.0", f.sim.path, f.device) }

// ConfigRead reads a 32-bit word of config space at off, a multiple of 4 in the standard header; the library refuses
// others. A stopped device reads all-ones.
func (f *Function) ConfigRead(off uint32) uint32 {
	if f.closed.Load() {
		return ^uint32(0)
	}
	v, _ := f.sim.config(f.device, off)
	return v
}

// ConfigWrite writes a 32-bit word of config space. BARs can be sized with it, but the library keeps decoding the
// addresses that it started with, and the function uses those.
func (f *Function) ConfigWrite(off uint32, v uint32) {
	if f.closed.Load() {
		return
	}
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	f.sim.ask(opConfigWrite, uint64(f.device<<3)<<32|uint64(off), 4, b[:], nil)
}

// address translates to the library's address space. Something that isn't a BAR gets an address that the library
// refuses, so that the mistake has a name.
func (f *Function) address(bar int, off uint64) uint64 {
	if bar < 0 || bar > 4 || bar&1 != 0 {
		return uint64(f.device)<<deviceShift | off&(1<<32-1)
	}
	return f.bars[bar/2] + off
}

// deviceShift separates the devices' address ranges (ttsim src/libttsim.cpp PER_DEVICE_PADDR_STRIDE).
const deviceShift = 36

func deviceOf(paddr uint64) uint8 { return uint8(paddr >> deviceShift) }

// BARLoad performs one load of width 1, 2, 4 or 8 bytes at offset off of BAR 0, 2 or 4, after all earlier stores. A
// stopped device answers all-ones.
func (f *Function) BARLoad(bar int, off uint64, width int) uint64 {
	if f.closed.Load() {
		return ones(width)
	}
	v, ok := f.sim.load(f.address(bar, off), width)
	if !ok {
		return ones(width)
	}
	return v
}

func ones(width int) uint64 { return ^uint64(0) >> (64 - 8*uint(width)) }

// load asks for width bytes. It is ask without its function value, which would be allocated.
func (s *Sim) load(addr uint64, width int) (uint64, bool) {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.gone {
		return 0, false
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	if !s.await(opRead, addr, uint32(width), nil) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(s.shm.reply) & ones(width), true
}

// BARStore performs one store of width 1, 2, 4 or 8 bytes at offset off of BAR 0, 2 or 4. It is posted.
func (f *Function) BARStore(bar int, off uint64, width int, v uint64) {
	if f.closed.Load() {
		return
	}
	f.sim.store(f.address(bar, off), width, v)
}

func (s *Sim) store(addr uint64, width int, v uint64) {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.gone {
		return
	}
	s.queue.Lock()
	defer s.queue.Unlock()
	if !s.room(8) {
		return
	}
	// The payload's space is a multiple of 8 bytes, so the whole value can be put and the width tells what counts.
	r := &s.shm.requests
	binary.LittleEndian.PutUint64(r.slot(opWrite, 0, addr, uint32(width), 8), v)
	r.publish(8)
}

// BARRead copies from offset off of BAR 0, 2 or 4, in accesses as large as the transfer allows. It is for memory
// behind a TLB window: registers want BARLoad's exact width.
func (f *Function) BARRead(bar int, off uint64, p []byte) {
	addr := f.address(bar, off)
	for len(p) > 0 {
		n := min(len(p), replyBytes)
		dst := p[:n]
		if f.closed.Load() || !f.sim.ask(opRead, addr, uint32(n), nil, func(reply []byte) { copy(dst, reply) }) {
			for i := range p {
				p[i] = 0xFF
			}
			return
		}
		addr, p = addr+uint64(n), p[n:]
	}
}

// BARWrite copies p to offset off of BAR 0, 2 or 4, in accesses as large as the transfer allows. It is posted, and for
// memory behind a TLB window: registers want BARStore's exact width.
func (f *Function) BARWrite(bar int, off uint64, p []byte) {
	addr := f.address(bar, off)
	for len(p) > 0 && !f.closed.Load() {
		n := min(len(p), writeChunk)
		f.sim.post(opWrite, addr, p[:n])
		addr, p = addr+uint64(n), p[n:]
	}
}

// AttachDMA gives the device its host memory. It comes before anything that makes the device access that. The library
// doesn't tell which of its chips accesses host memory while they all run, so the bus addresses of the functions of a
// Sim must not overlap, as those of the devices in one host don't.
func (f *Function) AttachDMA(d DMA) {
	f.dma.Store(&d)
}

// Fault says why the device stopped, see Sim.Fault.
func (f *Function) Fault() error { return f.sim.Fault() }

// Close ends the use of the function. The last function to be closed ends the simulator.
func (f *Function) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	f.dma.Store(nil)
	if f.sim.open.Add(-1) == 0 {
		return f.sim.Close()
	}
	return nil
}
