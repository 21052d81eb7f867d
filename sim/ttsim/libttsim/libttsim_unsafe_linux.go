//go:build linux && (amd64 || arm64 || riscv64)

package libttsim

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/reprise-tt/reprise/sim/serve/function"
)

// libttsim is the loaded entry points (ttsim docs/libttsim_api.md).
type libttsim struct {
	configRead, configWrite, read, write, clock, exit uintptr
}

// A process has one instance, for good.
func load(path string, cb function.Callbacks) (function.Library, error) {
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", function.ErrLoad, err)
	}
	var l libttsim
	var setCallbacks, initialize uintptr
	for name, p := range map[string]*uintptr{
		"libttsim_init":                      &initialize,
		"libttsim_exit":                      &l.exit,
		"libttsim_set_pci_dma_mem_callbacks": &setCallbacks,
		"libttsim_pci_config_rd32":           &l.configRead,
		"libttsim_pci_config_wr32":           &l.configWrite,
		"libttsim_pci_mem_rd_bytes":          &l.read,
		"libttsim_pci_mem_wr_bytes":          &l.write,
		"libttsim_clock":                     &l.clock,
	} {
		if *p, err = purego.Dlsym(h, name); err != nil {
			return nil, fmt.Errorf("%w: %w", function.ErrSymbol, err)
		}
	}
	// The callbacks' buffers are the library's, and valid only during the call.
	rd := purego.NewCallback(func(bus uintptr, p unsafe.Pointer, n uint32) { cb.Read(uint64(bus), unsafe.Slice((*byte)(p), n)) })
	wr := purego.NewCallback(func(bus uintptr, p unsafe.Pointer, n uint32) { cb.Write(uint64(bus), unsafe.Slice((*byte)(p), n)) })
	purego.SyscallN(setCallbacks, rd, wr)
	purego.SyscallN(initialize)
	return &l, nil
}

func (l *libttsim) ConfigRead(bdf, off uint32) uint32 {
	r, _, _ := purego.SyscallN(l.configRead, uintptr(bdf), uintptr(off))
	return uint32(r)
}

func (l *libttsim) ConfigWrite(bdf, off, v uint32) {
	purego.SyscallN(l.configWrite, uintptr(bdf), uintptr(off), uintptr(v))
}

// Read and Write get memory that the garbage collector doesn't move: see function.Library.

func (l *libttsim) Read(paddr uint64, p []byte) {
	purego.SyscallN(l.read, uintptr(paddr), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
}

func (l *libttsim) Write(paddr uint64, p []byte) {
	purego.SyscallN(l.write, uintptr(paddr), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
}

func (l *libttsim) Clock(n uint32) { purego.SyscallN(l.clock, uintptr(n)) }
func (l *libttsim) Exit()          { purego.SyscallN(l.exit) }
