package reprise

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
)

// BufferConfig says what to allocate.
type BufferConfig struct {
	Kind     Kind   // DRAM or L1
	Size     int    // bytes, a multiple of PageSize
	PageSize int    // bytes that stay together in one bank; 0 means Size
	Name     string // for statistics and errors
}

// Buffer is interleaved device memory: its pages go round the banks of its kind. Page p lies in bank p mod banks, at
// Addr + p/banks*PageStride.
type Buffer struct {
	d     *Device
	name  string
	ext   allocator.Extent
	iv    dispatch.Interleaved
	freed atomic.Bool
}

// NewBuffer allocates a buffer. Its content is undefined. The error is a *OutOfMemoryError when there is no room.
func (d *Device) NewBuffer(c BufferConfig) (*Buffer, error) {
	if err := d.usable("new buffer"); err != nil {
		return nil, err
	}
	if err := d.refuse(nil, opAllocate, c.Name); err != nil {
		return nil, err
	}
	if c.Kind != DRAM && c.Kind != L1 {
		return nil, fmt.Errorf("reprise: new buffer %q: kind %v is not DRAM or L1", c.Name, c.Kind)
	}
	if c.PageSize == 0 {
		c.PageSize = c.Size
	}
	if c.Size <= 0 || c.PageSize < 0 || c.Size%c.PageSize != 0 {
		return nil, fmt.Errorf("reprise: new buffer %q: %d B in pages of %d B: the size must be a positive multiple of the page", c.Name, c.Size, c.PageSize)
	}
	if c.Kind == L1 {
		// While circular buffers grow or shrink, their place is free for a moment.
		d.cbs.mu.Lock()
		defer d.cbs.mu.Unlock()
	}
	ext, err := d.mem.Allocate(allocator.Request{Kind: c.Kind, Size: uint64(c.Size), PageSize: uint64(c.PageSize), Owner: c.Name, Tag: "buffer"})
	if err != nil {
		return nil, fmt.Errorf("reprise: new buffer %q: %w", c.Name, err)
	}
	return &Buffer{d: d, name: c.Name, ext: ext, iv: interleaved(ext)}, nil
}

// interleaved describes an extent to the queues.
func interleaved(e allocator.Extent) dispatch.Interleaved {
	return dispatch.Interleaved{
		DRAM: e.Kind != allocator.L1, Addr: uint32(e.Addr), PageSize: uint32(e.Stride), HostPage: uint32(e.PageSize),
		Pages: int(e.Pages()), Banks: int(e.Banks),
	}
}

// Addr returns the buffer's address, the same in every bank. It is what kernels take as an argument.
func (b *Buffer) Addr() uint32 { return b.iv.Addr }

// Size returns the buffer's size in bytes.
func (b *Buffer) Size() int { return b.iv.Bytes() }

// PageSize returns the bytes of a page.
func (b *Buffer) PageSize() int { return int(b.iv.HostPage) }

// PageStride returns the bytes from one page to the next in a bank: PageSize, aligned for the memory. Kernels that
// address pages take it as an argument.
func (b *Buffer) PageStride() uint32 { return b.iv.PageSize }

// Name returns the buffer's name.
func (b *Buffer) Name() string { return b.name }

// Free gives the buffer up. Its memory can be handed out again at once, or when the last executable and trace that
// use it are gone.
func (b *Buffer) Free() error {
	if b.freed.Swap(true) {
		return fmt.Errorf("reprise: free buffer %q: %w", b.name, ErrReleased)
	}
	if err := b.d.mem.Free(b.ext); err != nil {
		return fmt.Errorf("reprise: free buffer %q: %w", b.name, err)
	}
	return nil
}

// of says whether the buffer may be used with a device.
func (b *Buffer) of(d *Device) error {
	if b == nil {
		return errors.New("no buffer: it is nil")
	}
	if b.d != d {
		return fmt.Errorf("buffer %q: %w", b.name, ErrForeign)
	}
	if b.freed.Load() {
		return fmt.Errorf("buffer %q: %w", b.name, ErrReleased)
	}
	return nil
}
