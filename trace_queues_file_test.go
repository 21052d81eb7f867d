package reprise_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

// swapped is split with the workers of the queues exchanged.
func swapped(t *testing.T, card *sim.Card, opts ...reprise.Option) *bench {
	t.Helper()
	return split(t, card, append(opts, reprise.WithQueueWorkers(1, chip.Grid(4, 6)),
		reprise.WithQueueWorkers(0, chip.Range{Start: chip.Core{X: 4}, End: chip.Core{X: 7, Y: 5}}))...)
}

// sums checks what buffers hold that a number of replays have added to.
func (r *spanRig) sums(t devtest.Fataler, bufs []*reprise.Buffer, what string, want [scheduleChains]uint32, times uint32) {
	t.Helper()
	devtest.Must(t, r.q[1].Wait(r.ctx))
	for _, buf := range bufs {
		got := make([]byte, buf.Size())
		devtest.Must(t, r.q[0].Read(r.ctx, buf, 0, got))
		var c int
		if _, err := fmt.Sscan(buf.Name(), &c); err != nil {
			t.Fatal(err)
		}
		if want := words(buf.Size(), times*want[c]); !bytes.Equal(want, got) {
			t.Fatalf("%s: buffer %d begins with % x, want % x", what, c, got[:8], want[:8])
		}
	}
}

func (r *spanRig) clear(t devtest.Fataler, bufs []*reprise.Buffer) {
	t.Helper()
	for _, buf := range bufs {
		devtest.Must(t, r.q[0].Write(r.ctx, buf, 0, words(buf.Size(), 0)))
	}
	devtest.Must(t, r.q[0].Wait(r.ctx))
}

// Random traces over two queues do the same in steps, in pieces and whole, and so do their files on
// a device whose queues have exchanged their workers: each part finds its queue, and the edges the
// other one's dispatch core.
func TestRandomTracesOverQueuesInPieces(t *testing.T) {
	effort.Long(t)
	if testing.Short() {
		t.Skip("one goroutine, and slow under the race detector")
	}
	for _, card := range emulators {
		target := card(sim.Seed(3), sim.Delay(20))
		t.Run(target.String(), func(t *testing.T) {
			here := newSpanRig(split(t, target))
			b := swapped(t, card(sim.Strict(5)), reprise.WithFirstEvent(0xFFFFFFF0))
			there := &spanRig{bench: b, q: [2]*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}}
			pieces := func(t devtest.Fataler, r *spanRig, tr *reprise.Trace, sums [scheduleChains]uint32, cuts int) {
				t.Helper()
				bufs, n := tr.Buffers(), len(tr.Debug().Programs())
				r.clear(t, bufs)
				devtest.Must(t, tr.Replay(r.ctx))
				r.sums(t, bufs, "a replay", sums, 1)
				steps := 0
				devtest.Must(t, tr.Debug().Step(r.ctx, func(i int) error {
					if steps++; i != steps-1 {
						t.Fatalf("step %d is reported as %d", steps-1, i)
					}
					return nil
				}))
				r.sums(t, bufs, "in steps", sums, 2)
				at := 0
				devtest.Must(t, tr.Debug().Split(r.ctx, 1+cuts%n, func(first, end int) error {
					if first != at {
						t.Fatalf("a piece from %d on comes after one up to %d", first, at)
					}
					at = end
					return nil
				}))
				r.sums(t, bufs, "in pieces", sums, 3)
				if steps != n || at != n {
					t.Fatalf("%d steps and pieces up to %d, of %d programs", steps, at, n)
				}
				devtest.Must(t, tr.Debug().Check(r.ctx))
				devtest.Must(t, tr.Debug().Verify(r.ctx))
				times, err := tr.Debug().Times(r.ctx)
				devtest.Must(t, err)
				if len(times) != n {
					t.Fatalf("%d times of %d programs", len(times), n)
				}
				r.sums(t, bufs, "timed", sums, 4)
				devtest.Must(t, tr.Replay(r.ctx))
				r.sums(t, bufs, "a replay after it all", sums, 5)
				r.clear(t, bufs)
			}
			before := there.dev.MemorySnapshot()
			for seed := range rounds(3, 1) {
				s := rapid.Custom(drawSchedule).Example(seed)
				tr, sums := here.capture(t, s)
				pieces(t, here, tr, sums, seed)
				var file bytes.Buffer
				devtest.Must(t, tr.Save(here.ctx, &file, reprise.WithData()))
				loaded, err := there.dev.LoadTrace(there.ctx, &file)
				devtest.Must(t, err)
				pieces(t, there, loaded, sums, seed+1)
				if q := loaded.Parts(); q[0].Queue.Workers() != tr.Parts()[0].Queue.Workers() || q[0].Queue.ID() == tr.Parts()[0].Queue.ID() {
					t.Errorf("the first part is on queue %d with the workers %v", q[0].Queue.ID(), q[0].Queue.Workers())
				}
				devtest.Must(t, errors.Join(tr.Release(here.ctx), loaded.Release(there.ctx)))
			}
			if changes := before.Changes(); len(changes) > 0 {
				t.Errorf("loaded traces leave %v", changes)
			}
		})
	}
}

// A file of a trace over two queues has buffers, parameters and results as others have, and is
// refused where it can't run.
func TestTraceFileOverQueues(t *testing.T) {
	b := split(t, sim.Wormhole())
	q := []*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}
	below := b.pages("below", 4000) // no size looks like an address
	x, y, z := b.pages("x", 4), b.pages("y", 4), b.pages("z", 4)
	there, back := b.load(b.adder("there", chip.Core{X: 1}, x, y, 1)), b.load(b.adder("back", chip.Core{X: 5, Y: 1}, y, z, 1))
	e := b.dev.NewEvent("there")
	trace, err := captureQueues(b.ctx, "both", []*reprise.Queue{q[1], q[0]}, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[1].Run(there), rs[1].Param("addend", addend), rs[1].ParamBuffer("to", y, writeTo), rs[1].Record(e),
			rs[0].WaitEvent(e), rs[0].Run(back), rs[0].Param("addend", addend), rs[0].ParamBuffer("from", y, readFrom))
	})
	b.must(err)
	var names []string
	for _, s := range trace.Debug().Programs() {
		names = append(names, fmt.Sprintf("%s on %d", s.Name, s.Queue))
	}
	if diff := cmp.Diff([]string{"there on 0", "back on 1"}, names); diff != "" {
		t.Errorf("programs (-want +got):\n%s", diff)
	}
	b.write(x, 10)
	b.must(q[0].Wait(b.ctx))
	b.must(errors.Join(trace.Set("addend", 20), trace.Replay(b.ctx)))
	want := [2][]tracebuf.Param{partOn(trace, q[0]).Params, partOn(trace, q[1]).Params}
	var file bytes.Buffer
	b.must(trace.Save(b.ctx, &file, reprise.WithData(x), reprise.WithResults(y, z)))
	parts, err := trace.Debug().Inspect(b.ctx)
	b.must(err)
	c := parts[0]
	if len(c.Steps) != 3 || c.Steps[1].Name != "back" || c.Steps[0].Name != "wait for event there" {
		t.Errorf("on queue 1: %+v", c.Steps)
	}
	b.must(errors.Join(trace.Release(b.ctx), there.Release(b.ctx), back.Release(b.ctx), x.Release(), z.Release()))
	// y stays, so that the trace's has to go elsewhere, in both parts.
	loaded, err := b.dev.LoadTrace(b.ctx, bytes.NewReader(file.Bytes()))
	b.must(err)
	var v *debug.VerifyError
	if err := loaded.Debug().CheckResults(b.ctx); !errors.As(err, &v) {
		t.Errorf("results before the replay: %v", err)
	}
	moved := loaded.Buffers()[want[0][1].Buffer]
	if moved.Name() != "y" || moved.Addr() == y.Addr() || len(want[0]) != 2 || want[0][1].Pages != 4 ||
		want[1][1].Buffer != want[0][1].Buffer {
		t.Errorf("parameters %+v, buffer %q is at %#x and was at %#x", want, moved.Name(), moved.Addr(), y.Addr())
	}
	want[0][1].Value, want[1][1].Value = moved.Addr(), moved.Addr()
	if diff := cmp.Diff(want, [2][]tracebuf.Param{partOn(loaded, q[0]).Params, partOn(loaded, q[1]).Params}); diff != "" {
		t.Errorf("parameters (-saved +loaded):\n%s", diff)
	}
	b.must(errors.Join(loaded.Replay(b.ctx), loaded.Debug().CheckResults(b.ctx), loaded.Debug().Verify(b.ctx), loaded.Debug().Check(b.ctx)))
	b.must(errors.Join(loaded.Set("addend", 1), loaded.Replay(b.ctx)))
	if err := loaded.Debug().CheckResults(b.ctx); !errors.As(err, &v) || v.What != `the results in "y"` {
		t.Errorf("results of other arguments: %v", err)
	}
	var again bytes.Buffer
	b.must(errors.Join(loaded.Set("addend", 20), loaded.Save(b.ctx, &again)))
	one, err := tracebuf.Decode(bytes.NewReader(file.Bytes()))
	b.must(err)
	two, err := tracebuf.Decode(&again)
	b.must(err)
	for i := range one.Parts() {
		p, q := one.Parts()[i], two.Parts()[i]
		if cmp.Diff(p.Image.Steps, q.Image.Steps) != "" || p.Target != q.Target {
			t.Errorf("part %d is another one when it is saved again", i)
		}
	}
	b.must(errors.Join(loaded.Release(b.ctx), y.Release(), below.Release()))
	for k, n := range b.allocated() {
		if n != 0 {
			t.Errorf("%d B of %v are left", n, k)
		}
	}

	plain := open(t, sim.Wormhole())
	_, err = plain.dev.LoadTrace(b.ctx, bytes.NewReader(file.Bytes()))
	plain.says(err, `load trace "both"`, "grid of workers")
	if !errors.Is(err, reprise.ErrOtherTarget) {
		t.Errorf("loaded to a device with one queue: %v", err)
	}
}

// The program of a trace over two queues that hangs or goes wrong is found, whichever queue it is
// on; an edge that is missing shows in a check.
func TestTraceOverQueuesFindsPrograms(t *testing.T) {
	b := split(t, sim.Blackhole(), reprise.WithHangTimeout(200*time.Millisecond))
	q := []*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}
	x, y := b.pages("x", 2), b.pages("y", 2)
	word := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64, Name: "word"})
	there, back := b.load(b.adder("there", chip.Core{X: 1}, x, y, 1)), b.load(b.adder("back", chip.Core{X: 5, Y: 1}, y, x, 2))
	e, f := b.dev.NewEvent("there"), b.dev.NewEvent("back")
	// L1 pages of 64 B begin with core (0,0).
	stuck := b.load(&reprise.Program{Name: "stuck", Buffers: []*reprise.Buffer{word}, Kernels: []reprise.Kernel{{
		Name: "wait", Image: b.image(kernels.Spin), Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
		Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 5} },
	}}})
	record := func(rs []*reprise.Recorder, mid ...func() error) error {
		err := errors.Join(rs[0].Run(there), rs[0].Record(e), rs[1].WaitEvent(e), rs[1].Run(back), rs[1].Record(f), rs[0].WaitEvent(f))
		for _, m := range mid {
			err = errors.Join(err, m())
		}
		return errors.Join(err, rs[0].Run(there), rs[0].Record(e), rs[1].WaitEvent(e), rs[1].Run(back))
	}
	hangs, err := captureQueues(b.ctx, "hangs", q, func(rs []*reprise.Recorder) error {
		return record(rs, func() error { return rs[0].Run(stuck) })
	})
	b.must(err)
	prepare := func(v uint32) func(int) error {
		return func(int) error { b.write(word, v); b.write(x, 0); return q[0].Wait(b.ctx) }
	}
	good := func(int) (bool, error) { return true, nil }
	step, err := hangs.Debug().Bisect(b.ctx, prepare(5), good)
	b.must(err)
	if step != -1 {
		t.Errorf("step %d goes wrong in a trace that works", step)
	}
	if step, err = hangs.Debug().Bisect(b.ctx, prepare(0), good); err != nil || step != 2 {
		t.Errorf("step %d hangs, %v, want 2", step, err)
	}
	b.must(prepare(0)(0))
	var at *debug.StepError
	var hang *dispatch.HangError
	if err := hangs.Debug().Step(b.ctx, nil); !errors.As(err, &at) || at.First != 2 || at.Name != "stuck" || !errors.As(err, &hang) {
		t.Errorf("stepped: %v", err)
	}
	b.must(b.dev.Recover(b.ctx))
	b.must(prepare(5)(0))
	b.must(errors.Join(hangs.Replay(b.ctx), q[1].Wait(b.ctx)))
	b.holds(x, 6)
}

// A trace with nothing but edges can be looked at like others: it has no program that could go
// wrong.
func TestTraceOverQueuesWithoutPrograms(t *testing.T) {
	b := split(t, sim.Blackhole())
	q := []*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}
	e := b.dev.NewEvent("e")
	trace, err := captureQueues(b.ctx, "edges", q, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Record(e), rs[1].WaitEvent(e))
	})
	b.must(err)
	for range 2 {
		b.must(errors.Join(trace.Replay(b.ctx), q[1].Wait(b.ctx), trace.Debug().Check(b.ctx), trace.Debug().Step(b.ctx, nil),
			trace.Debug().Verify(b.ctx)))
		if times, err := trace.Debug().Times(b.ctx); err != nil || len(times) != 0 {
			t.Errorf("times %v, %v", times, err)
		}
		step, err := trace.Debug().Bisect(b.ctx, nil, func(int) (bool, error) { return true, nil })
		if err != nil || step != -1 {
			t.Errorf("bisect: step %d, %v", step, err)
		}
		b.says(trace.Debug().Split(b.ctx, 1, nil), "it has 0 programs")
	}
	b.must(trace.Release(b.ctx))
}

// A check runs programs in an order that the edges allow, and a replay as they let it: so it finds
// an edge that is missing. The emulator runs inside of the host's accesses, so what comes into the
// first queue is done before the second gets anything to do, every time.
func TestCheckFindsMissingEdge(t *testing.T) {
	b := split(t, sim.Wormhole(sim.Synchronous(), sim.Seed(1)))
	x, y := b.pages("x", 2), b.pages("y", 2)
	back, there := b.load(b.adder("back", chip.Core{X: 1}, y, x, 2)), b.load(b.adder("there", chip.Core{X: 5, Y: 1}, x, y, 1))
	left, right := b.load(b.blank("left", chip.Single(0, 0))), b.load(b.blank("right", chip.Single(6, 0)))
	e := b.dev.NewEvent("there")
	for _, edge := range []bool{true, false} {
		trace, err := captureQueues(b.ctx, "edges", []*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}, func(rs []*reprise.Recorder) error {
			err := errors.Join(rs[1].Run(right), rs[1].Run(there), rs[1].Record(e), rs[0].Run(left), rs[0].Run(left), rs[0].Run(left))
			if edge {
				err = errors.Join(err, rs[0].WaitEvent(e))
			}
			return errors.Join(err, rs[0].Run(back))
		})
		b.must(err)
		b.write(x, 0)
		b.write(y, 1000)
		var ce *debug.CheckError
		if err := trace.Debug().Check(b.ctx); edge && err != nil || !edge && (!errors.As(err, &ce) || ce.Step != 5 || ce.Name != "back" ||
			ce.Buffer != "y" || ce.Want != 1) {
			t.Errorf("with the edge %v: %v", edge, err)
		}
		b.must(trace.Release(b.ctx))
	}
}

// Whatever a file says whose checksum is right: it is loaded or refused, nothing panics, and
// nothing is left.
func TestLoadMutatedFiles(t *testing.T) {
	b := split(t, sim.Wormhole())
	x, y := b.pages("x", 4), b.pages("y", 4)
	shards := b.buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 64, Name: "sharded", Sharding: heights(4, 1, 4)})
	one, two := b.load(b.adder("one", chip.Core{X: 1}, x, y, 1)), b.load(b.adder("two", chip.Core{X: 5}, y, x, 1))
	numbers, e := b.load(b.numbers(shards)), b.dev.NewEvent("e")
	trace, err := captureQueues(b.ctx, "mutated", []*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(one), rs[0].ParamBuffer("x", x, readFrom), rs[0].Run(numbers), rs[0].Record(e), rs[1].WaitEvent(e),
			rs[1].Run(two))
	})
	b.must(err)
	var file bytes.Buffer
	b.must(trace.Save(b.ctx, &file, reprise.WithData()))
	b.must(errors.Join(trace.Release(b.ctx), one.Release(b.ctx), two.Release(b.ctx), numbers.Release(b.ctx), x.Release(), y.Release(),
		shards.Release()))
	before := b.allocated()
	rng := rand.New(rand.NewPCG(1, 2))
	loaded := 0
	for range 1500 {
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
		if tr, err := b.dev.LoadTrace(b.ctx, bytes.NewReader(c)); err == nil {
			loaded++
			b.must(tr.Release(b.ctx))
		}
		if diff := cmp.Diff(before, b.allocated()); diff != "" {
			t.Fatalf("something is left (-before +after):\n%s", diff)
		}
	}
	if loaded == 0 || loaded == 1500 {
		t.Errorf("%d files were loaded: some changes matter, and some don't", loaded)
	}
}
