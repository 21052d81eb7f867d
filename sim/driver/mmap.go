package driver

import (
	"sync/atomic"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// Accesses outside of a barMap or after a zap raise SIGBUS.
type barMap struct {
	file   *file
	fn     Function
	bar    int
	base   uint64 // BAR offset of the mapping's start
	size   uint64
	window int // id of the mapped window, or -1 for a plain BAR range

	whole   atomic.Uint64 // size; 0 after a zap
	watched bool          // stores can hit strided multicast registers
}

var _ seam.MMIO = (*barMap)(nil)

func (m *barMap) has(off, n uint64) bool {
	size := m.whole.Load()
	return off <= size && n <= size-off
}

func (m *barMap) zap() { m.whole.Store(0) }

func (m *barMap) Load(off uint64, width int) uint64 {
	if !m.has(off, uint64(width)) {
		BusError()
	}
	if m.file.dev.faults.load() {
		return 1<<(8*width) - 1
	}
	return m.fn.BARLoad(m.bar, m.base+off, width)
}

func (m *barMap) Store(off uint64, width int, v uint64) {
	if !m.has(off, uint64(width)) {
		BusError()
	}
	if m.file.dev.faults.allOnes.Load() {
		return
	}
	if m.watched {
		m.file.dev.noteStore(m.base+off, uint64(width))
	}
	m.fn.BARStore(m.bar, m.base+off, width, v)
}

// fill is the answer of no card.
func fill(p []byte) {
	for i := range p {
		p[i] = 0xFF
	}
}

func (m *barMap) Read(off uint64, p []byte) {
	if !m.has(off, uint64(len(p))) {
		BusError()
	}
	if len(p) == 0 {
		return
	}
	if m.file.dev.faults.load() {
		fill(p)
		return
	}
	m.fn.BARRead(m.bar, m.base+off, p)
}

func (m *barMap) Write(off uint64, p []byte) {
	if !m.has(off, uint64(len(p))) {
		BusError()
	}
	if len(p) == 0 || m.file.dev.faults.allOnes.Load() {
		return
	}
	if m.watched {
		m.file.dev.noteStore(m.base+off, uint64(len(p)))
	}
	m.fn.BARWrite(m.bar, m.base+off, p)
}

func (f *file) Mmap(offset uint64, length int) (seam.Mapping, error) {
	page := pageSize()
	if length <= 0 || offset%page != 0 {
		return seam.Mapping{}, syscall.EINVAL
	}
	d := f.dev
	// The driver can't wait for a reset here: the kernel holds the address space's lock.
	if !d.reset.TryRLock() {
		return seam.Mapping{}, syscall.ENODEV
	}
	defer d.reset.RUnlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case f.closedLocked():
		return seam.Mapping{}, syscall.EBADF
	case d.detached, f.gen != d.gen, d.faults.resetting:
		return seam.Mapping{}, syscall.ENODEV
	}
	n := (uint64(length) + page - 1) &^ (page - 1)
	switch {
	case offset >= bufferBase():
		return f.mapBufferLocked(offset-bufferBase(), n, length)
	case offset >= offsetTLBUC && offset-offsetTLBUC < 2*offsetStep:
		return f.mapWindowLocked((offset-offsetTLBUC)%offsetStep, n)
	case offset < offsetTLBUC:
		bar := int(offset / (2 * offsetStep) * 2)
		in, size := offset%offsetStep, d.barSize[bar]
		if in > size || n > size-in {
			return seam.Mapping{}, syscall.EINVAL
		}
		return f.mappedLocked(&barMap{file: f, fn: d.fn, bar: bar, base: in, size: n, window: -1,
			watched: bar == 0 && d.arch.params.BAR.StridedCount > 0}), nil
	}
	return seam.Mapping{}, syscall.EINVAL
}

func (f *file) mapWindowLocked(off, n uint64) (seam.Mapping, error) {
	d := f.dev
	id, class, bar, start, ok := d.arch.windowByOffset(off)
	if !ok || n > class.Size {
		return seam.Mapping{}, syscall.EINVAL
	}
	if _, owned := f.tlbs[id]; !owned {
		return seam.Mapping{}, syscall.EPERM
	}
	if start+n > d.barSize[bar] {
		return seam.Mapping{}, syscall.ENXIO
	}
	f.tlbs[id]++
	return f.mappedLocked(&barMap{file: f, fn: d.fn, bar: bar, base: start, size: n, window: int(id)}), nil
}

// The mapping references the file until it is unmapped.
func (f *file) mappedLocked(m *barMap) seam.Mapping {
	if f.maps == nil {
		f.maps = map[*barMap]struct{}{}
	}
	m.whole.Store(m.size)
	f.maps[m] = struct{}{}
	f.refs++
	return seam.Mapping{IO: m, Unmap: seam.UnmapOnce(func() error { return f.unmap(m) })}
}

func (f *file) unmap(m *barMap) error {
	d := f.dev
	d.mu.Lock()
	if _, live := f.maps[m]; live {
		delete(f.maps, m)
		if m.window >= 0 {
			f.tlbs[uint32(m.window)]--
		}
	}
	m.zap()
	d.mu.Unlock()
	return f.put()
}

func (f *file) mapBufferLocked(off, n uint64, length int) (seam.Mapping, error) {
	i, in := off/bufferStep, off%bufferStep
	if i >= kabi.MaxDMABufs {
		return seam.Mapping{}, syscall.EINVAL
	}
	b, ok := f.bufs[uint8(i)]
	if !ok || in > b.mem.size || n > b.mem.size-in {
		return seam.Mapping{}, syscall.EINVAL
	}
	f.refs++
	return seam.Mapping{Mem: b.mem.bytes()[in : in+uint64(length) : in+uint64(length)], Unmap: seam.UnmapOnce(f.put)}, nil
}

// Backing returns the descriptor of a mapped buffer's memory, which stays the driver's, and the
// offset in it; false without anonymous files.
func (f *file) Backing(mem []byte) (fd int, off int64, ok bool) {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	for _, b := range f.bufs {
		if off, in := b.mem.offsetOf(mem); in && b.mem.file >= 0 {
			return b.mem.file, int64(off), true
		}
	}
	return -1, 0, false
}
