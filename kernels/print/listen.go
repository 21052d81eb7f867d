package print

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// A Device is reprise.Device.Debug's result.
type Device interface {
	Name() string
	ReadL1(worker chip.Core, addr uint32, p []byte) error
	WriteL1(worker chip.Core, addr uint32, p []byte) error
	PrintArea() (addr uint32, ok bool) // where in L1 kernels print to
	PrintEpoch() uint64                // goes up when the rings are emptied, and is odd meanwhile
	// Printing returns all programs with printing kernels and a version that changes with them, or
	// no programs for the version since. Versions are never 0.
	Printing(since uint64) (programs []*Program, version uint64)
	// OnPrinting calls f after programs are added, before some are removed, and before and after
	// rings are emptied.
	OnPrinting(f func()) (cancel func())
}

// Options change how Listen reads.
type Options struct {
	// Patience is how many cycles a kernel with a full ring waits before it drops records; 0 means
	// 2^30, about a second. Without a listener it doesn't wait.
	Patience uint32
	// Name is the device's in records, or empty.
	Name string
}

const defaultPatience = 1 << 30

// A Listener's methods may be called from any goroutine.
type Listener struct {
	dev     Device
	area    uint32
	options Options
	cancel  func() // of OnPrinting
	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}

	mu      sync.Mutex // of all below, and held while the handler runs
	handle  Handler
	decoder *Decoder
	version uint64  // of the known programs
	cores   []*core // that they run on
	byCore  map[chip.Core]*core
	left    []left // rings without a printing kernel, whose processors haven't been told
	epoch   uint64
	err     error
	closed  bool
}

type core struct {
	at    chip.Core
	rings [chip.NumProcessors]reader
	held  []Record // earlier records of other processors may still come
}

type reader struct {
	prints  bool // a kernel on this processor prints
	visited bool
	pos     uint32
	beat    uint32
	told    uint32 // number of records read or reported lost
	newest  uint64 // the time of the last record
	broken  bool   // its header is invalid
}

type left struct {
	place
	reader
}

// Listen calls the handler with each line that kernels print until Close, beginning with lines
// still in the rings. It visits cores with printing programs each fraction of a millisecond while
// they print, each 10 ms otherwise. The device may hang and be recovered meanwhile. Close the
// Listener before the device.
func Listen(dev Device, handle Handler, o Options) (*Listener, error) {
	area, ok := dev.PrintArea()
	if !ok {
		return nil, fmt.Errorf("print: listen to %s: %w: its workers run tt-metal's base firmware; open it without WithFirmware",
			dev.Name(), errors.ErrUnsupported)
	}
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	l := &Listener{
		dev: dev, area: area, options: o, handle: handle, decoder: NewDecoder(o.Name), byCore: map[chip.Core]*core{},
		stop: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1), epoch: dev.PrintEpoch(),
	}
	l.cancel = dev.OnPrinting(func() {
		_, _ = l.visit() // Close returns its error
		select {
		case l.wake <- struct{}{}:
		default:
		}
	})
	if _, err := l.visit(); err != nil {
		l.cancel()
		return nil, err
	}
	go l.run()
	return l, nil
}

const (
	soonest = 100 * time.Microsecond
	latest  = 10 * time.Millisecond
)

func (l *Listener) run() {
	defer close(l.done)
	wait := soonest
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		l.mu.Lock()
		idle := len(l.cores) == 0
		l.mu.Unlock()
		var tick <-chan time.Time
		if !idle {
			timer.Reset(wait)
			tick = timer.C
		}
		select {
		case <-l.stop:
			return
		case <-l.wake:
		case <-tick:
		}
		n, _ := l.visit() // Close returns its error
		if wait = min(2*wait, latest); n > 0 {
			wait = soonest
		}
	}
}

// visit returns how many bytes there were.
func (l *Listener) visit() (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, l.err
	}
	return l.visitLocked()
}

func (l *Listener) visitLocked() (n int, err error) {
	l.learnLocked()
	e := l.dev.PrintEpoch()
	if e%2 != 0 {
		return 0, nil
	}
	if e != l.epoch {
		l.epoch, l.left = e, nil // rings are empty now, and their kernels don't wait
		for _, c := range l.cores {
			l.flushLocked(c)
			for p := range c.rings {
				c.rings[p] = reader{prints: c.rings[p].prints}
			}
		}
	}
	for _, c := range l.cores {
		m, err := l.readLocked(c)
		n += m
		if err != nil {
			l.err = fmt.Errorf("print: read what kernels of %v print: %w", c.at, err)
			return n, l.err
		}
	}
	for len(l.left) > 0 {
		if err := l.leaveLocked(&l.left[0]); err != nil {
			l.err = err
			return n, err
		}
		l.left = l.left[1:]
	}
	l.err = nil
	return n, nil
}

// leaveLocked tells a processor that kernels needn't wait anymore.
func (l *Listener) leaveLocked(r *left) error {
	if err := l.sayLocked(r.place, &r.reader, 0); err != nil {
		return fmt.Errorf("print: stop reading what kernels of %v print: %w", r.core, err)
	}
	return nil
}

// learnLocked updates the known programs. It hands over remaining lines of programs that are gone,
// and tells their processors not to wait.
func (l *Listener) learnLocked() {
	list, version := l.dev.Printing(l.version)
	if version == l.version {
		return
	}
	l.version = version
	prints := map[place]bool{}
	for _, at := range printing(list) {
		prints[at] = true
		if l.byCore[at.core] == nil {
			c := &core{at: at.core}
			l.byCore[at.core], l.cores = c, append(l.cores, c)
		}
	}
	l.cores = slices.DeleteFunc(l.cores, func(c *core) bool {
		any := false
		for p := range c.rings {
			r, at := &c.rings[p], place{c.at, chip.Processor(p)}
			r.prints = prints[at]
			any = any || r.prints
			if !r.prints && r.visited {
				l.left = append(l.left, left{at, *r})
				r.visited = false
			}
		}
		if !any {
			l.flushLocked(c)
			delete(l.byCore, c.at) // its rings say how far they were read
		}
		return !any
	})
	l.decoder.programs = map[uint32]*Program{}
	for _, p := range list {
		l.decoder.Add(p)
	}
}

func (l *Listener) readLocked(c *core) (n int, err error) {
	headers, err := readHeaders(l.dev, l.area, c.at)
	if err != nil {
		return 0, err
	}
	for p, h := range headers {
		r, at := &c.rings[p], place{c.at, chip.Processor(p)}
		if !r.prints {
			continue
		}
		if !r.visited {
			r.pos, r.beat, r.told = h.untaken(), h.beat, h.told
		}
		got, err := l.ringLocked(c, r, at, h)
		n += got
		if err == nil && (got > 0 || !r.visited) {
			err = l.sayLocked(at, r, l.options.Patience)
		}
		if err != nil {
			return n, err
		}
		r.visited = true
	}
	if len(c.held) == 0 {
		return n, nil
	}
	until, err := l.untilLocked(c)
	if err != nil {
		return n, err
	}
	slices.SortStableFunc(c.held, Record.byTime)
	ready := slices.IndexFunc(append(c.held, Record{Time: 1<<64 - 1}), func(r Record) bool { return r.Time > until })
	for _, r := range c.held[:ready] {
		l.handle(r)
	}
	c.held = slices.Delete(c.held, 0, ready)
	return n, nil
}

// untilLocked returns the time up to which all of a core's records have been read: the last one's
// of a processor that is making a record or has made one since. Other processors' come later.
func (l *Listener) untilLocked(c *core) (uint64, error) {
	headers, err := readHeaders(l.dev, l.area, c.at)
	until := uint64(1<<64 - 2)
	for p, h := range headers {
		if r := &c.rings[p]; r.prints && !r.broken && (h.busy || h.put != r.pos) {
			until = min(until, r.newest)
		}
	}
	return until, err
}

func (l *Listener) ringLocked(c *core, r *reader, at place, h header) (int, error) {
	from, ok := h.start(r.pos)
	if !ok {
		if !r.broken {
			c.held = append(c.held, l.decoder.note(at, slog.LevelWarn, fmt.Sprintf("(the header of its ring is none: from %#x to %#x)",
				h.tail, h.put)))
		}
		r.broken, r.pos = true, h.put
		return 0, nil
	}
	r.broken = false
	n := int(h.put - from)
	if n == 0 && (h.busy || h.made == r.told) {
		r.pos = h.put
		return 0, nil
	}
	data, err := readRing(l.dev, l.area, at, from, h.put)
	if err != nil {
		return 0, err
	}
	// A kernel that doesn't wait may have overwritten data meanwhile.
	var now [headerSize]byte
	if err := l.dev.ReadL1(c.at, l.area+uint32(at.on)*headerSize, now[:]); err != nil {
		return 0, err
	}
	later := parseHeader(now[:], 0)
	if gone := int32(later.tail - from); gone > 0 {
		data = data[min(int(gone)&^3, n):]
	}
	records, read := l.decoder.decode(nil, at, wordsOf(data))
	r.told += read
	// Records made and not read are lost. Their number is exact only if the processor made none
	// meanwhile; otherwise a later visit reports them.
	if lost := later.made - r.told; int32(lost) > 0 && !later.busy && h.put == later.put && h.made == later.made {
		note := l.decoder.note(at, slog.LevelWarn, fmt.Sprintf("(%d lines lost: the host did not read them in time)", lost))
		note.Lost = lost
		if len(records) > 0 {
			note.Time = records[0].Time
		}
		records = slices.Insert(records, 0, note)
		r.told = later.made
	}
	if len(records) > 0 {
		r.newest = records[len(records)-1].Time
	}
	c.held = append(c.held, records...)
	r.pos = h.put
	return max(n, 1), nil
}

// sayLocked tells a processor how far the host has read.
func (l *Listener) sayLocked(at place, r *reader, patience uint32) error {
	if r.beat++; r.beat == 0 {
		r.beat = 1
	}
	b, _ := binary.Append(nil, le, [...]uint32{r.pos, r.beat, patience, r.told}) // numbers always encode
	return l.dev.WriteL1(at.core, l.area+uint32(at.on)*headerSize+atTaken, b)
}

// flushLocked hands over lines without a newline too.
func (l *Listener) flushLocked(c *core) {
	for p := range chip.Processor(chip.NumProcessors) {
		c.held = l.decoder.end(c.held, place{c.at, p})
	}
	slices.SortStableFunc(c.held, Record.byTime)
	for _, r := range c.held {
		l.handle(r)
	}
	c.held = nil
}

// Drain hands over all prints so far, after [reprise.Queue.Wait] all lines of finished programs.
func (l *Listener) Drain() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.err
	}
	return l.drainLocked()
}

func (l *Listener) drainLocked() error {
	var err error
	for range 2 { // the second visit finds what came during the first one
		if _, err = l.visitLocked(); err != nil {
			break
		}
	}
	for _, c := range l.cores {
		l.flushLocked(c)
	}
	return err
}

// Close hands over the remaining records; kernels no longer wait for the Listener. The error is the
// last access's.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	err := l.drainLocked()
	for _, c := range l.cores {
		for p := range chip.Processor(chip.NumProcessors) {
			if c.rings[p].visited && err == nil {
				err = l.leaveLocked(&left{place{c.at, p}, c.rings[p]})
			}
		}
	}
	l.closed, l.err = true, err
	l.mu.Unlock()
	l.cancel()
	close(l.stop)
	<-l.done
	return err
}
