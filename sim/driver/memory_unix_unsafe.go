//go:build unix

package driver

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/seam"
)

// newPages returns zeroed memory of the driver's own. It belongs to a file without a name where the
// system has such, so that it can be mapped into another process.
func newPages(size uint64) (hostPages, error) {
	fd, flags := newMemoryFile(size)
	b, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		if fd >= 0 {
			closeDescriptor(fd)
		}
		return hostPages{}, err
	}
	addr := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	return hostPages{addr: addr, size: size, file: fd, unmap: func() {
		_ = unix.Munmap(b)
		if fd >= 0 {
			closeDescriptor(fd)
		}
	}}, nil
}

// BusError raises the fault that an access to a mapping raises which the driver has taken away:
// SIGBUS on Linux. Who recovers it, by debug.SetPanicOnFault, gets a seam.MappingFault.
func BusError() {
	p := faultPage()
	defer func() {
		_ = unix.Munmap(p)
		e := recover()
		if f, ok := e.(fault); ok {
			e = busFault{f}
		}
		panic(e)
	}()
	loaded := *(*byte)(unsafe.Pointer(unsafe.SliceData(p)))
	panic(loaded) // unreachable: the load faults
}

// fault is what Go makes of a fault at an address.
type fault interface {
	runtime.Error
	Addr() uintptr
}

// busFault is the fault of a mapping, whose address is that of no mapping.
type busFault struct{ fault }

var _ seam.MappingFault = busFault{}

// OfMapping implements seam.MappingFault.
func (busFault) OfMapping() {}
