package traces

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/internal/memory"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

func fileCases() (cs rig.Table) {
	rig.Each(&cs, "file of %d programs", "a trace from a file does the same with kernels elsewhere",
		traceFromFile, 1, 7, 20)
	for _, c := range memory.ShardedCases() {
		cs.Add("file of a buffer sharded by "+c.Name, "a trace from a file has its shards on the same cores",
			func(t *rig.T) { shardedFromFile(t, c.Spec) })
	}
	cs.Add("file of parts of a buffer", "parameters and results of a file keep their parts of buffers", partsFromFile)
	cs.Add("file in parts", "a trace from a file does the same program by program, in pieces and whole", fileParts)
	cs.Add("file with results", "a replay of a file has its results, and others are a *VerifyError", fileResults)
	return cs
}

// saved saves a trace of programs with their words, and releases everything.
func saved(t *rig.T, n int) ([]byte, *rig.Mix) {
	f := t.Follow()
	xs := f.LoadSizes(1, []int{0, 40_000, 1000, 30_000, 64, 20_000}[:min(n, 6)])
	var seq []*reprise.Executable
	for i := range n {
		seq = append(seq, xs[i%len(xs)])
	}
	tr := f.Capture("file", seq...)
	f.Replay(tr)
	f.Check("the recorded trace")
	file := t.Save(tr, reprise.WithData())
	t.Release(tr)
	for _, x := range xs {
		t.Release(x)
	}
	t.Free(f.Buffer)
	return file, f
}

func replay(f *rig.Mix, n int) {
	for i := range n {
		f.Run(uint32(i%6+1), f.T.Grid())
	}
}

// fromFile loads a trace, whose buffer the model follows from then on.
func fromFile(t *rig.T, file []byte, f *rig.Mix) *reprise.Trace {
	// Moves the kernels.
	t.DRAMBuffer(1<<18, 2048)
	tr := t.LoadTrace(file)
	f.Buffer = tr.Buffers()[0]
	return tr
}

func traceFromFile(t *rig.T, n int) {
	file, f := saved(t, n)
	before := t.Allocated()
	t.Sub("loaded", func(t *rig.T) {
		f.T = t
		tr := fromFile(t, file, f)
		f.Check("the words from the file")
		for range 3 {
			t.Replay(tr)
			replay(f, n)
		}
		f.Check("three replays")
		x := f.Load("between", 9)
		for range 3 {
			f.Start(x)
			t.Replay(tr)
			replay(f, n)
		}
		f.Check("replays with runs between")
		t.OK(tr.Debug().Verify(t.Ctx))
	})
	t.SameMemory(before)
}

func fileParts(t *rig.T) {
	const n = 9
	file, f := saved(t, n)
	tr := fromFile(t, file, f)
	t.OK(tr.Debug().Step(t.Ctx, nil))
	replay(f, n)
	f.Check("step by step")
	for _, pieces := range []int{1, 2, 4, n} {
		t.OK(tr.Debug().Split(t.Ctx, pieces, nil))
		replay(f, n)
		f.Check("%d pieces", pieces)
	}
	t.OK(tr.Debug().Check(t.Ctx))
	f.Check("after the check")
	t.Replay(tr)
	replay(f, n)
	f.Check("a replay")
}

func fileResults(t *rig.T) {
	file, f := saved(t, 3)
	tr := fromFile(t, file, f)
	t.Fails("a file without results", tr.Debug().CheckResults(t.Ctx), debug.ErrNoResults)
	t.Replay(tr)
	replay(f, 3)
	out := t.Save(tr, reprise.WithResults(f.Buffer))
	t.Release(tr)
	decoded, err := tracebuf.Decode(bytes.NewReader(file))
	t.OK(err)
	results, err := tracebuf.Decode(bytes.NewReader(out))
	t.OK(err)
	decoded.Results, decoded.Image.Buffers = results.Results, results.Image.Buffers
	var both bytes.Buffer
	t.OK(tracebuf.Encode(&both, decoded))
	tr = t.LoadTrace(both.Bytes())
	rig.As[*debug.VerifyError](t, tr.Debug().CheckResults(t.Ctx))
	t.Replay(tr)
	t.OK(tr.Debug().CheckResults(t.Ctx))
	t.Replay(tr)
	if v := rig.As[*debug.VerifyError](t, tr.Debug().CheckResults(t.Ctx)); v.Differ == 0 {
		t.Errorf("results after a second replay: %v", v)
	}
}

func shardedFromFile(t *rig.T, s allocator.ShardSpec) {
	conf := memory.Sharded(allocator.L1, s, 16)
	b := t.BufferOf(conf)
	p, numbers := memory.Numbers(t, b)
	x := t.Load(p)
	tr := t.Trace("sharded", func(r *reprise.Recorder) {
		r.Run(x)
		r.ParamBuffer("to", b, reprise.Arg{Kernel: "store"})
	})
	data := t.Fill(b, 5)
	file := t.Save(tr, reprise.WithData())
	t.Release(tr)
	t.Release(x)
	t.Free(b)
	for _, taken := range []bool{false, true} {
		t.Sub(fmt.Sprintf("taken %v", taken), func(t *rig.T) {
			if taken {
				conf.Addr = b.Addr()
				t.BufferOf(conf)
			}
			tr := t.LoadTrace(file)
			got := tr.Buffers()[0]
			if taken == (got.Addr() == b.Addr()) || got.Layout() != s.Layout {
				t.Errorf("the buffer is %v at %#x, it was at %#x", got.Layout(), got.Addr(), b.Addr())
			}
			for i := range got.Pages() {
				is, _ := got.Page(i)
				was, _ := b.Page(i)
				if is.Core != was.Core || is.Addr-got.Addr() != was.Addr-b.Addr() {
					t.Errorf("page %d is at %+v, was at %+v", i, is, was)
				}
			}
			t.Holds(got, data, "data from the file")
			t.OK(tr.Debug().Step(t.Ctx, nil))
			t.Holds(got, numbers, "after its step")
			t.Write(got, data)
			t.Replay(tr)
			t.Holds(got, numbers, "after a replay")
			t.OK(tr.Debug().Verify(t.Ctx))
		})
	}
}

func partsFromFile(t *rig.T) {
	const page = 64
	t.DRAMBuffer(1<<16, page) // so that no size equals an address in the next one
	whole := t.BufferOf(reprise.BufferConfig{Kind: allocator.DRAM, Size: 32 * page, PageSize: page, Name: "whole"})
	in, err := whole.Sub(2*page, page)
	t.OK(err)
	out, err := whole.Sub(20*page, page)
	t.OK(err)
	x := t.Load(t.AddProgram("add", chip.Core{}, in, out, 5))
	tr := t.Trace("parts", func(r *reprise.Recorder) {
		r.Run(x)
		r.ParamBuffer("in", in, reprise.Arg{Kernel: "reader", Index: 0})
	})
	was := t.Fill(whole, 1)
	t.Replay(tr)
	after := t.ReadAll(whole)
	if bytes.Equal(was[20*page:21*page], after[20*page:21*page]) {
		t.Error("a replay has written nothing")
	}
	file := t.Save(tr, reprise.WithData(in), reprise.WithResults(out))
	f, err := tracebuf.Decode(bytes.NewReader(file))
	t.OK(err)
	if p := f.Image.Params[0]; p.First != 2 || p.Pages != 1 || f.Image.Buffers[p.Buffer].Name != whole.Name() {
		t.Errorf("the parameter is %+v", p)
	}
	if d, r := f.Data[0], f.Results[0]; len(f.Data) != 1 || len(f.Results) != 1 || d.Offset != 2*page || len(d.Bytes) != page ||
		r.Offset != 20*page {
		t.Errorf("%d data, %d results: at %d and %d", len(f.Data), len(f.Results), d.Offset, r.Offset)
	}
	loaded := t.LoadTrace(file, reprise.WithBuffers(whole))
	t.WriteAt(whole, 20*page, make([]byte, page))
	rig.As[*debug.VerifyError](t, loaded.Debug().CheckResults(t.Ctx))
	t.Replay(loaded)
	t.OK(loaded.Debug().CheckResults(t.Ctx))
	t.Holds(whole, after, "the whole buffer")
	t.OK(in.Release(), out.Release())
}

func debugCases() (cs rig.Table) {
	rig.Each(&cs, "%d programs in steps and pieces", "a trace in steps or pieces does what a replay does",
		InPieces, 1, 5, 8, 17)
	cs.Add("times of programs", "each program of a trace has a time, one after the other", timesOfPrograms)
	cs.Add("large programs in steps", "commands longer than a fetch entry can be stepped through", func(t *rig.T) {
		longTrace(t, func(tr *reprise.Trace) { t.OK(tr.Debug().Step(t.Ctx, nil), tr.Debug().Split(t.Ctx, 2, nil)) })
	})
	cs.Add("look between steps", "buffers can be read and written between steps, and nothing else runs", lookBetween)
	cs.Add("check a trace", "a trace that does what its programs do passes", checkTrace)
	cs.Add("check finds the program", "the first program that differs in a replay is named", checkFinds)
	cs.Add("bisect by results", "the first program after which a result is wrong is found", func(t *rig.T) {
		f := t.Follow()
		tr, _ := sequence(t, f, 10)
		t.Bisects(tr, func(int) error { return t.Queue.Write(t.Ctx, f.Buffer, 0, make([]byte, f.Buffer.Size())) }, 0, 3, 7, 9, -1)
	})
	cs.AddHang("bisect a hang", "the program that hangs is found by steps and by replays of beginnings", bisectHang)
	return cs
}

func sequence(t *rig.T, f *rig.Mix, n int) (tr *reprise.Trace, play func()) {
	xs := f.LoadSizes(1, []int{0, 30_000, 4000})
	tr = t.Trace("sequence", func(r *reprise.Recorder) {
		for i := range n {
			r.Run(xs[i%3])
			if i == 0 {
				r.Param("first", rig.MixNumber)
			}
		}
	})
	t.OK(tr.Set("first", 50))
	return tr, func() {
		for i := range n {
			v := uint32(i%3 + 1)
			if i == 0 {
				v = 50
			}
			f.Run(v)
		}
	}
}

func timesOfPrograms(t *rig.T) {
	f := t.Follow()
	n := t.Size(70, 9) // more than the smallest completion queue holds reports
	tr, play := sequence(t, f, n)
	before := t.Allocated()
	times, err := tr.Debug().Times(t.Ctx)
	t.OK(err)
	play()
	if len(times) != n {
		t.Fatalf("%d times of %d programs", len(times), n)
	}
	for i, s := range times {
		name := fmt.Sprint("size ", []int{0, 30_000, 4000}[i%3])
		if s.Start >= s.End || i > 0 && s.Start != times[i-1].End || s.Name != name || s.Queue != 0 {
			t.Errorf("program %d: %+v after %+v", i, s, times[max(i-1, 0)])
		}
	}
	f.Check("after the times")
	t.SameMemory(before)
	t.Replay(tr)
	play()
	f.Check("after a replay")
	t.Release(tr)
	if times, err := tr.Debug().Times(t.Ctx); !errors.Is(err, reprise.ErrReleased) || times != nil {
		t.Errorf("after the release: %v", err)
	}
}

// InPieces replays a trace of n programs piece by piece.
func InPieces(t *rig.T, n int) {
	f := t.Follow()
	tr, play := sequence(t, f, n)
	x := f.Load("x", 9)
	before := t.Allocated()
	for _, pieces := range slices.Compact([]int{0, 1, (n + 1) / 2, n}) {
		if pieces == 0 {
			t.OK(tr.Debug().Step(t.Ctx, nil))
		} else {
			t.OK(tr.Debug().Split(t.Ctx, pieces, nil))
		}
		play()
		f.Start(x)
		t.Replay(tr)
		play()
	}
	f.Check("all pieces")
	t.SameMemory(before)
}

func lookBetween(t *rig.T) {
	f, x := t.Mixing(5)
	tr := t.Capture("t", x, x, x)
	side := t.DRAMBuffer(4096, 64)
	t.OK(tr.Debug().Step(t.Ctx, func(i int) error {
		f.Run(5)
		f.Check("after step %d", i)
		want := t.Fill(side, i)
		t.Holds(side, want, "a buffer beside")
		t.AllFail(reprise.ErrReserved, map[string]error{"run": t.Queue.Run(t.Ctx, x), "replay": tr.Replay(t.Ctx)})
		return nil
	}))
	mine := errors.New("enough")
	err := tr.Debug().Step(t.Ctx, func(i int) error {
		f.Run(5)
		return map[bool]error{true: mine}[i == 1]
	})
	t.Fails("cut short", err, mine)
	if at := rig.As[*debug.StepError](t, err); at.First != 1 {
		t.Errorf("error %v", err)
	}
	f.Start(x)
	f.Check("after a run that was cut short")
}

func checkTrace(t *rig.T) {
	f := t.Follow()
	tr, play := sequence(t, f, 9)
	before := t.Allocated()
	t.OK(tr.Debug().Check(t.Ctx))
	f.Check("after the check")
	t.Replay(tr)
	play()
	t.OK(tr.Debug().Check(t.Ctx))
	f.Check("after a replay and a check")
	t.SameMemory(before)
}

// checkFinds counts in a buffer that the program doesn't declare.
func checkFinds(t *rig.T) {
	hidden, out := t.DRAMBuffer(64, 64), t.DRAMBuffer(64, 64)
	t.Write(hidden, rig.Pattern(1, 64))
	t.Write(out, rig.Pattern(2, 64))
	count, show := t.AddProgram("count", chip.Core{}, hidden, hidden, 1), t.AddProgram("show", chip.Core{}, hidden, out, 0)
	count.Buffers, show.Buffers = nil, []*reprise.Buffer{out}
	f := t.Follow()
	x, y, z := f.Load("x", 5), t.Load(count), t.Load(show)
	tr := t.Capture("t", x, y, x, x, z, x, x)
	if ce := rig.As[*debug.CheckError](t, tr.Debug().Check(t.Ctx)); ce.Step != 4 || ce.Name != "show" || ce.Differ == 0 {
		t.Errorf("error %v, want one for step 4", ce)
	}
	t.Holds(out, rig.Pattern(2, 64), "a buffer after the check")
	f.Check("after the check")
}

func bisectHang(t *rig.T) {
	u := t.Short()
	b := u.PerWorker(16)
	f := u.Follow()
	x, stuck := f.Load("x", 5), u.Load(u.Spin(b, chip.BRISC, chip.Single(1, 1)))
	tr := u.Capture("t", x, x, stuck, x)
	prepare := func(v uint32) func(int) error {
		return func(int) error {
			return errors.Join(u.Queue.Write(u.Ctx, b, 0, rig.Repeated(b.Size(), v)),
				u.Queue.Write(u.Ctx, f.Buffer, 0, make([]byte, f.Buffer.Size())))
		}
	}
	step, err := tr.Debug().Bisect(u.Ctx, prepare(0), func(int) (bool, error) { return true, nil })
	t.OK(err)
	rig.Equal(t, step, 2, "the step that was found")
	t.OK(prepare(0)(0))
	err = tr.Debug().Step(u.Ctx, nil)
	var at *debug.StepError
	var hang *dispatch.HangError
	if !errors.As(err, &at) || at.First != 2 || at.Name != "spin" || !errors.As(err, &hang) {
		t.Errorf("stepped: %v", err)
	}
	t.Says(err, `trace "t": step 2, program "spin"`, "hangs", "step 2 of trace")
	t.OK(u.Dev.Recover(u.Ctx))
	u.Bisects(tr, prepare(0x12345678), -1, 3) // the last is after the program that can hang
	t.OK(prepare(0x12345678)(0), tr.Replay(u.Ctx), u.Queue.Wait(u.Ctx))
}
