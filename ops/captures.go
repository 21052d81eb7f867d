package ops

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
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

// planned is the memory of a tensor in a capture without dispatch.
type planned struct {
	gen    uint64 // of the capture
	addr   uint32
	buffer *graph.Buffer
	undo   func() error // frees it in the snapshot; nil if it didn't fit
}

// allocate plans a tensor's memory in the snapshot. A tensor that doesn't fit is at address 0.
func (c *captures) allocate(g *geometry, cfg reprise.BufferConfig) (*planned, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &planned{gen: c.gen}
	var err error
	var page func(int) (reprise.Place, bool)
	if p.addr, page, p.undo, err = c.snap.Take(cfg); err != nil && !errors.Is(err, reprise.ErrOutOfMemory) {
		return nil, err
	}
	p.buffer = &graph.Buffer{
		ID: c.bufferID(), Device: c.id, Type: bufferType(cfg.Kind), Layout: graph.BufferLayout(g.spec.Memory.Layout),
		Size:     int64(g.pages) * int64(g.pageBytes),
		PageSize: int64(g.pageBytes), Address: uint64(p.addr),
	}
	banks := c.dev.DRAMBanks()
	if cfg.Kind == allocator.L1 {
		banks = c.dev.Grid().Size()
	}
	if s := g.sharding; s != nil {
		p.buffer.Cores = ceil(s.Tensor[0], s.Shard[0]) * ceil(s.Tensor[1], s.Shard[1])
		p.buffer.MaxPerBank = int64(s.Shard[0]) * int64(s.Shard[1]) * int64(g.pageBytes)
	} else {
		p.buffer.MaxPerBank = int64(ceil(g.pages, banks)) * int64(g.pageBytes)
	}
	if err == nil {
		p.buffer.Pages = func() []graph.Page { return pagesOf(p.buffer, page) }
	}
	c.memoryLocked(func(r *graph.Recorder) { r.Allocate(p.buffer) })
	return p, nil
}

func (c *captures) bufferID() uint64 {
	c.next++
	return uint64(c.id)<<40 | c.next
}

func (c *captures) buffer(b *reprise.Buffer) *graph.Buffer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bufferLocked(b)
}

func (c *captures) bufferLocked(b *reprise.Buffer) *graph.Buffer {
	g := c.bufs[b]
	if g != nil {
		return g
	}
	if c.bufs == nil {
		c.bufs = map[*reprise.Buffer]*graph.Buffer{}
	}
	g = &graph.Buffer{
		ID: c.bufferID(), Device: c.id, Type: bufferType(b.Kind()), Layout: graph.BufferLayout(b.Layout()), Size: int64(b.Size()),
		PageSize: int64(b.PageSize()),
		Cores:    len(b.Cores()), Address: uint64(b.Addr()), MaxPerBank: maxPerBank(b),
	}
	g.Pages = func() []graph.Page { return pagesOf(g, b.Page) }
	c.bufs[b] = g
	return g
}

func bufferType(k allocator.Kind) graph.BufferType {
	switch k {
	case allocator.DRAM:
		return graph.DRAM
	case allocator.L1Small:
		return graph.L1Small
	}
	return graph.L1
}

func maxPerBank(b *reprise.Buffer) int64 {
	count, most := map[int]int64{}, int64(0)
	for i := range b.Pages() {
		p, ok := b.Page(i)
		if !ok {
			break
		}
		if b.Layout() == allocator.Interleaved && i > 0 && p.Bank == 0 {
			most = int64(ceil(b.Pages(), i)) // the first i pages are in different banks, and the others repeat them
			break
		}
		count[p.Bank]++
		most = max(most, count[p.Bank])
	}
	return most * int64(b.PageStride())
}

func pagesOf(b *graph.Buffer, page func(int) (reprise.Place, bool)) []graph.Page {
	out := []graph.Page{}
	for i := 0; ; i++ {
		p, ok := page(i)
		if !ok {
			return out
		}
		out = append(out, graph.Page{Device: int64(b.Device), Address: b.Address, PageSize: b.PageSize, BufferType: int64(b.Type),
			CoreY: int64(p.Core.Y), CoreX: int64(p.Core.X), Bank: int64(p.Bank), Index: int64(i), PageAddr: uint64(p.Addr)})
	}
}

// internalCall is the context key of transfers and runs inside an operation; graphs leave them out.
type internalCall struct{}

type watcher struct{ c *captures }

func isFunction(k reprise.CallKind) bool {
	switch k {
	case reprise.CallWrite, reprise.CallRead, reprise.CallPendingWait, reprise.CallRun, reprise.CallReplay, reprise.CallQueueWait:
		return true
	}
	return false
}

func (w watcher) Begin(ctx context.Context, call *reprise.Call) {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times.beginLocked(ctx, call)
	if !isFunction(call.Kind) || ctx.Value(internalCall{}) != nil {
		return
	}
	// Functions in a graph nest, but calls of several goroutines don't. While one call is open,
	// others are recorded when they end.
	if c.open == nil && len(c.stack) > 0 {
		c.open = call
		c.beginLocked(call)
	}
}

func (c *captures) beginLocked(call *reprise.Call) {
	name := "reprise::" + strings.ReplaceAll(call.Kind.String(), " ", "_")
	args := []graph.Arg{{Text: call.Name}}
	if call.Bytes > 0 {
		args = append(args, graph.Arg{Text: strconv.FormatInt(int64(call.Bytes), 10)})
	}
	for _, one := range c.stack {
		one.rec.Begin(name, args...)
		if call.Kind == reprise.CallRun { // the visualizer takes functions without :: for operations of the device
			one.rec.Begin(call.Name)
		}
	}
}

func (w watcher) End(ctx context.Context, call *reprise.Call) {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch b, _ := call.Object.(*reprise.Buffer); {
	case call.Kind == reprise.CallAllocate && call.Err == nil && b != nil:
		g := c.bufferLocked(b)
		c.memoryLocked(func(r *graph.Recorder) { r.Allocate(g) })
	case call.Kind == reprise.CallReleaseBuffer && call.Err == nil && b != nil:
		g := c.bufferLocked(b)
		c.memoryLocked(func(r *graph.Recorder) { r.Deallocate(g) })
		delete(c.bufs, b)
	case call.Kind == reprise.CallCapture:
		if tr, ok := call.Object.(*reprise.Trace); ok && tr != nil && c.times.log != nil && call.Err == nil {
			c.times.traces[tr] = c.times.recorded
		}
		c.times.recorded = nil
	case isFunction(call.Kind) && ctx.Value(internalCall{}) != nil:
		c.calledLocked(ctx, call)
	case isFunction(call.Kind):
		if c.open == call {
			c.open = nil
		} else { // it began while another call was open, or before the capture
			c.beginLocked(call)
		}
		c.endLocked(ctx, call)
	}
}

// RecordControl shows a loop, branch or call of a trace as a function around the operations
// recorded inside.
func (w watcher) RecordControl(name string) (end func()) {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	begun := slices.Clone(c.stack)
	for _, one := range begun {
		one.rec.Begin(graph.ControlPrefix + name)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, one := range begun {
			if slices.Contains(c.stack, one) {
				one.rec.End()
			}
		}
	}
}

// endLocked records the end of a call, unless the call hangs.
func (c *captures) endLocked(ctx context.Context, call *reprise.Call) {
	c.calledLocked(ctx, call)
	x, _ := call.Object.(*reprise.Executable)
	for _, one := range c.stack {
		if call.Kind == reprise.CallRun && x != nil {
			one.run(c.id, x)
		}
		if call.Err != nil {
			one.rec.Error(errorKind(call.Err), call.Err.Error(), call.Name)
		}
		if errorKind(call.Err) == hang {
			continue
		}
		if call.Kind == reprise.CallRun {
			one.rec.End()
		}
		one.rec.End()
	}
}
