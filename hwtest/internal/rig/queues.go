package rig

import (
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
)

// FirstEvent is the number after which the events of devices with two queues begin: they wrap in the course of the cases.
const FirstEvent = 0xFFFFFFC0

// QueueOptions are the options of a device with two queues, which share all workers or have some of their own.
func QueueOptions(split bool) []reprise.Option {
	opts := []reprise.Option{reprise.WithQueues(2), reprise.WithFirstEvent(FirstEvent)}
	for id, r := range SplitRanges() {
		if split {
			opts = append(opts, reprise.WithQueueWorkers(id, r))
		}
	}
	return opts
}

// SplitRanges are the workers of the queues in the split layer: inside the grid of every chip.
func SplitRanges() [2]chip.Range {
	return [2]chip.Range{
		{End: chip.Core{X: 3, Y: 5}},
		{Start: chip.Core{X: 4, Y: 1}, End: chip.Core{X: 7, Y: 5}},
	}
}

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
