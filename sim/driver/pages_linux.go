package driver

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Area is a mapping of this process: a line of /proc/self/maps.
type Area struct {
	Start, End, Off, Inode uint64
	Perm, Name             string // "rw-s"
}

// Areas lists this process's mappings by address.
func Areas() ([]Area, error) {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	var l []Area
	for line := range strings.Lines(string(b)) {
		if a, ok := parseArea(line); ok {
			l = append(l, a)
		}
	}
	return l, nil
}

// A line is "start-end perm offset device inode name"; smaps has others.
func parseArea(line string) (a Area, ok bool) {
	f := strings.Fields(line)
	if len(f) < 5 || len(f[1]) < 4 {
		return a, false
	}
	start, end, _ := strings.Cut(f[0], "-")
	var errs [4]error
	a.Start, errs[0] = strconv.ParseUint(start, 16, 64)
	a.End, errs[1] = strconv.ParseUint(end, 16, 64)
	a.Off, errs[2] = strconv.ParseUint(f[2], 16, 64)
	a.Inode, errs[3] = strconv.ParseUint(f[4], 10, 64)
	a.Perm = f[1]
	if len(f) > 5 {
		a.Name = f[5]
	}
	return a, errors.Join(errs[:]...) == nil
}

// A first page that isn't accessible is EFAULT, a later one EINVAL, as the driver then pins fewer
// pages than asked.
func checkPages(va, size uint64, write bool) error {
	areas, err := Areas()
	if err != nil {
		return errno(err)
	}
	at := va
	for _, a := range areas {
		if a.End <= at {
			continue
		}
		if at >= va+size || a.Start > at || a.Perm[0] != 'r' || write && a.Perm[1] != 'w' {
			break
		}
		at = a.End
	}
	switch {
	case at >= va+size:
		return nil
	case at == va:
		return syscall.EFAULT
	}
	return syscall.EINVAL
}

// hugetlbfs has larger pages.
func pageSizeAt(va uint64) uint64 {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return pageSize()
	}
	defer f.Close()
	inside := false
	for s := bufio.NewScanner(f); s.Scan(); {
		if a, ok := parseArea(s.Text()); ok {
			inside = va >= a.Start && va < a.End
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

// holdPages keeps pinned pages of a shared mapping beyond the caller's: mremap with old size 0
// duplicates it (mremap(2)). Pins of private memory end with the mapping.
func holdPages(va, size uint64) hostPages {
	p, _, no := unix.Syscall6(unix.SYS_MREMAP, uintptr(va), 0, uintptr(size), unix.MREMAP_MAYMOVE, 0, 0)
	if no != 0 {
		return hostPages{addr: va, size: size}
	}
	return hostPages{addr: uint64(p), size: size, unmap: func() {
		_, _, _ = unix.Syscall(unix.SYS_MUNMAP, p, uintptr(size), 0)
	}}
}

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

// A page beyond the end of a file is SIGBUS with BUS_ADRERR, as a zapped mapping.
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
