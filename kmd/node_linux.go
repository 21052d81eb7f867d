package kmd

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/seam"
)

type systemNode string

func (n systemNode) String() string { return string(n) }

// An *os.File's finalizer could close the descriptor at any time: a mapping keeps the device busy,
// and a later ioctl could hit another file.
func (n systemNode) Open(flags int) (seam.File, error) {
	fd, err := unix.Open(string(n), flags|unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &systemFile{fd: fd, last: -1}, nil
}

type systemFile struct {
	mu   sync.RWMutex // held for reading while fd is in use
	fd   int          // -1 once closed
	last int          // the socket of ReleaseLast, or -1
}

func (f *systemFile) Fault() error { return nil }

func (f *systemFile) Descriptor() (int, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.fd < 0 {
		return -1, unix.EBADF
	}
	return f.fd, nil
}

func (f *systemFile) Mmap(offset uint64, length int) (seam.Mapping, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.fd < 0 {
		return seam.Mapping{}, unix.EBADF
	}
	b, err := unix.Mmap(f.fd, int64(offset), length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return seam.Mapping{}, err
	}
	return seam.Mapping{Mem: b, Unmap: func() error { return unix.Munmap(b) }}, nil
}

// Close closes the descriptor after running ioctls have returned.
func (f *systemFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd < 0 {
		return unix.EBADF
	}
	err := unix.Close(f.fd)
	f.fd = -1
	if f.last >= 0 {
		err = errors.Join(err, unix.Close(f.last))
		f.last = -1
	}
	return err
}
