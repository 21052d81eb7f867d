package cards

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

type view struct {
	inode uint64
	mem   []byte
	pins  int
}

type pinned struct {
	file   seam.File
	va, at uint64 // addresses in the client and in the server
	view   *view
}

// pins are a client's pinned ranges and the server's views of them.
type pins struct {
	list  []pinned
	views []*view
}

func (s *pins) viewOf(fd int) (*view, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(s.views, func(v *view) bool { return v.inode == st.Ino }); i >= 0 {
		return s.views[i], nil
	}
	mem, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	v := &view{inode: st.Ino, mem: mem}
	s.views = append(s.views, v)
	return v, nil
}

func (s *pins) forget(v *view) {
	if v.pins > 0 {
		return
	}
	_ = unix.Munmap(v.mem) // can't fail
	s.views = slices.DeleteFunc(s.views, func(o *view) bool { return o == v })
}

// A negative fd is unmapped memory.
func (s *pins) pin(f seam.File, arg []byte, fd int, off uint64) error {
	in, _, ok := kabi.Decode[kabi.PinPagesIn](arg)
	if !ok {
		return f.Ioctl(kabi.IoctlPinPages, arg)
	}
	va := in.VirtualAddress
	in.VirtualAddress &= uint64(unix.Getpagesize()) - 1
	var v *view
	if fd >= 0 {
		var err error
		if v, err = s.viewOf(fd); err != nil {
			return err
		}
		if size := uint64(len(v.mem)); off > size || in.Size > size-off {
			s.forget(v)
			return unix.EFAULT
		}
		in.VirtualAddress = addressOf(v.mem) + off
	}
	at := in.VirtualAddress
	err := moved(f, kabi.IoctlPinPages, arg, &in, &in.VirtualAddress, va)
	switch {
	case v == nil:
	case err != nil:
		s.forget(v)
	default:
		v.pins++
		s.list = append(s.list, pinned{file: f, va: va, at: at, view: v})
	}
	return err
}

// moved asks the driver with another input, whose address is then the client's again.
func moved[T kabi.Part](f seam.File, req uint32, arg []byte, in *T, address *uint64, va uint64) error {
	kabi.Put(arg, in)
	err := f.Ioctl(req, arg)
	*address = va
	kabi.Put(arg, in)
	return err
}

// unpin takes the newest pin at an address, as the driver does.
func (s *pins) unpin(f seam.File, arg []byte) error {
	in, _, ok := kabi.Decode[kabi.UnpinPagesIn](arg)
	if !ok {
		return f.Ioctl(kabi.IoctlUnpinPages, arg)
	}
	va := in.VirtualAddress
	i := len(s.list) - 1
	for ; i >= 0 && (s.list[i].file != f || s.list[i].va != va); i-- {
	}
	in.VirtualAddress = 0 // never pinned
	if i >= 0 {
		in.VirtualAddress = s.list[i].at
	}
	err := moved(f, kabi.IoctlUnpinPages, arg, &in, &in.VirtualAddress, va)
	if err == nil && i >= 0 {
		v := s.list[i].view
		s.list = slices.Delete(s.list, i, i+1)
		v.pins--
		s.forget(v)
	}
	return err
}

// The driver holds the pages as long as the file lives.
func (s *pins) drop(f seam.File) {
	s.list = slices.DeleteFunc(s.list, func(p pinned) bool {
		if p.file != f {
			return false
		}
		p.view.pins--
		s.forget(p.view)
		return true
	})
}
