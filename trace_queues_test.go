package reprise_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

func split(t *testing.T, card *sim.Card, opts ...reprise.Option) *bench {
	t.Helper()
	return open(t, card, append([]reprise.Option{
		reprise.WithQueues(2), reprise.WithQueueWorkers(0, chip.Grid(4, 6)),
		reprise.WithQueueWorkers(1, chip.Range{Start: chip.Core{X: 4}, End: chip.Core{X: 7, Y: 5}}),
	}, opts...)...)
}

type schedule struct {
	Steps   []scheduleStep
	Between []int
}

type scheduleStep struct{ Op, Chain, Queue, Event int }

const scheduleChains = 3

func drawSchedule(t *rapid.T) schedule {
	n := rapid.IntRange(0, 16).Draw(t, "steps")
	var s schedule
	for range n {
		s.Steps = append(s.Steps, scheduleStep{
			rapid.IntRange(0, 4).Draw(t, "op"), rapid.IntRange(0, scheduleChains-1).Draw(t, "chain"),
			rapid.IntRange(0, 1).Draw(t, "queue"), rapid.IntRange(0, 2).Draw(t, "event"),
		})
	}
	s.Between = rapid.SliceOfN(rapid.IntRange(-1, 1), 1, 6).Draw(t, "replays")
	return s
}

// Fast, and on a chip that delays, reorders and checks all: no update is lost and nothing hangs.
func TestRandomTracesOverQueues(t *testing.T) {
	effort.Long(t)
	for _, card := range emulators {
		fast, strict := card(sim.Seed(7), sim.Delay(50)), card(sim.Strict(11))
		t.Run(fast.String(), func(t *testing.T) {
			r := newSpanRig(split(t, fast, reprise.WithFirstEvent(0xFFFFFF80)))
			rapid.Check(t, func(t *rapid.T) { r.run(t, drawSchedule(t)) })
		})
		t.Run(strict.String()+" strict", func(t *testing.T) {
			r := newSpanRig(split(t, strict, reprise.WithFirstEvent(0xFFFFFFF0)))
			for seed := range 5 {
				r.run(t, rapid.Custom(drawSchedule).Example(seed))
			}
		})
	}
}

type spanRig struct {
	*bench
	q    [2]*reprise.Queue
	bufs [scheduleChains]*reprise.Buffer
	add  [scheduleChains][2]*reprise.Executable
}

func newSpanRig(b *bench) *spanRig {
	b.Helper()
	r := &spanRig{bench: b, q: [2]*reprise.Queue{b.Dev.Queue(0), b.Dev.Queue(1)}}
	for c := range r.bufs {
		r.bufs[c] = b.Pages(fmt.Sprint(c), 2)
		r.add[c][0] = b.Load(b.Adder("left", chip.Core{X: c}, r.bufs[c], r.bufs[c], 1))
		r.add[c][1] = b.Load(b.Adder("right", chip.Core{X: 4 + c, Y: 1}, r.bufs[c], r.bufs[c], 100))
	}
	return r
}

func (r *spanRig) capture(t devtest.Fataler, s schedule) (tr *reprise.Trace, sums [scheduleChains]uint32) {
	t.Helper()
	must := func(err error) { t.Helper(); devtest.Must(t, err) }
	events := []*reprise.Event{r.Dev.NewEvent("a"), r.Dev.NewEvent("b"), r.Dev.NewEvent("c")}
	tr, err := captureQueues(r.Ctx, "random", r.q[:], func(rs []*reprise.Recorder) error {
		var last [scheduleChains]int
		var recorded [3]bool
		must(rs[0].Run(r.add[0][0]))
		sums[0]++
		must(rs[1].Record(events[2]))
		recorded[2] = true
		for _, at := range s.Steps {
			switch c, i := at.Chain, at.Queue; at.Op {
			case 0:
				must(rs[i].Record(events[at.Event]))
				recorded[at.Event] = true
			case 1:
				if recorded[at.Event] {
					must(rs[i].WaitEvent(events[at.Event]))
				}
			default:
				if last[c] != i {
					handed := r.Dev.NewEvent("handed on")
					must(rs[1-i].Record(handed))
					must(rs[i].WaitEvent(handed))
				}
				must(rs[i].Run(r.add[c][i]))
				sums[c] += []uint32{1, 100}[i]
				last[c] = i
			}
		}
		return nil
	})
	must(err)
	return tr, sums
}

func (r *spanRig) run(t devtest.Fataler, s schedule) {
	t.Helper()
	must := func(err error) { t.Helper(); devtest.Must(t, err) }
	tr, sums := r.capture(t, s)
	event := r.Dev.NewEvent("between")
	for _, buf := range r.bufs {
		must(r.q[0].Write(r.Ctx, buf, 0, words(buf.Size(), 0)))
	}
	must(r.q[0].Wait(r.Ctx))
	for _, i := range s.Between {
		must(tr.Replay(r.Ctx))
		if i >= 0 {
			must(r.q[i].Record(r.Ctx, event))
			must(r.q[1-i].WaitEvent(r.Ctx, event))
		}
	}
	must(r.q[1].Wait(r.Ctx))
	for c, buf := range r.bufs {
		got := make([]byte, buf.Size())
		must(r.q[0].Read(r.Ctx, buf, 0, got))
		if want := words(buf.Size(), uint32(len(s.Between))*sums[c]); string(want) != string(got) {
			t.Fatalf("%+v: buffer %d begins with % x, want % x", s, c, got[:8], want[:8])
		}
	}
	must(tr.Release(r.Ctx))
}

func TestTracesOverQueuesThatCannotBe(t *testing.T) {
	b := split(t, sim.Blackhole())
	shared := open(t, sim.Blackhole(), reprise.WithQueues(2))
	q := []*reprise.Queue{b.Dev.Queue(0), b.Dev.Queue(1)}
	x := b.Load(b.blank("x", chip.Single(0, 0)))
	y := b.Load(b.blank("y", chip.Single(5, 0)))
	e, outside := b.Dev.NewEvent("e"), b.Dev.NewEvent("outside")
	b.Must(q[0].Record(b.Ctx, outside))
	before := b.Allocated()
	for _, tt := range []struct {
		name   string
		queues []*reprise.Queue
		record func(rs []*reprise.Recorder) error
		is     error
		says   []string
	}{
		{"recorded outside", q, func(rs []*reprise.Recorder) error { _ = rs[0].Run(x); return rs[1].WaitEvent(outside) }, reprise.ErrInCapture, []string{`wait for event "outside" at `, "trace_queues_test.go:", "wasn't recorded in this capture"}},
		{"never recorded", q, func(rs []*reprise.Recorder) error { _ = rs[0].Run(x); _ = rs[1].WaitEvent(e); return nil }, reprise.ErrInCapture, []string{`wait for event "e" at `, "wasn't recorded in this capture"}},
		{"foreign", q, func(rs []*reprise.Recorder) error { return rs[1].Record(shared.Dev.NewEvent("foreign")) }, reprise.ErrWrongDevice, []string{`record event "foreign"`}},
		{"no event", q, func(rs []*reprise.Recorder) error { return rs[1].WaitEvent(nil) }, nil, []string{"no event"}},
		{"other's workers", q, func(rs []*reprise.Recorder) error { _ = rs[0].Run(x); return rs[1].Run(x) }, nil, []string{`run program "x" at `, "the queue starts the workers"}},
		{"empty part", q, func(rs []*reprise.Recorder) error { _ = rs[0].Run(x); return rs[0].Record(e) }, reprise.ErrEmptyTrace, []string{"queue 1"}},
		{"own error", q, func(rs []*reprise.Recorder) error { _ = rs[0].Run(x); _ = rs[1].Run(y); return errors.New("given up") }, nil, []string{"given up"}},
		{"one queue", q[:1], func(rs []*reprise.Recorder) error { _ = rs[0].Run(x); return rs[0].Record(e) }, reprise.ErrInCapture, []string{`record event "e" at `, "of one queue"}},
		{"twice", []*reprise.Queue{q[1], q[1]}, func(rs []*reprise.Recorder) error { return nil }, nil, []string{"queue 1 of emulated", "is given twice"}},
	} {
		_, err := captureQueues(b.Ctx, tt.name, tt.queues, tt.record)
		if tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.is)
		}
		b.Says(err, append([]string{`reprise: capture "` + tt.name}, tt.says...)...)
	}
	equal(b, fmt.Sprint(b.Allocated()), fmt.Sprint(before), "allocated")
	_, err := captureQueues(b.Ctx, "shared", []*reprise.Queue{shared.Dev.Queue(0), shared.Dev.Queue(1)},
		func([]*reprise.Recorder) error { return nil })
	b.Says(err, "queues 0 and 1 start the same workers", "WithQueueWorkers")
	_, err = q[0].Capture(b.Ctx, "elsewhere", func(_ context.Context, r *reprise.Recorder) error { return r.On(q[1]).Run(y) })
	b.Says(err, `capture "elsewhere": record on another queue at `, "trace_queues_test.go:", "name it when the capture starts")
	b.fails("a queue that isn't part of the capture", err, reprise.ErrOtherQueue)
	_, err = q[0].Capture(b.Ctx, "the queue itself", func(ctx context.Context, r *reprise.Recorder) error {
		_ = q[1].Record(ctx, e)
		return r.Run(x)
	}, q[1])
	b.Says(err, `record event "e" at `, "trace_queues_test.go:", "use Recorder.Record")
	_, err = q[0].Capture(b.Ctx, "no function", nil, q[1])
	b.Says(err, "no function")
	one := value(captureQueues(b.Ctx, "one of two", q, func(rs []*reprise.Recorder) error { return rs[1].Run(y) }))(b)
	if p := one.Parts(); len(p) != 1 || p[0].Queue != q[1] {
		b.Errorf("it has parts %+v", p)
	}
	b.Must(errors.Join(one.Replay(b.Ctx), one.Release(b.Ctx)))
}

func TestTraceOverQueuesParameters(t *testing.T) {
	b := split(t, sim.Blackhole())
	q := []*reprise.Queue{b.Dev.Queue(0), b.Dev.Queue(1)}
	x, y, z := b.Pages("x", 4), b.Pages("y", 4), b.Pages("z", 4)
	there, back := b.Load(b.Adder("there", chip.Core{X: 1}, x, y, 1)), b.Load(b.Adder("back", chip.Core{X: 5, Y: 1}, y, z, 1))
	e := b.Dev.NewEvent("there")
	var late error
	trace, err := captureQueues(b.Ctx, "both", q, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(there), rs[0].Param("addend", addend), rs[0].Record(e),
			rs[1].WaitEvent(e), rs[1].Run(back), rs[1].Param("addend", addend), rs[1].ParamBuffer("to", z, writeTo))
	})
	b.Must(err)
	b.Write(x, 10)
	b.Must(q[0].Wait(b.Ctx))
	read := func(buf *reprise.Buffer, want uint32) {
		b.Helper()
		b.Must(q[1].Wait(b.Ctx))
		b.Holds(buf, want)
	}
	b.Replay(trace)
	read(z, 12)
	b.Must(errors.Join(trace.Set("addend", 100), trace.Replay(b.Ctx)))
	read(z, 210)
	other := b.Pages("other", 4)
	b.Must(errors.Join(trace.SetBuffer("to", other), trace.Set("addend", 7), trace.Replay(b.Ctx)))
	read(other, 24)
	b.fails("an unknown parameter", trace.Set("none", 1), reprise.ErrNoParam)
	_, err = captureQueues(b.Ctx, "late", q, func(rs []*reprise.Recorder) error {
		late = errors.Join(rs[0].Run(there), rs[0].Record(e), rs[0].Param("addend", addend))
		return nil
	})
	b.Says(late, "what was recorded last is no program")
	expect.Error(t, err) // a refused parameter
	b.Must(trace.Set("addend", 8))
	b.Must(trace.Release(b.Ctx))
	b.fails("replay with a changed parameter after a release", trace.Replay(b.Ctx), reprise.ErrReleased)
	b.fails("set after a release", trace.Set("addend", 9), reprise.ErrReleased)
}

func TestTraceOverQueuesAllocatesNothing(t *testing.T) {
	b := split(t, sim.Blackhole(), reprise.WithFirstEvent(0xFFFFFFF8))
	r := newSpanRig(b)
	e := b.Dev.NewEvent("e")
	trace, err := captureQueues(b.Ctx, "both", r.q[:], func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(r.add[0][0]), rs[0].Record(e), rs[1].WaitEvent(e), rs[1].Run(r.add[0][1]))
	})
	b.Must(err)
	fewest := math.Inf(1)
	for range 5 {
		fewest = min(fewest, testing.AllocsPerRun(20, func() { b.Replay(trace) }))
		b.Must(r.q[1].Wait(b.Ctx))
	}
	equal(t, fewest, 0, "allocations of a replay")
	b.Must(b.Dev.Recover(b.Ctx))
	b.Write(r.bufs[0], 0)
	b.Must(errors.Join(trace.Replay(b.Ctx), trace.Replay(b.Ctx), r.q[1].Wait(b.Ctx)))
	b.Holds(r.bufs[0], 202)
	b.Must(trace.Release(b.Ctx))
	b.fails("replay after a release", trace.Replay(b.Ctx), reprise.ErrReleased)
}

func TestTraceOverQueuesWithoutPrograms(t *testing.T) {
	b := split(t, sim.Blackhole())
	q := []*reprise.Queue{b.Dev.Queue(0), b.Dev.Queue(1)}
	e := b.Dev.NewEvent("e")
	trace, err := captureQueues(b.Ctx, "edges", q, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Record(e), rs[1].WaitEvent(e))
	})
	b.Must(err)
	for range 2 {
		b.Must(errors.Join(trace.Replay(b.Ctx), q[1].Wait(b.Ctx), trace.Debug().Check(b.Ctx), trace.Debug().Step(b.Ctx, nil),
			trace.Debug().Verify(b.Ctx)))
		equal(t, len(expect.Value(trace.Debug().Times(b.Ctx))(t)), 0, "launches that have times")
		step, err := trace.Debug().Bisect(b.Ctx, nil, func(int) (bool, error) { return true, nil })
		if err != nil || step != -1 {
			t.Errorf("bisect: step %d, %v", step, err)
		}
		b.Says(trace.Debug().Split(b.Ctx, 1, nil), "it has 0 programs")
	}
	b.Must(trace.Release(b.Ctx))
}

// The emulator runs inside of the host's accesses, so the first queue's commands are done first.
func TestCheckFindsMissingEdge(t *testing.T) {
	b := split(t, sim.Wormhole(sim.Synchronous(), sim.Seed(1)))
	x, y := b.Pages("x", 2), b.Pages("y", 2)
	back, there := b.Load(b.Adder("back", chip.Core{X: 1}, y, x, 2)), b.Load(b.Adder("there", chip.Core{X: 5, Y: 1}, x, y, 1))
	left, right := b.Load(b.blank("left", chip.Single(0, 0))), b.Load(b.blank("right", chip.Single(6, 0)))
	e := b.Dev.NewEvent("there")
	for _, edge := range []bool{true, false} {
		trace, err := captureQueues(b.Ctx, "edges", []*reprise.Queue{b.Dev.Queue(0), b.Dev.Queue(1)}, func(rs []*reprise.Recorder) error {
			err := errors.Join(rs[1].Run(right), rs[1].Run(there), rs[1].Record(e), rs[0].Run(left), rs[0].Run(left), rs[0].Run(left))
			if edge {
				err = errors.Join(err, rs[0].WaitEvent(e))
			}
			return errors.Join(err, rs[0].Run(back))
		})
		b.Must(err)
		b.Write(x, 0)
		b.Write(y, 1000)
		var ce *debug.CheckError
		if err := trace.Debug().Check(b.Ctx); edge && err != nil || !edge && (!errors.As(err, &ce) || ce.Step != 5 || ce.Name != "back" ||
			ce.Buffer != "y" || ce.Want != 1) {
			t.Errorf("with the edge %v: %v", edge, err)
		}
		b.Must(trace.Release(b.Ctx))
	}
}

func TestLoadMutatedFiles(t *testing.T) {
	b := split(t, sim.Wormhole())
	x, y := b.Pages("x", 4), b.Pages("y", 4)
	shards := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 64, Name: "sharded", Sharding: heights(4, 1, 4)})
	one, two := b.Load(b.Adder("one", chip.Core{X: 1}, x, y, 1)), b.Load(b.Adder("two", chip.Core{X: 5}, y, x, 1))
	numbers, e := b.Load(b.numbers(shards)), b.Dev.NewEvent("e")
	trace, err := captureQueues(b.Ctx, "mutated", []*reprise.Queue{b.Dev.Queue(0), b.Dev.Queue(1)}, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(one), rs[0].ParamBuffer("x", x, readFrom), rs[0].Run(numbers), rs[0].Record(e), rs[1].WaitEvent(e),
			rs[1].Run(two))
	})
	b.Must(err)
	var file bytes.Buffer
	b.Must(trace.Save(b.Ctx, &file, reprise.WithData()))
	b.Must(errors.Join(trace.Release(b.Ctx), one.Release(b.Ctx), two.Release(b.Ctx), numbers.Release(b.Ctx), x.Release(), y.Release(),
		shards.Release()))
	before := b.Allocated()
	rng := rand.New(rand.NewPCG(1, 2))
	loaded := 0
	for range 500 {
		c := bytes.Clone(file.Bytes())
		tag := []byte([]string{"TRGT", "STEP", "RELO", "BUFF", "PARM", "QUEU", "PART", "DATA"}[rng.IntN(8)])
		at := bytes.Index(c, tag)
		if rng.IntN(2) == 0 {
			at = bytes.LastIndex(c, tag)
		}
		for range 1 + rng.IntN(2) {
			o := at + 16 + rng.IntN(int(binary.LittleEndian.Uint64(c[at+8:])))
			if rng.IntN(3) > 0 {
				c[o] = byte(rng.IntN(10))
			} else {
				c[o] ^= 1 << rng.IntN(8)
			}
		}
		sum := sha256.Sum256(c[:len(c)-sha256.Size])
		copy(c[len(c)-sha256.Size:], sum[:])
		if tr, err := b.Dev.LoadTrace(b.Ctx, bytes.NewReader(c)); err == nil {
			loaded++
			b.Must(tr.Release(b.Ctx))
		}
		b.sameMemory(before)
	}
	if loaded == 0 || loaded == 500 {
		t.Errorf("%d files were loaded: some changes matter, and some don't", loaded)
	}
}

func TestListsOfDevices(t *testing.T) {
	b := open(t, sim.Blackhole())
	before := b.Allocated()
	for _, tt := range []struct {
		ds   []*reprise.Device
		says string
	}{
		{nil, "no devices"},
		{[]*reprise.Device{nil}, "device 0 of the list is nil"},
		{[]*reprise.Device{b.Dev, nil}, "device 1 of the list is nil"},
		{[]*reprise.Device{b.Dev, b.Dev}, "is given twice"},
	} {
		_, err := reprise.NewBuffers(tt.ds, reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, PageSize: 64, Name: "x"})
		b.Says(err, `reprise: new buffer "x"`, tt.says)
		_, err = reprise.LoadAll(b.Ctx, tt.ds, make([]*reprise.Program, len(tt.ds)))
		b.Says(err, "reprise: load", tt.says)
	}
	b.sameMemory(before)
}

func TestListsInAnyOrder(t *testing.T) {
	beside := func(t *testing.T, n int, fs ...func() error) {
		t.Helper()
		done := make(chan error, len(fs))
		for _, f := range fs {
			go func() {
				var err error
				for range n {
					if err = f(); err != nil {
						break
					}
				}
				done <- err
			}()
		}
		late := time.After(time.Minute)
		for range fs {
			select {
			case err := <-done:
				expect.Fails(t, err, nil, "error")
			case <-late:
				panic("they wait for each other")
			}
		}
	}
	t.Run("buffers", func(t *testing.T) {
		a, b := open(t, sim.Blackhole()), open(t, sim.Blackhole())
		allocate := func(ds ...*reprise.Device) func() error {
			return func() error {
				bufs, err := reprise.NewBuffers(ds, reprise.BufferConfig{Kind: allocator.L1, Size: 64, PageSize: 64, Name: "x"})
				for _, buf := range bufs {
					err = errors.Join(err, buf.Release())
				}
				return err
			}
		}
		beside(t, rounds(20_000, 2000), allocate(a.Dev, b.Dev), allocate(b.Dev, a.Dev))
	})
	t.Run("queues of a device", func(t *testing.T) {
		left, right := chip.Range{End: chip.Core{X: 3, Y: 3}}, chip.Range{Start: chip.Core{X: 4}, End: chip.Core{X: 7, Y: 3}}
		b := open(t, sim.Blackhole(), reprise.WithQueues(2), reprise.WithQueueWorkers(0, left), reprise.WithQueueWorkers(1, right))
		q0, q1 := b.Dev.Queue(0), b.Dev.Queue(1)
		x0, x1 := b.Load(b.blank("x0", chip.Single(0, 0))), b.Load(b.blank("x1", chip.Single(4, 0)))
		both, err := captureQueues(b.Ctx, "both", []*reprise.Queue{q0, q1}, func(rs []*reprise.Recorder) error {
			return errors.Join(rs[0].Run(x0), rs[1].Run(x1))
		})
		b.Must(err)
		other, err := captureQueues(b.Ctx, "other", []*reprise.Queue{q1, q0}, func(rs []*reprise.Recorder) error {
			return errors.Join(rs[0].Run(x1), rs[1].Run(x0))
		})
		b.Must(err)
		beside(t, 2000, func() error { return both.Replay(b.Ctx) }, func() error { return other.Replay(b.Ctx) },
			func() error { return both.Replay(b.Ctx) })
	})
}
