package hwtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
)

// eventCases follow upstream's tests of events and of two queues (tt-metal EnqueueWaitForEvent and MeshEventsTestSuite
// tests), with what those leave out.
func eventCases() []testCase {
	var cs []testCase
	for _, n := range []int{10, 50} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("%d buffers read after a wait", n),
			protects: "what one queue wrote, another reads after a wait, for pages of all sizes",
			fn:       func(t *fixture) { readsBehindWaits(t, n) },
		})
	}
	return append(cs, []testCase{
		{name: "ten events", protects: "events of a queue are done in order, and each can be queried", fn: tenEvents},
		{name: "write here, read there", protects: "an event that is recorded again orders a buffer that is written and read again and again", fn: writeHereReadThere},
		{name: "programs and transfers", protects: "transfers of one queue and programs of the other take turns on a buffer", fn: programsAndTransfers},
		{name: "meaning at the call", protects: "a wait means the recording that was the newest when it was called", fn: meaningAtTheCall},
		{name: "query", protects: "a query is false until everything before the recording has run, and true from then on", fn: queryEvents},
		{name: "wait holds the queue", protects: "nothing after a wait runs before the recording is done", fn: waitHolds},
		{name: "never recorded", protects: "a wait that nothing ends is an error at the call", fn: neverRecorded},
		{name: "on the same queue", protects: "a wait for the own queue's recording doesn't stop it", fn: onTheSameQueue},
		{name: "two waits for one recording", protects: "a recording can be waited for any number of times", fn: twoWaits},
		{name: "synchronize with a limit", protects: "waiting on the host ends with its context, and the event goes on", fn: synchronizeLimit},
		{name: "recordings that nobody waits for", protects: "the dispatcher never stops because the host reads no reports", fn: unreadRecordings},
		{name: "ids wrap", protects: "ids of events wrap at 32 bits in the middle of a long exchange", fn: idsWrap},
		{name: "device time", protects: "timed events carry times in the order in which they happened", fn: deviceTime},
		{name: "four events", protects: "writes, programs and reads of two queues overlap without touching each other's data", fn: fourEvents},
	}...)
}

func readsBehindWaits(t *fixture, n int) {
	q, e := t.both(), t.dev.NewEvent("written")
	n = t.size(n, 10)
	page := 32
	for i := range n {
		if i > 0 && i%10 == 0 {
			page *= 2
		}
		b := t.buffer(allocator.DRAM, page*(5+i%7), page)
		want, got := pattern(uint32(i), b.Size()), make([]byte, b.Size())
		t.ok(q[i%2].Write(t.ctx, b, 0, want))
		t.follows(q[1-i%2], q[i%2], e)
		t.ok(q[1-i%2].Read(t.ctx, b, 0, got))
		t.same(fmt.Sprintf("buffer %d", i), want, got)
	}
}

func tenEvents(t *fixture) {
	var es []*reprise.Event
	q := t.both()[1]
	for i := range 10 {
		e := t.dev.NewEvent(fmt.Sprint(i))
		t.ok(q.Record(t.ctx, e))
		es = append(es, e)
	}
	t.ok(es[9].Wait(t.ctx))
	for i, e := range es {
		if done, err := e.Query(); !done || err != nil {
			t.Errorf("event %d after a synchronization with the last one: %v, %v", i, done, err)
		}
		if _, ok := e.DeviceTime(); ok {
			t.Errorf("event %d isn't timed and has a time", i)
		}
	}
}

func writeHereReadThere(t *fixture) {
	q := t.both()
	written, read := t.dev.NewEvent("written"), t.dev.NewEvent("read")
	b := t.buffer(allocator.DRAM, 2048*t.size(1000, 50), 2048)
	t.ok(q[0].Record(t.ctx, read))
	var reads []*reprise.Pending
	var got [][]byte
	n := t.size(20, 4)
	for i := range n {
		t.ok(q[1].WaitEvent(t.ctx, read))
		t.ok(q[1].Write(t.ctx, b, 0, pattern(uint32(i), b.Size())))
		t.follows(q[0], q[1], written)
		dst := make([]byte, b.Size())
		p, err := q[0].StartRead(t.ctx, b, 0, dst)
		t.ok(err)
		t.ok(q[0].Record(t.ctx, read))
		reads, got = append(reads, p), append(got, dst)
	}
	for i, p := range reads {
		t.ok(p.Wait(t.ctx))
		t.same(fmt.Sprintf("round %d", i), pattern(uint32(i), b.Size()), got[i])
	}
	t.finishBoth()
}

func programsAndTransfers(t *fixture) {
	q := t.both()
	written, ran := t.dev.NewEvent("written"), t.dev.NewEvent("ran")
	in, out := t.buffer(allocator.DRAM, 64*8, 64), t.buffer(allocator.DRAM, 64*8, 64)
	x := t.load(t.addProgram("add", chip.Core{X: 1, Y: 1}, in, out, 5))
	tr := t.capture("add", x)
	t.ok(q[0].Record(t.ctx, ran))
	for i := range t.size(20, 6) {
		words := make([]byte, in.Size())
		for k := 0; k < len(words); k += 4 {
			words[k] = byte(2 * i)
		}
		t.ok(q[1].WaitEvent(t.ctx, ran))
		t.ok(q[1].Write(t.ctx, in, 0, words))
		t.follows(q[0], q[1], written)
		if i%2 == 0 {
			t.ok(q[0].Run(t.ctx, x))
		} else {
			t.ok(tr.Replay(t.ctx))
		}
		t.follows(q[1], q[0], ran)
		got := make([]byte, out.Size())
		t.ok(q[1].Read(t.ctx, out, 0, got))
		for k := 0; k < len(words); k += 4 {
			words[k] += 5
		}
		t.same(fmt.Sprintf("round %d", i), words, got)
	}
	t.finishBoth()
}

func meaningAtTheCall(t *fixture) {
	q, e := t.both(), t.dev.NewEvent("e")
	b := t.buffer(allocator.DRAM, 64*16, 64)
	want := pattern(1, b.Size())
	t.ok(q[1].Write(t.ctx, b, 0, want))
	t.ok(q[1].Record(t.ctx, e))
	t.ok(q[0].WaitEvent(t.ctx, e)) // for this recording
	release := t.spinning(q[1], chip.Single(0, 0))
	t.ok(q[1].Record(t.ctx, e)) // and not for this one, which isn't done before queue 0 has released it
	got := make([]byte, b.Size())
	t.ok(q[0].Read(t.ctx, b, 0, got))
	t.same("read after the older recording", want, got)
	if done, err := e.Query(); done || err != nil {
		t.Errorf("the newer recording: %v, %v", done, err)
	}
	release(q[0])
	t.ok(e.Wait(t.ctx))
	t.finishBoth()
}

func queryEvents(t *fixture) {
	q, e := t.both(), t.dev.NewEvent("e")
	release := t.spinning(q[0], t.grid())
	t.ok(q[0].Record(t.ctx, e))
	for range 20 {
		if done, err := e.Query(); done || err != nil {
			t.Errorf("after a program that spins: %v, %v", done, err)
		}
	}
	release(q[1])
	for done := false; !done; {
		var err error
		done, err = e.Query()
		t.ok(err)
		t.ok(t.ctx.Err())
	}
	if done, err := e.Query(); !done || err != nil {
		t.Errorf("what was done: %v, %v", done, err)
	}
	t.finishBoth()
}

func waitHolds(t *fixture) {
	q, e := t.both(), t.dev.NewEvent("e")
	b := t.buffer(allocator.DRAM, 64, 64)
	t.ok(q[0].Write(t.ctx, b, 0, make([]byte, 64)))
	t.ok(q[0].Wait(t.ctx))
	release := t.spinning(q[0], t.grid())
	want := pattern(5, 64)
	t.ok(q[0].Write(t.ctx, b, 0, want)) // waits for the workers
	t.ok(q[0].Record(t.ctx, e))
	got := make([]byte, 64)
	t.ok(q[1].Read(t.ctx, b, 0, got))
	t.same("before the wait", make([]byte, 64), got)
	release(q[1])
	t.ok(q[1].WaitEvent(t.ctx, e))
	t.ok(q[1].Read(t.ctx, b, 0, got))
	t.same("after the wait", want, got)
}

func neverRecorded(t *fixture) {
	e := t.dev.NewEvent("never")
	for i, q := range t.both() {
		var ee *dispatch.EventError
		if err := q.WaitEvent(t.ctx, e); !errors.Is(err, dispatch.ErrNotRecorded) || !errors.As(err, &ee) || ee.Queue != i || ee.Site == "" {
			t.Errorf("wait on queue %d: %v", i, err)
		}
	}
	if err := e.Wait(t.ctx); !errors.Is(err, dispatch.ErrNotRecorded) {
		t.Errorf("synchronize: %v", err)
	}
	if _, err := e.Query(); !errors.Is(err, dispatch.ErrNotRecorded) {
		t.Errorf("query: %v", err)
	}
	t.finishBoth()
}

func onTheSameQueue(t *fixture) {
	e := t.dev.NewEvent("e")
	for _, q := range t.both() {
		for range 10 {
			t.ok(q.Record(t.ctx, e))
			t.ok(q.WaitEvent(t.ctx, e))
		}
		t.ok(q.Wait(t.ctx))
	}
}

func twoWaits(t *fixture) {
	q, e := t.both(), t.dev.NewEvent("e")
	t.ok(q[0].Record(t.ctx, e))
	for range 10 {
		t.ok(q[1].WaitEvent(t.ctx, e))
		t.ok(e.Wait(t.ctx))
	}
	t.finishBoth()
}

func synchronizeLimit(t *fixture) {
	q, e := t.both(), t.dev.NewEvent("e")
	release := t.spinning(q[0], chip.Single(0, 0))
	t.ok(q[0].Record(t.ctx, e))
	ctx, cancel := context.WithTimeout(t.ctx, 20*time.Millisecond)
	defer cancel()
	if err := e.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}
	release(q[1])
	t.ok(e.Wait(t.ctx))
	t.finishBoth()
}

func unreadRecordings(t *fixture) {
	q := t.both()
	e, f := t.dev.NewEvent("e"), t.dev.NewEvent("f")
	for range t.size(1500, 100) { // more than the completion queue has room for
		t.follows(q[1], q[0], e)
		t.follows(q[0], q[1], f)
	}
	t.ok(f.Wait(t.ctx))
	t.finishBoth()
}

func idsWrap(t *fixture) {
	q, e := t.both(), t.dev.NewEvent("e")
	b := t.buffer(allocator.DRAM, 64*4, 64)
	for i := range 1 + -firstEvent&0xFF { // more than are left before the wrap
		want, got := pattern(uint32(i), b.Size()), make([]byte, b.Size())
		t.ok(q[i%2].Write(t.ctx, b, 0, want))
		t.follows(q[1-i%2], q[i%2], e)
		p, err := q[1-i%2].StartRead(t.ctx, b, 0, got)
		t.ok(err)
		t.follows(q[i%2], q[1-i%2], e)
		t.ok(p.Wait(t.ctx))
		t.same(fmt.Sprintf("round %d", i), want, got)
	}
	t.finishBoth()
}

func deviceTime(t *fixture) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 1, 0))
	for i, q := range t.both() {
		before, err := q.Clock()
		t.ok(err)
		var es []*reprise.Event
		for range 5 {
			t.ok(q.Run(t.ctx, x))
			f.run(1, t.grid())
			e := t.dev.NewEvent("timed", reprise.Timed())
			t.ok(q.Record(t.ctx, e))
			es = append(es, e)
		}
		t.ok(q.Wait(t.ctx))
		after, err := q.Clock()
		t.ok(err)
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
	f.check("after all runs")
}

func fourEvents(t *fixture) { t.fourEvents(t.size(12, 4)) }

func (t *fixture) fourEvents(n int) {
	q := t.both()
	in, out := t.buffer(allocator.DRAM, 64*16, 64), t.buffer(allocator.DRAM, 64*16, 64)
	mid := t.buffer(allocator.DRAM, 64*16, 64)
	first := t.load(t.addProgram("first", chip.Core{X: 1}, in, mid, 1))
	rest := t.load(t.addProgram("rest", chip.Core{X: 2}, mid, mid, 1))
	final := t.load(t.addProgram("last", chip.Core{X: 3}, mid, out, 1))
	model := t.capture("rest", rest, rest, rest)
	written, firstDone := t.dev.NewEvent("written"), t.dev.NewEvent("first done")
	lastDone, read := t.dev.NewEvent("last done"), t.dev.NewEvent("read")
	input := func(i int) []byte {
		b := make([]byte, in.Size())
		for k := 0; k < len(b); k += 4 {
			b[k], b[k+1] = byte(3*i), byte(k)
		}
		return b
	}
	t.ok(q[0].Record(t.ctx, firstDone))
	t.ok(q[1].Record(t.ctx, read))
	write := func(i int) {
		t.Helper()
		t.ok(q[1].WaitEvent(t.ctx, firstDone))
		t.ok(q[1].Write(t.ctx, in, 0, input(i)))
		t.ok(q[1].Record(t.ctx, written))
	}
	var reads []*reprise.Pending
	got := make([][]byte, n)
	write(0)
	for i := range n {
		t.ok(q[0].WaitEvent(t.ctx, written))
		t.ok(q[0].Run(t.ctx, first))
		t.ok(q[0].Record(t.ctx, firstDone))
		t.ok(model.Replay(t.ctx))
		t.ok(q[0].WaitEvent(t.ctx, read))
		t.ok(q[0].Run(t.ctx, final))
		t.ok(q[0].Record(t.ctx, lastDone))
		if i+1 < n {
			write(i + 1)
		}
		t.ok(q[1].WaitEvent(t.ctx, lastDone))
		got[i] = make([]byte, out.Size())
		p, err := q[1].StartRead(t.ctx, out, 0, got[i])
		t.ok(err)
		t.ok(q[1].Record(t.ctx, read))
		reads = append(reads, p)
	}
	for i, p := range reads {
		t.ok(p.Wait(t.ctx))
		want := input(i)
		for k := 0; k < len(want); k += 4 {
			want[k] += 5
		}
		t.same(fmt.Sprintf("output %d", i), want, got[i])
	}
	t.finishBoth()
}
