package hwtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

// spanCases run on a device whose queues have workers of their own.
func spanCases() []testCase {
	var cs []testCase
	for _, n := range []int{1, 2, 9} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("trace over both queues handing over %d times", n),
			protects: "edges inside a trace order its parts at every replay",
			fn:       func(t *fixture) { spanHandsOver(t, n) },
		})
	}
	return append(cs, []testCase{
		{name: "parts run at once", protects: "parts of a trace without an edge between them run at the same time", fn: spanPartsAtOnce},
		{name: "traces over one and both queues", protects: "traces over both queues, traces of one, runs and transfers follow each other in any order", fn: spanAmongOthers},
		{name: "edges that nothing waits for", protects: "recordings that nothing waits for don't reach into the next replay", fn: spanLooseEdges},
		{name: "trace over both queues released", protects: "a release frees everything of all parts of a trace", fn: spanRelease},
		{name: "trace over both queues in steps and pieces", protects: "a trace over both queues does the same program by program, in pieces and whole", fn: spanInPieces},
		{name: "trace over both queues from a file", protects: "a trace over both queues from a file has its edges, whatever its queues were called", fn: spanFromFile},
		{name: "bisect over both queues", protects: "the program that goes wrong is found, whichever queue it is on", fn: spanBisect},
		{name: "no edges to the outside", protects: "a trace can't wait for an event that was recorded outside", fn: spanRefuses},
	}...)
}

// relay is data that go to and fro between the workers of two queues.
type relay struct {
	t           *fixture
	a, b        *reprise.Buffer
	there, back *reprise.Executable
	e, f        *reprise.Event
}

func (t *fixture) relay() *relay {
	t.Helper()
	on := splitRanges()
	conf := func(name string) reprise.BufferConfig {
		return reprise.BufferConfig{Kind: allocator.DRAM, Size: 64 * 8, PageSize: 64, Name: name}
	}
	r := &relay{t: t, a: t.bufferOf(conf("a")), b: t.bufferOf(conf("b")), e: t.dev.NewEvent("there"), f: t.dev.NewEvent("back")}
	r.there, r.back = t.load(t.addProgram("there", on[0].End, r.a, r.b, 1)), t.load(t.addProgram("back", on[1].Start, r.b, r.a, 2))
	t.ok(t.rq.Write(t.ctx, r.a, 0, make([]byte, r.a.Size())))
	t.ok(t.rq.Wait(t.ctx))
	return r
}

// spans captures a trace over both queues.
func (t *fixture) spans(name string, record func(rs []*reprise.Recorder) error) *reprise.Trace {
	t.Helper()
	q := t.both()
	tr, err := t.captureOver(name, q[0], q[1], record)
	t.ok(err)
	t.closing(tr.Release)
	return tr
}

// captureOver captures a trace whose first part is on q, and the other one on o. record is given the Recorders in that
// order.
func (t *fixture) captureOver(name string, q, o *reprise.Queue, record func(rs []*reprise.Recorder) error) (*reprise.Trace, error) {
	return q.Capture(t.ctx, name, func(_ context.Context, r *reprise.Recorder) error {
		return record([]*reprise.Recorder{r, r.On(o)})
	}, o)
}

// record passes the data to and fro a number of times.
func (r *relay) record(rs []*reprise.Recorder, rounds int) error {
	var errs []error
	for i := range rounds {
		if i > 0 {
			errs = append(errs, rs[0].WaitEvent(r.f))
		}
		errs = append(errs, rs[0].Run(r.there), rs[0].Record(r.e), rs[1].WaitEvent(r.e), rs[1].Run(r.back), rs[1].Record(r.f))
	}
	return errors.Join(errs...)
}

func (r *relay) check(what string, rounds int) {
	r.t.Helper()
	r.t.finishBoth()
	got, want := make([]byte, r.a.Size()), make([]byte, r.a.Size())
	r.t.ok(r.t.rq.Read(r.t.ctx, r.a, 0, got))
	for i := 0; i < len(want); i += 4 {
		want[i], want[i+1] = byte(3*rounds), byte(3*rounds>>8)
	}
	r.t.same(what, want, got)
}

func spanHandsOver(t *fixture, n int) { t.handOver(n, t.size(30, 4)) }

func (t *fixture) handOver(n, replays int) {
	r := t.relay()
	tr := t.spans("hand over", func(rs []*reprise.Recorder) error { return r.record(rs, n) })
	for range replays {
		t.ok(tr.Replay(t.ctx))
	}
	r.check("after all replays", n*replays)
}

func spanPartsAtOnce(t *fixture) {
	// In the middle either part waits for the other: one after the other, neither would end.
	f, on := t.follow(), splitRanges()
	left, right := t.load(t.mixProgram("left", on[0], f.b, 1, 0)), t.load(t.mixProgram("right", on[1], f.b, 2, 0))
	e, g := t.dev.NewEvent("e"), t.dev.NewEvent("g")
	tr := t.spans("at once", func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(left), rs[0].Record(e), rs[1].Run(right), rs[1].Record(g),
			rs[0].WaitEvent(g), rs[1].WaitEvent(e), rs[0].Run(left), rs[1].Run(right))
	})
	for range t.size(20, 4) {
		t.ok(tr.Replay(t.ctx))
		for range 2 {
			f.run(1, on[0])
			f.run(2, on[1])
		}
	}
	t.finishBoth()
	f.check("after all replays")
}

func spanAmongOthers(t *fixture) {
	r, q := t.relay(), t.both()
	both := t.spans("both", func(rs []*reprise.Recorder) error { return r.record(rs, 2) })
	once := t.spans("once", func(rs []*reprise.Recorder) error { return r.record(rs, 1) })
	back := t.captureOn(q[1], "back", r.back)
	rounds := 0
	for i := range t.size(20, 6) {
		t.ok(both.Replay(t.ctx))
		t.ok(once.Replay(t.ctx))
		rounds += 3
		if i%2 == 0 {
			t.ok(q[0].Run(t.ctx, r.there))
			t.follows(q[1], q[0], r.e)
			t.ok(back.Replay(t.ctx))
			t.follows(q[0], q[1], r.f)
			rounds++
		}
		if i%3 == 0 {
			t.ok(q[i%2].Read(t.ctx, r.b, 0, make([]byte, r.b.Size())))
		}
	}
	r.check("after all", rounds)
}

func spanLooseEdges(t *fixture) { t.looseEdges(t.size(30, 5)) }

func (t *fixture) looseEdges(replays int) {
	r := t.relay()
	tr := t.spans("loose", func(rs []*reprise.Recorder) error {
		loose := t.dev.NewEvent("loose")
		return errors.Join(r.record(rs, 1), rs[0].Record(loose), rs[1].Record(loose), rs[0].Record(loose), rs[1].Record(loose))
	})
	for range replays {
		t.ok(tr.Replay(t.ctx))
	}
	r.check("after all replays", replays)
}

func spanRelease(t *fixture) {
	r := t.relay()
	before := t.allocated()
	for range 3 {
		tr := t.spans("released", func(rs []*reprise.Recorder) error { return r.record(rs, 4) })
		t.ok(tr.Replay(t.ctx))
		t.ok(tr.Release(t.ctx)) // after the replay
		if err := tr.Replay(t.ctx); !errors.Is(err, reprise.ErrReleased) {
			t.Errorf("replay after the release: %v", err)
		}
		if after := t.allocated(); after != before {
			t.Errorf("allocated before %v, after %v", before, after)
		}
	}
	r.check("after three replays", 12)
}

func spanRefuses(t *fixture) {
	r, q := t.relay(), t.both()
	before := t.allocated()
	t.ok(q[0].Record(t.ctx, r.e))
	_, err := t.captureOver("outside", q[0], q[1], func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(r.there), rs[1].WaitEvent(r.e), rs[1].Run(r.back))
	})
	var ce *reprise.CaptureError
	if !errors.Is(err, reprise.ErrInCapture) || !errors.As(err, &ce) || ce.Op != `wait for event "there"` || ce.Line == 0 {
		t.Errorf("a wait for what was recorded outside: %v", err)
	}
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
	r.check("nothing ran", 0)
}

func spanInPieces(t *fixture) {
	r := t.relay()
	const n = 3
	tr := t.spans("in pieces", func(rs []*reprise.Recorder) error { return r.record(rs, n) })
	before := t.allocated()
	rounds := 0
	var names string
	for _, s := range tr.Debug().Programs() {
		names += s.Name + " "
	}
	if want := "there back there back there back "; names != want {
		t.Errorf("the programs are %s, want %s", names, want)
	}
	for _, pieces := range []int{0, 4, 1, 2, 2 * n}[:t.size(5, 2)] { // 0 for steps
		if pieces == 0 {
			steps := 0
			t.ok(tr.Debug().Step(t.ctx, func(i int) error {
				if steps++; i != steps-1 {
					t.Errorf("step %d is reported as %d", steps-1, i)
				}
				for op, err := range map[string]error{"replay": tr.Replay(t.ctx), "release": tr.Release(t.ctx), "check": tr.Debug().Check(t.ctx)} {
					if !errors.Is(err, reprise.ErrReserved) {
						t.Errorf("%s from inside: %v, want ErrReserved", op, err)
					}
				}
				return nil
			}))
		} else {
			t.ok(tr.Debug().Split(t.ctx, pieces, nil))
		}
		rounds += n
		r.check(fmt.Sprintf("%d pieces", pieces), rounds)
		t.ok(tr.Replay(t.ctx))
		rounds += n
	}
	r.check("a replay after it all", rounds)
	t.ok(tr.Debug().Check(t.ctx))
	r.check("after the check", rounds)
	mine := errors.New("enough")
	var at *debug.StepError
	if err := tr.Debug().Step(t.ctx, func(i int) error { return map[bool]error{true: mine}[i == 2] }); !errors.Is(err, mine) ||
		!errors.As(err, &at) || at.First != 2 {
		t.Errorf("cut short: %v", err)
	}
	t.ok(tr.Replay(t.ctx))
	t.finishBoth()
	t.ok(tr.Debug().Verify(t.ctx))
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
}

func spanFromFile(t *fixture) {
	r, q := t.relay(), t.both()
	const n = 2
	// The first part is the second queue's.
	tr, err := t.captureOver("file", q[1], q[0], func(rs []*reprise.Recorder) error {
		return r.record([]*reprise.Recorder{rs[1], rs[0]}, n)
	})
	t.ok(err)
	var file bytes.Buffer
	t.ok(tr.Save(t.ctx, &file, reprise.WithData()))
	t.ok(tr.Release(t.ctx))
	before := t.allocated()
	for round := range 2 {
		loaded, err := t.dev.LoadTrace(t.ctx, bytes.NewReader(file.Bytes()), reprise.WithBuffers(r.a, r.b))
		t.ok(err)
		rounds := 0
		for range t.size(5, 2) {
			t.ok(loaded.Replay(t.ctx))
			rounds += n
		}
		t.finishBoth()
		t.ok(loaded.Debug().Step(t.ctx, nil))
		t.ok(loaded.Debug().Split(t.ctx, 2, nil))
		rounds += 2 * n
		t.ok(loaded.Debug().Verify(t.ctx))
		r.check("after all replays of the file", rounds)
		var again bytes.Buffer
		t.ok(loaded.Save(t.ctx, &again))
		t.ok(loaded.Release(t.ctx))
		if after := t.allocated(); after != before {
			t.Errorf("round %d: allocated before %v, after %v", round, before, after)
		}
	}
}

func spanBisect(t *fixture) {
	r := t.relay()
	tr := t.spans("bisected", func(rs []*reprise.Recorder) error { return r.record(rs, 3) })
	prepare := func(int) error {
		return errors.Join(t.rq.Write(t.ctx, r.a, 0, make([]byte, r.a.Size())), t.rq.Wait(t.ctx))
	}
	for _, bad := range []int{0, 3, 4} {
		step, err := tr.Debug().Bisect(t.ctx, prepare, func(n int) (bool, error) { return n <= bad, nil })
		t.ok(err)
		if step != bad {
			t.Errorf("step %d was found, want %d", step, bad)
		}
	}
	step, err := tr.Debug().Bisect(t.ctx, prepare, func(int) (bool, error) { return true, nil })
	t.ok(err)
	if step != -1 {
		t.Errorf("step %d was found in a trace that is right", step)
	}
	r.check("the whole trace", 3)
}
