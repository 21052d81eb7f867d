package hwtest

import (
	"context"
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

// mixProgram mixes a number of its own into a word of some cores, and has kernels of a given length.
func (t *fixture) mixProgram(name string, on chip.Range, b *reprise.Buffer, number uint32, size int) *reprise.Program {
	t.Helper()
	im := t.own("mix")
	if size > len(im.Text) {
		im = padded(im, size)
	}
	return &reprise.Program{Name: name, Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Name: "mix", Image: im, Processor: chip.BRISC, Cores: []chip.Range{on}, Common: []uint32{number},
		Args: func(c chip.Core) []uint32 { return []uint32{b.Addr(), uint32(t.workerIndex(c))} },
	}}}
}

// mixed is what mixProgram does to a word.
func mixed(v, number uint32, index int) uint32 { return v*1664525 + uint32(index) + number }

func thousandsOfRuns(t *fixture) {
	b := t.perWorker(16)
	one := chip.Range{End: chip.Core{X: 1, Y: 1}}
	x := t.load(t.mixProgram("again", one, b, 3, 0))
	n := t.size(t.more(2000, 100_000), 300)
	want := make([]uint32, t.grid().Size())
	for range n {
		t.ok(t.rq.Run(t.ctx, x))
		for c := range one.Cores() {
			i := t.workerIndex(c)
			want[i] = mixed(want[i], 3, i)
		}
	}
	t.ok(t.rq.Wait(t.ctx))
	t.wantWords("mixed", b, 0, func(c chip.Core) uint32 { return want[t.workerIndex(c)] })
}

func alternate(t *fixture) {
	b := t.perWorker(16)
	xs := []*reprise.Executable{t.load(t.mixProgram("a", t.grid(), b, 1000, 0)),
		t.load(t.mixProgram("b", rectangle(t.grid(), "inner"), b, 77, 0))}
	want := make([]uint32, t.grid().Size())
	for i := range 30 {
		k := i % 2
		t.ok(t.rq.Run(t.ctx, xs[k]))
		on := t.grid()
		if k == 1 {
			on = rectangle(t.grid(), "inner")
		}
		for c := range on.Cores() {
			j := t.workerIndex(c)
			want[j] = mixed(want[j], []uint32{1000, 77}[k], j)
		}
	}
	t.ok(t.rq.Wait(t.ctx))
	t.wantWords("mixed", b, 0, func(c chip.Core) uint32 { return want[t.workerIndex(c)] })
}

func closeOne(t *fixture) {
	b := t.perWorker(16)
	a := t.load(t.mixProgram("a", t.grid(), b, 1, 0))
	before := t.allocated()
	x, err := t.dev.Load(t.ctx, t.mixProgram("b", t.grid(), b, 2, 10_000))
	t.ok(err)
	t.ok(t.rq.Run(t.ctx, x))
	t.ok(x.Release(t.ctx))
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
	t.runAndWait(a)
	t.wantWords("mixed", b, 0, func(c chip.Core) uint32 {
		i := t.workerIndex(c)
		return mixed(mixed(0, 2, i), 1, i)
	})
}

func usedAfterClose(t *fixture) {
	x, err := t.dev.Load(t.ctx, &reprise.Program{Name: "gone", Kernels: []reprise.Kernel{{Name: "blank", Image: t.kernel(kernels.Blank),
		Processor: chip.BRISC, Cores: []chip.Range{t.grid()}}}})
	t.ok(err)
	t.ok(x.Release(t.ctx))
	_, captured := t.rq.Capture(t.ctx, "t", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	for op, err := range map[string]error{"run": t.rq.Run(t.ctx, x), "close": x.Release(t.ctx), "capture": captured} {
		if !errors.Is(err, reprise.ErrReleased) {
			t.Errorf("%s: error %v, want ErrReleased", op, err)
		}
		t.says(err, `"gone"`, "it has been released already")
	}
}
