//go:build linux

package cards

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/sim/driver"
)

func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

// pointerTo is for mmap'ed memory, never for Go's heap.
func pointerTo(va uint64) unsafe.Pointer {
	addr := uintptr(va)
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

type hostMemory struct {
	mu    sync.Mutex
	files []memoryFile
	pins  []hostPin
}

const memoryName = "reprise-pinned"

// memoryFile is an anonymous file whose pages replaced some of this process's.
type memoryFile struct {
	inode uint64
	fd    int
}

type hostPin struct {
	file     *file
	va, size uint64
}

func (m memoryFile) has(a driver.Area) bool {
	return m.inode == a.Inode && strings.HasPrefix(a.Name, "/memfd:"+memoryName)
}

// do performs PIN_PAGES with the memory's file, -1 for unmapped memory, and offset.
func (h *hostMemory) pin(f *file, arg []byte, do func(fd int, off uint64) error) error {
	in, _, ok := kabi.Decode[kabi.PinPagesIn](arg)
	page := uint64(unix.Getpagesize())
	if !ok || in.Size == 0 || (in.VirtualAddress|in.Size)%page != 0 ||
		in.VirtualAddress+in.Size < in.VirtualAddress {
		return do(-1, 0)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	fd, off, err := h.sharedLocked(in.VirtualAddress, in.Size, in.Flags&kabi.PinPagesReadOnly == 0)
	if err != nil {
		return err
	}
	if err = do(fd, off); err == nil {
		h.pins = append(h.pins, hostPin{f, in.VirtualAddress, in.Size})
	}
	return err
}

func (h *hostMemory) unpinned(f *file, arg []byte) {
	in, _, _ := kabi.Decode[kabi.UnpinPagesIn](arg)
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, p := range slices.Backward(h.pins) {
		if p.file == f && p.va == in.VirtualAddress {
			h.pins = slices.Delete(h.pins, i, i+1)
			return
		}
	}
}

func (h *hostMemory) closed(f *file) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pins = slices.DeleteFunc(h.pins, func(p hostPin) bool { return p.file == f })
	if areas, err := driver.Areas(); err == nil {
		h.sweepLocked(areas)
	}
}

func (h *hostMemory) sweepLocked(areas []driver.Area) {
	h.files = slices.DeleteFunc(h.files, func(m memoryFile) bool {
		if slices.ContainsFunc(areas, m.has) {
			return false
		}
		_ = unix.Close(m.fd) // can't fail
		return true
	})
}

// sharedLocked may move the range into a new file.
func (h *hostMemory) sharedLocked(va, size uint64, write bool) (fd int, off uint64, err error) {
	areas, err := driver.Areas()
	if err != nil {
		return -1, 0, err
	}
	h.sweepLocked(areas)
	at := va
	prot := unix.PROT_READ | unix.PROT_WRITE
	for _, a := range areas {
		if a.End <= at {
			continue
		}
		if a.Start > at || a.Perm[0] != 'r' || write && a.Perm[1] != 'w' {
			break
		}
		if a.Perm[1] != 'w' {
			prot = unix.PROT_READ
		}
		i := slices.IndexFunc(h.files, func(m memoryFile) bool { return m.has(a) })
		switch {
		case i >= 0 && a.Start <= va && va+size <= a.End:
			return h.files[i].fd, a.Off + va - a.Start, nil
		case i < 0 && a.Perm[3] == 's':
			return -1, 0, unix.EOPNOTSUPP // others share its pages
		}
		if at = a.End; at >= va+size {
			break
		}
	}
	switch {
	case at == va:
		return -1, 0, unix.EFAULT
	case at < va+size:
		return -1, 0, unix.EINVAL // as the driver, if it pins fewer pages than asked
	case slices.ContainsFunc(h.pins, func(p hostPin) bool { return p.va < va+size && va < p.va+p.size }):
		return -1, 0, unix.EOPNOTSUPP // this process would lose that pin's pages
	}
	m, err := move(va, size, prot)
	if err != nil {
		return -1, 0, err
	}
	h.files = append(h.files, m)
	return m.fd, 0, nil
}

func move(va, size uint64, prot int) (m memoryFile, err error) {
	fd, err := unix.MemfdCreate(memoryName, unix.MFD_CLOEXEC)
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd) // the first error is the one to report
		}
	}()
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return m, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return m, err
	}
	mem := unsafe.Slice((*byte)(pointerTo(va)), int(size))
	page := unix.Getpagesize()
	zeroes := make([]byte, page)
	for i := 0; i < len(mem); i += page {
		if p := mem[i : i+page]; !bytes.Equal(p, zeroes) {
			if _, err := unix.Pwrite(fd, p, int64(i)); err != nil {
				return m, err
			}
		}
	}
	if _, err := unix.MmapPtr(fd, 0, pointerTo(va), uintptr(size), prot, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		return m, err
	}
	return memoryFile{st.Ino, fd}, nil
}
