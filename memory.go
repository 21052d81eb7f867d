package reprise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/usage"
	"github.com/reprise-tt/reprise/kmd"
)

// MemoryFingerprint returns a hash of everything that decides the addresses of later buffers of a
// kind. While the hash stays the same, the same allocations give the same addresses.
func (d *Device) MemoryFingerprint(k allocator.Kind) uint64 { return d.mem.Fingerprint(k) }

// MemorySnapshot is the state of a device's allocator at a moment. It answers what would fit, also
// without some of the buffers.
type MemorySnapshot struct {
	d   *Device
	mem *allocator.Allocator
}

// MemorySnapshot copies the state of the allocator, not the content of memory.
func (d *Device) MemorySnapshot() *MemorySnapshot {
	d.cbs.Lock() // as in newBuffer
	defer d.cbs.Unlock()
	return &MemorySnapshot{d: d, mem: d.mem.Clone()}
}

// Map returns what was allocated where.
func (s *MemorySnapshot) Map() *allocator.Map { return s.mem.Map() }

// Changes lists what was allocated and freed since, by kind and address.
func (s *MemorySnapshot) Changes() []allocator.Change { return s.d.mem.Diff(s.mem) }

// Without frees a buffer in the snapshot.
func (s *MemorySnapshot) Without(b *Buffer) error {
	if b == nil || b.d != s.d {
		return fmt.Errorf("reprise: memory snapshot: %w", b.checkDevice(s.d))
	}
	free := s.mem.Free
	if b.root != nil {
		free = s.mem.Unhold
	}
	if err := free(b.ext); err != nil {
		return fmt.Errorf("reprise: memory snapshot: buffer %q: %w", b.name, err)
	}
	return nil
}

// Take allocates in the snapshot as NewBuffer would on the device, whose memory it doesn't touch.
// It returns the address in every bank, a function like [Buffer.Page], and one that frees the
// memory in the snapshot.
func (s *MemorySnapshot) Take(c BufferConfig) (addr uint32, page func(i int) (Place, bool), free func() error, err error) {
	b, r, err := s.d.plan(&c)
	if err == nil {
		var e allocator.Extent
		if e, err = place(s.mem, &c, r); err == nil {
			b.setExtent(e)
			return b.Addr(), b.Page, func() error { return s.mem.Free(e) }, nil
		}
	}
	return 0, nil, nil, fmt.Errorf("reprise: take buffer %q of a snapshot: %w", c.Name, err)
}

// openLog keeps its error for UsageLog, because Open succeeds without the log.
func (d *Device) openLog(dir string) allocator.Gauge {
	if dir == "" {
		return nil
	}
	id := usage.Device{Name: d.name, Arch: d.Arch().String(), NUMANode: -1, Emulated: true}
	if d.target == kmd.Path(d.name) {
		id.Emulated, id.PCI = false, d.kd.Info().BDF()
		id.Serial, id.NUMANode = kmd.Host().Identity(id.PCI)
	}
	if d.log, d.logErr = usage.Create(dir, id); d.logErr != nil {
		return nil
	}
	d.sampler = usage.StartSampler(d.log, sampleEvery, d.sample(d.log))
	return d.log
}

const (
	sampleEvery   = 50 * time.Millisecond
	samplesARound = 20 // kernels are counted once a round: that reads more
)

// sample returns a function that looks at what the device does and adds it to the log.
func (d *Device) sample(log *usage.Log) func() {
	var all usage.Activity
	var queues []usage.QueueActivity
	round := 0
	count := func(s dispatch.QueueState, idle, blocked *uint64) {
		switch s {
		case dispatch.QueueIdle:
			*idle++
		case dispatch.QueueBlocked:
			*blocked++
		}
	}
	return func() {
		if !d.admin.TryLock() {
			return // the device is being recovered
		}
		defer d.admin.Unlock()
		if !d.work.TryRLock() {
			return // its workers are being divided
		}
		a := d.disp.Activity(round == 0)
		d.work.RUnlock()
		all.Samples, all.Workers, all.Busy = all.Samples+1, uint64(a.Workers), all.Busy+uint64(a.Busy)
		if round == 0 {
			all.Kernels = uint64(a.Kernels)
		}
		round = (round + 1) % samplesARound
		queues = append(queues, make([]usage.QueueActivity, len(a.Queues)-len(queues))...)
		for i, q := range a.Queues {
			if max(q.Prefetcher, q.Dispatcher) == dispatch.QueueUnknown {
				continue
			}
			to := &queues[i]
			to.Samples++
			count(q.Prefetcher, &to.FetchIdle, &to.FetchBlocked)
			count(q.Dispatcher, &to.DispatchIdle, &to.DispatchBlocked)
		}
		log.SetActivity(all, queues...)
	}
}

func (d *Device) closeLog() error {
	if d.log == nil {
		return nil
	}
	return d.log.Close()
}

// UsageLog returns the file in which other processes see how much memory of the device is in use.
// It is "" if there is none; the error says why if the file could not be created.
func (d *Device) UsageLog() (string, error) {
	if d.log == nil {
		return "", d.logErr
	}
	return d.log.Path(), nil
}

// deferredFrees is memory of failed calls, to be freed once the host has waited for the queues that
// may use it.
type deferredFrees struct {
	some atomic.Bool // list isn't empty
	mu   sync.Mutex
	list []deferredFree
}

type deferredFree struct {
	waits []waitFor
	free  func() error
}

type waitFor struct {
	q *Queue
	n uint64
}

// freeAfter waits for the queues and calls free. If the wait fails, a later wait does.
func (d *Device) freeAfter(ctx context.Context, free func() error, qs ...*Queue) error {
	for _, q := range qs {
		if q.await(ctx) != nil { // mostly because ctx has ended
			l := deferredFree{free: free}
			for _, q := range qs {
				l.waits = append(l.waits, waitFor{q, q.begun.Load() + 1})
			}
			d.deferred.mu.Lock()
			defer d.deferred.mu.Unlock()
			d.deferred.list = append(d.deferred.list, l)
			d.deferred.some.Store(true)
			return nil
		}
	}
	return free()
}

func (d *Device) freeDeferred(all bool) error {
	if !d.deferred.some.Load() {
		return nil
	}
	var due []deferredFree
	d.deferred.mu.Lock()
	d.deferred.list = slices.DeleteFunc(d.deferred.list, func(l deferredFree) bool {
		waited := all || !slices.ContainsFunc(l.waits, func(w waitFor) bool { return w.q.finished.Load() < w.n })
		if waited {
			due = append(due, l)
		}
		return waited
	})
	d.deferred.some.Store(len(d.deferred.list) > 0)
	d.deferred.mu.Unlock()
	var errs []error
	for _, l := range due {
		errs = append(errs, l.free())
	}
	return errors.Join(errs...)
}

type scratch struct {
	state dispatch.State // after what was recorded
	prior dispatch.State // before what was recorded last
	mem   []byte         // to record in
}

// spares keeps the memory of released traces: fresh memory is cache-cold, and Go has to clear it.
type spares struct {
	mu   sync.Mutex
	free [][]byte // most recently given, and so cache-warm, last
}

// Enough for short traces, whose capture takes as long as their memory.
const (
	mostSpares   = 32
	largestSpare = 16 << 10 // bytes
)

// take returns n bytes with arbitrary contents. Reused memory is at most twice as large.
func (s *spares) take(n int) []byte {
	s.mu.Lock()
	for i := len(s.free) - 1; i >= 0; i-- {
		if mem := s.free[i]; n <= cap(mem) && cap(mem) <= 2*n {
			s.free = slices.Delete(s.free, i, i+1)
			s.mu.Unlock()
			return mem[:n]
		}
	}
	s.mu.Unlock()
	return make([]byte, n)
}

// give adds memory that nothing refers to. A full list drops its oldest entry.
func (s *spares) give(mem []byte) {
	if cap(mem) == 0 || cap(mem) > largestSpare {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == mostSpares {
		s.free = slices.Delete(s.free, 0, 1)
	}
	s.free = append(s.free, mem)
}
