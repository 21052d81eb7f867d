//go:build linux

package session

import (
	"bytes"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// split moves the pages, huge ones too, to another address for the device, and gives the host new
// ones with the same bytes. Nothing may use the memory meanwhile.
func split(va, size uint64) (*region, error) {
	at, err := moveAway(va, size)
	if err != nil {
		return nil, err
	}
	device := unsafe.Slice((*byte)(at), int(size))
	r := &region{host: memoryAt(va, size), device: device, seen: make([]byte, size)}
	r.used[1].update(device)
	r.used[1].copyTo(r.seen, device)
	r.used[1].copyTo(r.host, device)
	r.end = func(restore bool) error {
		if !restore {
			return unix.MunmapPtr(at, uintptr(size))
		}
		copyChanged(device, r.host, &r.used[0])
		_, err := unix.MremapPtr(at, uintptr(size), pointerTo(va), uintptr(size), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
		return err
	}
	return r, nil
}

// moveAway moves pages to a reserved address, and leaves empty pages.
func moveAway(va, size uint64) (unsafe.Pointer, error) {
	at, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	if _, err := unix.MremapPtr(pointerTo(va), uintptr(size), at, uintptr(size), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
		return nil, errors.Join(err, unix.MunmapPtr(at, uintptr(size)))
	}
	_, err = unix.MmapPtr(-1, 0, pointerTo(va), uintptr(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED)
	return at, err
}

// copyChanged writes only to pages that differ.
func copyChanged(to, from []byte, used *pages) {
	used.update(from)
	for at := 0; at < len(from); at += memoryBlock {
		end := min(at+memoryBlock, len(from))
		if used.has(at) && !bytes.Equal(to[at:end], from[at:end]) {
			copy(to[at:end], from[at:end])
		}
	}
}

func whole(va, size uint64) *region {
	r := &region{host: memoryAt(va, size), seen: make([]byte, size)}
	r.used[0].update(r.host)
	r.used[0].copyTo(r.seen, r.host)
	return r
}

func resident(mem, vec []byte) bool {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)),
		uintptr(unsafe.Pointer(unsafe.SliceData(vec))))
	return errno == 0
}
