package reprise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kmd"
)

// Write writes data to a buffer, from byte off on, after everything so far in the queue has run. It
// returns once the data are copied; the device may still be busy.
// Memory is written in units of 16 to 64 bytes, and partial units are read first. That read waits
// for the queue, and nothing else may write to the same unit meanwhile. If ctx ends while a long
// write waits for room, its first part is written; the queue goes on. The error is a
// *dispatch.TransferError if the range isn't inside the buffer.
func (q *Queue) Write(ctx context.Context, b *Buffer, off int, data []byte) (err error) {
	defer q.d.observe(ctx, CallWrite, q.self, b.label(), b, len(data)).end(ctx, &err)
	if err := q.checkTransfer(ctx, "write", opWrite, b); err != nil {
		return err
	}
	return q.d.objectError("write buffer", b.name, b.write(ctx, q.q, off, data))
}

// Read reads any range of a buffer, from byte off on, after everything so far in the queue has run,
// and waits for the data. The error is a *dispatch.TransferError if the range isn't inside the
// buffer.
func (q *Queue) Read(ctx context.Context, b *Buffer, off int, dst []byte) error {
	p, err := q.StartRead(ctx, b, off, dst)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// StartRead puts a Read into the queue and returns without waiting for the data. dst belongs to the
// read until Wait has returned, Done has reported true, or Abandon was called.
func (q *Queue) StartRead(ctx context.Context, b *Buffer, off int, dst []byte) (p *Pending, err error) {
	defer q.d.observe(ctx, CallRead, q.self, b.label(), b, len(dst)).end(ctx, &err)
	if err := q.checkTransfer(ctx, "read", opRead, b); err != nil {
		return nil, err
	}
	p = &Pending{b: b, q: q, n: len(dst), op: opRead}
	if err := b.mem.StartRead(ctx, q.q, &p.transfer, off, dst); err != nil {
		return nil, p.failed(err)
	}
	return p, nil
}

func (q *Queue) checkTransfer(ctx context.Context, name string, op captureOp, b *Buffer) error {
	if err := q.d.usable(name); err != nil {
		return err
	}
	if err := b.checkDevice(q.d); err != nil {
		return fmt.Errorf("reprise: %s: %w", name, err)
	}
	return q.d.refuse(ctx, q, op, b.name)
}

// read is Queue.Read, unobserved.
func (b *Buffer) read(ctx context.Context, q *dispatch.Queue, off int, dst []byte) error {
	p := &Pending{b: b, op: opRead}
	if err := b.mem.StartRead(ctx, q, &p.transfer, off, dst); err != nil {
		return err
	}
	return p.failed(p.transfer.Wait(ctx))
}

// write is Queue.Write, unobserved.
func (b *Buffer) write(ctx context.Context, q *dispatch.Queue, off int, data []byte) error {
	return b.mem.Write(ctx, q, off, data)
}

// Pending is a started read, or a started write from pinned host memory. Its methods may be called
// from any goroutine.
type Pending struct {
	b        *Buffer
	q        *Queue
	n        int       // bytes
	op       captureOp // opRead or opWrite
	transfer dispatch.Transfer
}

// Wait waits for the data. If it fails, the read is abandoned: dst isn't written any more, unless
// it is pinned.
func (p *Pending) Wait(ctx context.Context) (err error) {
	defer p.b.d.observe(ctx, CallPendingWait, p.q.self, p.b.name, p.b, p.n).end(ctx, &err)
	return p.failed(p.transfer.Wait(ctx))
}

// Done reports whether all data have arrived, without waiting.
func (p *Pending) Done() (bool, error) {
	done, err := p.transfer.Done()
	return done && err == nil, p.failed(err)
}

// Abandon returns dst to the caller: dst isn't written any more, unless it is pinned. The read
// stays in the queue.
func (p *Pending) Abandon() { p.transfer.Abandon() }

func (p *Pending) failed(err error) error {
	return p.b.d.objectError(p.op.what(), p.b.name, err)
}

// HostBuffer is memory of this process that the device reads and writes itself, without a copy by
// the host ([Queue.ReadTo], [Queue.WriteFrom]). It is pinned until Release and isn't on Go's heap.
// Its methods may be called from any goroutine.
type HostBuffer struct {
	d      *Device
	h      *dispatch.HostBuffer
	name   string
	strict bool

	life     sync.RWMutex // held for reading while transfers are put into a queue
	released bool

	holding sync.Mutex
	holders map[any]string // names of users, for errors; guarded by holding
}

// HostBufferConfig says what memory to pin.
type HostBufferConfig struct {
	// Size in bytes is rounded up to whole pages of the host. The memory is new and zeroed, in huge
	// pages where there are some.
	Size int
	// Memory, if not nil, is used instead of new memory: whole pages of anonymous or shared memory
	// that the caller keeps mapped until Release. Go's heap won't do.
	Memory []byte
	// Strict makes transfers fail with a *dispatch.DirectError where a part needs a copy. Otherwise
	// the host copies such parts.
	Strict bool
	Name   string // for errors
}

// NewHostBuffer pins memory. It takes one of the 16 ranges of host memory that all users of a card
// share; each queue's own memory has one too. Without an IOMMU that translates, the memory is made
// of huge pages, and each takes a range. The error matches ErrBusy if ranges or addresses are
// taken, and kmd.ErrNotContiguous without an IOMMU and enough huge pages.
func (d *Device) NewHostBuffer(c HostBufferConfig) (*HostBuffer, error) {
	if err := d.usable("new host buffer"); err != nil {
		return nil, err
	}
	h, err := d.disp.PinHost(kmd.PinConfig{Size: c.Size, Memory: c.Memory})
	if err != nil {
		return nil, d.objectError("new host buffer", c.Name, err)
	}
	return &HostBuffer{d: d, h: h, name: c.Name, strict: c.Strict, holders: map[any]string{}}, nil
}

// Bytes returns the memory. After Release or the device's Close it must not be accessed, unless it
// is the caller's.
func (h *HostBuffer) Bytes() []byte { return h.h.Bytes() }

// View returns how kernels reach the memory, and words that they share with the host (package
// stream). A program names the buffer in Program.HostBuffers, so that it isn't released under its
// kernels. The error matches ErrReleased or ErrClosed.
func (h *HostBuffer) View() (dispatch.HostView, error) {
	if err := h.d.usable("view host buffer"); err != nil {
		return dispatch.HostView{}, err
	}
	h.life.RLock()
	defer h.life.RUnlock()
	if h.released {
		return dispatch.HostView{}, fmt.Errorf("reprise: view host buffer %q: %w", h.name, ErrReleased)
	}
	return h.h.View(), nil
}

// Name returns the buffer's name.
func (h *HostBuffer) Name() string { return h.name }

// Release unpins the memory and, unless it is the caller's, unmaps it. It first waits until
// everything in the device's queues has run, and blocks other calls that use the queues meanwhile.
// If ctx ends before, or a queue hangs, the buffer stays as it is. The error of a second Release
// matches ErrReleased. The error is a *dispatch.HeldError while a program or a trace uses the
// buffer.
func (h *HostBuffer) Release(ctx context.Context) error {
	if err := h.d.usable("release host buffer"); err != nil {
		return err
	}
	h.life.Lock()
	defer h.life.Unlock()
	if h.released {
		return fmt.Errorf("reprise: release host buffer %q: %w", h.name, ErrReleased)
	}
	if err := h.inUse(); err != nil {
		return fmt.Errorf("reprise: release %w", err)
	}
	if err := h.h.Unpin(ctx); err != nil {
		return h.d.objectError("release host buffer", h.name, err)
	}
	h.released = true
	return nil
}

// hold prevents a release while by, an *Executable or a *part, uses the buffer.
func (h *HostBuffer) hold(d *Device, by any, name string) error {
	if h == nil {
		return errors.New("no host buffer: it is nil")
	}
	h.life.RLock()
	defer h.life.RUnlock()
	if err := h.checkLocked(d, 0, 0); err != nil {
		return err
	}
	h.holding.Lock()
	defer h.holding.Unlock()
	h.holders[by] = name
	return nil
}

func (h *HostBuffer) unhold(by any) {
	h.holding.Lock()
	defer h.holding.Unlock()
	delete(h.holders, by)
}

func (h *HostBuffer) inUse() error {
	h.holding.Lock()
	defer h.holding.Unlock()
	if len(h.holders) == 0 {
		return nil
	}
	return &dispatch.HeldError{Buffer: h.name, Holders: slices.Sorted(maps.Values(h.holders))}
}

func (h *HostBuffer) checkLocked(d *Device, at, n int) error {
	err := checkObject("host buffer", h.name, h.d == d, h.released)
	if have := len(h.Bytes()); err == nil && (at < 0 || n < 0 || at > have || n > have-at) {
		err = fmt.Errorf("host buffer %q: %w", h.name, &dispatch.TransferError{Op: "transfer", Offset: at, Size: n, Have: have})
	}
	return err
}

// ReadTo reads n bytes from a buffer, from byte off on, into pinned host memory from byte at on,
// after everything so far in the queue has run, and waits for them. The device writes them there
// itself.
//
// No copy is needed where off, counted from the start of its page, and at are equal modulo 16.
// Otherwise the host copies. It also copies the first bytes up to a multiple of 16, and pages below
// 16 KiB that have gaps between them on the device. If the host buffer is strict, pages with gaps
// aren't copied, and where the addresses need a copy the call fails with a *dispatch.DirectError
// before anything has moved.
//
// The error is a *dispatch.TransferError if a range isn't inside, and matches ErrReleased if the
// host buffer was released. If ctx ends after the transfer began, the device may still write to the
// memory until the queue has finished.
func (q *Queue) ReadTo(ctx context.Context, b *Buffer, off int, h *HostBuffer, at, n int) error {
	return q.direct(ctx, true, b, off, h, at, n)
}

// StartReadTo puts a ReadTo into the queue and returns without waiting for it. That part of the
// host buffer belongs to the device until Wait has returned nil or Done has reported true; after
// Abandon, or a Wait that failed, until the queue has finished.
func (q *Queue) StartReadTo(ctx context.Context, b *Buffer, off int, h *HostBuffer, at, n int) (*Pending, error) {
	return q.startDirect(ctx, true, b, off, h, at, n)
}

// WriteFrom writes n bytes of pinned host memory, from byte at on, to a buffer, from byte off on,
// after everything so far in the queue has run, and waits until they are in device memory. The
// device fetches them itself. Copies and errors are as for ReadTo. A WriteFrom comes after a ReadTo
// of the same queue into the same memory; on another queue, events order the two. A kernel that
// stores to host memory has to be waited for.
func (q *Queue) WriteFrom(ctx context.Context, b *Buffer, off int, h *HostBuffer, at, n int) error {
	return q.direct(ctx, false, b, off, h, at, n)
}

// StartWriteFrom puts a WriteFrom into the queue and returns without waiting for it. That part of
// the host buffer must not change for as long as [Queue.StartReadTo] says.
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

// direct carries a transfer out, with a reused Pending.
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
		p.b = nil
		p.transfer.Reset()
		q.spare.Store(p)
	}
	return err
}

func (q *Queue) putDirect(ctx context.Context, p *Pending, read bool, b *Buffer, off int, h *HostBuffer, at, n int) (err error) {
	kind, op, name := CallWrite, opWrite, "write"
	if read {
		kind, op, name = CallRead, opRead, "read"
	}
	defer q.d.observe(ctx, kind, q.self, b.label(), b, n).end(ctx, &err)
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
	p.b, p.q, p.n, p.op = b, q, n, op
	t := dispatch.Direct{Read: read, Offset: off, Host: h.h, At: at, Size: n, Strict: h.strict}
	return p.failed(b.mem.StartDirect(ctx, q.q, &p.transfer, t))
}
