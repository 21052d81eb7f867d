package driverdiff

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newArena returns memory to pin, followed by inaccessible memory.
func newArena() (mem []byte, free func(), err error) {
	const guard = 16
	page := os.Getpagesize()
	all, err := unix.Mmap(-1, 0, (arenaPages+guard)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, err
	}
	free = func() { _ = unix.Munmap(all) } // can't fail
	if err := unix.Mprotect(all[arenaPages*page:], unix.PROT_NONE); err != nil {
		free()
		return nil, nil, err
	}
	mem = all[:arenaPages*page]
	for i := range mem {
		mem[i] = 1 // allocates the page
	}
	return mem, free, nil
}

func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }
