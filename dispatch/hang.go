package dispatch

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/kernels/watch"
	"github.com/reprise-tt/reprise/kmd"
)

func (w *wait) hang(cause error) error {
	q := w.q
	q.life.mu.RLock()
	defer q.life.mu.RUnlock()
	if err := w.overLifeLocked(); err != nil {
		return w.fail(err)
	}
	return w.hangLifeLocked(cause)
}

func (w *wait) hangLifeLocked(cause error) error {
	q, d := w.q, w.q.d
	if d.up != nil {
		if err := d.up.Check(); err != nil {
			cause = fmt.Errorf("%w: %w", err, cause)
		}
	}
	var lost *kmd.LostError
	if d.kd.Fault() == nil && errors.As(d.kd.Alive(), &lost) && !errors.Is(cause, lost) {
		cause = lost // since the last look
	}
	cause = d.blameWatch(postmortem.Blame(cause, w.kernelAt))
	h := d.report.Report(w.describeLifeLocked(cause), d.opts.DumpDir)
	if lost != nil {
		return q.fail(&LostError{Report: h})
	}
	return q.fail(h)
}

// Blame adds to an error of an emulated device the kernel to blame, as a [*KernelError], if the
// queues know it. Of a finding ([emu.Finding]) the error is its Refusal.
//
// [emu.Finding]: https://pkg.go.dev/github.com/reprise-tt/reprise/sim/emu#Finding
func (q *Queue) Blame(err error) error {
	if q == nil { // of a chip that isn't here
		return err
	}
	q.life.mu.RLock()
	defer q.life.mu.RUnlock()
	return postmortem.Blame(err, (&wait{q: q}).kernelAt)
}

func (d *machine) blameWatch(cause error) error {
	var f *watch.Failure
	if errors.As(cause, &f) {
		return cause
	}
	if fs, _ := d.Debug().Failures(); len(fs) > 0 {
		return fmt.Errorf("%w: %w", &fs[0], cause)
	}
	return cause
}

func (w *wait) kernelAt(core chip.Core, p chip.Processor, pc uint32) (of *program.Loaded, k *program.LoadedKernel, in uint32) {
	for _, o := range w.q.all {
		if !o.set.cores.Contains(core) {
			continue
		}
		w.inside(o, func() {
			l := &o.stream.lanes[0]
			if o.d.subs != nil {
				l = &o.stream.lanes[min(int(o.d.subs.of[core]), len(o.stream.lanes)-1)]
			}
			of, k, in = o.d.programs.KernelAt(&l.state, core, p, pc)
		})
		if k != nil {
			break
		}
	}
	return of, k, in
}

// inside calls f with a queue's mu held. It doesn't wait for another holder, which may wait for
// life.mu.
func (w *wait) inside(o *Queue, f func()) bool {
	if o != w.q || !w.submits {
		if !o.mu.TryLock() {
			return false
		}
		defer o.mu.Unlock()
	}
	f()
	return true
}

func (w *wait) describeLifeLocked(cause error) *postmortem.Hang {
	q, d := w.q, w.q.d
	h := &postmortem.Hang{Queue: q.id, Waiting: w.what, Last: q.history.name(), Cause: cause, Workers: q.set.cores,
		Loaded: d.programs.Loaded(), Debug: d.Debug(),
		Replayed: func(f func([]byte, *postmortem.Trace)) { q.history.show(func(p *Prepared) { f(p.Image, p.Flow) }) }}
	if err := d.kd.Alive(); err != nil {
		h.Unreachable = err.Error()
	}
	for _, o := range q.all {
		switch {
		case o == q:
			h.Queues = append(h.Queues, w.describeQueueLifeLocked(o, h))
		case o.life.mu.TryRLock():
			func() {
				defer o.life.mu.RUnlock() // also when memory faults
				h.Queues = append(h.Queues, w.describeQueueLifeLocked(o, h))
			}()
		}
	}
	return h
}

func (w *wait) describeQueueLifeLocked(o *Queue, h *postmortem.Hang) postmortem.Queue {
	out := postmortem.Queue{QueueDump: postmortem.QueueDump{ID: o.id, Prefetch: o.tiles.prefetch, Dispatch: o.tiles.dispatch,
		Last: o.history.name()}}
	out.Busy = !w.inside(o, func() { o.describeHostLocked(h.Unreachable == "", &out) })
	o.comp.describe(&out.Host)
	out.Pending = o.comp.pending()
	return out
}

func (q *Queue) describeHostLocked(reachable bool, out *postmortem.Queue) {
	fetch, issue := &q.rings.fetch, &q.rings.issue
	if reachable {
		_ = q.d.kd.Guard(fetch.poll)
	}
	out.Host = postmortem.HostRings{
		FetchNext: fetch.addr(fetch.next), FetchPut: fetch.put, FetchTaken: fetch.taken,
		IssueWrite: issue.wr, IssueSize: uint32(len(issue.mem)), Expected: uint32(q.stream.lanes[0].state.Expected),
	}
	first := fetch.taken - min(fetch.taken, postmortem.ShownTaken)
	for n := first; n < min(fetch.put, fetch.taken+postmortem.ShownWaiting); n++ {
		start := uint32(0)
		if n > 0 {
			start = *issue.end(n - 1)
		}
		end := *issue.end(n)
		if start >= end {
			start = 0
		}
		e := postmortem.FetchState{Number: n, Taken: n < fetch.taken, Offset: start, Size: end - start}
		if start > 0 && n > 0 && e.Size > memmap.MaxCommandSize {
			continue
		}
		out.Entries = append(out.Entries, e)
		out.Commands = append(out.Commands, postmortem.Region{
			Name: postmortem.RegionIssue, Core: q.tiles.prefetch, Host: true, Addr: uint64(start), Size: int(e.Size),
			Data: bytes.Clone(issue.mem[start:end]),
		})
	}
}

func (c *completions) describe(out *postmortem.HostRings) {
	if c.ringMu.TryLock() {
		r := &c.ring
		out.CompletionLow, out.CompletionRd, out.CompletionWr = r.base, r.pointer(), r.host.Load32(r.wrWord)
		c.ringMu.Unlock()
	}
	out.Pages = c.pages.Load()
}

func (c *completions) pending() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, x := range c.expected {
		if x.isEvent {
			out = append(out, fmt.Sprintf("event %d", x.event))
		} else {
			out = append(out, fmt.Sprintf("%d B of data", x.size()))
		}
	}
	return out
}

// hungError is returned by later calls on a hung queue.
type hungError struct{ first *HangError }

func (e *hungError) Error() string {
	s := fmt.Sprintf("queue %d hangs since it waited for %s", e.first.Queue, e.first.Waiting)
	if errors.Is(e.first.Cause, ErrTimeout) {
		s += ": " + e.first.Cause.Error()
	}
	if e.first.File != "" {
		s += "; see " + e.first.File
	}
	return s
}

func (e *hungError) Unwrap() error { return e.first }

// failure returns why a queue takes no more commands; only a hang's first error has the whole text.
func (q *Queue) failure() error {
	err := q.status.failed.Load()
	if err == nil {
		return q.d.kd.Lost()
	}
	if h, ok := (*err).(*HangError); ok {
		return &hungError{h}
	}
	return *err
}
