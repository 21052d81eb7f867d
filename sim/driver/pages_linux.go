package driver

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// checkPages returns the error of pinning a range: EFAULT if its first page isn't accessible,
// EINVAL if a later one isn't (the driver pins fewer pages than asked).
func checkPages(va, size uint64, write bool) error {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return errno(err)
	}
	defer f.Close()
	at := va
	for s := bufio.NewScanner(f); s.Scan() && at < va+size; {
		start, end, perm, ok := parseMap(s.Text())
		if !ok || end <= at {
			continue
		}
		if start > at || perm[0] != 'r' || write && perm[1] != 'w' {
			break
		}
		at = end
	}
	switch {
	case at >= va+size:
		return nil
	case at == va:
		return syscall.EFAULT
	}
	return syscall.EINVAL
}

// parseMap parses the start of a line of /proc/self/maps, "start-end perm ...".
func parseMap(line string) (start, end uint64, perm string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 5 || len(f[1]) < 4 {
		return 0, 0, "", false
	}
	a, b, ok := strings.Cut(f[0], "-")
	start, err1 := strconv.ParseUint(a, 16, 64)
	end, err2 := strconv.ParseUint(b, 16, 64)
	return start, end, f[1], ok && err1 == nil && err2 == nil
}

// pageSizeAt returns the size of the page at an address, which is larger than usual only on
// hugetlbfs.
func pageSizeAt(va uint64) uint64 {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return pageSize()
	}
	defer f.Close()
	inside := false
	for s := bufio.NewScanner(f); s.Scan(); {
		if start, end, _, ok := parseMap(s.Text()); ok {
			inside = va >= start && va < end
			continue
		}
		var kib uint64
		if inside && strings.HasPrefix(s.Text(), "KernelPageSize:") {
			if _, err := fmt.Sscanf(s.Text(), "KernelPageSize: %d kB", &kib); err == nil {
				return kib << 10
			}
		}
	}
	return pageSize()
}

// holdPages makes pinned pages survive the caller's mapping if the kernel allows: mremap with old
// size 0 duplicates a shared mapping (mremap(2)). Pins of private memory end with the mapping.
func holdPages(va, size uint64) hostPages {
	p, _, no := unix.Syscall6(unix.SYS_MREMAP, uintptr(va), 0, uintptr(size), unix.MREMAP_MAYMOVE, 0, 0)
	if no != 0 {
		return hostPages{addr: va, size: size}
	}
	return hostPages{addr: uint64(p), size: size, unmap: func() {
		_, _, _ = unix.Syscall(unix.SYS_MUNMAP, p, uintptr(size), 0)
	}}
}

// newMemoryFile returns an anonymous file for memory, and the flags to map it.
func newMemoryFile(size uint64) (fd, flags int) {
	fd, err := unix.MemfdCreate("tenstorrent-dma", unix.MFD_CLOEXEC)
	if err == nil {
		if err = unix.Ftruncate(fd, int64(size)); err == nil {
			return fd, unix.MAP_SHARED
		}
		closeDescriptor(fd)
	}
	return -1, unix.MAP_ANON | unix.MAP_PRIVATE
}

// faultPage maps a page beyond the end of a file: SIGBUS with BUS_ADRERR, as from a zapped mapping.
func faultPage() []byte {
	fd, err := unix.MemfdCreate("zapped", unix.MFD_CLOEXEC)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	b, err := unix.Mmap(fd, 0, int(pageSize()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return b
}
