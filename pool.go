package reprise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/reprise-tt/reprise/allocator"
)

// Pool is device memory that buffers are taken from: scratch for programs, shared by traces that never overlap in time,
// which are all traces of one queue.
//
// A trace holds the memory of every buffer that it uses until it is released, so each trace costs its intermediate
// buffers. Of a buffer that comes from a pool it holds the pool instead. What is released can be taken from the pool again,
// by programs of the next trace; so a replay may change any buffer of the pool, also one that its trace doesn't use.
// Keep in a pool only what a trace computes for itself. Copy results to buffers outside of it, or read them before the next
// replay of another trace.
//
// Taking a buffer from a pool is possible during a capture. Its methods may be called from any goroutine.
type Pool struct {
	d     *Device
	name  string
	kind  allocator.Kind
	ext   allocator.Extent
	mem   *allocator.Allocator // of the memory in ext
	freed atomic.Bool
}

// PoolConfig says what memory a pool takes.
type PoolConfig struct {
	Kind allocator.Kind // DRAM or L1
	// Size is in bytes over all banks. Each bank gives an equal share, rounded up to the alignment of DRAM. A buffer whose
	// pages don't fill their last row over the banks takes that row whole: leave room for it.
	Size int
	Name string // for statistics and errors
}

// NewPool takes memory for a pool. The error is a *allocator.OutOfMemoryError when there is no room.
func (d *Device) NewPool(c PoolConfig) (*Pool, error) {
	if err := d.usable("new pool"); err != nil {
		return nil, err
	}
	if err := d.refuse(context.Background(), nil, opAllocate, c.Name); err != nil {
		return nil, err
	}
	p, err := d.newPool(c)
	if err != nil {
		return nil, fmt.Errorf("reprise: new pool %q: %w", c.Name, err)
	}
	return p, nil
}

func (d *Device) newPool(c PoolConfig) (*Pool, error) {
	inside := d.mem.Config()
	banks := inside.DRAMBanks
	switch {
	case c.Kind != allocator.DRAM && c.Kind != allocator.L1:
		return nil, fmt.Errorf("kind %v is not DRAM or L1", c.Kind)
	case c.Size <= 0:
		return nil, fmt.Errorf("%d B: the size must be positive", c.Size)
	case c.Kind == allocator.L1:
		banks = inside.L1Banks
		d.cbs.mu.Lock()
		defer d.cbs.mu.Unlock()
	}
	row := banks * int(inside.DRAMAlign)
	if c.Size > math.MaxInt-row {
		return nil, fmt.Errorf("%d B are more than can be counted", c.Size)
	}
	share := (c.Size + row - 1) / row * int(inside.DRAMAlign)
	p := &Pool{d: d, name: c.Name, kind: c.Kind}
	var err error
	p.ext, err = d.mem.Allocate(allocator.Request{Kind: c.Kind, Size: uint64(share * banks), PageSize: uint64(share), Owner: c.Name,
		Tag: "pool", Site: userPC()})
	if err != nil {
		return nil, err
	}
	inside.TraceRegion, inside.L1Small, inside.Gauge = 0, 0, nil
	if c.Kind == allocator.L1 {
		inside.L1Base, inside.L1End = p.ext.Addr, p.ext.End()
	} else {
		inside.DRAMBase, inside.DRAMEnd, inside.L1Banks = p.ext.Addr, p.ext.End(), 0
	}
	if p.mem, err = allocator.New(inside); err != nil {
		return nil, errors.Join(err, d.mem.Free(p.ext))
	}
	return p, nil
}

// NewBuffer takes a buffer from the pool, whose kind it has. Its content is undefined. The error is a *allocator.OutOfMemoryError
// when the pool has no room.
func (p *Pool) NewBuffer(c BufferConfig) (*Buffer, error) {
	if err := p.d.usable("new buffer"); err != nil {
		return nil, err
	}
	b, err := p.newBuffer(&c)
	if err != nil {
		return nil, fmt.Errorf("reprise: new buffer %q in pool %q: %w", c.Name, p.name, err)
	}
	return b, nil
}

func (p *Pool) newBuffer(c *BufferConfig) (*Buffer, error) {
	if p.freed.Load() {
		return nil, ErrReleased
	}
	c.Kind = p.kind
	b, r, err := p.d.plan(c)
	if err != nil {
		return nil, err
	}
	r.Site = userPC()
	// As long as the buffer lives, the pool's memory does.
	if err := p.d.mem.Hold(p.ext); err != nil {
		return nil, err
	}
	ext, err := place(p.mem, c, r)
	if err != nil {
		return nil, errors.Join(err, p.d.mem.Unhold(p.ext))
	}
	b.pool = p
	b.setExtent(ext)
	return b, nil
}

// Memory returns what of the pool is taken and free.
func (p *Pool) Memory() allocator.Stats { return p.mem.Stats(p.kind) }

// Name returns the pool's name.
func (p *Pool) Name() string { return p.name }

// Release releases the pool. Its memory can be allocated again when its buffers are released and the traces and executables that
// use them are released.
func (p *Pool) Release() error {
	err := ErrReleased
	if !p.freed.Swap(true) {
		err = p.d.mem.Free(p.ext)
	}
	if err != nil {
		return fmt.Errorf("reprise: release pool %q: %w", p.name, err)
	}
	return nil
}

// owned is the extent that users of the buffer have to hold.
func (b *Buffer) owned() allocator.Extent {
	if b.pool != nil {
		return b.pool.ext
	}
	return b.ext
}

// freeMemory frees the memory of a buffer that was released.
func (b *Buffer) freeMemory() error {
	switch {
	case b.pool != nil:
		return errors.Join(b.pool.mem.Free(b.ext), b.d.mem.Unhold(b.pool.ext))
	case b.root != nil:
		return b.d.mem.Unhold(b.ext)
	}
	return b.d.mem.Free(b.ext)
}
