package rig

import (
	"github.com/reprise-tt/reprise"
)

// Both are the two queues of a device.
func (t *T) Both() [2]*reprise.Queue { return [2]*reprise.Queue{t.Dev.Queue(0), t.Dev.Queue(1)} }

// FinishBoth waits for all that is in both queues.
func (t *T) FinishBoth() {
	t.Helper()
	for _, q := range t.Both() {
		t.OK(q.Wait(t.Ctx))
	}
}

// Follows makes the second queue wait for all that is in the first one.
func (t *T) Follows(second, first *reprise.Queue, e *reprise.Event) {
	t.Helper()
	t.OK(first.Record(t.Ctx, e))
	t.OK(second.WaitEvent(t.Ctx, e))
}

// CaptureOn is Capture for another queue.
func (t *T) CaptureOn(q *reprise.Queue, name string, xs ...*reprise.Executable) *reprise.Trace {
	t.Helper()
	u := *t
	u.Queue = q
	return u.Capture(name, xs...)
}
