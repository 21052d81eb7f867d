package traces

import (
	"bytes"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
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
