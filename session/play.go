package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
)

// Player is a target that answers as a recorded one did. It can be opened once, as it was recorded. At the first
// difference it stops: loads give all ones, requests fail with ENODEV, and the device's Fault is a *DifferenceError.
type Player struct {
	s *Session

	mu    sync.Mutex
	next  int
	mem   memory
	files uint64
	maps  uint64
	fault error // that was recorded and reached
	diff  error
}

var _ kmd.Target = (*Player)(nil)

// Play reads a recording and returns the target that plays it. See Read for errors.
func Play(r io.Reader) (*Player, error) {
	s, err := Read(r)
	if err != nil {
		return nil, err
	}
	return s.Player(), nil
}

// Player returns a target that plays the recording from its start.
func (s *Session) Player() *Player { return &Player{s: s} }

// Err returns the first difference, a *DifferenceError, or nil.
func (p *Player) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.diff
}

// Left returns how many events of the recording were not played.
func (p *Player) Left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.s.Events) - p.next
}

// Node implements kmd.Target.
func (p *Player) Node() seam.Node { return playedNode{p} }

// String names what was recorded.
func (p *Player) String() string { return p.s.Target }

// event compares what the host does with the next event, and returns that; nil if they differ. The caller holds mu.
func (p *Player) event(got *Event, same func(want *Event) bool) *Event {
	if p.diff != nil {
		return nil
	}
	got.Host = p.mem.changes()
	p.skipFaults()
	if p.next == len(p.s.Events) {
		p.differs(got, nil)
		return nil
	}
	want := &p.s.Events[p.next]
	if want.Kind != got.Kind || want.File != got.File || want.Map != got.Map || !sameDeltas(want.Host, got.Host) || !same(want) {
		p.differs(got, want)
		return nil
	}
	if !p.mem.apply(want.Device) {
		p.differs(got, want)
		return nil
	}
	p.next++
	return want
}

// skipFaults passes over faults that the host may have heard of earlier or later.
func (p *Player) skipFaults() {
	for p.next < len(p.s.Events) && p.s.Events[p.next].Kind == KindFault {
		p.fault = errors.New(p.s.Events[p.next].Text)
		p.next++
	}
}

// differs stops the playback.
func (p *Player) differs(got, want *Event) {
	d := &DifferenceError{Index: p.next, Site: site()}
	if want == nil {
		d.Got = got.String()
		p.diff = d
		return
	}
	// Only what is compared is shown.
	w := *want
	w.Device = nil
	if w.Kind == KindLoad {
		w.Value = 0
	}
	if w.Kind == KindIoctl || w.Kind == KindRead {
		w.Data = nil
	}
	if sameDeltas(w.Host, got.Host) {
		w.Host, got.Host = nil, nil
	} else {
		d.Where = "host memory at " + firstDelta(w.Host, got.Host)
	}
	if i := firstByte(w.Data, got.Data); i >= 0 {
		d.Where = fmt.Sprintf("byte %d of its data", i)
	}
	if i := firstByte(w.In, got.In); i >= 0 {
		d.Where = fmt.Sprintf("byte %d of its argument", i)
	}
	d.Want, d.Got = w.String(), got.String()
	p.diff = d
}

// firstByte is the index of the first byte that differs, or -1.
func firstByte(a, b []byte) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

// firstDelta says where the first difference of two lists that differ is.
func firstDelta(a, b []Delta) string {
	for i := range min(len(a), len(b)) {
		x, y := &a[i], &b[i]
		if x.Pin != y.Pin || x.Off != y.Off {
			return fmt.Sprintf("%#x of pin %d", min(x.Off, y.Off), min(x.Pin, y.Pin))
		}
		if k := firstByte(x.Data, y.Data); k >= 0 {
			return fmt.Sprintf("%#x of pin %d", x.Off+uint64(k), x.Pin)
		}
	}
	l := a
	if len(b) > len(a) {
		l = b
	}
	d := &l[min(len(a), len(b))]
	return fmt.Sprintf("%#x of pin %d", d.Off, d.Pin)
}

// site names the callers outside of this package and of the driver boundary.
func site() string {
	const shown = 8
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var out []string
	for {
		f, more := frames.Next()
		inner := strings.Contains(f.Function, "/session.(*") || strings.Contains(f.Function, "/session.playedNode") ||
			strings.Contains(f.Function, "/kmd.") || strings.HasPrefix(f.Function, "runtime.")
		if !inner && f.Function != "" {
			name := f.Function[strings.LastIndexByte(f.Function, '/')+1:]
			out = append(out, fmt.Sprintf("%s (%s:%d)", name, filepath.Base(f.File), f.Line))
		}
		if !more || len(out) == shown {
			return strings.Join(out, " < ")
		}
	}
}

// answer is the error that an event recorded.
func (e *Event) answer() error {
	switch {
	case e.Errno != 0:
		return syscall.Errno(e.Errno)
	case e.Text != "":
		return errors.New(e.Text)
	}
	return nil
}

// refused is the error of a request after the first difference.
func (p *Player) refused() error { return fmt.Errorf("%w (%w)", syscall.ENODEV, p.diff) }

type playedNode struct{ *Player }

// Open implements seam.Node.
func (n playedNode) Open(flags int) (seam.File, error) {
	p := n.Player
	p.mu.Lock()
	defer p.mu.Unlock()
	got := Event{Kind: KindOpen, File: p.files, Value: uint64(flags)}
	want := p.event(&got, func(w *Event) bool { return w.Value == got.Value })
	if want == nil {
		return nil, p.refused()
	}
	if err := want.answer(); err != nil {
		return nil, err
	}
	p.files++
	return &playedFile{p: p, n: got.File}, nil
}

type playedFile struct {
	p *Player
	n uint64
}

// Ioctl implements seam.File.
func (f *playedFile) Ioctl(req uint32, arg []byte) error {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	got := Event{Kind: KindIoctl, File: f.n, Request: req, In: p.mem.anonymous(f.n, req, arg)}
	if req == kabi.IoctlUnpinPages {
		p.mem.unpin(f.n, arg)
	}
	want := p.event(&got, func(w *Event) bool { return w.Request == req && bytes.Equal(w.In, got.In) && len(w.Data) == len(arg) })
	if want == nil {
		return p.refused()
	}
	in := min(inputSize(req), len(arg))
	copy(arg[in:], want.Data[in:])
	if err := want.answer(); err != nil {
		return err
	}
	p.mem.pinned(f.n, req, arg)
	return nil
}

// Mmap implements seam.File.
func (f *playedFile) Mmap(offset uint64, length int) (seam.Mapping, error) {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	got := Event{Kind: KindMmap, File: f.n, Map: p.maps, Off: offset, Size: uint64(length)}
	want := p.event(&got, func(w *Event) bool { return w.Off == got.Off && w.Size == got.Size })
	if want == nil {
		return seam.Mapping{}, p.refused()
	}
	if err := want.answer(); err != nil {
		return seam.Mapping{}, err
	}
	p.maps++
	if mem := make([]byte, p.mem.bufferSize(f.n, offset, length)); p.mem.buffer(f.n, offset, mem) {
		return seam.Mapping{Mem: mem, Unmap: func() error { return f.unmap(got.Map, mem) }}, nil
	}
	return seam.Mapping{IO: &playedMap{p: p, file: f.n, n: got.Map}, Unmap: func() error { return f.unmap(got.Map, nil) }}, nil
}

func (f *playedFile) unmap(n uint64, mem []byte) error {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	want := p.event(&Event{Kind: KindUnmap, File: f.n, Map: n}, anything)
	p.mem.unmap(mem)
	if want == nil {
		return p.refused()
	}
	return want.answer()
}

// Close implements seam.File.
func (f *playedFile) Close() error {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	want := p.event(&Event{Kind: KindClose, File: f.n}, anything)
	p.mem.dropFile(f.n)
	if want == nil {
		return p.refused()
	}
	return want.answer()
}

// ReleaseLast does nothing: a recording isn't killed.
func (f *playedFile) ReleaseLast() error { return nil }

// Fault implements seam.File.
func (f *playedFile) Fault() error {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.diff != nil {
		return p.diff
	}
	p.skipFaults()
	return p.fault
}

// playedMap is a mapping of device memory.
type playedMap struct {
	p       *Player
	file, n uint64
}

// access plays one access.
func (m *playedMap) access(got Event, same func(want *Event) bool) *Event {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	got.File, got.Map = m.file, m.n
	return m.p.event(&got, func(w *Event) bool { return w.Off == got.Off && w.Size == got.Size && same(w) })
}

func anything(*Event) bool { return true }

// Load implements seam.MMIO.
func (m *playedMap) Load(off uint64, width int) uint64 {
	want := m.access(Event{Kind: KindLoad, Off: off, Size: uint64(width)}, anything)
	if want == nil {
		return ^uint64(0) >> (64 - 8*width)
	}
	return want.Value
}

// Store implements seam.MMIO.
func (m *playedMap) Store(off uint64, width int, v uint64) {
	m.access(Event{Kind: KindStore, Off: off, Size: uint64(width), Value: v}, func(w *Event) bool { return w.Value == v })
}

// Read implements seam.MMIO.
func (m *playedMap) Read(off uint64, p []byte) {
	want := m.access(Event{Kind: KindRead, Off: off, Size: uint64(len(p))}, func(w *Event) bool { return len(w.Data) == len(p) })
	if want == nil {
		for i := range p {
			p[i] = 0xFF
		}
		return
	}
	copy(p, want.Data)
}

// Write implements seam.MMIO.
func (m *playedMap) Write(off uint64, p []byte) {
	m.access(Event{Kind: KindWrite, Off: off, Size: uint64(len(p)), Data: p}, func(w *Event) bool { return bytes.Equal(w.Data, p) })
}
