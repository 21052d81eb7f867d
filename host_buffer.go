package reprise

import (
	"context"
	"fmt"
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

// Free unpins the memory and, unless it is the caller's, unmaps it. It first waits until everything in the device's queues
// has run, transfers with the buffer included, and blocks other calls that use the queues meanwhile. If ctx ends before
// that, or a queue hangs, the buffer stays as it is. The error of a second Free
// matches ErrReleased.
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

// checkLocked checks that n bytes of the buffer can be used with a device, with life held.
func (h *HostBuffer) checkLocked(d *Device, at, n int) error {
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
