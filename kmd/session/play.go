package session

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
)

// Player is a target that answers as recorded, opened as often. After the first difference loads
// return all ones, requests fail with ENODEV, and Fault is a *DifferenceError.
type Player struct {
	s *Session

	patience   time.Duration // how much longer than recorded the host may wait
	quietAfter time.Duration // idle time before the device's own writes appear
	quiet      *time.Timer

	mu     sync.Mutex
	follow *follower
	places places
	mem    memory
	files  uint64
	maps   uint64
	last   time.Time // the host's last action
	fault  error     // the recorded fault, once reached
	diff   error
}

var _ kmd.Target = (*Player)(nil)

// Player returns a target that plays the recording from its start.
func (s *Session) Player() *Player {
	p := &Player{s: s, places: newPlaces(), patience: stuckAfter, quietAfter: playedQuiet, follow: newFollower(s.Events)}
	p.quiet = time.AfterFunc(time.Hour, p.whenQuiet)
	p.quiet.Stop()
	return p
}

// Err returns the first difference, a *DifferenceError, or nil.
func (p *Player) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.diff
}

// Left returns how many of the required events are left.
func (p *Player) Left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, i := range p.follow.required[p.follow.front:] {
		if !p.follow.played[i] {
			n++
		}
	}
	return n
}

// Node implements kmd.Target.
func (p *Player) Node() seam.Node { return playedNode{p} }

func (p *Player) String() string { return p.s.Target }

// eventLocked returns the recorded event, nil for a difference.
func (p *Player) eventLocked(got *Event, same func(want *Event) bool) *Event {
	if p.diff != nil {
		return nil
	}
	p.last = time.Now()
	if !got.isQuery() {
		return p.playChangeLocked(got, same)
	}
	if got.Request == kabi.IoctlLockCtl {
		// Other processes take locks: acquiring one is required, finding it taken isn't.
		key := p.places.key(got)
		if i, s := p.follow.pop(key), p.follow.keys[key]; i >= 0 && (i == p.follow.next() || p.follow.mayOvertake(i) || len(s.polls) == 0) {
			return p.playChangeLocked(got, same)
		}
	}
	want := p.playQueryLocked(got)
	if want != nil && want != got && !same(want) {
		return p.stopAt(got, want, p.follow.next())
	}
	return want
}

func (p *Player) whenQuiet() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.diff != nil {
		return
	}
	if rest := p.quietAfter - time.Since(p.last); rest > 0 {
		p.quiet.Reset(rest)
		return
	}
	p.arrivesLocked(false, true)
}

// stopAt ends the playback. It returns nil, as eventLocked does for a difference.
func (p *Player) stopAt(got, want *Event, index int) *Event {
	p.quiet.Stop()
	d := &DifferenceError{Index: index, Site: site()}
	if want == nil {
		d.Got = got.String()
		p.diff = d
		return nil
	}
	w, g := *want, *got
	w.Device, w.Errno, w.Text = nil, 0, ""
	if w.Kind == KindLoad {
		w.Value = 0
	}
	if w.Kind == KindIoctl || w.Kind == KindRead {
		w.Data = nil
	}
	if w.Kind != g.Kind || sameDeltas(w.Host, g.Host) {
		w.Host, g.Host = nil, nil
	}
	if pieces := w.differing(&g); len(pieces) > 0 && w.Kind == g.Kind {
		d.Where = pieces[0].String()
	}
	d.Want, d.Got = w.String(), g.String()
	p.diff = d
	return nil
}

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

func (e *Event) answer() error {
	switch {
	case e.Errno != 0:
		return syscall.Errno(e.Errno)
	case e.Text != "":
		return errors.New(e.Text)
	}
	return nil
}

// answer returns the recorded error, or ENODEV after a difference.
func (p *Player) answer(want *Event) error {
	if want == nil {
		return fmt.Errorf("%w (%w)", syscall.ENODEV, p.diff)
	}
	return want.answer()
}

type playedNode struct{ *Player }

func (n playedNode) Open(flags int) (seam.File, error) {
	p := n.Player
	p.mu.Lock()
	defer p.mu.Unlock()
	got := Event{Kind: KindOpen, File: p.files, Value: uint64(flags)}
	want := p.eventLocked(&got, func(w *Event) bool { return w.Value == got.Value })
	if err := p.answer(want); err != nil {
		return nil, err
	}
	p.files++
	return &playedFile{p: p, n: got.File}, nil
}

type playedFile struct {
	p *Player
	n uint64
}

func (f *playedFile) Ioctl(req uint32, arg []byte) error {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	got := Event{Kind: KindIoctl, File: f.n, Request: req, In: p.mem.anonymous(f.n, req, arg)}
	want := p.eventLocked(&got, func(w *Event) bool {
		return w.Request == req && (bytes.Equal(w.In, got.In) || req == kabi.IoctlConfigureTLB) && len(w.Data) == len(arg)
	})
	if req == kabi.IoctlUnpinPages {
		if n, ok := p.mem.unpinned(f.n, arg); ok {
			_ = p.mem.drop(p.mem.pins[n], false) // the memory is the host's own
		}
		if want != nil && want.Errno == uint64(syscall.ENODEV) {
			_ = p.mem.dropFile(f.n) // as in the recording
		}
	}
	switch {
	case want == nil:
		return p.answer(nil)
	case want == &got:
		return nil // not in the recording
	case req != kabi.IoctlConfigureTLB: // its argument has no output
		in := min(inputSize(req), len(arg))
		copy(arg[in:], want.Data[in:])
	}
	if err := want.answer(); err != nil {
		return err
	}
	if req == kabi.IoctlPinPages {
		va, size := pinRange(arg)
		in, at, ok := p.mem.recordable(va, size)
		switch {
		case !ok:
			in, at = nil, 0
		case in == nil:
			in = whole(va, size)
		}
		p.mem.add(&pin{file: f.n, va: va, at: at}, in)
	}
	return nil
}

func (f *playedFile) Mmap(offset uint64, length int) (seam.Mapping, error) {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	got := Event{Kind: KindMmap, File: f.n, Map: p.maps, Off: offset, Size: uint64(length)}
	want := p.eventLocked(&got, func(w *Event) bool { return w.Off == got.Off && w.Size == got.Size })
	if err := p.answer(want); err != nil {
		return seam.Mapping{}, err
	}
	p.maps++
	m := &playedMap{p: p, file: f.n, n: got.Map}
	return seam.Mapping{IO: m, Unmap: m.unmap}, nil
}

func (m *playedMap) unmap() error {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	return m.p.answer(m.p.eventLocked(&Event{Kind: KindUnmap, File: m.file, Map: m.n}, anyEvent))
}

func (f *playedFile) Close() error {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	want := p.eventLocked(&Event{Kind: KindClose, File: f.n}, anyEvent)
	_ = p.mem.dropFile(f.n) // the memory is the host's own
	return p.answer(want)
}

// ReleaseLast does nothing: no device needs protection.
func (f *playedFile) ReleaseLast() error { return nil }

func (f *playedFile) Fault() error {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.diff == nil {
		p.last = time.Now()
		p.pollLocked()
	}
	if p.diff != nil {
		return p.diff
	}
	return p.fault
}

type playedMap struct {
	p       *Player
	file, n uint64
}

func (m *playedMap) access(got Event, same func(want *Event) bool) *Event {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	got.File, got.Map = m.file, m.n
	return m.p.eventLocked(&got, func(w *Event) bool { return w.Off == got.Off && w.Size == got.Size && same(w) })
}

func anyEvent(*Event) bool { return true }

func (m *playedMap) Load(off uint64, width int) uint64 {
	want := m.access(Event{Kind: KindLoad, Off: off, Size: uint64(width)}, anyEvent)
	if want == nil {
		return ^uint64(0) >> (64 - 8*width)
	}
	return want.Value
}

func (m *playedMap) Store(off uint64, width int, v uint64) {
	m.access(Event{Kind: KindStore, Off: off, Size: uint64(width), Value: v}, func(w *Event) bool { return w.Value == v })
}

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

func (m *playedMap) Write(off uint64, p []byte) {
	m.access(Event{Kind: KindWrite, Off: off, Size: uint64(len(p)), Data: p}, func(w *Event) bool { return bytes.Equal(w.Data, p) })
}
