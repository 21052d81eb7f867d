package session

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
)

// Recorder is a target that records all traffic between host and driver. Close it after the device.
type Recorder struct {
	node  seam.Node
	name  string
	start time.Time
	quiet *time.Timer

	busy    atomic.Int32 // requests in progress
	overlap atomic.Bool  // requests overlapped

	mu    sync.Mutex // held during every event, for a total order
	out   *writer
	ended bool
	mem   memory
	files uint64
	maps  uint64
	fault string
	polls uint64    // since the host's last change
	last  time.Time // the host's last action
}

var _ kmd.Target = (*Recorder)(nil)

const hostQuiet = 250 * time.Millisecond // an idle host then polls pinned memory, which the device writes

// Record returns a target that behaves like t and records everything to w. It serialises accesses,
// and each compares all pinned memory, so little of it (reprise.WithQueueMemory) is faster.
func Record(t kmd.Target, w io.Writer) *Recorder {
	r := &Recorder{node: t.Node(), name: t.String(), start: time.Now()}
	r.out = newWriter(w, r.name)
	r.quiet = time.AfterFunc(hostQuiet, r.whenQuiet)
	r.quiet.Stop()
	return r
}

// Close ends the recording and returns the first write error.
func (r *Recorder) Close() error {
	r.quiet.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	r.ended = true
	err := r.out.close()
	if r.overlap.Load() {
		err = errors.Join(err, fmt.Errorf("session: record: %w", ErrConcurrent))
	}
	return err
}

func (r *Recorder) begin() {
	n := r.busy.Add(1)
	r.mu.Lock()
	if n > 1 {
		r.overlap.Store(true)
	}
}

func (r *Recorder) finish() {
	r.mu.Unlock()
	r.busy.Add(-1)
}

// Node implements kmd.Target.
func (r *Recorder) Node() seam.Node { return recordedNode{r} }

func (r *Recorder) String() string { return r.name }

func (r *Recorder) eventLocked(e *Event) {
	if r.ended {
		return
	}
	e.At = uint64(time.Since(r.start))
	r.out.event(e)
	if e.isChange() {
		r.polls = 0
	}
	r.last = time.Now()
}

func (r *Recorder) whenQuiet() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || len(r.mem.regions) == 0 {
		return
	}
	if rest := hostQuiet - time.Since(r.last); rest > 0 {
		r.quiet.Reset(rest)
		return
	}
	if ds := r.mem.fromDevice(); ds != nil {
		last := r.last
		r.eventLocked(&Event{Kind: KindDevice, Device: ds})
		r.last = last // the host is still idle
	}
	r.quiet.Reset(hostQuiet / 8)
}

func (r *Recorder) pollLocked() {
	r.polls++
	r.last = time.Now()
	if ds := r.mem.fromDevice(); ds != nil {
		r.eventLocked(&Event{Kind: KindDevice, Value: r.polls, Device: ds})
	}
}

type recordedNode struct{ *Recorder }

func (n recordedNode) Open(flags int) (seam.File, error) {
	r := n.Recorder
	r.begin()
	defer r.finish()
	f, err := r.node.Open(flags)
	e := Event{Kind: KindOpen, File: r.files, Value: uint64(flags)}
	e.failed(err)
	r.eventLocked(&e)
	if err != nil {
		return nil, err
	}
	r.files++
	return &recordedFile{r: r, f: f, n: e.File}, nil
}

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

// changeLocked records the host's earlier writes to pinned memory with an event, and the device's
// by its end.
func (r *Recorder) changeLocked(e *Event, do func()) {
	e.Host = r.mem.fromHost()
	do()
	e.Device = r.mem.fromDevice()
	r.eventLocked(e)
}

func (r *Recorder) queryLocked(e *Event, do func()) {
	do()
	r.eventLocked(e)
	if e.isLoad() {
		r.pollLocked()
	}
}

type recordedFile struct {
	r *Recorder
	f seam.File
	n uint64
}

func (f *recordedFile) Ioctl(req uint32, arg []byte) (err error) {
	r := f.r
	r.begin()
	defer r.finish()
	e := Event{Kind: KindIoctl, File: f.n, Request: req, In: r.mem.anonymous(f.n, req, arg)}
	do := func(arg []byte) {
		err = f.f.Ioctl(req, arg)
		e.failed(err)
		e.Data = bytes.Clone(arg)
		copy(e.Data, e.In[:min(inputSize(req), len(e.In))]) // pin numbers for addresses
	}
	if e.isQuery() {
		r.queryLocked(&e, func() { do(arg) })
		return err
	}
	switch req {
	case kabi.IoctlPinPages:
		if broken := f.pin(&e, arg, do); broken != nil {
			return broken
		}
	case kabi.IoctlUnpinPages:
		f.unpin(&e, arg, do)
	default:
		r.changeLocked(&e, func() { do(arg) })
	}
	return err
}

// pin gives the device memory of its own. If that fails, the driver isn't asked.
func (f *recordedFile) pin(e *Event, arg []byte, do func(arg []byte)) error {
	r := f.r
	va, size := pinRange(arg)
	in, at, ok := r.mem.recordable(va, size)
	if !ok {
		r.changeLocked(e, func() { do(arg) }) // the driver reports the error
		if e.answer() == nil {
			r.mem.add(&pin{file: f.n, va: va}, nil) // the device's accesses can't be recorded
		}
		return nil
	}
	fresh := in == nil
	if fresh {
		var err error
		if in, err = split(va, size); err != nil {
			return fmt.Errorf("session: record: memory to be pinned can't be watched: %w", err)
		}
	}
	r.moveLocked(e, arg, addressOf(in.device)+at, va, do)
	switch {
	case e.answer() == nil:
		r.mem.add(&pin{file: f.n, va: va, at: at}, in)
		r.quiet.Reset(hostQuiet)
	case fresh:
		return in.end(true)
	}
	return nil
}

// moveLocked asks the driver with the address of the device's memory in place of the host's.
func (r *Recorder) moveLocked(e *Event, arg []byte, device, host uint64, do func(arg []byte)) {
	moved := bytes.Clone(arg)
	setAddress(e.Request, moved, device)
	r.changeLocked(e, func() { do(moved) })
	setAddress(e.Request, moved, host)
	copy(arg, moved)
}

func (f *recordedFile) unpin(e *Event, arg []byte, do func(arg []byte)) {
	r := f.r
	n, ok := r.mem.unpinned(f.n, arg)
	if !ok {
		r.changeLocked(e, func() { do(arg) })
		return
	}
	p := r.mem.pins[n]
	r.moveLocked(e, arg, addressOf(p.region.device)+p.at, p.va, do)
	// The host may unmap the memory now, whatever the answer; its copy has the same bytes.
	_ = r.mem.drop(p, true)
	if e.Errno == uint64(syscall.ENODEV) {
		_ = r.mem.dropFile(f.n) // the host won't unpin the rest of a lost device's memory
	}
}

// ReleaseLast isn't recorded: the device doesn't see it.
func (f *recordedFile) ReleaseLast() error {
	if l, ok := f.f.(interface{ ReleaseLast() error }); ok {
		return l.ReleaseLast()
	}
	return syscall.EOPNOTSUPP
}

func (f *recordedFile) Mmap(offset uint64, length int) (m seam.Mapping, err error) {
	r := f.r
	r.begin()
	defer r.finish()
	e := Event{Kind: KindMmap, File: f.n, Map: r.maps, Off: offset, Size: uint64(length)}
	r.queryLocked(&e, func() {
		m, err = f.f.Mmap(offset, length)
		e.failed(err)
	})
	if err != nil {
		return seam.Mapping{}, err
	}
	r.maps++
	m.Mem, m.IO = nil, &recordedMap{r: r, io: cmp.Or(m.IO, kmd.Accesses(m.Mem)), file: f.n, n: e.Map}
	n, unmap := e.Map, m.Unmap
	m.Unmap = func() (err error) {
		r.begin()
		defer r.finish()
		e := Event{Kind: KindUnmap, File: f.n, Map: n}
		r.queryLocked(&e, func() {
			err = unmap()
			e.failed(err)
		})
		return err
	}
	return m, nil
}

func (f *recordedFile) Close() (err error) {
	r := f.r
	r.begin()
	defer r.finish()
	e := Event{Kind: KindClose, File: f.n}
	r.changeLocked(&e, func() {
		err = f.f.Close()
		e.failed(err)
	})
	_ = r.mem.dropFile(f.n) // the host's copy has the same bytes
	return err
}

// Fault records a fault when the host first learns of it.
func (f *recordedFile) Fault() error {
	r := f.r
	err := f.f.Fault()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pollLocked()
	if err == nil {
		return nil
	}
	if text := err.Error(); r.fault != text {
		r.fault = text
		r.eventLocked(&Event{Kind: KindFault, File: f.n, Value: r.polls, Text: text})
	}
	return err
}

type recordedMap struct {
	r       *Recorder
	io      seam.MMIO
	file, n uint64
}

func (m *recordedMap) load(e Event, do func(e *Event)) uint64 {
	m.r.mu.Lock()
	defer m.r.mu.Unlock()
	e.File, e.Map = m.file, m.n
	m.r.queryLocked(&e, func() { do(&e) })
	return e.Value
}

func (m *recordedMap) store(e Event, do func()) {
	m.r.begin()
	defer m.r.finish()
	e.File, e.Map = m.file, m.n
	m.r.changeLocked(&e, do)
}

func (m *recordedMap) Load(off uint64, width int) uint64 {
	return m.load(Event{Kind: KindLoad, Off: off, Size: uint64(width)}, func(e *Event) { e.Value = m.io.Load(off, width) })
}

func (m *recordedMap) Store(off uint64, width int, v uint64) {
	m.store(Event{Kind: KindStore, Off: off, Size: uint64(width), Value: v}, func() { m.io.Store(off, width, v) })
}

func (m *recordedMap) Read(off uint64, p []byte) {
	m.load(Event{Kind: KindRead, Off: off, Size: uint64(len(p))}, func(e *Event) {
		m.io.Read(off, p)
		e.Data = p
	})
}

func (m *recordedMap) Write(off uint64, p []byte) {
	m.store(Event{Kind: KindWrite, Off: off, Size: uint64(len(p)), Data: p}, func() { m.io.Write(off, p) })
}
