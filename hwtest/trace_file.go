package hwtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

func traceFileCases() []testCase {
	var cs []testCase
	for _, n := range []int{1, 7, 20} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("file of %d programs", n),
			protects: "a trace from a file does what it did when it was recorded, with kernels that lie elsewhere",
			fn:       func(t *fixture) { traceFromFile(t, n) },
		})
	}
	for _, c := range shardedCases() {
		cs = append(cs, testCase{
			name:     "file of a buffer sharded by " + c.name,
			protects: "a trace from a file has its shards on the cores where they were, also at another address",
			fn:       func(t *fixture) { shardedFromFile(t, c.s) },
		})
	}
	return append(cs, []testCase{
		{name: "file of parts of a buffer", protects: "parameters and results of a trace from a file stand for the parts of buffers that they stood for", fn: partsFromFile},
		{name: "file in parts", protects: "a trace from a file does the same program by program, in pieces and whole", fn: traceFileParts},
		{name: "file with results", protects: "results that are saved with a trace are those of a replay of the file, and other results are a *VerifyError", fn: traceFileResults},
		{name: "file of another device", protects: "a trace for other firmware or other workers is refused, and nothing is written", fn: traceFileElsewhere},
		{name: "damaged file", protects: "a file with any change is refused, nothing is left behind, and the queue works on", fn: traceFileDamaged},
	}...)
}

// saved records programs of several sizes that mix numbers into words of L1, saves the trace with the words, and releases
// everything. The model has the words as they are saved.
func (t *fixture) saved(n int, opts ...reprise.SaveOption) ([]byte, *follow) {
	t.Helper()
	f := t.follow()
	sizes := []int{0, 40_000, 1000, 30_000, 64, 20_000}
	var xs []*reprise.Executable
	for i := range min(n, len(sizes)) {
		x, err := t.dev.Load(t.ctx, t.mixProgram(fmt.Sprintf("mix %d", i), t.grid(), f.b, uint32(i+1), sizes[i]&^15))
		t.ok(err)
		xs = append(xs, x)
	}
	tr, err := t.rq.Capture(t.ctx, "file", func(_ context.Context, r *reprise.Recorder) error {
		for i := range n {
			if err := r.Run(xs[i%len(xs)]); err != nil {
				return err
			}
		}
		return nil
	})
	t.ok(err)
	t.ok(tr.Replay(t.ctx))
	f.replay(n)
	f.check("the recorded trace")
	var out bytes.Buffer
	t.ok(tr.Save(t.ctx, &out, append(opts, reprise.WithData())...))
	t.ok(tr.Release(t.ctx))
	for _, x := range xs {
		t.ok(x.Release(t.ctx))
	}
	t.ok(f.b.Release())
	return out.Bytes(), f
}

// replay is what a replay of the trace of n programs does.
func (f *follow) replay(n int) {
	for i := range n {
		f.run(uint32(i%6+1), f.t.grid())
	}
}

// fromFile loads a trace and releases it with the case; the model follows its buffer from then on.
func (t *fixture) fromFile(file []byte, f *follow) *reprise.Trace {
	t.Helper()
	// Moves the kernels away from where they were when the trace was recorded.
	t.buffer(allocator.DRAM, 1<<18, 2048)
	tr, err := t.dev.LoadTrace(t.ctx, bytes.NewReader(file))
	t.ok(err)
	t.closing(tr.Release)
	f.b = tr.Buffers()[0]
	return tr
}

func traceFromFile(t *fixture, n int) {
	file, f := t.saved(n)
	before := t.allocated()
	t.sub("loaded", func(t *fixture) {
		f.t = t
		tr := t.fromFile(file, f)
		f.check("the words from the file")
		for range 3 {
			t.ok(tr.Replay(t.ctx))
			f.replay(n)
		}
		f.check("three replays")
		x := t.load(t.mixProgram("between", t.grid(), f.b, 9, 0))
		for range 3 {
			t.ok(t.rq.Run(t.ctx, x))
			f.run(9, t.grid())
			t.ok(tr.Replay(t.ctx))
			f.replay(n)
		}
		f.check("replays with runs between")
		t.ok(tr.Debug().Verify(t.ctx))
	})
	if after := t.allocated(); after != before {
		t.Errorf("a released trace leaves memory: %+v, before %+v", after, before)
	}
}

func traceFileParts(t *fixture) {
	const n = 9
	file, f := t.saved(n)
	tr := t.fromFile(file, f)
	t.ok(tr.Debug().Step(t.ctx, nil))
	f.replay(n)
	f.check("step by step")
	for _, pieces := range []int{1, 2, 4, n} {
		t.ok(tr.Debug().Split(t.ctx, pieces, nil))
		f.replay(n)
		f.check(fmt.Sprintf("%d pieces", pieces))
	}
	t.ok(tr.Debug().Check(t.ctx))
	f.check("after the check")
	t.ok(tr.Replay(t.ctx))
	f.replay(n)
	f.check("a replay")
}

func traceFileResults(t *fixture) {
	file, f := t.saved(3)
	tr := t.fromFile(file, f)
	if err := tr.Debug().CheckResults(t.ctx); !errors.Is(err, debug.ErrNoResults) {
		t.Errorf("a file without results: %v", err)
	}
	t.ok(tr.Replay(t.ctx))
	f.replay(3)
	var out bytes.Buffer
	t.ok(tr.Save(t.ctx, &out, reprise.WithResults(f.b)))
	t.ok(tr.Release(t.ctx))
	// The file has what the words are after one more replay of the first file.
	decoded, err := tracebuf.Decode(bytes.NewReader(file))
	t.ok(err)
	results, err := tracebuf.Decode(&out)
	t.ok(err)
	decoded.Results, decoded.Image.Buffers = results.Results, results.Image.Buffers // which says that there are results
	var both bytes.Buffer
	t.ok(tracebuf.Encode(&both, decoded))
	tr, err = t.dev.LoadTrace(t.ctx, &both)
	t.ok(err)
	t.closing(tr.Release)
	var v *debug.VerifyError
	if err := tr.Debug().CheckResults(t.ctx); !errors.As(err, &v) {
		t.Errorf("results before the replay: %v", err)
	}
	t.ok(tr.Replay(t.ctx))
	t.ok(tr.Debug().CheckResults(t.ctx))
	t.ok(tr.Replay(t.ctx))
	if err := tr.Debug().CheckResults(t.ctx); !errors.As(err, &v) || v.Differ == 0 {
		t.Errorf("results after a second replay: %v", err)
	}
}

func traceFileElsewhere(t *fixture) {
	file, f := t.saved(2)
	before := t.allocated()
	for name, change := range map[string]func(*tracebuf.Target){
		"firmware": func(x *tracebuf.Target) { x.Firmware[7]++ },
		"workers":  func(x *tracebuf.Target) { x.Harvesting.Tensix ^= 1 << 2 },
	} {
		d, err := tracebuf.Decode(bytes.NewReader(file))
		t.ok(err)
		change(&d.Target)
		var out bytes.Buffer
		if err := tracebuf.Encode(&out, d); err != nil {
			// Commands for other workers are refused even as a file.
			if !errors.Is(err, reprise.ErrInvalidTrace) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if _, err := t.dev.LoadTrace(t.ctx, &out); !errors.Is(err, reprise.ErrOtherTarget) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := t.allocated(); after != before {
		t.Errorf("refused files leave memory: %+v, before %+v", after, before)
	}
	tr := t.fromFile(file, f)
	t.ok(tr.Replay(t.ctx))
	f.replay(2)
	f.check("the file as it was")
}

func traceFileDamaged(t *fixture) {
	file, f := t.saved(3)
	before := t.allocated()
	refused := func(what string, b []byte) {
		t.Helper()
		tr, err := t.dev.LoadTrace(t.ctx, bytes.NewReader(b))
		if err == nil {
			t.Errorf("%s: it was loaded", what)
			t.ok(tr.Release(context.WithoutCancel(t.ctx)))
		}
	}
	for i := range 40 {
		at := i * len(file) / 40
		refused(fmt.Sprintf("cut at %d", at), file[:at])
		b := bytes.Clone(file)
		b[at] ^= 1 << (i % 8)
		refused(fmt.Sprintf("a bit at %d", at), b)
	}
	if after := t.allocated(); after != before {
		t.Errorf("refused files leave memory: %+v, before %+v", after, before)
	}
	tr := t.fromFile(file, f)
	t.ok(tr.Replay(t.ctx))
	f.replay(3)
	f.check("the file as it was")
}

// shardedFromFile loads a trace that writes the numbers of its pages to a sharded buffer, first at the buffer's old address,
// and then beside something that lies there.
func shardedFromFile(t *fixture, s allocator.ShardSpec) {
	conf := sharded(allocator.L1, s, 16)
	b := t.bufferOf(conf)
	p, numbers := t.numbers(b)
	x := t.load(p)
	tr, err := t.rq.Capture(t.ctx, "sharded", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.ParamBuffer("to", b, reprise.Arg{Kernel: "store"}))
	})
	t.ok(err)
	data := pattern(5, b.Size())
	t.ok(t.rq.Write(t.ctx, b, 0, data))
	var file bytes.Buffer
	t.ok(tr.Save(t.ctx, &file, reprise.WithData()))
	t.ok(tr.Release(t.ctx))
	t.ok(x.Release(t.ctx))
	t.ok(b.Release())
	for _, taken := range []bool{false, true} {
		t.sub(fmt.Sprintf("taken %v", taken), func(t *fixture) {
			if taken {
				conf.Addr = b.Addr()
				t.bufferOf(conf)
			}
			tr, err := t.dev.LoadTrace(t.ctx, bytes.NewReader(file.Bytes()))
			t.ok(err)
			t.closing(tr.Release)
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
			t.same("data from the file", data, t.readAll(got))
			t.ok(tr.Debug().Step(t.ctx, nil))
			t.same("after its step", numbers, t.readAll(got))
			t.ok(t.rq.Write(t.ctx, got, 0, data))
			t.ok(tr.Replay(t.ctx))
			t.same("after a replay", numbers, t.readAll(got))
			t.ok(tr.Debug().Verify(t.ctx))
		})
	}
}

// partsFromFile makes a program copy one part of a buffer to another.
func partsFromFile(t *fixture) {
	const page = 64
	t.buffer(allocator.DRAM, 1<<16, page) // so that no size equals an address in the next one
	whole := t.bufferOf(reprise.BufferConfig{Kind: allocator.DRAM, Size: 32 * page, PageSize: page, Name: "whole"})
	in, err := whole.Sub(2*page, page)
	t.ok(err)
	out, err := whole.Sub(20*page, page)
	t.ok(err)
	x := t.load(t.addTo("add", in, out, 5))
	tr, err := t.rq.Capture(t.ctx, "parts", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.ParamBuffer("in", in, reprise.Arg{Kernel: "reader", Index: 0}))
	})
	t.ok(err)
	t.closing(tr.Release)
	was := pattern(1, whole.Size())
	t.ok(t.rq.Write(t.ctx, whole, 0, was))
	t.ok(tr.Replay(t.ctx))
	after := t.readAll(whole)
	if bytes.Equal(was[20*page:21*page], after[20*page:21*page]) {
		t.Error("a replay has written nothing")
	}
	var file bytes.Buffer
	t.ok(tr.Save(t.ctx, &file, reprise.WithData(in), reprise.WithResults(out)))
	f, err := tracebuf.Decode(bytes.NewReader(file.Bytes()))
	t.ok(err)
	if p := f.Image.Params[0]; p.First != 2 || p.Pages != 1 || f.Image.Buffers[p.Buffer].Name != whole.Name() {
		t.Errorf("the parameter is %+v", p)
	}
	if d, r := f.Data[0], f.Results[0]; len(f.Data) != 1 || len(f.Results) != 1 || d.Offset != 2*page || len(d.Bytes) != page ||
		r.Offset != 20*page {
		t.Errorf("%d data, %d results: at %d and %d", len(f.Data), len(f.Results), d.Offset, r.Offset)
	}
	loaded, err := t.dev.LoadTrace(t.ctx, bytes.NewReader(file.Bytes()), reprise.WithBuffers(whole))
	t.ok(err)
	t.closing(loaded.Release)
	t.ok(t.rq.Write(t.ctx, whole, 20*page, make([]byte, page)))
	var v *debug.VerifyError
	if err := loaded.Debug().CheckResults(t.ctx); !errors.As(err, &v) {
		t.Errorf("results before the replay: %v", err)
	}
	t.ok(loaded.Replay(t.ctx))
	t.ok(loaded.Debug().CheckResults(t.ctx))
	t.same("the whole buffer", after, t.readAll(whole))
	t.ok(errors.Join(in.Release(), out.Release()))
}
