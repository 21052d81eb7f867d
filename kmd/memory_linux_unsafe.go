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

func hugeFlags(page int) (int, bool) {
	const shift = 26 // MAP_HUGE_SHIFT: the size's logarithm
	return unix.MAP_HUGETLB | (bits.Len(uint(page))-1)<<shift, true
}

func settle(mem []byte, page, node int) error {
	// Fork's copy-on-write would give this process new pages while the device keeps the old ones.
	// Go never forks without exec, so a failure doesn't matter.
	_ = unix.Madvise(mem, unix.MADV_DONTFORK)
	if node >= 0 && node < 64 {
		// Preferred, not bound: slow memory is better than none. A machine without NUMA refuses.
		const preferred = 1 // MPOL_PREFERRED
		mask := uint64(1) << node
		_, _, _ = unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)),
			preferred, uintptr(unsafe.Pointer(&mask)), 65, 0)
	}
	if page == int(hostPage()) {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	}
	if page > int(hostPage()) {
		// A missing huge page raises SIGBUS at its first use, so populate now. Kernels before 5.14
		// return EINVAL and have reserved the pages.
		const populateWrite = 23 // MADV_POPULATE_WRITE
		if err := unix.Madvise(mem, populateWrite); err != nil && err != unix.EINVAL {
			return err
		}
	}
	return nil
}

// onHeap reports whether an address is in the adjacent mappings around this goroutine's stack,
// which is in Go's heap: while addresses are free the runtime maps its arenas adjacently.
func onHeap(addr uint64) bool {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return false
	}
	var local byte
	probe := uint64(uintptr(unsafe.Pointer(&local)))
	var from, to uint64 // of adjacent mappings
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
