package debug

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/kernels/print"
)

func timeCases() rig.Table {
	var cs rig.Table
	cs.Add("times of programs", "the device notes when each program ran, in its order and without overlaps, eagerly and in traces", programTimes)
	for _, p := range rig.Processors() {
		cs.Add(fmt.Sprintf("zones of %v", p), "a kernel's zones take what its parts take, and lie in the time of its program",
			func(t *rig.T) { zones(t, p) })
	}
	return cs
}

// times begins to read when programs of queue 0 run.
func times(t *rig.T) *dispatch.ProgramTimes {
	t.Helper()
	p, err := t.Dev.Queue(0).ProgramTimes()
	if errors.Is(err, dispatch.ErrQueueFirmware) {
		t.Skip("tt-metal's command-queue firmware notes no times")
	}
	t.OK(err)
	return p
}

// ranAt returns the times of n programs that have run, after one that ended at some cycle.
func ranAt(t *rig.T, p *dispatch.ProgramTimes, n int, after uint64) (all []dispatch.ProgramTime) {
	t.Helper()
	t.OK(t.Dev.Queue(0).WaitFunc(t.Ctx, func() bool {
		var lost int
		var err error
		all, lost, err = p.Append(all)
		t.OK(err)
		if lost > 0 {
			t.Fatalf("the times of %d programs are lost", lost)
		}
		return len(all) >= n
	}))
	if len(all) != n {
		t.Fatalf("%d programs ran, want %d", len(all), n)
	}
	for _, at := range all {
		if at.Start < after || at.End < at.Start {
			t.Errorf("a program ran from %d to %d, after one that ended at %d: %v", at.Start, at.End, after, all)
		}
		after = at.End
	}
	return all
}

// zoned is a program with kernel zone.c on two cores.
func zoned(t *rig.T, cycles uint32, on chip.Processor) *reprise.Program {
	t.Helper()
	cores := []chip.Range{t.Grid().Start.Range(), t.Grid().End.Range()}
	return &reprise.Program{Name: "zones", Kernels: []reprise.Kernel{{
		Name: on.String(), Image: t.Own("zone"), Processor: on, Cores: cores, Args: rig.Args(cycles),
	}}}
}

func programTimes(t *rig.T) {
	p := times(t)
	q := t.Dev.Queue(0)
	before, err := q.Clock()
	t.OK(err)
	short, long := t.Load(blankProgram(t)), t.Load(zoned(t, 3000, chip.BRISC))
	for _, x := range []*reprise.Executable{short, long, short} {
		t.OK(q.Run(t.Ctx, x))
	}
	all := ranAt(t, p, 3, before.Cycles)
	if n := all[1].End - all[1].Start; n < 3000 {
		t.Errorf("a kernel that takes 3,000 cycles ran for %d", n)
	}
	tr := t.Hold(q.Capture(t.Ctx, "times", func(_ context.Context, r *reprise.Recorder) error {
		return errors.Join(r.Run(long), r.Run(short))
	}))
	for range 2 {
		t.Replay(tr)
	}
	all = ranAt(t, p, 4, all[2].End)
	for _, i := range []int{0, 2} {
		if n := all[i].End - all[i].Start; n < 3000 {
			t.Errorf("program %d of two replays takes 3,000 cycles and ran for %d", i, n)
		}
	}
	t.WaitFor(q)
	after, err := q.Clock()
	t.OK(err)
	if last := all[3].End; last > after.Cycles {
		t.Errorf("the last program ended at %d, and now it is %d", last, after.Cycles)
	}
}

// blankProgram is a program whose kernel ends at once.
func blankProgram(t *rig.T) *reprise.Program {
	t.Helper()
	p := zoned(t, 0, chip.NCRISC)
	p.Name = "blank"
	return p
}

func zones(t *rig.T, on chip.Processor) {
	l := listen(t, print.Options{})
	p, x := times(t), t.Load(zoned(t, 1000, on))
	t.OK(l.Drain()) // what other cases have left in the rings
	l.got = nil
	t.OK(t.Dev.Queue(0).Run(t.Ctx, x))
	t.OK(t.Dev.Queue(0).Wait(t.Ctx))
	t.OK(l.Drain())
	run := ranAt(t, p, 1, 0)[0]
	byCore := map[chip.Core][]print.Record{}
	for _, r := range l.got {
		byCore[r.Core] = append(byCore[r.Core], r)
	}
	for _, at := range []chip.Core{t.Grid().Start, t.Grid().End} {
		z := byCore[at]
		if len(z) != 2 || z[0].Text != "inner" || z[1].Text != "outer" {
			t.Fatalf("records of %v: %v", at, z)
		}
		for _, r := range z {
			if !r.Zone || r.Processor != on || r.Program != "zones" || r.Kernel != on.String() || r.File == "" || r.Line == 0 ||
				r.Time-r.Start < 1000 {
				t.Errorf("%+v", r)
			}
		}
		if inner, outer := z[0], z[1]; inner.Start < outer.Start || inner.Time > outer.Time {
			t.Errorf("the inner zone from %d to %d, the outer one from %d to %d", inner.Start, inner.Time, outer.Start, outer.Time)
		}
		// The clocks of all tiles begin with the reset of the chip.
		if z[1].Start < run.Start || z[1].Time > run.End {
			t.Errorf("%v: the zone from %d to %d, its program from %d to %d", at, z[1].Start, z[1].Time, run.Start, run.End)
		}
	}
	if len(byCore) != 2 {
		t.Errorf("zones of %d cores, want two", len(byCore))
	}
}
