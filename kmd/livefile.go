package kmd

import (
	"sync/atomic"
	"syscall"

	"github.com/reprise-tt/reprise/internal/seam"
)

// liveFile is the file of a Device, which Recover replaces. Without a file every request is ENODEV.
type liveFile struct{ p atomic.Pointer[seam.File] }

var _ seam.File = (*liveFile)(nil)

// swap replaces the file by f, which may be nil, and returns the one before, or nil.
func (l *liveFile) swap(f seam.File) seam.File {
	var n *seam.File
	if f != nil {
		n = &f
	}
	if old := l.p.Swap(n); old != nil {
		return *old
	}
	return nil
}

// Ioctl implements seam.File.
func (l *liveFile) Ioctl(req uint32, arg []byte) error {
	if f := l.p.Load(); f != nil {
		return (*f).Ioctl(req, arg)
	}
	return syscall.ENODEV
}

// Mmap implements seam.File.
func (l *liveFile) Mmap(offset uint64, length int) (seam.Mapping, error) {
	if f := l.p.Load(); f != nil {
		return (*f).Mmap(offset, length)
	}
	return seam.Mapping{}, syscall.ENODEV
}

// Fault implements seam.File.
func (l *liveFile) Fault() error {
	if f := l.p.Load(); f != nil {
		return (*f).Fault()
	}
	return nil
}

// Close closes the file for good.
func (l *liveFile) Close() error {
	if f := l.swap(nil); f != nil {
		return f.Close()
	}
	return nil
}

// descriptor returns the file's descriptor, for another file's ioctl.
func (l *liveFile) descriptor() (int, error) {
	if f := l.p.Load(); f != nil {
		if d, ok := (*f).(interface{ Descriptor() (int, error) }); ok {
			return d.Descriptor()
		}
		return -1, syscall.EOPNOTSUPP
	}
	return -1, syscall.ENODEV
}

// releaseLast makes the process's end release the file after all others.
func (l *liveFile) releaseLast() error {
	f := l.p.Load()
	if f == nil {
		return syscall.ENODEV
	}
	if r, ok := (*f).(interface{ ReleaseLast() error }); ok {
		return r.ReleaseLast()
	}
	return syscall.EOPNOTSUPP
}
