//go:build linux

package kmd

import (
	"fmt"
	"math/bits"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugeFlags are the flags of mmap for huge pages of a size.
func hugeFlags(page int) (int, bool) {
	const shift = 26 // MAP_HUGE_SHIFT: the size's logarithm
	return unix.MAP_HUGETLB | (bits.Len(uint(page))-1)<<shift, true
}

// settle prepares memory before its first use.
func settle(mem []byte, page, node int) error {
	// Excluded from fork, whose copy-on-write would give this process new pages while the device
	// keeps the old ones. Go itself never forks without exec, and the advice costs nothing; without
	// it all works.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	if node >= 0 && node < 64 {
		// Preferred, not bound: memory of another node is slower, but better than none. A machine
		// without nodes refuses.
		const preferred = 1 // MPOL_PREFERRED
		mask := uint64(1) << node
		_, _, _ = unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)),
			preferred, uintptr(unsafe.Pointer(&mask)), 65, 0)
	}
	if page == int(hostPage()) {
		// Lets the kernel use huge pages: fewer TLB misses in a ring that is larger than what the
		// TLB reaches, and fewer page faults where pinning doesn't touch the pages. It is advice
		// only.
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
	if page > int(hostPage()) {
		// A huge page that isn't there raises SIGBUS at its first use; this asks for all of them
		// now. Kernels before 5.14 don't know it and have reserved them with the mapping.
		const populateWrite = 23 // MADV_POPULATE_WRITE
		if err := unix.Madvise(mem, populateWrite); err != nil && err != unix.EINVAL {
			return err
		}
	}
	return nil
}

// onHeap reports whether an address is in Go's heap: in mappings without a gap between them, one of
// which has this goroutine's stack, which is in the heap. The runtime maps its arenas like that as
// long as their addresses are free, so it finds all of a usual heap, and nothing that mmap was
// asked for without an address.
func onHeap(addr uint64) bool {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return false
	}
	var local byte
	probe := uint64(uintptr(unsafe.Pointer(&local)))
	var from, to uint64 // of mappings without a gap
	for line := range strings.Lines(string(maps)) {
		var start, end uint64
		if _, err := fmt.Sscanf(line, "%x-%x", &start, &end); err != nil {
			return false
		}
		if start != to {
			from = start
		}
		to = end
		in := func(a uint64) bool { return from <= a && a < to }
		if in(probe) && in(addr) {
			return true
		}
	}
	return false
}
