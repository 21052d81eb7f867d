package session

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
)

// Recorder is a target that records what passes between host and driver. Close ends the recording; the device must be
// closed before.
type Recorder struct {
	node seam.Node
	name string

	mu    sync.Mutex // held during every event, so that events have an order
	out   *writer
	mem   memory
	files uint64
	maps  uint64
	fault string
}

var _ kmd.Target = (*Recorder)(nil)

// Record returns a target that is t and records everything to w. All accesses of all goroutines wait for each other.
func Record(t kmd.Target, w io.Writer) *Recorder {
	r := &Recorder{node: t.Node(), name: t.String()}
	r.out = newWriter(w, r.name)
	return r
}

// Close ends the recording. The error is the first one of writing it.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.close()
}

// Node implements kmd.Target.
func (r *Recorder) Node() seam.Node { return recordedNode{r} }

// String names what is recorded.
func (r *Recorder) String() string { return r.name }

type recordedNode struct{ *Recorder }

// Open implements seam.Node.
func (n recordedNode) Open(flags int) (seam.File, error) {
	r := n.Recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.node.Open(flags)
	e := Event{Kind: KindOpen, File: r.files, Value: uint64(flags)}
	e.failed(err)
	r.out.event(&e)
	if err != nil {
		return nil, err
	}
	r.files++
	return &recordedFile{r: r, f: f, n: e.File}, nil
}

// failed notes an error.
func (e *Event) failed(err error) {
	var no syscall.Errno
	switch {
	case err == nil:
	case errors.As(err, &no):
		e.Errno = uint64(no)
	default:
		e.Text = err.Error()
	}
}

// during records an event: what the host has written to pinned memory before, and what changes there during do. The
// caller holds mu.
func (r *Recorder) during(e *Event, do func()) {
	e.Host = r.mem.changes()
	do()
	e.Device = r.mem.changes()
	r.out.event(e)
}

type recordedFile struct {
	r *Recorder
	f seam.File
	n uint64
}

// Ioctl implements seam.File.
func (f *recordedFile) Ioctl(req uint32, arg []byte) (err error) {
	r := f.r
	r.mu.Lock()
	defer r.mu.Unlock()
	e := Event{Kind: KindIoctl, File: f.n, Request: req, In: r.mem.anonymous(f.n, req, arg)}
	if req == kabi.IoctlUnpinPages {
		r.mem.unpin(f.n, arg) // whatever becomes of it, the memory may be unmapped
	}
	r.during(&e, func() {
		err = f.f.Ioctl(req, arg)
		e.failed(err)
		e.Data = bytes.Clone(arg)
		copy(e.Data, e.In[:min(inputSize(req), len(e.In))]) // addresses in it have numbers
	})
	if err == nil {
		r.mem.pinned(f.n, req, arg)
	}
	return err
}

// ReleaseLast makes the end of the process release the file behind all others. The device sees nothing of it, so it isn't
// recorded.
func (f *recordedFile) ReleaseLast() error {
	if l, ok := f.f.(interface{ ReleaseLast() error }); ok {
		return l.ReleaseLast()
	}
	return syscall.EOPNOTSUPP
}

// Mmap implements seam.File.
func (f *recordedFile) Mmap(offset uint64, length int) (m seam.Mapping, err error) {
	r := f.r
	r.mu.Lock()
	defer r.mu.Unlock()
	e := Event{Kind: KindMmap, File: f.n, Map: r.maps, Off: offset, Size: uint64(length)}
	r.during(&e, func() {
		m, err = f.f.Mmap(offset, length)
		e.failed(err)
	})
	if err != nil {
		return m, err
	}
	r.maps++
	if m.Mem != nil && r.mem.buffer(f.n, offset, m.Mem) {
		return f.unmapped(m, e.Map), nil // host memory
	}
	io := m.IO
	if io == nil {
		io = kmd.Accesses(m.Mem)
	}
	m.Mem, m.IO = nil, &recordedMap{r: r, io: io, file: f.n, n: e.Map}
	return f.unmapped(m, e.Map), nil
}

// unmapped makes a mapping's end an event.
func (f *recordedFile) unmapped(m seam.Mapping, n uint64) seam.Mapping {
	r, unmap, mem := f.r, m.Unmap, m.Mem
	m.Unmap = func() (err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		e := Event{Kind: KindUnmap, File: f.n, Map: n}
		e.Host = r.mem.changes()
		r.mem.unmap(mem)
		err = unmap()
		e.failed(err)
		e.Device = r.mem.changes()
		r.out.event(&e)
		return err
	}
	return m
}

// Close implements seam.File.
func (f *recordedFile) Close() (err error) {
	r := f.r
	r.mu.Lock()
	defer r.mu.Unlock()
	e := Event{Kind: KindClose, File: f.n}
	r.during(&e, func() {
		err = f.f.Close()
		e.failed(err)
	})
	r.mem.dropFile(f.n)
	return err
}

// Fault implements seam.File. A fault is recorded when the host first hears of it.
func (f *recordedFile) Fault() error {
	r := f.r
	err := f.f.Fault()
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := err.Error(); r.fault != text {
		r.fault = text
		r.out.event(&Event{Kind: KindFault, File: f.n, Text: text})
	}
	return err
}

// recordedMap is a mapping of device memory.
type recordedMap struct {
	r       *Recorder
	io      seam.MMIO
	file, n uint64
}

// access records one access. A fault of memory in it isn't recorded.
func (m *recordedMap) access(e Event, do func(e *Event)) uint64 {
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	e.File, e.Map = m.file, m.n
	m.r.during(&e, func() { do(&e) })
	return e.Value
}

// Load implements seam.MMIO.
func (m *recordedMap) Load(off uint64, width int) uint64 {
	return m.access(Event{Kind: KindLoad, Off: off, Size: uint64(width)}, func(e *Event) { e.Value = m.io.Load(off, width) })
}

// Store implements seam.MMIO.
func (m *recordedMap) Store(off uint64, width int, v uint64) {
	m.access(Event{Kind: KindStore, Off: off, Size: uint64(width), Value: v}, func(*Event) { m.io.Store(off, width, v) })
}

// Read implements seam.MMIO.
func (m *recordedMap) Read(off uint64, p []byte) {
	m.access(Event{Kind: KindRead, Off: off, Size: uint64(len(p))}, func(e *Event) {
		m.io.Read(off, p)
		e.Data = p
	})
}

// Write implements seam.MMIO.
func (m *recordedMap) Write(off uint64, p []byte) {
	m.access(Event{Kind: KindWrite, Off: off, Size: uint64(len(p)), Data: p}, func(*Event) { m.io.Write(off, p) })
}
