package queues

import (
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

type relay struct {
	t           *rig.T
	a, b        *reprise.Buffer
	there, back *reprise.Executable
	e, f        *reprise.Event
}

func newRelay(t *rig.T) *relay {
	on := rig.SplitRanges()
	conf := func(name string) reprise.BufferConfig {
		return reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 * 8, PageSize: 64, Name: name}
	}
	r := &relay{t: t, a: t.BufferOf(conf("a")), b: t.BufferOf(conf("b")), e: t.Dev.NewEvent("there"), f: t.Dev.NewEvent("back")}
	r.there, r.back = t.Load(t.AddProgram("there", on[0].End, r.a, r.b, 1)), t.Load(t.AddProgram("back", on[1].Start, r.b, r.a, 2))
	t.Clear(r.a)
	t.Wait()
	return r
}

// spans captures a trace over both queues, whose Recorders record gets.
func spans(t *rig.T, name string, record func(a, b *reprise.Recorder)) *reprise.Trace {
	q := t.Both()[1]
	return t.Trace(name, func(r *reprise.Recorder) { record(r, r.On(q)) }, q)
}

func (r *relay) record(a, b *reprise.Recorder, rounds int) {
	for i := range rounds {
		if i > 0 {
			a.WaitEvent(r.f)
		}
		a.Run(r.there)
		a.Record(r.e)
		b.WaitEvent(r.e)
		b.Run(r.back)
		b.Record(r.f)
	}
}

// captured is a trace over both queues that hands data over so many times.
func (r *relay) captured(name string, rounds int) *reprise.Trace {
	return spans(r.t, name, func(a, b *reprise.Recorder) { r.record(a, b, rounds) })
}

func (r *relay) check(rounds int, what string, args ...any) {
	r.t.FinishBoth()
	r.t.Holds(r.a, rig.Repeated(r.a.Size(), uint32(3*rounds)), what, args...)
}

// HandOver replays a trace over two queues that hands data over n times.
func HandOver(t *rig.T, n, replays int) {
	r := newRelay(t)
	tr := r.captured("hand over", n)
	for range replays {
		t.Replay(tr)
	}
	r.check(n*replays, "after all replays")
}

func spanPartsAtOnce(t *rig.T) {
	// In the middle each part waits for the other: in turn, neither would end.
	f, on := t.Follow(), rig.SplitRanges()
	left, right := f.Load("left", 1, on[0]), f.Load("right", 2, on[1])
	e, g := t.Dev.NewEvent("e"), t.Dev.NewEvent("g")
	tr := spans(t, "at once", func(a, b *reprise.Recorder) {
		a.Run(left)
		a.Record(e)
		b.Run(right)
		b.Record(g)
		a.WaitEvent(g)
		b.WaitEvent(e)
		a.Run(left)
		b.Run(right)
	})
	for range t.Size(20, 4) {
		t.Replay(tr)
		for range 2 {
			f.Run(1, on[0])
			f.Run(2, on[1])
		}
	}
	t.FinishBoth()
	f.Check("after all replays")
}

func spanAmongOthers(t *rig.T) {
	r, q := newRelay(t), t.Both()
	both := r.captured("both", 2)
	once := r.captured("once", 1)
	back := t.On(q[1]).Capture("back", r.back)
	rounds := 0
	for i := range t.Size(20, 6) {
		t.Replay(both)
		t.Replay(once)
		rounds += 3
		if i%2 == 0 {
			t.OK(q[0].Run(t.Ctx, r.there))
			t.Follows(q[1], q[0], r.e)
			t.Replay(back)
			t.Follows(q[0], q[1], r.f)
			rounds++
		}
		if i%3 == 0 {
			t.OK(q[i%2].Read(t.Ctx, r.b, 0, make([]byte, r.b.Size())))
		}
	}
	r.check(rounds, "after all")
}

func spanLooseEdges(t *rig.T) { LooseEdges(t, t.Size(30, 5)) }

// LooseEdges replays a trace over two queues of which one doesn't wait for the other.
func LooseEdges(t *rig.T, replays int) {
	r := newRelay(t)
	tr := spans(t, "loose", func(a, b *reprise.Recorder) {
		loose := t.Dev.NewEvent("loose")
		r.record(a, b, 1)
		for range 2 {
			a.Record(loose)
			b.Record(loose)
		}
	})
	for range replays {
		t.Replay(tr)
	}
	r.check(replays, "after all replays")
}

func spanRelease(t *rig.T) {
	r := newRelay(t)
	before := t.Allocated()
	for range 3 {
		tr := r.captured("released", 4)
		t.Replay(tr)
		t.Release(tr)
		t.Fails("replay after the release", tr.Replay(t.Ctx), reprise.ErrReleased)
		t.SameMemory(before)
	}
	r.check(12, "after three replays")
}

func spanInPieces(t *rig.T) {
	r := newRelay(t)
	const n = 3
	tr := r.captured("in pieces", n)
	before := t.Allocated()
	rounds := 0
	var names string
	for _, s := range tr.Debug().Programs() {
		names += s.Name + " "
	}
	rig.Equal(t, names, "there back there back there back ", "programs")
	for _, pieces := range []int{0, 4, 1, 2, 2 * n}[:t.Size(5, 2)] {
		if pieces == 0 {
			steps := 0
			t.OK(tr.Debug().Step(t.Ctx, func(i int) error {
				if steps++; i != steps-1 {
					t.Errorf("step %d is reported as %d", steps-1, i)
				}
				t.AllFail(reprise.ErrReserved, map[string]error{
					"replay": tr.Replay(t.Ctx), "release": tr.Release(t.Ctx), "check": tr.Debug().Check(t.Ctx),
				})
				return nil
			}))
		} else {
			t.OK(tr.Debug().Split(t.Ctx, pieces, nil))
		}
		rounds += n
		r.check(rounds, "%d pieces", pieces)
		t.Replay(tr)
		rounds += n
	}
	r.check(rounds, "a replay after it all")
	t.OK(tr.Debug().Check(t.Ctx))
	r.check(rounds, "after the check")
	mine := errors.New("enough")
	err := tr.Debug().Step(t.Ctx, func(i int) error { return map[bool]error{true: mine}[i == 2] })
	t.Fails("cut short", err, mine)
	if at := rig.As[*debug.StepError](t, err); at.First != 2 {
		t.Errorf("cut short: %v", err)
	}
	t.Replay(tr)
	t.FinishBoth()
	t.OK(tr.Debug().Verify(t.Ctx))
	t.SameMemory(before)
}

func spanFromFile(t *rig.T) {
	r, q := newRelay(t), t.Both()
	const n = 2
	tr := t.On(q[1]).Trace("file", func(b *reprise.Recorder) { r.record(b.On(q[0]), b, n) }, q[0])
	file := t.Save(tr, reprise.WithData())
	t.Release(tr)
	before := t.Allocated()
	for range 2 {
		loaded := t.LoadTrace(file, reprise.WithBuffers(r.a, r.b))
		rounds := 0
		for range t.Size(5, 2) {
			t.Replay(loaded)
			rounds += n
		}
		t.FinishBoth()
		t.OK(loaded.Debug().Step(t.Ctx, nil))
		t.OK(loaded.Debug().Split(t.Ctx, 2, nil))
		rounds += 2 * n
		t.OK(loaded.Debug().Verify(t.Ctx))
		r.check(rounds, "after all replays of the file")
		t.Save(loaded)
		t.Release(loaded)
		t.SameMemory(before)
	}
}

func spanBisect(t *rig.T) {
	r := newRelay(t)
	tr := r.captured("bisected", 3)
	prepare := func(int) error {
		return errors.Join(t.Queue.Write(t.Ctx, r.a, 0, make([]byte, r.a.Size())), t.Queue.Wait(t.Ctx))
	}
	t.Bisects(tr, prepare, 0, 3, 4, -1)
	r.check(3, "the whole trace")
}
