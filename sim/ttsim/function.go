package ttsim

import (
	"fmt"
	"sync/atomic"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/serve/function"
)

// A Function is one simulated chip as a PCI function.
type Function struct {
	sim                   *Sim
	device                uint32
	id                    uint32
	bars                  [3]uint64 // addresses of BAR 0, 2 and 4 in the library's address space
	tag                   uint64    // marks the function's bus addresses inside the library; 0 for a single function
	dma                   atomic.Pointer[driver.DMA]
	iatu, stride, regions uint64 // outbound iATU regions in BAR 2, if there is a tag
	closed                atomic.Bool
	controller            controller
	firmware              firmware
}

var (
	_ driver.Function   = (*Function)(nil)
	_ driver.Resetter   = (*Function)(nil)
	_ driver.ResetAsker = (*Function)(nil)
)

// The library doesn't say which chip makes a DMA transfer, and bus addresses can be equal. So a
// function of several writes its tag into the targets of its outbound iATU regions, above the 58
// bits of a bus address (tt-kmd blackhole.c), and finds it in transfers.
const (
	tagShift = 58
	busMask  = 1<<tagShift - 1
)

func (f *Function) share() {
	pci := f.Arch().Params().PCI
	f.tag = uint64(f.device+1) << tagShift
	f.iatu, f.stride, f.regions = uint64(pci.IATUBase), uint64(pci.IATUStride), uint64(pci.IATURegions)
}

// targetHigh reports the upper target of a tagged outbound iATU region (ttsim src/libttsim.cpp
// iatu_reg_field).
func (f *Function) targetHigh(bar int, off uint64) bool {
	in := off - f.iatu
	return bar == 2 && f.tag != 0 && in < f.regions*f.stride && in%f.stride == 0x18
}

// ID returns the PCI ids: 0x1E52, and 0x401E for a Wormhole or 0xB140 for a Blackhole (tt-kmd
// enumerate.h).
func (f *Function) ID() (vendor, device uint16) { return uint16(f.id), uint16(f.id >> 16) }

// Arch returns the function's architecture.
func (f *Function) Arch() chip.Arch {
	if f.id == idBlackhole {
		return chip.Blackhole
	}
	return chip.Wormhole
}

// Sim returns the function's simulator.
func (f *Function) Sim() *Sim { return f.sim }

func (f *Function) String() string { return fmt.Sprintf("%s:00:%02x.0", f.sim.path, f.device) }

// ConfigRead reads a word of the standard header; all ones once the device stopped.
func (f *Function) ConfigRead(off uint32) uint32 {
	if f.closed.Load() {
		return ^uint32(0)
	}
	v, _ := f.client().ConfigRead(f.device, off)
	return v
}

// ConfigWrite writes a word of config space. The library keeps decoding the BARs' initial
// addresses.
func (f *Function) ConfigWrite(off uint32, v uint32) {
	if f.closed.Load() {
		return
	}
	f.client().ConfigWrite(f.device, off, v)
}

// The library refuses and reports an invalid BAR's address.
func (f *Function) address(bar int, off uint64) uint64 {
	if bar < 0 || bar > 4 || bar&1 != 0 {
		return uint64(f.device)<<function.DeviceShift | off&(1<<32-1)
	}
	return f.bars[bar/2] + off
}

// BARLoad performs one load after all earlier stores; all ones on a stopped device.
func (f *Function) BARLoad(bar int, off uint64, width int) uint64 {
	v, ok := uint64(0), !f.closed.Load()
	if ok {
		v, ok = f.client().Load(f.address(bar, off), width)
	}
	if !ok {
		return ^uint64(0) >> (64 - 8*uint(width))
	}
	if f.targetHigh(bar, off) {
		v &= busMask >> 32
	}
	return v
}

// BARStore performs one posted store of width 1, 2, 4 or 8 bytes of BAR 0, 2 or 4.
func (f *Function) BARStore(bar int, off uint64, width int, v uint64) {
	if f.closed.Load() {
		return
	}
	if f.targetHigh(bar, off) {
		v |= f.tag >> 32
	}
	f.stored(bar, off, v)
	f.client().Store(f.address(bar, off), width, v)
}

// BARRead copies from BAR 0, 2 or 4 in large accesses.
func (f *Function) BARRead(bar int, off uint64, p []byte) { f.read(f.client(), bar, off, p) }

func (f *Function) read(from *function.Client, bar int, off uint64, p []byte) {
	if f.closed.Load() || !from.Read(f.address(bar, off), p) {
		for i := range p {
			p[i] = 0xFF
		}
	}
}

// BARWrite copies to BAR 0, 2 or 4 in large posted accesses.
func (f *Function) BARWrite(bar int, off uint64, p []byte) { f.write(f.client(), bar, off, p) }

func (f *Function) write(to *function.Client, bar int, off uint64, p []byte) {
	to.Write(f.address(bar, off), p, f.closed.Load)
}

// AttachDMA gives the device its host memory, before any access. d is called while a load waits for
// its answer, so it must not wait for loads. An error stops the device.
func (f *Function) AttachDMA(d driver.DMA) { f.dma.Store(&d) }

// Fault is Sim.Fault.
func (f *Function) Fault() error { return f.sim.Fault() }

// CoreDebug is false: the library stops at the debug interface's registers.
func (f *Function) CoreDebug() bool { return false }

// Reset restores the chip's power-on state, also after a fault, or fails with ErrSharedReset.
func (f *Function) Reset() error {
	if n := len(f.sim.functions); n > 1 {
		return fmt.Errorf("ttsim: reset %s: %w: there are %d", f, ErrSharedReset, n)
	}
	return f.sim.Reset()
}

// Close ends the use of the function; the last one's ends the simulator.
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
