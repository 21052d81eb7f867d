package hwtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

func paramCases() []testCase {
	var cs []testCase
	for _, n := range []int{1, 2, 9, 40} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("parameter of %d programs", n),
			protects: "a replay has the value that was set before it, in all programs, and replays before it have theirs",
			fn:       func(t *fixture) { paramOf(t, n) },
		})
	}
	return append(cs, []testCase{
		{name: "parameters of single cores", protects: "an argument of one core changes without those of its neighbours", fn: paramOfCores},
		{name: "last argument of many", protects: "words anywhere in long lists of arguments can be set", fn: paramOfMany},
		{name: "buffers as parameters", protects: "replays read and write the buffers that were set before them", fn: paramBuffers},
		{name: "replay with parameters allocates nothing", alone: true, protects: "a replay allocates nothing, whether parameters have changed or not", fn: paramAllocates},
		{name: "arguments of programs", protects: "runs have the arguments that were set before them, and traces keep theirs", fn: setArguments},
	}...)
}

// number is the common argument of the mix program.
var number = reprise.Arg{Kernel: "mix", Common: true}

func paramOf(t *fixture, n int) { paramRounds(t, t.size(n, min(n, 6)), t.size(50, 8)) }

// paramRounds replays a trace of n programs so many times, with a parameter that all of them have.
func paramRounds(t *fixture, n, rounds int) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
		var errs []error
		for range n {
			errs = append(errs, r.Run(x), r.Param("number", number))
		}
		return errors.Join(errs...)
	})
	t.ok(err)
	t.closing(tr.Release)
	values := []uint32{5, 5, 1000, 7, 7, 1 << 31, 5}
	for i := range rounds {
		v := values[i%len(values)]
		t.ok(tr.Set("number", v))
		t.ok(tr.Replay(t.ctx))
		for range n {
			f.run(v, t.grid())
		}
		if i%9 == 0 {
			t.ok(t.rq.Run(t.ctx, x))
			f.run(5, t.grid())
		}
	}
	f.check("all replays")
	t.ok(tr.Debug().Verify(t.ctx))
}

func paramOfCores(t *fixture) {
	b := t.perWorker(16)
	prog := t.mixProgram("x", t.grid(), b, 0, 0)
	prog.Kernels[0].Args = func(chip.Core) []uint32 { return []uint32{b.Addr(), 0} }
	x := t.load(prog)
	tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
		errs := []error{r.Run(x)}
		for c := range t.grid().Cores() {
			errs = append(errs, r.Param(c.String(), reprise.Arg{Kernel: "mix", Index: 1, Cores: []chip.Range{{Start: c, End: c}}}))
		}
		return errors.Join(errs...)
	})
	t.ok(err)
	t.closing(tr.Release)
	value := make([]uint32, t.grid().Size())
	words := make([]uint32, t.grid().Size())
	for round := range uint32(4) {
		for c := range t.grid().Cores() {
			if i := t.workerIndex(c); uint32(i)%4 <= round {
				value[i] = 100*round + uint32(i)
				t.ok(tr.Set(c.String(), value[i]))
			}
		}
		t.ok(tr.Replay(t.ctx))
		for i := range words {
			words[i] = words[i]*1664525 + value[i]
		}
	}
	t.wantWords("mixed", b, 0, func(c chip.Core) uint32 { return words[t.workerIndex(c)] })
}

func paramOfMany(t *fixture) {
	const n = 300
	b := t.perWorker(4 * n)
	x := t.load(&reprise.Program{Name: "store", Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Name: "store", Image: t.kernel(kernels.Store), Processor: chip.TRISC0, Cores: []chip.Range{t.grid()}, Common: []uint32{0},
		Args: func(chip.Core) []uint32 { return append([]uint32{b.Addr(), n}, make([]uint32, n)...) },
	}}})
	tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
		err := r.Run(x)
		for i := range n {
			err = errors.Join(err, r.Param(fmt.Sprint(i), reprise.Arg{Kernel: "store", Index: 2 + i}))
		}
		return err
	})
	t.ok(err)
	t.closing(tr.Release)
	value := make([]uint32, n)
	for round := range 3 {
		for i := round; i < n; i += 7*round + 1 {
			value[i] = uint32(1000*round + i)
			t.ok(tr.Set(fmt.Sprint(i), value[i]))
		}
		t.ok(tr.Replay(t.ctx))
	}
	for _, i := range []int{0, 1, 2, 3, 4, n / 2, n - 2, n - 1} {
		t.wantWords(fmt.Sprintf("word %d", i), b, i, func(chip.Core) uint32 { return value[i] })
	}
}

func paramBuffers(t *fixture) {
	const page, pages = 256, 30
	var bufs []*reprise.Buffer
	for range 4 {
		bufs = append(bufs, t.buffer(allocator.DRAM, page*pages, page))
	}
	room := t.perWorker(page)
	x := t.load(&reprise.Program{Name: "copy", Buffers: []*reprise.Buffer{bufs[0], bufs[1], room}, Kernels: []reprise.Kernel{{
		Name: "copy", Image: t.kernel(kernels.Copy), Processor: chip.NCRISC, Cores: []chip.Range{{}},
		Args: func(chip.Core) []uint32 {
			return []uint32{bufs[0].Addr(), bufs[1].Addr(), 0, pages, bufs[0].PageStride(), room.Addr()}
		},
	}}})
	tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.ParamBuffer("from", bufs[0], reprise.Arg{Kernel: "copy"}),
			r.ParamBuffer("to", bufs[1], reprise.Arg{Kernel: "copy", Index: 1}))
	})
	t.ok(err)
	t.closing(tr.Release)
	holds := make([][]byte, len(bufs))
	for i, b := range bufs {
		holds[i] = pattern(uint32(i), b.Size())
		t.ok(t.rq.Write(t.ctx, b, 0, holds[i]))
	}
	for i := range t.size(20, 5) {
		from, to := i*3%len(bufs), (i*3+1+i%3)%len(bufs)
		if i%4 == 3 {
			holds[from] = pattern(uint32(100+i), page*pages)
			t.ok(t.rq.Write(t.ctx, bufs[from], 0, holds[from]))
		}
		t.ok(errors.Join(tr.SetBuffer("from", bufs[from]), tr.SetBuffer("to", bufs[to]), tr.Replay(t.ctx)))
		holds[to] = holds[from]
	}
	for i, b := range bufs {
		t.same(fmt.Sprintf("buffer %d", i), holds[i], t.readAll(b))
	}
}

func paramAllocates(t *fixture) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	tr, err := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.Param("number", number))
	})
	t.ok(err)
	t.closing(tr.Release)
	v := uint32(5)
	replay := func() {
		t.ok(tr.Replay(t.ctx))
		f.run(v, t.grid())
	}
	replay()
	const rounds = 20
	same := t.allocations(rounds, replay)
	changed := t.allocations(rounds, func() {
		v++
		t.ok(tr.Set("number", v))
		replay()
	})
	if !t.device.Slow() && (same != 0 || changed != 0) {
		t.Errorf("a replay allocates %d times, with a changed parameter %d times", same, changed)
	}
	t.ok(t.rq.Wait(t.ctx))
	f.check("all replays")
}

func setArguments(t *fixture) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	tr := t.capture("t", x)
	for i := range uint32(6) {
		t.ok(errors.Join(x.SetArg(number, 10*i), t.rq.Run(t.ctx, x)))
		f.run(10*i, t.grid())
		t.ok(tr.Replay(t.ctx))
		f.run(5, t.grid())
	}
	f.check("runs and replays")
}
