//go:build unix

package driver

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/seam"
)

// newPages uses an anonymous file if the system has those, for other processes.
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

// BusError raises SIGBUS as an access to a revoked mapping. With debug.SetPanicOnFault the
// recovered value is a seam.MappingFault.
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

type fault interface {
	runtime.Error
	Addr() uintptr
}

// busFault is the fault of a revoked mapping, whose own address means nothing.
type busFault struct{ fault }

var _ seam.MappingFault = busFault{}

func (busFault) OfMapping() {}
