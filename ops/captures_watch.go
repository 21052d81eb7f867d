package ops

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/ops/graph"
)

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
