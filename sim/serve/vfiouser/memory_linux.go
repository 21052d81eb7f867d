package vfiouser

import (
	"cmp"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/sim/driver"
)

type guest struct {
	master func() bool // bus mastering is on

	mu     sync.RWMutex
	ranges []guestRange // sorted by address
	files  map[fileID]*guestFile
	twin   *twin // for memory without a descriptor, or nil
}

type guestRange struct {
	addr, size         uint64
	readable, writable bool
	mem                []byte // nil if the client gave no descriptor
	file               *guestFile
}

type fileID struct {
	dev, ino uint64
	writable bool
}

// guestFile is mapped once as a whole: a guest's IOMMU makes more ranges than a process can have
// mappings.
type guestFile struct {
	id   fileID
	mem  []byte
	refs int
}

var _ driver.DMA = (*guest)(nil)

// The descriptor stays the caller's, and may be negative.
func (g *guest) add(m dmaMap, fd int) error {
	r := guestRange{addr: m.Addr, size: m.Size, readable: m.Flags&dmaReadable != 0, writable: m.Flags&dmaWritable != 0}
	g.mu.Lock()
	defer g.mu.Unlock()
	i, _ := slices.BinarySearchFunc(g.ranges, m.Addr, guestRange.compare)
	switch {
	case i < len(g.ranges) && g.ranges[i].addr-m.Addr < m.Size,
		i > 0 && m.Addr-g.ranges[i-1].addr < g.ranges[i-1].size:
		return syscall.EEXIST
	case len(g.ranges) >= maxMaps:
		return syscall.ENOSPC
	}
	if fd >= 0 {
		var err error
		if r.file, err = g.openLocked(fd, m.Offset, m.Size, r.writable); err != nil {
			return err
		}
		r.mem = r.file.mem[m.Offset:][:m.Size]
	}
	g.ranges = slices.Insert(g.ranges, i, r)
	return nil
}

func (r guestRange) compare(addr uint64) int { return cmp.Compare(r.addr, addr) }

// openLocked refuses devices and files that end before the part, which would fault.
func (g *guest) openLocked(fd int, off, size uint64, writable bool) (*guestFile, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || off%pageSize != 0 || off+size < off || off+size > uint64(max(st.Size, 0)) {
		return nil, syscall.EINVAL
	}
	id := fileID{dev: uint64(st.Dev), ino: st.Ino, writable: writable}
	if f := g.files[id]; f != nil {
		if off+size > uint64(len(f.mem)) { // the file has grown
			return nil, syscall.EINVAL
		}
		f.refs++
		return f, nil
	}
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	mem, err := unix.Mmap(fd, 0, int(st.Size), prot, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	f := &guestFile{id: id, mem: mem, refs: 1}
	if g.files == nil {
		g.files = map[fileID]*guestFile{}
	}
	g.files[id] = f
	return f, nil
}

// remove takes the ranges inside [addr, addr+size), at least one: clients behind an IOMMU unmap
// more than they have mapped.
func (g *guest) remove(addr, size uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, _ := slices.BinarySearchFunc(g.ranges, addr, guestRange.compare)
	j := i
	for j < len(g.ranges) && g.ranges[j].addr-addr < size && g.ranges[j].size <= size-(g.ranges[j].addr-addr) {
		j++
	}
	if i == j {
		return syscall.ENOENT
	}
	for _, r := range g.ranges[i:j] {
		g.closeLocked(r.file)
	}
	g.ranges = slices.Delete(g.ranges, i, j)
	return nil
}

func (g *guest) closeLocked(f *guestFile) {
	if f == nil {
		return
	}
	if f.refs--; f.refs == 0 {
		delete(g.files, f.id)
		_ = unix.Munmap(f.mem) // can't fail
	}
}

func (g *guest) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.ranges {
		g.closeLocked(r.file)
	}
	g.ranges, g.twin = nil, nil
}

func (g *guest) findLocked(addr uint64) *guestRange {
	i, ok := slices.BinarySearchFunc(g.ranges, addr, guestRange.compare)
	if !ok {
		i--
	}
	if i >= 0 && addr-g.ranges[i].addr < g.ranges[i].size {
		return &g.ranges[i]
	}
	return nil
}

func (g *guest) ReadHost(bus uint64, p []byte) error { return g.access(bus, p, false) }

func (g *guest) WriteHost(bus uint64, p []byte) error { return g.access(bus, p, true) }

// access moves nothing if any range is refused.
func (g *guest) access(bus uint64, p []byte, write bool) error {
	refused := func(why string) error {
		return &driver.DMAError{Bus: bus, Size: len(p), Write: write, Why: why}
	}
	if !g.master() {
		return refused("bus mastering is off in the PCI command register")
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	for at, left := bus, uint64(len(p)); left > 0; {
		r := g.findLocked(at)
		switch {
		case r == nil:
			return refused("the client has mapped no memory there")
		case write && !r.writable, !write && !r.readable:
			return refused("the client has not mapped the memory for that")
		case r.mem == nil && g.twin == nil:
			return refused("the client shares that memory by no descriptor: a virtual machine's memory has to be a shared file")
		}
		n := min(left, r.size-(at-r.addr))
		at, left = at+n, left-n
	}
	for len(p) > 0 {
		r := g.findLocked(bus)
		n := min(uint64(len(p)), r.size-(bus-r.addr))
		if r.mem == nil {
			if err := g.twin.access(bus, p[:n], write); err != nil {
				return refused(err.Error())
			}
		} else if !driver.Move(r.mem[bus-r.addr:][:n], p[:n], write) {
			return refused("the client has truncated the file of its memory")
		}
		bus, p = bus+n, p[n:]
	}
	return nil
}
