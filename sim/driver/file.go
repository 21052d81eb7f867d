package driver

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// file lives until its descriptor, its mappings and its requests are gone.
type file struct {
	dev  *device
	proc *Process

	closeOnce sync.Once

	// Guarded by device.mu.
	refs    int  // of the descriptor and mappings
	calls   int  // requests in progress
	ended   bool // release has begun
	fd      int  // descriptor in the process, negative once closed
	last    bool // released after all others at the end of the process
	killed  bool
	gen     uint64
	tlbs    map[uint32]int // owned windows, with their numbers of mappings
	maps    map[*barMap]struct{}
	cleanup kabi.SetNOCCleanup
	power   kabi.PowerState
	desc    int // descriptor that names the file in other ioctls, 0 if none
	message *smcMessage
	fileMemory
}

// smcMessage is posted, its answer not read.
type smcMessage struct {
	answer [8]uint32
	early  bool // the next poll comes too early
}

var _ seam.File = (*file)(nil)

func (f *file) function() Function {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	return f.dev.fn
}

func (f *file) Fault() error {
	fn := f.function()
	if fn == nil {
		return nil
	}
	return fn.Fault()
}

func (f *file) EngineWait(x, y uint8, thread int) (wait string, known bool) {
	if b, ok := f.function().(interface {
		EngineWait(x, y uint8, thread int) string
	}); ok {
		return b.EngineWait(x, y, thread), true
	}
	return "", false
}

func (f *file) CoreDebug() bool {
	b, ok := f.function().(interface{ CoreDebug() bool })
	return !ok || b.CoreDebug()
}

func (f *file) RemoteFault(x, y uint8) error {
	if b, ok := f.function().(interface{ RemoteFault(x, y uint8) error }); ok {
		return b.RemoteFault(x, y)
	}
	return nil
}

func (f *file) Close() error {
	err := error(syscall.EBADF)
	f.closeOnce.Do(func() {
		f.dev.mu.Lock()
		f.proc.giveBack(f.fd)
		f.fd, f.last = -1, false
		f.dev.mu.Unlock()
		err = f.put()
	})
	return err
}

func (f *file) ReleaseLast() error {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	if f.fd < 0 {
		return syscall.EBADF
	}
	f.last = true
	return nil
}

// The process's end drops all references at once.
func (f *file) put() error {
	f.dev.mu.Lock()
	if !f.killed {
		f.refs--
	}
	return f.unlockAndRelease()
}

// enter takes a reference, as the kernel's fdget: a file closed meanwhile is released after the
// request.
func (f *file) enter() error {
	f.dev.mu.Lock()
	defer f.dev.mu.Unlock()
	if f.closedLocked() {
		return syscall.EBADF
	}
	f.calls++
	return nil
}

// The reset lock must not be held.
func (f *file) leave() {
	f.dev.mu.Lock()
	f.calls--
	_ = f.unlockAndRelease() // a request can't report this error; nor can the kernel
}

func (f *file) unlockAndRelease() error {
	over := f.overLocked()
	f.dev.mu.Unlock()
	if over {
		return f.dev.release(f)
	}
	return nil
}

func (f *file) overLocked() bool {
	if f.ended || f.refs > 0 || f.calls > 0 {
		return false
	}
	f.ended = true
	return true
}

func (f *file) closedLocked() bool { return f.fd < 0 || f.killed }

// Descriptor names this file in another's ioctl, until it is closed.
func (f *file) Descriptor() (int, error) {
	d := f.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.closedLocked() {
		return -1, syscall.EBADF
	}
	if f.desc == 0 {
		fd, err := newDescriptor()
		if err != nil {
			return -1, err
		}
		f.desc = fd
		d.drv.filesMu.Lock()
		d.drv.files[fd] = f
		d.drv.filesMu.Unlock()
	}
	return f.desc, nil
}

func (f *file) dropDescriptorLocked() {
	if f.desc == 0 {
		return
	}
	drv := f.dev.drv
	drv.filesMu.Lock()
	delete(drv.files, f.desc)
	drv.filesMu.Unlock()
	closeDescriptor(f.desc)
	f.desc = 0
}

func (f *file) exitRank() int {
	switch {
	case f.last:
		return 2
	case f.fd >= 0:
		return 1
	}
	return 0 // only a mapping keeps the file
}

// Process is another process, with its own files and this one's memory.
type Process struct {
	drv     *Driver
	pid     int
	name    string
	dead    atomic.Bool
	signals atomic.Int64 // interruptions of its waits

	mu    sync.Mutex
	taken map[int]struct{} // descriptors in use
}

func (p *Process) descriptor() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken == nil {
		p.taken = map[int]struct{}{}
	}
	for fd := 0; ; fd++ {
		if _, is := p.taken[fd]; !is {
			p.taken[fd] = struct{}{}
			return fd
		}
	}
}

func (p *Process) giveBack(fd int) {
	p.mu.Lock()
	delete(p.taken, fd)
	p.mu.Unlock()
}

// NewProcess starts a process with a number and a name.
func (d *Driver) NewProcess(pid int, name string) *Process {
	p := &Process{drv: d, pid: pid, name: name}
	d.mu.Lock()
	d.procs = append(d.procs, p)
	d.mu.Unlock()
	return p
}

// Node returns the node of device i as this process opens it.
func (p *Process) Node(i int) seam.Node { return processNode{p, p.drv.list()[i]} }

type processNode struct {
	p   *Process
	dev *device
}

func (n processNode) Open(flags int) (seam.File, error) {
	if n.p.dead.Load() {
		return nil, syscall.ESRCH
	}
	return opened(n.dev.open(n.p, flags))
}

func (n processNode) String() string { return fmt.Sprintf("%s of process %d", n.dev.name, n.p.pid) }

// Signal makes the process's waits in open and LOCK_CTL return EINTR.
func (p *Process) Signal() {
	p.signals.Add(1)
	for _, d := range p.drv.all() {
		d.mu.Lock()
		d.wake.Broadcast()
		d.mu.Unlock()
	}
}

// Kill ends the process as kill -9, in Linux's order: mappings before descriptors (do_exit), and
// those highest first: exit_files closes upwards, and the deferred work runs last in, first out
// (kernel/task_work.c, since Linux 4.3). Files of ReleaseLast come last, and a file with a
// running request after it.
func (p *Process) Kill() error {
	p.dead.Store(true)
	p.Signal()
	var errs []error
	for {
		files := p.take()
		if len(files) == 0 {
			break
		}
		slices.SortStableFunc(files, func(a, b *file) int {
			return cmp.Or(cmp.Compare(a.exitRank(), b.exitRank()), cmp.Compare(b.fd, a.fd))
		})
		for _, f := range files {
			errs = append(errs, f.dev.release(f)) // the others go all the same
		}
	}
	p.drv.mu.Lock()
	defer p.drv.mu.Unlock()
	p.drv.procs = slices.DeleteFunc(p.drv.procs, func(o *Process) bool { return o == p })
	return errors.Join(errs...)
}

// A request in progress releases its file.
func (p *Process) take() (files []*file) {
	for _, d := range p.drv.all() {
		d.mu.Lock()
		for f := range d.files {
			if f.proc != p || f.killed || f.refs == 0 {
				continue // another's, or on its way
			}
			for m := range f.maps {
				m.zap()
			}
			clear(f.maps)
			for id := range f.tlbs {
				f.tlbs[id] = 0
			}
			f.killed = true
			f.refs = 0
			if f.overLocked() {
				files = append(files, f)
			}
		}
		d.mu.Unlock()
	}
	return files
}

func (d *Driver) all() []*device {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(slices.Clone(d.devices), d.gone...)
}

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
