package queues

import (
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

// Events follows tt-metal's EnqueueWaitForEvent and MeshEventsTestSuite.
func Events() (cs rig.Table) {
	cs.Add("ten events", "events of a queue are done in order, and each can be queried", tenEvents)
	cs.Add("write here, read there", "an event that is recorded again orders writes and reads of a buffer", writeHereReadThere)
	cs.Add("meaning at the call", "a wait means the recording that was the newest when it was called", meaningAtTheCall)
	cs.Add("query", "a query is true once everything before the recording has run", queryEvents)
	cs.Add("wait holds the queue", "nothing after a wait runs before the recording is done", WaitHolds)
	cs.Add("never recorded", "a wait that nothing ends is an error at the call", neverRecorded)
	cs.Add("two waits for one recording", "a recording can be waited for any number of times", twoWaits)
	cs.Add("recordings that nobody waits for", "the dispatcher never stops because the host reads no reports", unreadRecordings)
	cs.Add("ids wrap", "ids of events wrap at 32 bits in the middle of a long exchange", idsWrap)
	cs.Add("device time", "timed events carry times in the order in which they happened", deviceTime)
	cs.Add("four events", "overlapping work of two queues touches no other data", func(t *rig.T) { FourEvents(t, t.Size(12, 4)) })
	return cs
}

func tenEvents(t *rig.T) {
	var es []*reprise.Event
	q := t.Both()[1]
	for i := range 10 {
		e := t.Dev.NewEvent(fmt.Sprint(i))
		t.OK(q.Record(t.Ctx, e))
		es = append(es, e)
	}
	t.WaitFor(es[9])
	for i, e := range es {
		t.Done(fmt.Sprintf("event %d after the last one", i), e, true)
		if _, ok := e.DeviceTime(); ok {
			t.Errorf("event %d isn't timed and has a time", i)
		}
	}
}

func writeHereReadThere(t *rig.T) {
	q := t.Both()
	written, read := t.Dev.NewEvent("written"), t.Dev.NewEvent("read")
	b := t.DRAMBuffer(2048*t.Size(1000, 50), 2048)
	t.OK(q[0].Record(t.Ctx, read))
	var reads []func(string, ...any)
	for i := range t.Size(20, 4) {
		t.OK(q[1].WaitEvent(t.Ctx, read))
		want := t.On(q[1]).Fill(b, i)
		t.Follows(q[0], q[1], written)
		reads = append(reads, t.StartRead(b, 0, want))
		t.OK(q[0].Record(t.Ctx, read))
	}
	for i, check := range reads {
		check("round %d", i)
	}
	t.FinishBoth()
}

func meaningAtTheCall(t *rig.T) {
	q, e := t.Both(), t.Dev.NewEvent("e")
	b := t.DRAMBuffer(64*16, 64)
	want := t.On(q[1]).Fill(b, 1)
	t.OK(q[1].Record(t.Ctx, e))
	t.OK(q[0].WaitEvent(t.Ctx, e))
	release := t.Spinning(q[1], chip.Single(0, 0))
	t.OK(q[1].Record(t.Ctx, e)) // not this one, which isn't done before queue 0 has released it
	t.Holds(b, want, "read after the older recording")
	t.Done("the newer recording", e, false)
	release(q[0])
	t.WaitFor(e)
	t.FinishBoth()
}

func queryEvents(t *rig.T) {
	q, e := t.Both(), t.Dev.NewEvent("e")
	release := t.Spinning(q[0], t.Grid())
	t.OK(q[0].Record(t.Ctx, e))
	for range 20 {
		t.Done("after a program that spins", e, false)
	}
	release(q[1])
	for done := false; !done; {
		var err error
		done, err = e.Query()
		t.OK(err)
		t.OK(t.Ctx.Err())
	}
	t.Done("what was done", e, true)
	t.FinishBoth()
}

// WaitHolds checks that a queue does nothing while it waits for an event.
func WaitHolds(t *rig.T) {
	q, e := t.Both(), t.Dev.NewEvent("e")
	b := t.DRAMBuffer(64, 64)
	t.Clear(b)
	t.Wait()
	release := t.Spinning(q[0], t.Grid())
	want := t.Fill(b, 5)
	t.OK(q[0].Record(t.Ctx, e))
	t.Same(make([]byte, 64), t.ReadOn(q[1], b), "before the wait")
	release(q[1])
	t.OK(q[1].WaitEvent(t.Ctx, e))
	t.Same(want, t.ReadOn(q[1], b), "after the wait")
}

func neverRecorded(t *rig.T) {
	e := t.Dev.NewEvent("never")
	for i, q := range t.Both() {
		err := q.WaitEvent(t.Ctx, e)
		t.Fails("wait", err, dispatch.ErrNotRecorded)
		if ee := rig.As[*dispatch.EventError](t, err); ee.Queue != i || ee.Site == "" {
			t.Errorf("wait on queue %d: %v", i, err)
		}
	}
	t.AllFail(dispatch.ErrNotRecorded, map[string]error{"synchronize": e.Wait(t.Ctx), "query": rig.Error(e.Query())})
	t.FinishBoth()
}

func twoWaits(t *rig.T) {
	q, e := t.Both(), t.Dev.NewEvent("e")
	t.OK(q[0].Record(t.Ctx, e))
	for range 10 {
		t.OK(q[1].WaitEvent(t.Ctx, e))
		t.WaitFor(e)
	}
	t.FinishBoth()
}

func unreadRecordings(t *rig.T) {
	q := t.Both()
	e, f := t.Dev.NewEvent("e"), t.Dev.NewEvent("f")
	for range t.Size(1500, 100) { // more than the completion queue has room for
		t.Follows(q[1], q[0], e)
		t.Follows(q[0], q[1], f)
	}
	t.WaitFor(f)
	t.FinishBoth()
}

func idsWrap(t *rig.T) {
	q, e := t.Both(), t.Dev.NewEvent("e")
	b := t.DRAMBuffer(64*4, 64)
	for i := range 1 + -rig.FirstEvent&0xFF { // more than are left before the wrap
		want := t.On(q[i%2]).Fill(b, i)
		t.Follows(q[1-i%2], q[i%2], e)
		check := t.On(q[1-i%2]).StartRead(b, 0, want)
		t.Follows(q[i%2], q[1-i%2], e)
		check("round %d", i)
	}
	t.FinishBoth()
}

func deviceTime(t *rig.T) {
	f, x := t.Mixing(1)
	for i, q := range t.Both() {
		before, err := q.Clock()
		t.OK(err)
		var es []*reprise.Event
		for range 5 {
			f.On(q).Start(x)
			e := t.Dev.NewEvent("timed", reprise.Timed())
			t.OK(q.Record(t.Ctx, e))
			es = append(es, e)
		}
		t.WaitFor(q)
		after, err := q.Clock()
		t.OK(err)
		last := before.Cycles
		for k, e := range es {
			at, ok := e.DeviceTime()
			if !ok || at <= last {
				t.Errorf("queue %d, event %d: time %d (%v) after %d", i, k, at, ok, last)
			}
			last = at
		}
		if after.Cycles <= last {
			t.Errorf("queue %d: the clock shows %d after an event at %d", i, after.Cycles, last)
		}
	}
	f.Check("after all runs")
}

// FourEvents orders two queues by four events.
func FourEvents(t *rig.T, n int) {
	q := t.Both()
	in, out := t.DRAMBuffer(64*16, 64), t.DRAMBuffer(64*16, 64)
	mid := t.DRAMBuffer(64*16, 64)
	first := t.Load(t.AddProgram("first", chip.Core{X: 1}, in, mid, 1))
	rest := t.Load(t.AddProgram("rest", chip.Core{X: 2}, mid, mid, 1))
	final := t.Load(t.AddProgram("last", chip.Core{X: 3}, mid, out, 1))
	model := t.Capture("rest", rest, rest, rest)
	written, firstDone := t.Dev.NewEvent("written"), t.Dev.NewEvent("first done")
	lastDone, read := t.Dev.NewEvent("last done"), t.Dev.NewEvent("read")
	input := func(i int) []byte {
		return rig.MakeWords(in.Size(), func(k uint32) uint32 { return uint32(3*i)&0xFF | 4*k&0xFF<<8 })
	}
	t.OK(q[0].Record(t.Ctx, firstDone))
	t.OK(q[1].Record(t.Ctx, read))
	write := func(i int) {
		t.OK(q[1].WaitEvent(t.Ctx, firstDone), q[1].Write(t.Ctx, in, 0, input(i)), q[1].Record(t.Ctx, written))
	}
	var reads []func(string, ...any)
	write(0)
	for i := range n {
		t.OK(q[0].WaitEvent(t.Ctx, written), q[0].Run(t.Ctx, first), q[0].Record(t.Ctx, firstDone))
		t.Replay(model)
		t.OK(q[0].WaitEvent(t.Ctx, read), q[0].Run(t.Ctx, final), q[0].Record(t.Ctx, lastDone))
		if i+1 < n {
			write(i + 1)
		}
		t.OK(q[1].WaitEvent(t.Ctx, lastDone))
		in := input(i)
		want := rig.MakeWords(len(in), func(k int) uint32 { return rig.Word(in[4*k:]) + 5 })
		reads = append(reads, t.On(q[1]).StartRead(out, 0, want))
		t.OK(q[1].Record(t.Ctx, read))
	}
	for i, check := range reads {
		check("output %d", i)
	}
	t.FinishBoth()
}
