package reprise

import (
	"context"
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kmd"
)

// HostBuffer is memory of this process that the device reads and writes itself: transfers with it need no copy by the
// host ([Queue.ReadTo], [Queue.WriteFrom]). It is pinned as long as it lives, and its pages aren't Go's. Its methods may be
// called from any goroutine.
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
// matches ErrBusy if ranges or addresses are taken, and ErrNotContiguous if there is neither an IOMMU nor huge pages enough.
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

// Bytes is the memory, until Free or the device's Close: it must not be touched afterwards, unless it is the caller's.
func (h *HostBuffer) Bytes() []byte { return h.mem }

// Size returns the buffer's size in bytes.
func (h *HostBuffer) Size() int { return len(h.mem) }

// Name returns the buffer's name.
func (h *HostBuffer) Name() string { return h.name }

// Free unpins the memory and unmaps it, if it isn't the caller's. It waits until everything in the device's queues has
// run, transfers with the buffer among it, and holds up what others put into them meanwhile. If ctx ends before that, or a
// queue hangs, the buffer stays as it is. A second Free is an ErrReleased.
func (h *HostBuffer) Free(ctx context.Context) error {
	if err := h.d.usable("free host buffer"); err != nil {
		return err
	}
	h.life.Lock()
	defer h.life.Unlock()
	if h.freed {
		return fmt.Errorf("reprise: free host buffer %q: %w", h.name, ErrReleased)
	}
	if err := h.h.Unpin(ctx); err != nil {
		return h.d.failed(fmt.Sprintf("free host buffer %q", h.name), err)
	}
	h.freed = true
	return nil
}

// of says whether n bytes of the buffer may be used with a device. Called with life held.
func (h *HostBuffer) of(d *Device, at, n int) error {
	switch {
	case h.d != d:
		return fmt.Errorf("host buffer %q: %w", h.name, ErrForeign)
	case h.freed:
		return fmt.Errorf("host buffer %q: %w", h.name, ErrReleased)
	case at < 0 || n < 0 || at > len(h.mem) || n > len(h.mem)-at:
		return fmt.Errorf("host buffer %q: %w", h.name, &TransferError{Op: "transfer", Offset: at, Size: n, Have: len(h.mem)})
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
// It does without a copy where off, counted from the start of its page, and at are equal modulo 16. Where they aren't, for
// the first bytes up to a multiple of 16, and for pages below 16 KiB that have gaps between them on the device, the host
// copies instead, as Read does. If the host buffer is strict, such pages do without a copy too, and where the addresses
// don't let that be, the call fails with a *DirectError before anything has moved.
//
// The error is a *TransferError if a range isn't inside, and matches ErrReleased if the host buffer was freed. When it
// fails after it began, because ctx ended, the device may still write to the memory until a Finish of the queue.
func (q *Queue) ReadTo(ctx context.Context, b *Buffer, off int, h *HostBuffer, at, n int) error {
	return q.whole(ctx, true, b, off, h, at, n)
}

// StartReadTo puts a ReadTo into the queue and returns without waiting for the data. That part of the host buffer belongs
// to the read until Wait has returned nil or Done has reported true; after Abandon, or a Wait that failed, until a Finish
// of the queue.
func (q *Queue) StartReadTo(ctx context.Context, b *Buffer, off int, h *HostBuffer, at, n int) (*Pending, error) {
	return q.pending(ctx, true, b, off, h, at, n)
}

// WriteFrom writes n bytes of pinned host memory, from byte at on, to a buffer, from byte off on, after everything so far in
// the queue has run, and waits until they are in device memory. The device fetches them itself. What can do without a copy,
// and errors, are as for ReadTo. Where the device itself, by a ReadTo of any queue, puts data into host memory that is
// written from, the queue sees to the order, across queues by events as ever; a kernel that stores to host memory has to
// be waited for.
func (q *Queue) WriteFrom(ctx context.Context, b *Buffer, off int, h *HostBuffer, at, n int) error {
	return q.whole(ctx, false, b, off, h, at, n)
}

// StartWriteFrom puts a WriteFrom into the queue and returns without waiting for it. That part of the host buffer must stay
// as it is until Wait has returned nil or Done has reported true; after Abandon, or a Wait that failed, until a Finish of
// the queue.
func (q *Queue) StartWriteFrom(ctx context.Context, b *Buffer, off int, h *HostBuffer, at, n int) (*Pending, error) {
	return q.pending(ctx, false, b, off, h, at, n)
}

func (q *Queue) pending(ctx context.Context, read bool, b *Buffer, off int, h *HostBuffer, at, n int) (*Pending, error) {
	p := &Pending{}
	if err := q.start(ctx, p, read, b, off, h, at, n); err != nil {
		return nil, err
	}
	return p, nil
}

// whole does a transfer to its end, with a Pending that is used again and again.
func (q *Queue) whole(ctx context.Context, read bool, b *Buffer, off int, h *HostBuffer, at, n int) error {
	p := q.spare.Swap(nil)
	if p == nil {
		p = &Pending{}
	}
	err := q.start(ctx, p, read, b, off, h, at, n)
	if err == nil {
		err = p.Wait(ctx)
	}
	if err == nil { // else the queue may still know it
		p.reset()
		q.spare.Store(p)
	}
	return err
}

func (q *Queue) start(ctx context.Context, p *Pending, read bool, b *Buffer, off int, h *HostBuffer, at, n int) error {
	if q.d.watch.on.Load() == nil {
		return q.startDirect(ctx, p, read, b, off, h, at, n)
	}
	kind := CallWrite
	if read {
		kind = CallRead
	}
	return q.d.observed(ctx, &Call{Kind: kind, Queues: q.self, Name: b.label(), Object: b, Bytes: n}, func() error {
		return q.startDirect(ctx, p, read, b, off, h, at, n)
	})
}

func (q *Queue) startDirect(ctx context.Context, p *Pending, read bool, b *Buffer, off int, h *HostBuffer, at, n int) error {
	op, name := opWrite, "write"
	if read {
		op, name = opRead, "read"
	}
	if err := q.check(name, b.of); err != nil {
		return err
	}
	if h == nil {
		return fmt.Errorf("reprise: %s: no host buffer: it is nil", name)
	}
	h.life.RLock()
	defer h.life.RUnlock()
	if err := h.of(q.d, at, n); err != nil {
		return fmt.Errorf("reprise: %s: %w", name, err)
	}
	if err := q.d.refuse(q, op, b.name); err != nil {
		return err
	}
	p.b, p.q, p.n, p.write = b, q, n, !read
	t := direct{ctx: ctx, q: q.q, b: b, h: h, p: p, read: read, at: at - off, end: off + n}
	err := b.check(name, off, n)
	if err == nil && h.strict {
		t.dry = true
		err = t.run(off, n)
		t.dry = false
	}
	if err == nil {
		err = t.run(off, n)
	}
	switch {
	case err != nil:
	case t.told:
		err = p.add(&p.direct, nil)
	case t.used || p.last == nil: // else the last part that the queue reads for the host says it
		err = p.add(&p.direct, q.q.Report(ctx, &p.direct))
	}
	if err != nil {
		p.Abandon()
		return q.d.failed(fmt.Sprintf("%s buffer %q", name, b.name), err)
	}
	return nil
}
