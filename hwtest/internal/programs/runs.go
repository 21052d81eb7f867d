package programs

import (
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

func thousandsOfRuns(t *rig.T) {
	b := t.PerWorker(16)
	one := chip.Grid(2, 2)
	x := t.Load(t.MixProgram("again", one, b, 3, 0))
	n := t.Size(t.More(2000, 100_000), 300)
	want := make([]uint32, t.Grid().Size())
	for range n {
		t.Start(x)
		for c := range one.Cores() {
			i := t.WorkerIndex(c)
			want[i] = rig.Mixed(want[i], 3, i)
		}
	}
	t.Wait()
	t.WantWords("mixed", b, 0, func(c chip.Core) uint32 { return want[t.WorkerIndex(c)] })
}

func alternate(t *rig.T) {
	b := t.PerWorker(16)
	xs := []*reprise.Executable{t.Load(t.MixProgram("a", t.Grid(), b, 1000, 0)),
		t.Load(t.MixProgram("b", rig.Rectangle(t.Grid(), "inner"), b, 77, 0))}
	want := make([]uint32, t.Grid().Size())
	for i := range 30 {
		k := i % 2
		t.Start(xs[k])
		on := t.Grid()
		if k == 1 {
			on = rig.Rectangle(t.Grid(), "inner")
		}
		for c := range on.Cores() {
			j := t.WorkerIndex(c)
			want[j] = rig.Mixed(want[j], []uint32{1000, 77}[k], j)
		}
	}
	t.Wait()
	t.WantWords("mixed", b, 0, func(c chip.Core) uint32 { return want[t.WorkerIndex(c)] })
}

func closeOne(t *rig.T) {
	b := t.PerWorker(16)
	a := t.Load(t.MixProgram("a", t.Grid(), b, 1, 0))
	before := t.Allocated()
	x := t.Load(t.MixProgram("b", t.Grid(), b, 2, 10_000))
	t.Start(x)
	t.Release(x)
	t.SameMemory(before)
	t.RunAndWait(a)
	t.WantWords("mixed", b, 0, func(c chip.Core) uint32 {
		i := t.WorkerIndex(c)
		return rig.Mixed(rig.Mixed(0, 2, i), 1, i)
	})
}

func usedAfterClose(t *rig.T) {
	x := t.Load(t.BlankProgram("gone"))
	t.Release(x)
	_, captured := t.Record("t", func(r *reprise.Recorder) error { return r.Run(x) })
	for op, err := range map[string]error{"run": t.Queue.Run(t.Ctx, x), "close": x.Release(t.Ctx), "capture": captured} {
		t.Fails(op, err, reprise.ErrReleased)
		t.Says(err, `"gone"`, "it has been released already")
	}
}
