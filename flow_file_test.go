package reprise_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/tracebuf"
)

// savedFlow is the file of a trace with all kinds of control flow and a computed argument. The file
// has what the buffers hold before a replay and after it.
func savedFlow(t *testing.T, target kmd.Target) []byte {
	t.Helper()
	b := open(t, target)
	b.pages("in the way", 7) // so that kernels, callees and conditions lie elsewhere than where they are loaded
	sel, n := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 3 * 64, PageSize: 64, Name: "sel"}), b.pages("n", 20)
	add := func(name string, k uint32) *reprise.Executable {
		return b.load(b.adder(name, chip.Core{X: int(k) % 3, Y: 1}, n, n, k))
	}
	one, ten, hundred := add("one", 1), add("ten", 10), add("hundred", 100)
	leaf := b.captureFlow(func(r *reprise.Recorder) error { return errors.Join(r.Run(one), r.Param("step", addend)) })
	inner := b.captureFlow(func(r *reprise.Recorder) error {
		return r.Loop(2, func() error { return errors.Join(r.Call(leaf), r.Run(hundred)) })
	})
	trace := b.captureFlow(func(r *reprise.Recorder) error {
		return errors.Join(
			r.Run(ten, from(addend, sel, 0)),
			r.Loop(3, runs(r, ten, one)), r.Param("times"),
			r.While(reprise.Cond{Buffer: n, Offset: 19 * 64, Is: cq.Less, Value: 400}, 100, runs(r, ten)),
			r.Call(inner),
			r.If(reprise.Cond{Buffer: sel, Offset: 2 * 64, Is: cq.Equal, Value: 7}, runs(r, one), runs(r, hundred)),
			r.Switch(sel, 68, runs(r, ten), runs(r, one, one), func() error { return r.Call(leaf) }),
			r.Run(one),
		)
	})
	b.must(errors.Join(inner.Release(b.ctx), trace.Set("times", 4), leaf.Set("step", 2)))
	data := make([]byte, sel.Size())
	cq.Put32(data, 0, 13)
	cq.Put32(data, 68, 2)
	cq.Put32(data, 128, 7)
	b.must(b.queue.Write(b.ctx, sel, 0, data))
	b.write(n, 0)
	var file, again bytes.Buffer
	b.must(trace.Save(b.ctx, &file, reprise.WithData()))
	f, err := tracebuf.Decode(&file)
	b.must(err)
	b.must(trace.Replay(b.ctx))
	got := make([]byte, n.Size())
	b.must(b.queue.Read(b.ctx, n, 0, got))
	b.holds(n, flowResult(0, 4, 2))
	f.Results = []tracebuf.Data{{Buffer: 1, Bytes: got}}
	if f.Image.Buffers[1].Name != "n" {
		f.Results[0].Buffer = 0
	}
	f.Image.Buffers[f.Results[0].Buffer].Output = true
	b.must(tracebuf.Encode(&again, f))
	b.must(errors.Join(trace.Release(b.ctx), leaf.Release(b.ctx)))
	return again.Bytes()
}

// flowResult is the first word of n after savedFlow's trace, which began with first. The other
// words of n follow each other.
func flowResult(first, times, step uint32) uint32 {
	v := first + 13 + times*11
	for v+19*16 < 400 {
		v += 10
	}
	return v + 2*(step+100) + 1 + step + 1
}

// A trace with control flow can be saved where it was loaded, and loaded again where the words of
// its conditions have to lie elsewhere. Parameters of the trace and of its callees can be set.
func TestFlowFileMoves(t *testing.T) {
	for _, card := range emulators {
		t.Run(card().String(), func(t *testing.T) {
			file := savedFlow(t, card())
			b := open(t, card())
			sel := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 3 * 64, PageSize: 64, Name: "here already"})
			var again bytes.Buffer
			for _, from := range []*bytes.Buffer{bytes.NewBuffer(file), &again} {
				trace, err := b.dev.LoadTrace(b.ctx, from)
				b.must(err)
				for _, u := range trace.Buffers() {
					if u.Name() == "sel" && u.Addr() == sel.Addr() {
						b.Error("sel hasn't moved")
					}
				}
				b.must(errors.Join(trace.Replay(b.ctx), trace.Debug().CheckResults(b.ctx)))
				for _, u := range trace.Buffers() {
					if u.Name() == "n" {
						b.write(u, 0)
						b.must(errors.Join(trace.Set("times", 1), trace.Set("step", 5), trace.Replay(b.ctx)))
						b.holds(u, flowResult(0, 1, 5))
						b.must(errors.Join(trace.Set("times", 4), trace.Set("step", 2)))
						b.write(u, 0)
					}
				}
				b.says(trace.Set("none", 1), "no such parameter")
				again.Reset()
				b.must(trace.Save(b.ctx, &again, reprise.WithData()))
				sameTrace(t, file, again.Bytes())
				f, err := tracebuf.Decode(bytes.NewReader(again.Bytes()))
				b.must(err)
				first, err := tracebuf.Decode(bytes.NewReader(file))
				b.must(err)
				f.Results = first.Results
				for i := range f.Image.Buffers {
					f.Image.Buffers[i].Output = first.Image.Buffers[i].Output
				}
				again.Reset()
				b.must(errors.Join(tracebuf.Encode(&again, f), trace.Release(b.ctx)))
			}
		})
	}
}
