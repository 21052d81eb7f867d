package kmd

import (
	"sync/atomic"
	"syscall"

	"github.com/reprise-tt/reprise/internal/seam"
)

// liveFile is the file of a Device, which Recover replaces. Without one requests are ENODEV.
type liveFile struct{ p atomic.Pointer[seam.File] }

var _ seam.File = (*liveFile)(nil)

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

func (l *liveFile) Ioctl(req uint32, arg []byte) error {
	if f := l.p.Load(); f != nil {
		return (*f).Ioctl(req, arg)
	}
	return syscall.ENODEV
}

func (l *liveFile) Mmap(offset uint64, length int) (seam.Mapping, error) {
	if f := l.p.Load(); f != nil {
		return (*f).Mmap(offset, length)
	}
	return seam.Mapping{}, syscall.ENODEV
}

func (l *liveFile) Fault() error {
	if f := l.p.Load(); f != nil {
		return (*f).Fault()
	}
	return nil
}

func (l *liveFile) Close() error {
	if f := l.swap(nil); f != nil {
		return f.Close()
	}
	return nil
}

func as[T any](l *liveFile) (t T, ok bool) {
	if f := l.p.Load(); f != nil {
		t, ok = (*f).(T)
	}
	return t, ok
}

func (l *liveFile) missing() error {
	if l.p.Load() == nil {
		return syscall.ENODEV
	}
	return syscall.EOPNOTSUPP
}

func (l *liveFile) releaseLast() error {
	if r, ok := as[interface{ ReleaseLast() error }](l); ok {
		return r.ReleaseLast()
	}
	return l.missing()
}
