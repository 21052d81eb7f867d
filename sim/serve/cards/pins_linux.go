package cards

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// view is a client's memory where the server has mapped it.
type view struct {
	inode uint64
	mem   []byte
	pins  int
}

// pinned is a range that a client has pinned.
type pinned struct {
	file   seam.File
	va, at uint64 // in the client, in the server
	view   *view
}

// pins are the pinned ranges of a client and the server's views of them. A client's lock guards it.
type pins struct {
	list  []pinned
	views []*view
}

// viewOf maps a client's memory, or finds it.
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

// forget unmaps a view that no pin needs.
func (s *pins) forget(v *view) {
	if v.pins > 0 {
		return
	}
	_ = unix.Munmap(v.mem) // of a mapping that viewOf made
	s.views = slices.DeleteFunc(s.views, func(o *view) bool { return o == v })
}

// pin performs PIN_PAGES on memory that lies in a file at an offset. Without a file the address is
// one that the client hasn't mapped.
func (s *pins) pin(f seam.File, arg []byte, fd int, off uint64) error {
	var in kabi.PinPagesIn
	whole := copy(kabi.PartBytes(&in), arg) == len(kabi.PartBytes(&in))
	if !whole {
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
	copy(arg, kabi.PartBytes(&in))
	err := f.Ioctl(kabi.IoctlPinPages, arg)
	in.VirtualAddress = va
	copy(arg, kabi.PartBytes(&in))
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

// unpin performs UNPIN_PAGES. Of several pins at an address the newest is meant, as by the driver.
func (s *pins) unpin(f seam.File, arg []byte) error {
	var in kabi.UnpinPagesIn
	if copy(kabi.PartBytes(&in), arg) != len(kabi.PartBytes(&in)) {
		return f.Ioctl(kabi.IoctlUnpinPages, arg)
	}
	va := in.VirtualAddress
	i := len(s.list) - 1
	for ; i >= 0 && (s.list[i].file != f || s.list[i].va != va); i-- {
	}
	in.VirtualAddress = 0 // where nothing can be
	if i >= 0 {
		in.VirtualAddress = s.list[i].at
	}
	copy(arg, kabi.PartBytes(&in))
	err := f.Ioctl(kabi.IoctlUnpinPages, arg)
	in.VirtualAddress = va
	copy(arg, kabi.PartBytes(&in))
	if err == nil && i >= 0 {
		v := s.list[i].view
		s.list = slices.Delete(s.list, i, i+1)
		v.pins--
		s.forget(v)
	}
	return err
}

// drop forgets what a file has pinned. The driver holds the pages on its own as long as the file
// lives.
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

// dropAll forgets everything.
func (s *pins) dropAll() {
	for len(s.list) > 0 {
		s.drop(s.list[0].file)
	}
}
