package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/ops/graph"
)

// live tells the graph captures that are under way what happens. It is also the device's Observer meanwhile, so that
// graphs show what others than operations do: buffers, programs, transfers.
type live struct {
	mu    sync.Mutex
	stack []*Capture // the outermost first
	stop  func()     // ends the observation
	bufs  map[*reprise.Buffer]*graph.Buffer
	next  uint64        // id of the next buffer
	open  *reprise.Call // the call of others whose function is open, nil if there is none

	snap *reprise.MemorySnapshot // where captures without dispatch allocate; nil if what is called really runs
	gen  uint64                  // counts such captures
}

// planned is the memory that a tensor would have.
type planned struct {
	gen    uint64
	addr   uint32
	buffer *graph.Buffer
	undo   func() error // frees it in the snapshot; nil if it didn't fit
}

func (p *planned) free() error {
	if p.undo == nil {
		return nil
	}
	return p.undo()
}

// active says whether there is a capture.
func (l *live) active() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.stack) > 0
}

// blocked says whether nothing may reach the device.
func (l *live) blocked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snap != nil
}

// planning is the number of the capture without dispatch that is under way, 0 if there is none.
func (l *live) planning() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.snap == nil {
		return 0
	}
	return l.gen
}

// tell calls f for each capture.
func (l *live) tell(f func(*Capture)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.stack {
		f(c)
	}
}

func (l *live) begin(name string, args []graph.Arg) {
	l.tell(func(c *Capture) { c.rec.Begin(name, args...) })
}
func (l *live) end(out ...*graph.Tensor) { l.tell(func(c *Capture) { c.rec.End(out...) }) }
func (l *live) deallocate(b *graph.Buffer) {
	l.tell(func(c *Capture) { c.rec.Deallocate(b) })
}

// failed says that an operation failed.
func (l *live) failed(op string, err error) {
	kind := "exception"
	var h *reprise.HangError
	if errors.As(err, &h) {
		kind = "hang"
	}
	l.tell(func(c *Capture) { c.rec.Error(kind, err.Error(), op) })
}

// buffer describes memory, always by the same value as long as it lives.
func (l *live) buffer(d *Device, b *reprise.Buffer) *graph.Buffer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known(d, b)
}

func (l *live) known(d *Device, b *reprise.Buffer) *graph.Buffer {
	g := l.bufs[b]
	if g != nil {
		return g
	}
	if l.bufs == nil {
		l.bufs = map[*reprise.Buffer]*graph.Buffer{}
	}
	l.next++
	g = &graph.Buffer{
		ID: l.next, Device: d.id, Type: bufferType(b.Kind()), Layout: graph.BufferLayout(b.Layout()), Size: int64(b.Size()), PageSize: int64(b.PageSize()),
		Cores: len(b.Cores()), Address: uint64(b.Addr()), MaxPerBank: perBank(b), Pages: func() []graph.Page { return pagesOf(d.id, b) },
	}
	l.bufs[b] = g
	return g
}

func bufferType(k reprise.Kind) graph.BufferType {
	switch k {
	case reprise.DRAM:
		return graph.DRAM
	case reprise.L1Small:
		return graph.L1Small
	}
	return graph.L1
}

// perBank is what a buffer takes of the bank that has most of its pages.
func perBank(b *reprise.Buffer) int64 {
	count, most := map[int]int64{}, int64(0)
	for i := range b.Pages() {
		p, ok := b.Page(i)
		if !ok {
			break
		}
		if b.Layout() == reprise.Interleaved && i > 0 && p.Bank == 0 {
			most = int64(ceil(b.Pages(), i)) // it begins anew
			break
		}
		count[p.Bank]++
		most = max(most, count[p.Bank])
	}
	return most * int64(b.PageStride())
}

// pagesOf lists where a buffer's pages are.
func pagesOf(device int, b *reprise.Buffer) []graph.Page {
	out := make([]graph.Page, 0, b.Pages())
	for i := range b.Pages() {
		p, ok := b.Page(i)
		if !ok {
			break
		}
		out = append(out, graph.Page{
			Device: int64(device), Address: uint64(b.Addr()), CoreY: int64(p.Core.Y), CoreX: int64(p.Core.X), Bank: int64(p.Bank), Index: int64(i),
			PageAddr: uint64(p.Addr), PageSize: int64(b.PageSize()), BufferType: int64(bufferType(b.Kind())),
		})
	}
	return out
}

// allocate plans a tensor's memory. What doesn't fit is at address 0.
func (l *live) allocate(d *Device, g *geometry, cfg reprise.BufferConfig) (*planned, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &planned{gen: l.gen}
	var err error
	if p.addr, p.undo, err = l.snap.Take(cfg); err != nil && !errors.Is(err, reprise.ErrOutOfMemory) {
		return nil, err
	}
	l.next++
	p.buffer = &graph.Buffer{
		ID: l.next, Device: d.id, Type: bufferType(cfg.Kind), Layout: graph.BufferLayout(g.spec.Memory.Layout), Size: int64(g.pages) * int64(g.pageBytes),
		PageSize: int64(g.pageBytes), Address: uint64(p.addr),
	}
	banks := d.dev.DRAMBanks()
	if cfg.Kind == reprise.L1 {
		banks = d.dev.Grid().Size()
	}
	if s := g.sharding; s != nil {
		p.buffer.Cores = ceil(s.Tensor[0], s.Shard[0]) * ceil(s.Tensor[1], s.Shard[1])
		p.buffer.MaxPerBank = int64(s.Shard[0]) * int64(s.Shard[1]) * int64(g.pageBytes)
	} else {
		p.buffer.MaxPerBank = int64(ceil(g.pages, banks)) * int64(g.pageBytes)
	}
	for _, c := range l.stack {
		c.rec.Allocate(p.buffer)
	}
	return p, nil
}

// program tells of a program that doesn't run.
func (l *live) program(device int, cbs []reprise.CircularBuffer, given bool) {
	l.tell(func(c *Capture) {
		out := make([]graph.CircularBuffer, len(cbs))
		for i, b := range cbs {
			out[i] = graph.CircularBuffer{Device: device, Size: int64(b.PageSize) * int64(b.Pages), Cores: coreRanges(b.Cores), GloballyAllocated: given}
		}
		c.rec.Program(device, out...)
	})
}

// run tells of a program that runs.
func (l *live) run(device int, x *reprise.Executable) {
	l.tell(func(c *Capture) { c.runs(device, x) })
}

func (c *Capture) runs(device int, x *reprise.Executable) {
	var out []graph.CircularBuffer
	for _, b := range x.CircularBuffers() {
		out = append(out, graph.CircularBuffer{Device: device, Size: int64(b.Size), Address: uint64(b.Addr), Cores: coreRanges(b.Cores), GloballyAllocated: b.Given})
	}
	c.rec.Program(device, out...)
	if c.mode == graph.Normal {
		for _, b := range out {
			c.rec.AllocateCircular(b)
		}
	}
}

func coreRanges(rs []reprise.Range) []graph.CoreRange {
	out := make([]graph.CoreRange, len(rs))
	for i, r := range rs {
		out[i] = graph.CoreRange{X0: r.Start.X, Y0: r.Start.Y, X1: r.End.X, Y1: r.End.Y}
	}
	return out
}

// watcher is the device's Observer during captures.
type watcher struct{ d *Device }

// named are the calls that are functions in a graph, when they aren't an operation's own.
func named(k reprise.CallKind) bool {
	switch k {
	case reprise.CallWrite, reprise.CallRead, reprise.CallAwait, reprise.CallRun, reprise.CallReplay, reprise.CallFinish:
		return true
	}
	return false
}

// Begin implements reprise.Observer.
func (w watcher) Begin(ctx context.Context, call *reprise.Call) {
	if !named(call.Kind) || ctx.Value(ours{}) != nil {
		return
	}
	l := &w.d.live
	l.mu.Lock()
	defer l.mu.Unlock()
	// Functions nest by time. Calls of several goroutines don't: while one is open, others are told of when they are over.
	if l.open == nil && len(l.stack) > 0 {
		l.open = call
		l.function(call)
	}
}

func (l *live) function(call *reprise.Call) {
	name := fmt.Sprintf("reprise::%v", call.Kind)
	args := []graph.Arg{{Text: call.Name}}
	if call.Bytes > 0 {
		args = append(args, text(call.Bytes))
	}
	for _, c := range l.stack {
		c.rec.Begin(name, args...)
		if call.Kind == reprise.CallRun { // the visualizer takes functions without :: for what the device does
			c.rec.Begin(call.Name)
		}
	}
}

// End implements reprise.Observer.
func (w watcher) End(ctx context.Context, call *reprise.Call) {
	l := &w.d.live
	l.mu.Lock()
	defer l.mu.Unlock()
	switch b, _ := call.Object.(*reprise.Buffer); {
	case call.Kind == reprise.CallAllocate && call.Err == nil && b != nil:
		g := l.known(w.d, b)
		for _, c := range l.stack {
			c.rec.Allocate(g)
		}
	case call.Kind == reprise.CallFree && call.Err == nil && b != nil:
		g := l.known(w.d, b)
		for _, c := range l.stack {
			c.rec.Deallocate(g)
		}
		delete(l.bufs, b)
	case named(call.Kind) && ctx.Value(ours{}) == nil:
		if l.open == call {
			l.open = nil
		} else { // another was open when it began, or it began before the capture
			l.function(call)
		}
		l.over(w.d, call)
	}
}

// over tells of the end of a call.
func (l *live) over(d *Device, call *reprise.Call) {
	x, _ := call.Object.(*reprise.Executable)
	var h *reprise.HangError
	for _, c := range l.stack {
		if call.Kind == reprise.CallRun && x != nil {
			c.runs(d.id, x)
		}
		if call.Err != nil {
			kind := "exception"
			if errors.As(call.Err, &h) {
				kind = "hang"
			}
			c.rec.Error(kind, call.Err.Error(), call.Name)
		}
		if h != nil {
			continue
		}
		if call.Kind == reprise.CallRun {
			c.rec.End()
		}
		c.rec.End()
	}
}

// remove takes the innermost capture off, which must be c.
func (l *live) remove(c *Capture) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.stack) == 0 || l.stack[len(l.stack)-1] != c {
		return ErrNotCapturing
	}
	if l.stack = slices.Delete(l.stack, len(l.stack)-1, len(l.stack)); len(l.stack) == 0 {
		l.stop()
		l.stop, l.snap, l.bufs, l.open = nil, nil, nil, nil
	}
	return nil
}
