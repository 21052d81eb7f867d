package ops

import (
	"errors"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/ops/graph"
)

// captures are the active graph captures of a device. This package tells them of operations; an
// Observer tells them of all other uses of the device.
type captures struct {
	dev *reprise.Device
	id  int // of the device in graphs

	mu    sync.Mutex
	on    graph.Details // of captures that begin, beside those that they ask for
	stack []*Capture    // the outermost first
	stop  func()
	bufs  map[*reprise.Buffer]*graph.Buffer
	next  uint64
	open  *reprise.Call // the call whose function is open, or nil

	times capturedTimes

	snap *reprise.MemorySnapshot // where a capture without dispatch allocates; otherwise nil
	gen  uint64                  // number of captures without dispatch so far
}

func (c *captures) active() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.stack) > 0
}

// noDispatch reports whether nothing may reach the device.
func (c *captures) noDispatch() bool { return c.generation() > 0 }

// generation returns the number of the current capture without dispatch, or 0.
func (c *captures) generation() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.snap == nil {
		return 0
	}
	return c.gen
}

func (c *captures) each(f func(*Capture)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.stack {
		f(one)
	}
}

func (c *captures) memoryLocked(event func(*graph.Recorder)) {
	for _, one := range c.stack {
		one.memory(event)
	}
}

func (c *captures) memory(event func(*graph.Recorder)) {
	c.each(func(one *Capture) { one.memory(event) })
}

func (c *captures) begin(name string, args []graph.Arg) {
	c.each(func(one *Capture) { one.rec.Begin(name, args...) })
}

// end ends a function. One that hangs has no end in graphs.
func (c *captures) end(err error, out ...*graph.Tensor) {
	if errorKind(err) != hang {
		c.each(func(one *Capture) { one.rec.End(out...) })
	}
}

func (c *captures) deallocate(b *graph.Buffer) {
	c.memory(func(r *graph.Recorder) { r.Deallocate(b) })
}

func (c *captures) failed(op string, err error) {
	c.each(func(one *Capture) { one.rec.Error(errorKind(err), err.Error(), op) })
}

const hang = "hang"

func errorKind(err error) string {
	if _, hangs := errors.AsType[*dispatch.HangError](err); hangs {
		return hang
	}
	return "exception"
}

// program records a program of a capture without dispatch. Circular buffers without an address are
// placed as the device would: one after another from the start of L1.
func (c *captures) program(cbs []reprise.CircularBuffer, placed bool) {
	out := make([]graph.CircularBuffer, len(cbs))
	next := uint64(c.dev.Memory(allocator.L1).Low)
	align := uint64(c.dev.Arch().Params().Align.DRAM())
	for i, b := range cbs {
		out[i] = graph.CircularBuffer{Device: c.id, Size: int64(b.PageSize) * int64(b.Pages), Cores: coreRanges(b.Cores),
			GloballyAllocated: placed, Address: uint64(b.Addr)}
		if !placed {
			out[i].Address = next
			next = (next + uint64(out[i].Size) + align - 1) / align * align
		}
	}
	c.memory(func(r *graph.Recorder) { r.Program(c.id, out...) })
}

func (c *captures) run(x *reprise.Executable) {
	c.each(func(one *Capture) { one.run(c.id, x) })
}

func (c *Capture) run(device int, x *reprise.Executable) {
	var out []graph.CircularBuffer
	for _, b := range x.CircularBuffers() {
		out = append(out, graph.CircularBuffer{Device: device, Size: int64(b.Size), Address: uint64(b.Addr), Cores: coreRanges(b.Cores),
			GloballyAllocated: b.Given})
	}
	c.memory(func(r *graph.Recorder) {
		r.Program(device, out...)
		if c.mode == graph.Normal {
			for _, b := range out {
				r.AllocateCircular(b)
			}
		}
	})
}

func coreRanges(rs []chip.Range) []graph.CoreRange {
	out := make([]graph.CoreRange, len(rs))
	for i, r := range rs {
		out[i] = graph.CoreRange{X0: r.Start.X, Y0: r.Start.Y, X1: r.End.X, Y1: r.End.Y}
	}
	return out
}

func (c *captures) time(one *Capture, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last {
		c.times.settle()
	}
	one.rec.SetPrograms(c.times.programs(one, c.id))
}

func (c *captures) remove(one *Capture) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.stack) == 0 || c.stack[len(c.stack)-1] != one {
		return ErrNotCapturing
	}
	if c.stack = slices.Delete(c.stack, len(c.stack)-1, len(c.stack)); len(c.stack) == 0 {
		c.stop()
		c.times.stopLocked()
		c.stop, c.snap, c.bufs, c.open = nil, nil, nil, nil
	}
	return nil
}
