package hwtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/mesh"
)

// controlMeshCases test control flow in traces over several chips.
func controlMeshCases() []testCase {
	cs := []testCase{
		{name: "mesh: iterations by each chip's word", protects: "each chip of a mesh has its own number of iterations", fn: onMesh(meshIterations)},
		{name: "mesh: iterations as a parameter", protects: "a parameter may be the number of iterations of all chips, or of one", fn: onMesh(meshIterationsParam)},
		{name: "mesh: branches by each chip's word", protects: "chips of a mesh take different branches of one If and one Switch", fn: onMesh(meshBranches)},
		{name: "mesh: one decision for all", protects: "a word that a collective of the body writes on all chips ends the loop on all of them", fn: onMesh(meshOneDecision)},
		{name: "mesh: collectives in loops", protects: "collectives in nested loops keep their numbers, and chips' own loops between them change nothing", fn: onMesh(meshLoopedCollectives)},
		{name: "mesh: random control flow on each chip", protects: "one trace may have other control flow on each chip", fn: onMesh(meshRandomControl)},
		{name: "mesh: calls", protects: "each chip runs its own part of the trace that is called, which may be released first", fn: onMesh(meshCalls)},
		{name: "mesh: computed arguments", protects: "each chip computes the arguments of its own programs, in each iteration", fn: onMesh(meshComputedArgs)},
		{name: "mesh: saved and loaded", protects: "a file of a mesh's trace has the control flow of all chips", fn: onMesh(meshSavedControl)},
		{name: "mesh: replays on some chips", protects: "a trace with control flow is replayed on some chips of a mesh", fn: onMesh(meshControlPart)},
		{name: "mesh: abort on one chip", protects: "an abort on one chip ends its replays, and the other chips go on", fn: onMesh(meshAbort)},
		{name: "mesh: limit on one chip", needs: needSimulator, protects: "a loop that doesn't end on one chip stops it alone, with a report that names chip, loop and program", fn: onOwnMesh(meshLimit)},
	}
	for i := range cs {
		cs[i].level = levelMesh
	}
	return cs
}

// decides is a buffer of words that count up from another number on each chip.
func (t *meshFixture) decides(b *mesh.Buffer, first func(i uint32) uint32) {
	t.Helper()
	for _, c := range t.mesh.Chips() {
		t.put(c, b, first(t.ordinal(c)))
	}
}

// word is the condition of a buffer's word on each chip.
func word(b *mesh.Buffer, off int, is cq.Compare, v uint32) func(*mesh.Chip) reprise.Cond {
	return func(c *mesh.Chip) reprise.Cond {
		return reprise.Cond{Buffer: b.On(c), Offset: off, Is: is, Value: v}
	}
}

// running records a program.
func running(r *mesh.Recorder, xs ...*mesh.Executable) func() error {
	return func() error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	}
}

func (t *meshFixture) captured(record func(r *mesh.Recorder) error) *reprise.Trace {
	t.Helper()
	tr, err := t.queue.Capture(t.ctx, "control", func(_ context.Context, r *mesh.Recorder) error { return record(r) })
	t.ok(err)
	t.later(tr.Release)
	return tr
}

// adds loads a program that adds to a buffer, on a worker of its own.
func (t *meshFixture) adds(b *mesh.Buffer, x int, n uint32) *mesh.Executable {
	t.Helper()
	return t.loaded(t.adderAt(chip.Core{X: x, Y: 1}, b, b, add(n)))
}

// counts are a buffer that decides and one that tells how often programs ran.
func (t *meshFixture) counts() (n, ran *mesh.Buffer) {
	t.Helper()
	return t.pages("n"), t.pages("ran")
}

// are checks what buffers have on each chip: words that count up from a number.
func (t *meshFixture) are(what string, b *mesh.Buffer, first func(i uint32) uint32) {
	t.Helper()
	for _, c := range t.mesh.Chips() {
		t.is(what, c, b, counting(b.Size(), first(t.ordinal(c))))
	}
}

func meshIterations(t *meshFixture) {
	n, ran := t.counts()
	one, ten := t.adds(n, 0, 1), t.adds(ran, 1, 10)
	last := n.Size() - 4
	const end = 12
	tr := t.captured(func(r *mesh.Recorder) error {
		return errors.Join(
			r.While(word(n, last, cq.Less, uint32(last/4)+end), 40, running(r, one, ten)),
			r.Loop(3, running(r, ten)),
		)
	})
	for _, from := range []func(i uint32) uint32{
		func(i uint32) uint32 { return i }, func(i uint32) uint32 { return 5 * i % 14 }, func(i uint32) uint32 { return 12 - min(i, 12) },
	} {
		t.decides(n, from)
		t.decides(ran, func(uint32) uint32 { return 0 })
		for range 3 { // the second and the third have no iterations of the first loop
			t.ok(tr.Replay(t.ctx))
		}
		t.are("n", n, func(i uint32) uint32 { return max(from(i), end) })
		t.are("runs", ran, func(i uint32) uint32 { return 10 * (max(from(i), end) - from(i) + 9) })
	}
}

func meshIterationsParam(t *meshFixture) {
	_, ran := t.counts()
	one := t.adds(ran, 1, 1)
	own := func(i uint32) string { return fmt.Sprint("chip ", i) }
	tr := t.captured(func(r *mesh.Recorder) error {
		errs := []error{r.Loop(2, running(r, one))}
		for _, c := range t.mesh.Chips() {
			on := r.On(c)
			errs = append(errs, on.Param("all"), on.Loop(t.ordinal(c), func() error { return on.Run(one.On(c)) }), on.Param(own(t.ordinal(c))))
		}
		return errors.Join(errs...)
	})
	t.decides(ran, func(uint32) uint32 { return 0 })
	var total, more uint32
	for _, all := range []uint32{2, 0, 7} {
		t.ok(tr.Set("all", all))
		t.ok(tr.Replay(t.ctx))
		total += all
	}
	t.are("as recorded", ran, func(i uint32) uint32 { return total + 3*i })
	for _, c := range t.mesh.Chips() {
		i := t.ordinal(c)
		t.ok(tr.Set(own(i), 3*i+1))
	}
	t.ok(tr.Replay(t.ctx))
	more = 7
	t.are("as set", ran, func(i uint32) uint32 { return total + more + 6*i + 1 })
}

func meshBranches(t *meshFixture) {
	n, ran := t.counts()
	one, ten, thousand := t.adds(ran, 0, 1), t.adds(ran, 1, 10), t.adds(ran, 2, 1000)
	step := t.adds(n, 3, 1)
	tr := t.captured(func(r *mesh.Recorder) error {
		return errors.Join(
			r.Switch(n, 0, running(r, ten), func() error { return r.Loop(3, running(r, ten, one)) }, func() error {
				return r.If(word(n, 4, cq.Equal, 3), running(r, thousand), nil)
			}),
			r.If(word(n, 0, cq.AnySet, 1), running(r, one), running(r, thousand, one)),
			r.Run(step),
		)
	})
	does := func(v uint32) uint32 {
		return []uint32{10, 33, 1000, 0}[min(v, 3)] + []uint32{1001, 1}[v%2]
	}
	for _, from := range []func(i uint32) uint32{func(i uint32) uint32 { return i % 5 }, func(i uint32) uint32 { return (i + 1) % 2 }} {
		t.decides(n, from)
		t.decides(ran, func(uint32) uint32 { return 0 })
		const replays = 4
		for range replays {
			t.ok(tr.Replay(t.ctx))
		}
		t.are("branches", ran, func(i uint32) (sum uint32) {
			for k := range uint32(replays) {
				sum += does(from(i) + k)
			}
			return sum
		})
	}
}

func meshOneDecision(t *meshFixture) {
	b := t.linked()
	own, ran := t.counts()
	sum, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	t.later(sum.Release)
	// Each chip adds its own number to its part of the sum; the sum, which all chips have, decides.
	grow := t.loaded(t.adderAt(chip.Core{X: 0, Y: 1}, own, own, func(c *mesh.Chip) uint32 { return t.ordinal(c) + 1 }))
	move := t.loaded(t.adderAt(chip.Core{X: 1, Y: 1}, own, b, add(0)))
	one := t.adds(ran, 3, 1)
	chips := uint32(t.mesh.Size())
	each := chips * (chips + 1) / 2
	enough := 5*each + 1
	tr := t.captured(func(r *mesh.Recorder) error {
		return r.While(word(b, 0, cq.Less, enough), 20, func() error {
			return errors.Join(
				running(r, grow, move, sum, one)(),
				r.If(word(b, 0, cq.Greater, 3*each), running(r, one), nil), // which all chips decide alike
			)
		})
	})
	for range 2 {
		t.decides(own, func(uint32) uint32 { return 0 })
		t.decides(ran, func(uint32) uint32 { return 0 })
		t.decides(b, func(uint32) uint32 { return 0 })
		t.ok(tr.Replay(t.ctx))
		t.ok(tr.Replay(t.ctx)) // has no iterations
		const turns = 6        // the sixth sum is the first that is enough
		for _, c := range t.mesh.Chips() {
			t.is("own part", c, own, counting(own.Size(), turns*(t.ordinal(c)+1)))
			t.is("iterations", c, ran, counting(ran.Size(), turns+3))
			want := make([]byte, 0, b.Size())
			for i := range uint32(b.Size() / 4) {
				want = binary.LittleEndian.AppendUint32(want, turns*each+chips*i)
			}
			t.is("sum", c, b, want)
		}
	}
}

func meshLoopedCollectives(t *meshFixture) {
	b := t.linked()
	n, ran := t.counts()
	sum, err := t.links.AllReduce(t.ctx, b, mesh.SumInt32)
	t.ok(err)
	t.later(sum.Release)
	from, err := t.links.Broadcast(t.ctx, b, t.links.Line()[0])
	t.ok(err)
	t.later(from.Release)
	one, ten := t.adds(n, 0, 1), t.adds(ran, 1, 10)
	tr := t.captured(func(r *mesh.Recorder) error {
		return r.Loop(3, func() error {
			return errors.Join(
				r.Run(from),
				r.While(word(n, 0, cq.Less, 6), 20, running(r, one, ten)), // of its own on each chip
				r.Loop(2, running(r, sum, t.links.Barrier())),
			)
		})
	})
	for range 2 {
		t.decides(n, func(i uint32) uint32 { return i % 6 })
		t.decides(ran, func(uint32) uint32 { return 0 })
		t.decides(b, func(i uint32) uint32 { return i })
		first := binary.LittleEndian.AppendUint32(nil, t.ordinal(t.links.Line()[0]))
		t.ok(tr.Replay(t.ctx))
		t.are("n", n, func(uint32) uint32 { return 6 })
		t.are("runs", ran, func(i uint32) uint32 { return 10 * (6 - i%6) })
		times := uint32(1)
		for range 6 {
			times *= uint32(t.mesh.Size())
		}
		want := make([]byte, 0, b.Size())
		for i := range uint32(b.Size() / 4) {
			want = binary.LittleEndian.AppendUint32(want, times*(binary.LittleEndian.Uint32(first)+i))
		}
		for _, c := range t.mesh.Chips() {
			t.is("sum", c, b, want)
		}
	}
}

// onChip is a fixture of one chip of the mesh.
func (t *meshFixture) onChip(c *mesh.Chip) *fixture {
	u := *t.fixture
	u.useDevice(c.Device)
	u.rq = t.queue.On(c)
	return &u
}

func meshRandomControl(t *meshFixture) {
	rng := rand.New(rand.NewPCG(19, 3))
	var cs []*control
	var parts [][]stmt
	for _, c := range t.mesh.Chips() {
		u := t.onChip(c)
		for {
			ss := randomStmts(rng, 3, 0)
			m := &control{t: u, f: &follow{t: u, words: make([]uint32, u.grid().Size())}, values: make([]uint32, controlCounters)}
			if m.run(ss); m.runs >= 3 && m.runs <= t.size(120, 40) {
				parts = append(parts, ss)
				break
			}
		}
		cs = append(cs, u.control())
		cs[len(cs)-1].load(parts[len(parts)-1])
	}
	tr := t.captured(func(r *mesh.Recorder) error {
		for i, c := range t.mesh.Chips() {
			if err := cs[i].record(r.On(c), parts[i]); err != nil {
				return err
			}
		}
		return nil
	})
	for k := range 3 {
		for _, c := range cs {
			c.reset(uint32(k % 2))
		}
		t.ok(tr.Replay(t.ctx))
		for i, c := range cs {
			c.run(parts[i])
			c.check(fmt.Sprintf("chip %d, replay %d", i, k))
		}
	}
	t.ok(tr.Release(t.ctx)) // before what it calls
}

func meshComputedArgs(t *meshFixture) {
	n, ran := t.counts()
	one, given := t.adds(n, 0, 1), t.adds(ran, 1, 0)
	const off = 64 + 8
	tr := t.captured(func(r *mesh.Recorder) error {
		return r.While(word(n, 0, cq.Less, 9), 20, func() error {
			errs := []error{r.Run(one)}
			for _, c := range t.mesh.Chips() {
				errs = append(errs, r.On(c).Run(given.On(c), reprise.Arg{Kernel: "add", Index: 3, From: n.On(c), Offset: off}))
			}
			return errors.Join(errs...)
		})
	})
	from := func(i uint32) uint32 { return 3 * i % 10 }
	for range 2 {
		t.decides(n, from)
		t.decides(ran, func(uint32) uint32 { return 0 })
		t.ok(tr.Replay(t.ctx))
		t.are("sum of what was given", ran, func(i uint32) (sum uint32) {
			for v := from(i); v < 9; v++ {
				sum += v + 1 + off/4
			}
			return sum
		})
	}
}

func meshCalls(t *meshFixture) {
	n, ran := t.counts()
	one, ten := t.adds(n, 0, 1), t.adds(ran, 1, 10)
	capture := func(record func(r *mesh.Recorder) error) (*reprise.Trace, error) {
		return t.queue.Capture(t.ctx, "calls", func(_ context.Context, r *mesh.Recorder) error { return record(r) })
	}
	called, err := capture(func(r *mesh.Recorder) error {
		return errors.Join(r.While(word(n, 0, cq.Less, 7), 20, running(r, one, ten)), r.Run(ten))
	})
	t.ok(err)
	tr := t.captured(func(r *mesh.Recorder) error {
		return errors.Join(r.Run(ten), r.Loop(3, func() error { return r.Call(called) }))
	})
	first := t.mesh.Chips()[0]
	only, err := t.queue.On(first).Capture(t.ctx, "one chip",
		func(_ context.Context, r *reprise.Recorder) error { return r.Run(ten.On(first)) })
	t.ok(err)
	if t.mesh.Size() > 1 {
		_, err = capture(func(r *mesh.Recorder) error { return r.Call(only) })
		t.says(err, `call trace "one chip"`, "no part on queue")
	}
	t.ok(errors.Join(called.Release(t.ctx), only.Release(t.ctx)))
	from := func(i uint32) uint32 { return 2 * i % 8 }
	for range 2 {
		t.decides(n, from)
		t.decides(ran, func(uint32) uint32 { return 0 })
		t.ok(tr.Replay(t.ctx))
		t.are("n", n, func(i uint32) uint32 { return 7 })
		t.are("runs", ran, func(i uint32) uint32 { return 10 * (1 + 7 - from(i) + 3) })
	}
}

func meshSavedControl(t *meshFixture) {
	n, ran := t.counts()
	one, ten := t.adds(n, 0, 1), t.adds(ran, 1, 10)
	tr := t.captured(func(r *mesh.Recorder) error {
		return errors.Join(
			r.While(word(n, 0, cq.Less, 7), 20, running(r, one, ten)),
			r.Switch(n, 4, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing,
				func() error { return r.Loop(2, running(r, ten)) }),
		)
	})
	from := func(i uint32) uint32 { return 2 * i % 7 }
	t.decides(n, from)
	t.decides(ran, func(uint32) uint32 { return 0 })
	var file bytes.Buffer
	t.ok(tr.Save(t.ctx, &file, reprise.WithData()))
	before := tr.Buffers()
	t.ok(errors.Join(tr.Release(t.ctx), one.Release(t.ctx), ten.Release(t.ctx), n.Release(), ran.Release()))
	loaded, err := t.mesh.LoadTrace(t.ctx, &file)
	t.ok(err)
	t.later(loaded.Release)
	after := loaded.Buffers()
	if len(after) != len(before) {
		t.Fatalf("the file has %d buffers, the trace had %d", len(after), len(before))
	}
	t.ok(loaded.Replay(t.ctx))
	for k, b := range before {
		for _, c := range t.mesh.Chips() {
			i := t.ordinal(c)
			want := uint32(7)
			switch b {
			case n.On(c):
			case ran.On(c):
				want = 10 * (7 - from(i) + 2)
			default:
				continue
			}
			got := make([]byte, after[k].Size())
			t.ok(t.queue.On(c).Read(t.ctx, after[k], 0, got))
			t.same(fmt.Sprintf("buffer %q of chip %v", after[k].Name(), c.Coord), counting(len(got), want), got)
		}
	}
}

// nothing is a body that records nothing.
func nothing() error { return nil }

func meshControlPart(t *meshFixture) {
	n, ran := t.counts()
	one, ten := t.adds(n, 0, 1), t.adds(ran, 1, 10)
	tr := t.captured(func(r *mesh.Recorder) error {
		return r.While(word(n, 0, cq.Less, 5), 20, running(r, one, ten))
	})
	t.decides(n, func(uint32) uint32 { return 0 })
	t.decides(ran, func(uint32) uint32 { return 0 })
	chips := t.mesh.Chips()
	for k := range chips {
		last := chips[len(chips)-1-k]
		t.ok(t.on(tr, mesh.Range{Start: last.Coord, End: last.Coord}).Replay(t.ctx))
		for i, c := range chips {
			v := uint32(0)
			if i >= len(chips)-1-k {
				v = 5
			}
			t.is("n", c, n, counting(n.Size(), v))
			t.is("runs", c, ran, counting(ran.Size(), 10*v))
		}
	}
}

func meshAbort(t *meshFixture) {
	n, ran := t.counts()
	one, ten := t.adds(n, 0, 1), t.adds(ran, 1, 10)
	endless := t.captured(func(r *mesh.Recorder) error {
		return errors.Join(r.Loop(manyTimes, running(r, one, one)), r.Run(one))
	})
	after := t.captured(func(r *mesh.Recorder) error { return r.Loop(4, running(r, ten)) })
	t.decides(n, func(uint32) uint32 { return 0 })
	t.decides(ran, func(uint32) uint32 { return 0 })
	ended := func(c *mesh.Chip, want int) {
		t.Helper()
		got, err := t.queue.On(c).Abort(t.ctx)
		t.ok(err)
		if got != want {
			t.Errorf("chip %v: Abort has ended %d replays, want %d", c.Coord, got, want)
		}
	}
	for round := range uint32(2) {
		t.ok(endless.Replay(t.ctx))
		for _, c := range t.mesh.Chips() { // those after it go on meanwhile
			ended(c, 1)
			ended(c, 0)
			t.ok(t.on(after, mesh.Range{Start: c.Coord, End: c.Coord}).Replay(t.ctx))
			t.is("after the abort", c, ran, counting(ran.Size(), 40*(round+1)))
			got := make([]byte, n.On(c).Size())
			t.ok(t.queue.On(c).Read(t.ctx, n.On(c), 0, got))
			v := binary.LittleEndian.Uint32(got)
			if v%2 != 0 {
				t.Errorf("chip %v: %d programs ran: an iteration was cut in two", c.Coord, v)
			}
			t.is("programs", c, n, counting(n.Size(), v))
		}
	}
}

func meshLimit(t *meshFixture) {
	m := t.givesUp(2*time.Second, 10*time.Second)
	n, ran := t.counts()
	one, ten := t.adds(n, 0, 1), t.adds(ran, 1, 10)
	tr := t.captured(func(r *mesh.Recorder) error {
		return r.While(word(n, 0, cq.Less, 8), 8, running(r, one, ten))
	})
	stuck := m.Chips()[m.Size()-1]
	stop := t.captured(func(r *mesh.Recorder) error {
		return r.While(func(c *mesh.Chip) reprise.Cond {
			if c == stuck {
				return reprise.Cond{Buffer: n.On(c), Is: cq.GreaterEqual, Value: 0} // which any word is
			}
			return reprise.Cond{Buffer: n.On(c), Is: cq.Less, Value: 3}
		}, 5, running(r, one, ten))
	})
	t.decides(n, func(uint32) uint32 { return 0 })
	t.decides(ran, func(uint32) uint32 { return 0 })
	t.ok(stop.Replay(t.ctx))
	err := t.queue.Wait(t.ctx)
	var e *mesh.Error
	var h *dispatch.HangError
	if !errors.As(err, &e) || len(e.Failed()) != 1 || e.Failed()[0].Name != stuck.Name || !errors.As(err, &h) {
		t.Fatalf("chip %s runs away: %v", stuck.Name, err)
	}
	t.says(errors.New(h.Detail()), "loop 0 of the trace", "iteration 5 of at most 5", `the last program was program "add"`)
	for _, c := range m.Chips()[:m.Size()-1] {
		t.is("another chip", c, n, counting(n.Size(), 3))
	}
	t.ok(stuck.Device.Recover(t.ctx))
	t.decides(n, func(i uint32) uint32 { return i % 8 })
	t.decides(ran, func(uint32) uint32 { return 0 })
	t.ok(tr.Replay(t.ctx))
	t.are("n after the recovery", n, func(uint32) uint32 { return 8 })
	t.are("runs after the recovery", ran, func(i uint32) uint32 { return 10 * (8 - i%8) })
}
