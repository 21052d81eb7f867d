package reprise

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kmd"
)

// HostBuffer is memory of this process that the device reads and writes itself: transfers with it need no copy by the
// host ([Queue.ReadTo], [Queue.WriteFrom]). It is pinned until Free, and it is not on Go's heap. Its methods may be called
// from any goroutine.
type HostBuffer struct {
	d      *Device
	h      *dispatch.HostBuffer
	mem    []byte
	name   string
	strict bool

	life  sync.RWMutex // held for reading while transfers are put into a queue
	freed bool
}

// HostBufferConfig says what memory to pin.
type HostBufferConfig struct {
	// Size in bytes is rounded up to whole pages of the host. The memory is new and zeroed, in huge pages where there are
	// some.
	Size int
	// Memory, if it isn't nil, is used instead of new memory: whole pages that the caller has mmap'ed, anonymous or shared
	// memory, and keeps mapped until Free. Go's heap won't do.
	Memory []byte
	// Strict makes transfers with the buffer fail with a *DirectError where a part of them can't do without a copy.
	// Otherwise the host copies such parts.
	Strict bool
	Name   string // for errors
}

// NewHostBuffer pins memory. It takes one of the 16 ranges of host memory that all users of a card share; the queues' own
// memory has one too. Without an IOMMU that translates, the memory is of huge pages, and each takes a range. The error
// matches ErrBusy if ranges or addresses are taken, and ErrNotContiguous without an IOMMU and enough huge pages.
func (d *Device) NewHostBuffer(c HostBufferConfig) (*HostBuffer, error) {
	if err := d.usable("new host buffer"); err != nil {
		return nil, err
	}
	h, err := d.disp.PinHost(kmd.PinConfig{Size: c.Size, Memory: c.Memory})
	if err != nil {
		return nil, d.failed(fmt.Sprintf("new host buffer %q", c.Name), err)
	}
	return &HostBuffer{d: d, h: h, mem: h.Bytes(), name: c.Name, strict: c.Strict}, nil
}

// Bytes returns the memory. After Free, or the device's Close, it must not be accessed unless it is the caller's.
func (h *HostBuffer) Bytes() []byte { return h.mem }

// Size returns the buffer's size in bytes.
func (h *HostBuffer) Size() int { return len(h.mem) }

// Name returns the buffer's name.
func (h *HostBuffer) Name() string { return h.name }

// Release unpins the memory and, unless it is the caller's, unmaps it. It first waits until everything in the device's queues
// has run, transfers with the buffer included, and blocks other calls that use the queues meanwhile. If ctx ends before
// that, or a queue hangs, the buffer stays as it is. The error of a second Release
// matches ErrReleased.
func (h *HostBuffer) Release(ctx context.Context) error {
	if err := h.d.usable("release host buffer"); err != nil {
		return err
	}
	h.life.Lock()
	defer h.life.Unlock()
	if h.freed {
		return fmt.Errorf("reprise: release host buffer %q: %w", h.name, ErrReleased)
	}
	if err := h.h.Unpin(ctx); err != nil {
		return h.d.failed(fmt.Sprintf("release host buffer %q", h.name), err)
	}
	h.freed = true
	return nil
}

// checkLocked checks that n bytes of the buffer can be used with a device, with life held.
func (h *HostBuffer) checkLocked(d *Device, at, n int) error {
	switch {
	case h.d != d:
		return fmt.Errorf("host buffer %q: %w", h.name, ErrWrongDevice)
	case h.freed:
		return fmt.Errorf("host buffer %q: %w", h.name, ErrReleased)
	case at < 0 || n < 0 || at > len(h.mem) || n > len(h.mem)-at:
		return fmt.Errorf("host buffer %q: %w", h.name, &dispatch.TransferError{Op: "transfer", Offset: at, Size: n, Have: len(h.mem)})
	}
	return nil
}

// DirectError says which part of a transfer with a strict HostBuffer can't do without a copy.
type DirectError struct {
	Op     string // "read" or "write"
	Offset int    // in the device's buffer, of the part
	At     int    // in the host buffer
	Size   int    // of the part
}

// Error implements error.
func (e *DirectError) Error() string {
	return fmt.Sprintf("%s of %d B at offset %d to or from offset %d of the host buffer without a copy: the place on the device and the place in host memory must be equal modulo %d, the NoC's unit: move one of them, or use a HostBuffer that isn't strict", e.Op, e.Size, e.Offset, e.At, dispatch.DirectAlign)
}

// ReadTo reads n bytes from a buffer, from byte off on, into pinned host memory from byte at on, after everything so far in
// the queue has run, and waits for them. The device writes them there itself; nothing passes through the queue's own
// memory. It allocates nothing unless the buffer is sharded.
//
// No copy is needed where off, counted from the start of its page, and at are equal modulo 16. Where they aren't, for the
// first bytes up to a multiple of 16, and for pages below 16 KiB that have gaps between them on the device, the host
// copies, as Read does. If the host buffer is strict, such pages are not copied either, and where the addresses need a
// copy, the call fails with a *DirectError before anything has moved.
//
// The error is a *dispatch.TransferError if a range isn't inside, and matches ErrReleased if the host buffer was freed. When it
// fails after it began, because ctx ended, the device may still write to the memory until the queue was finished.
func (q *Queue) ReadTo(ctx context.Context, b *Buffer, off int, h *HostBuffer, at, n int) error {
	return q.direct(ctx, true, b, off, h, at, n)
}

// StartReadTo puts a ReadTo into the queue and returns without waiting for the data. That part of the host buffer belongs
// to the read until Wait has returned nil or Done has reported true; after Abandon, or a Wait that failed, until the queue
// was finished.
func (q *Queue) StartReadTo(ctx context.Context, b *Buffer, off int, h *HostBuffer, at, n int) (*Pending, error) {
	return q.startDirect(ctx, true, b, off, h, at, n)
}

// WriteFrom writes n bytes of pinned host memory, from byte at on, to a buffer, from byte off on, after everything so far in
// the queue has run, and waits until they are in device memory. The device fetches them itself. When the host copies, and
// the errors, are as for ReadTo. If a ReadTo of the same queue puts data into that host memory, WriteFrom comes after it; on
// another queue, events order the two as always. A kernel that stores to host memory has to be waited for.
func (q *Queue) WriteFrom(ctx context.Context, b *Buffer, off int, h *HostBuffer, at, n int) error {
	return q.direct(ctx, false, b, off, h, at, n)
}

// StartWriteFrom puts a WriteFrom into the queue and returns without waiting for it. That part of the host buffer must stay
// as it is until Wait has returned nil or Done has reported true; after Abandon, or a Wait that failed, until the queue was
// finished.
func (q *Queue) StartWriteFrom(ctx context.Context, b *Buffer, off int, h *HostBuffer, at, n int) (*Pending, error) {
	return q.startDirect(ctx, false, b, off, h, at, n)
}

func (q *Queue) startDirect(ctx context.Context, read bool, b *Buffer, off int, h *HostBuffer, at, n int) (*Pending, error) {
	p := &Pending{}
	if err := q.putDirect(ctx, p, read, b, off, h, at, n); err != nil {
		return nil, err
	}
	return p, nil
}

// direct carries a transfer out, with a Pending that is used again and again.
func (q *Queue) direct(ctx context.Context, read bool, b *Buffer, off int, h *HostBuffer, at, n int) error {
	p := q.spare.Swap(nil)
	if p == nil {
		p = &Pending{}
	}
	err := q.putDirect(ctx, p, read, b, off, h, at, n)
	if err == nil {
		err = p.Wait(ctx)
	}
	if err == nil { // otherwise the queue may still use it
		p.reset()
		q.spare.Store(p)
	}
	return err
}

// putDirect puts a transfer into the queue, as p.
func (q *Queue) putDirect(ctx context.Context, p *Pending, read bool, b *Buffer, off int, h *HostBuffer, at, n int) (err error) {
	kind, op, name := CallWrite, opWrite, "write"
	if read {
		kind, op, name = CallRead, opRead, "read"
	}
	if q.d.watched() {
		defer q.d.begin(ctx, &Call{Kind: kind, Queues: q.self, Name: b.label(), Object: b, Bytes: n}).end(ctx, &err)
	}
	if err := q.checkTransfer(ctx, name, op, b); err != nil {
		return err
	}
	if h == nil {
		return fmt.Errorf("reprise: %s: no host buffer: it is nil", name)
	}
	h.life.RLock()
	defer h.life.RUnlock()
	if err := h.checkLocked(q.d, at, n); err != nil {
		return fmt.Errorf("reprise: %s: %w", name, err)
	}
	p.b, p.q, p.n, p.write = b, q, n, !read
	t := direct{ctx: ctx, q: q.q, b: b, h: h, p: p, read: read, shift: at - off, end: off + n}
	if err := t.put(off, n); err != nil {
		p.Abandon()
		return q.d.failed(fmt.Sprintf("%s buffer %q", name, b.name), err)
	}
	return nil
}

// direct is a transfer between a buffer and pinned host memory.
type direct struct {
	ctx   context.Context
	q     *dispatch.Queue
	b     *Buffer
	h     *HostBuffer
	p     *Pending
	read  bool
	shift int // from an offset in the buffer to the one in the host memory
	end   int // of the transfer in the buffer

	dry      bool // only check that nothing needs a copy
	used     bool // a part needed no copy
	reported bool // the queue will report the end of the transfer
}

// put puts the whole transfer into the queue: n bytes from byte off of the buffer on.
func (t *direct) put(off, n int) error {
	if err := t.b.checkRange(t.op(), off, n); err != nil {
		return err
	}
	if t.h.strict {
		t.dry = true
		if err := t.move(off, n); err != nil {
			return err
		}
		t.dry = false
	}
	if err := t.move(off, n); err != nil {
		return err
	}
	switch {
	case t.reported:
		return t.p.add(&t.p.direct, nil)
	case t.used || t.p.last == nil: // else the last part that the host copies reports it
		return t.p.add(&t.p.direct, t.q.Report(t.ctx, &t.p.direct))
	}
	return nil
}

func (t *direct) op() string {
	if t.read {
		return "read"
	}
	return "write"
}

// move moves n bytes from byte off of the buffer on. Small pages with gaps between them are copied as a whole, since each
// would take commands of its own.
func (t *direct) move(off, n int) error {
	gaps := t.b.iv.PageSize != t.b.iv.HostPage
	if gaps && (t.h.strict || t.b.PageSize() >= dispatch.DirectMin) {
		return t.b.eachPage(off, n, t.moveDirectly)
	}
	return t.b.eachChunk(off, n, math.MaxInt, func(c chunk) error {
		if gaps && !c.inPage {
			return t.copy(c.off, c.n)
		}
		return t.moveDirectly(c)
	})
}

// moveDirectly moves a chunk without a copy, except for the bytes before the first multiple of the NoC's unit, if the
// addresses on the device and in host memory are equal modulo that unit. Otherwise it copies the chunk.
func (t *direct) moveDirectly(c chunk) error {
	const unit = dispatch.DirectAlign
	start, at := int(c.iv.Addr)%unit, c.off+t.shift
	if start != at%unit {
		return t.copy(c.off, c.n)
	}
	from, n := c.at, c.n
	if head := min((unit-start)%unit, n); head > 0 {
		if err := t.copy(c.off, head); err != nil {
			return err
		}
		from, at, n = from+head, at+head, n-head
	}
	if n == 0 || t.dry {
		return nil
	}
	first := !t.used
	t.used = true
	if !t.read {
		return t.q.WriteDirect(t.ctx, &c.iv, from, t.h.h, at, n, first)
	}
	var report *dispatch.Pending
	if c.off+c.n == t.end {
		report, t.reported = &t.p.direct, true
	}
	return t.q.ReadDirect(t.ctx, &c.iv, from, t.h.h, at, n, first, report)
}

// copy has the host copy n bytes from byte off of the buffer on, by way of the queue's own memory.
func (t *direct) copy(off, n int) error {
	at := off + t.shift
	if t.dry {
		return &DirectError{Op: t.op(), Offset: off, At: at, Size: n}
	}
	if t.read {
		return t.b.addReads(t.ctx, t.q, t.p, off, t.h.mem[at:][:n])
	}
	return t.b.write(t.ctx, t.q, off, t.h.mem[at:][:n])
}
