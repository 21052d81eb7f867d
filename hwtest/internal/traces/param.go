package traces

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/kernels"
)

func paramCases() rig.Table {
	var cs rig.Table
	for _, n := range []int{1, 2, 9, 40} {
		cs.Add(fmt.Sprintf("parameter of %d programs", n), "a replay has the value that was set before it, in all programs, and replays before it have theirs",
			func(t *rig.T) { paramOf(t, n) })
	}
	cs.Add("parameters of single cores", "an argument of one core changes without those of its neighbours", paramOfCores)
	cs.Add("last argument of many", "words anywhere in long lists of arguments can be set", paramOfMany)
	cs.Add("buffers as parameters", "replays read and write the buffers that were set before them", ParamBuffers)
	cs.Add("replay with parameters allocates nothing", "a replay allocates nothing, whether parameters have changed or not", paramAllocates).Alone = true
	cs.Add("arguments of programs", "runs have the arguments that were set before them, and traces keep theirs", setArguments)
	return cs
}

func paramOf(t *rig.T, n int) { ParamRounds(t, t.Size(n, min(n, 6)), t.Size(50, 8)) }

// ParamRounds replays a trace of n programs so many times, with a parameter that all of them have.
func ParamRounds(t *rig.T, n, rounds int) {
	f := t.Follow()
	x := f.Load("x", 5)
	tr := t.Hold(t.Record("t", func(r *reprise.Recorder) error {
		var errs []error
		for range n {
			errs = append(errs, r.Run(x), r.Param("number", rig.MixNumber))
		}
		return errors.Join(errs...)
	}))
	values := []uint32{5, 5, 1000, 7, 7, 1 << 31, 5}
	for i := range rounds {
		v := values[i%len(values)]
		t.OK(tr.Set("number", v))
		t.Replay(tr)
		for range n {
			f.Run(v)
		}
		if i%9 == 0 {
			t.Start(x)
			f.Run(5)
		}
	}
	f.Check("all replays")
	t.OK(tr.Debug().Verify(t.Ctx))
}

func paramOfCores(t *rig.T) {
	b := t.PerWorker(16)
	prog := t.MixProgram("x", t.Grid(), b, 0, 0)
	prog.Kernels[0].Args = rig.Args(b.Addr(), 0)
	x := t.Load(prog)
	tr := t.Hold(t.Record("t", func(r *reprise.Recorder) error {
		errs := []error{r.Run(x)}
		for c := range t.Grid().Cores() {
			errs = append(errs, r.Param(c.String(), reprise.Arg{Kernel: "mix", Index: 1, Cores: []chip.Range{{Start: c, End: c}}}))
		}
		return errors.Join(errs...)
	}))
	value := make([]uint32, t.Grid().Size())
	words := make([]uint32, t.Grid().Size())
	for round := range uint32(4) {
		for c := range t.Grid().Cores() {
			if i := t.WorkerIndex(c); uint32(i)%4 <= round {
				value[i] = 100*round + uint32(i)
				t.OK(tr.Set(c.String(), value[i]))
			}
		}
		t.Replay(tr)
		for i := range words {
			words[i] = words[i]*1664525 + value[i]
		}
	}
	t.WantWords("mixed", b, 0, func(c chip.Core) uint32 { return words[t.WorkerIndex(c)] })
}

func paramOfMany(t *rig.T) {
	const n = 300
	b := t.PerWorker(4 * n)
	x := t.Load(&reprise.Program{Name: "store", Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Name: "store", Image: t.Kernel(kernels.Store), Processor: chip.TRISC0, Cores: []chip.Range{t.Grid()}, Common: []uint32{0},
		Args: func(chip.Core) []uint32 { return append([]uint32{b.Addr(), n}, make([]uint32, n)...) },
	}}})
	tr := t.Hold(t.Record("t", func(r *reprise.Recorder) error {
		err := r.Run(x)
		for i := range n {
			err = errors.Join(err, r.Param(fmt.Sprint(i), reprise.Arg{Kernel: "store", Index: 2 + i}))
		}
		return err
	}))
	value := make([]uint32, n)
	for round := range 3 {
		for i := round; i < n; i += 7*round + 1 {
			value[i] = uint32(1000*round + i)
			t.OK(tr.Set(fmt.Sprint(i), value[i]))
		}
		t.Replay(tr)
	}
	for _, i := range []int{0, 1, 2, 3, 4, n / 2, n - 2, n - 1} {
		t.WantWords(fmt.Sprintf("word %d", i), b, i, func(chip.Core) uint32 { return value[i] })
	}
}

// ParamBuffers sets buffers as parameters.
func ParamBuffers(t *rig.T) {
	const page, pages = 256, 30
	var bufs []*reprise.Buffer
	for range 4 {
		bufs = append(bufs, t.Buffer(allocator.DRAM, page*pages, page))
	}
	room := t.PerWorker(page)
	x := t.Load(t.CopyProgram("copy", chip.NCRISC, chip.Core{}, bufs[0], bufs[1], room))
	tr := t.Hold(t.Record("t", func(r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.ParamBuffer("from", bufs[0], reprise.Arg{Kernel: "copy"}),
			r.ParamBuffer("to", bufs[1], reprise.Arg{Kernel: "copy", Index: 1}))
	}))
	holds := make([][]byte, len(bufs))
	for i, b := range bufs {
		holds[i] = rig.Pattern(uint32(i), b.Size())
		t.Write(b, holds[i])
	}
	for i := range t.Size(20, 5) {
		from, to := i*3%len(bufs), (i*3+1+i%3)%len(bufs)
		if i%4 == 3 {
			holds[from] = rig.Pattern(uint32(100+i), page*pages)
			t.Write(bufs[from], holds[from])
		}
		t.OK(errors.Join(tr.SetBuffer("from", bufs[from]), tr.SetBuffer("to", bufs[to]), tr.Replay(t.Ctx)))
		holds[to] = holds[from]
	}
	for i, b := range bufs {
		t.Holds(fmt.Sprintf("buffer %d", i), b, holds[i])
	}
}

func paramAllocates(t *rig.T) {
	f := t.Follow()
	x := f.Load("x", 5)
	tr := t.Hold(t.Record("t", func(r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.Param("number", rig.MixNumber))
	}))
	v := uint32(5)
	replay := func() {
		t.Replay(tr)
		f.Run(v)
	}
	replay()
	const rounds = 20
	same := t.Allocations(rounds, replay)
	changed := t.Allocations(rounds, func() {
		v++
		t.OK(tr.Set("number", v))
		replay()
	})
	if !t.Device.Slow() && (same != 0 || changed != 0) {
		t.Errorf("a replay allocates %d times, with a changed parameter %d times", same, changed)
	}
	t.Wait()
	f.Check("all replays")
}

func setArguments(t *rig.T) {
	f := t.Follow()
	x := f.Load("x", 5)
	tr := t.Capture("t", x)
	for i := range uint32(6) {
		t.OK(errors.Join(x.SetArg(rig.MixNumber, 10*i), t.Queue.Run(t.Ctx, x)))
		f.Run(10 * i)
		t.Replay(tr)
		f.Run(5)
	}
	f.Check("runs and replays")
}
