// Package debug has the cases of what running and hanging kernels tell.
package debug

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kernels/print"
)

// Cases are the cases of what running and hanging kernels tell.
func Cases() (cs rig.Table) {
	for _, p := range rig.Processors() {
		cs.Add(fmt.Sprintf("prints of %v", p), "what a kernel prints arrives, in order, with where and when",
			func(t *rig.T) { prints(t, p) })
		cs.Add(fmt.Sprintf("DPRINT of %v", p), "a stream of C++ prints as the macro of C does", func(t *rig.T) { dprints(t, p) })
	}
	cs.Add("prints of many cores", "no line is missing, and each core's are in order", printsEverywhere)
	cs.Add("more lines than a ring holds", "a kernel with a full ring waits for the host, and no line is lost", printsMany)
	cs.Add("prints without a reader", "a kernel never waits for an absent host, and the newest lines are left", printsUnheard)
	cs.Add("host gone", "a kernel waits only so long for a host that stopped reading", printsDeserted)
	cs.Add("prints in a trace", "each replay prints, also of a trace that was loaded from its file", printsInTrace)
	cs.AddHang("prints before a hang", "the report of a hang has what was printed, and Recover loses no line", printsInHang)
	cs.Add("times of programs", "the device notes when each program ran, in order, also in traces", programTimes)
	rig.Each(&cs, "zones of %v", "a kernel's zones take what its parts take, and lie in the time of its program",
		zones, rig.Processors()...)
	rig.Each(&cs, "failed checks of %v", "a kernel's failed check ends the wait with core, kernel and reason",
		checksFail, rig.Processors()...).Hang()
	rig.Each(&cs, "debug interface of %v", "a processor pauses, shows its state, steps, stops at a store and goes on",
		debugInterface, chip.BRISC, chip.TRISC0, chip.TRISC1, chip.TRISC2).At(rig.LevelKMD)
	rig.Each(&cs, "stack of a stuck %v", "the report of a hang has each stuck processor's function", stuckStack, rig.Processors()...).Hang()
	cs.Add("debug interface of a core in reset", "a processor in reset is refused as such, and a report says it", debugInReset).Level = rig.LevelKMD
	cs.Add("no debug interface of NCRISC", "NCRISC is refused, and its pc is known without a pause", debugNCRISC).Level = rig.LevelKMD
	cs.AddHang("stacks of many cores", "a report of a hang on all cores has the stacks of some, and says so", stuckEverywhere)
	return cs
}

type printer struct {
	t *rig.T
	*print.Listener
	got []print.Record
}

func listen(t *rig.T) *printer {
	p := &printer{t: t}
	p.Listener = listenWith(t, func(r print.Record) { p.got = append(p.got, r) }, print.Options{})
	t.Closing(func(context.Context) error { return p.Close() })
	return p
}

// hear runs a program, and takes what it prints.
func (p *printer) hear(x *reprise.Program) {
	ran(p.t, x)
	p.t.OK(p.Drain())
}

func listenWith(t *rig.T, heard func(print.Record), o print.Options) *print.Listener {
	l, err := print.Listen(t.Dev.Debug(), heard, o)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the workers run tt-metal's base firmware, with which kernels don't print")
	}
	t.OK(err)
	return l
}

func printing(t *rig.T, image string, n, stop uint32, cores chip.Range, ps ...chip.Processor) *reprise.Program {
	p := &reprise.Program{Name: "prints"}
	for _, on := range ps {
		p.Kernels = append(p.Kernels, reprise.Kernel{
			Name: on.String(), Image: t.Own(image), Processor: on, Cores: []chip.Range{cores},
			Args: rig.Args(n, stop),
		})
	}
	return p
}

// lines is a program that prints n lines and an end: see wantLines.
func lines(t *rig.T, n uint32, cores chip.Range, ps ...chip.Processor) *reprise.Program {
	return printing(t, "print", n, 0, cores, ps...)
}

func wantLines(n uint32) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("line %d of %d", i, n))
	}
	return append(out, "end:  1.50 -5000000000")
}

func sameLines(t *rig.T, what string, want []string, got []print.Record) {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			t.Fatalf("%s: %d lines, want %d: the next is %q", what, len(got), len(want), want[i])
		case i >= len(want) || got[i].Text != want[i]:
			t.Fatalf("%s: line %d of %d is %v, want %q", what, i, len(want), got[i], append(want, "no more")[min(i, len(want))])
		}
	}
}

func prints(t *rig.T, on chip.Processor) {
	l := listen(t)
	at := t.Grid().End
	l.hear(lines(t, 3, at.Range(), on))
	sameLines(t, "prints", wantLines(3), l.got)
	last := uint64(0)
	for _, r := range l.got {
		if r.Core != at || r.Processor != on || r.Program != "prints" || r.Kernel != on.String() || r.Time <= last || r.File == "" ||
			r.Line == 0 {
			t.Errorf("%+v after %d", r, last)
		}
		last = r.Time
	}
	if l.got[3].Level != slog.LevelWarn || l.got[0].Level != slog.LevelInfo {
		t.Errorf("levels %v and %v", l.got[0].Level, l.got[3].Level)
	}
}

func dprints(t *rig.T, on chip.Processor) {
	l := listen(t)
	l.hear(printing(t, "dprint", 12, 0, t.Grid().Start.Range(), on))
	var want []string
	for i := range 12 {
		want = append(want, fmt.Sprintf("line %d of c, half of it 1.5  -2", i))
	}
	sameLines(t, "DPRINT", want, l.got)
}

func printsEverywhere(t *rig.T) {
	l := listen(t)
	cores := t.Grid()
	cores.End = chip.Core{X: min(cores.End.X, 2), Y: min(cores.End.Y, 1)}
	l.hear(lines(t, 20, cores, rig.Processors()...))
	last := map[chip.Core]uint64{}
	type printer struct {
		chip.Core
		chip.Processor
	}
	by := map[printer][]print.Record{}
	for _, r := range l.got {
		if r.Time < last[r.Core] {
			t.Fatalf("%v at %d after one at %d", r, r.Time, last[r.Core])
		}
		last[r.Core] = r.Time
		by[printer{r.Core, r.Processor}] = append(by[printer{r.Core, r.Processor}], r)
	}
	for c := range cores.Cores() {
		for _, p := range rig.Processors() {
			sameLines(t, fmt.Sprintf("%v %v", c, p), wantLines(20), by[printer{c, p}])
		}
	}
}

func printsMany(t *rig.T) {
	l := listen(t)
	n := uint32(t.Size(400, 150))
	l.hear(lines(t, n, t.Grid().Start.Range(), chip.BRISC))
	sameLines(t, "prints", wantLines(n), l.got)
}

func printsUnheard(t *rig.T) {
	t.OK(listen(t).Close()) // takes what others left
	const n = 200
	ran(t, lines(t, n, t.Grid().Start.Range(), chip.TRISC1))
	l := listen(t)
	t.OK(l.Drain())
	if len(l.got) < 10 || l.got[0].Lost == 0 || int(l.got[0].Lost)+len(l.got)-1 != n+1 || l.got[len(l.got)-1].Text != wantLines(n)[n] {
		t.Fatalf("%d records of %d lines: %v", len(l.got), n+1, l.got)
	}
}

func printsDeserted(t *rig.T) {
	back := make(chan struct{})
	var heard, lost uint32
	first := true
	l := listenWith(t, func(r print.Record) {
		if first {
			first = false
			<-back
		}
		if lost += r.Lost; r.Lost == 0 {
			heard++
		}
	}, print.Options{Patience: 50_000})
	const n = 300
	err := t.Queue.Run(t.Ctx, t.Load(lines(t, n, t.Grid().Start.Range(), chip.NCRISC)))
	if err == nil {
		err = t.Queue.Wait(t.Ctx)
	}
	close(back)
	t.OK(err, l.Close())
	if heard+lost != n+1 || lost == 0 {
		t.Fatalf("%d lines and %d lost ones of %d", heard, lost, n+1)
	}
}

func printsInTrace(t *rig.T) {
	x := t.Load(lines(t, 2, t.Grid().Start.Range(), chip.BRISC, chip.TRISC2))
	tr := t.Capture("prints", x)
	file := t.Save(tr)
	replay := func(what string, tr *reprise.Trace) {
		l := listen(t)
		for range 2 {
			t.Replay(tr)
		}
		t.Wait()
		t.OK(l.Close())
		by := map[chip.Processor][]print.Record{}
		for _, r := range l.got {
			by[r.Processor] = append(by[r.Processor], r)
		}
		for _, p := range []chip.Processor{chip.BRISC, chip.TRISC2} {
			sameLines(t, fmt.Sprintf("%s, %v", what, p), append(wantLines(2), wantLines(2)...), by[p])
		}
		t.Release(tr)
	}
	replay("captured", tr)
	replay("loaded", t.LoadTrace(file))
}

func printsInHang(t *rig.T) {
	t = t.Short()
	l := listen(t)
	left := t.Hangs(printing(t, "print", 4, 1, t.Grid().Start.Range(), chip.NCRISC)).Dump.Prints
	sameLines(t, "report", wantLines(4)[:4], left[max(0, len(left)-4):])
	t.OK(t.Dev.Recover(t.Ctx))
	sameLines(t, "listener", wantLines(4)[:4], l.got)
	l.got = nil
	l.hear(lines(t, 1, t.Grid().Start.Range(), chip.NCRISC))
	sameLines(t, "after the recovery", wantLines(1), l.got)
}

func ran(t *rig.T, p *reprise.Program) {
	t.RunAndWait(t.Load(p))
}

func times(t *rig.T) *dispatch.ProgramTimes {
	p, err := t.Dev.Queue(0).ProgramTimes()
	if errors.Is(err, dispatch.ErrQueueFirmware) {
		t.Skip("tt-metal's command-queue firmware notes no times")
	}
	t.OK(err)
	return p
}

func ranAt(t *rig.T, p *dispatch.ProgramTimes, n int, after uint64) (all []dispatch.ProgramTime) {
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

func zoned(t *rig.T, cycles uint32, on chip.Processor) *reprise.Program {
	cores := []chip.Range{t.Grid().Start.Range(), t.Grid().End.Range()}
	return rig.Named("zones", reprise.Kernel{Name: on.String(), Image: t.Own("zone"), Processor: on, Cores: cores, Args: rig.Args(cycles)})
}

func programTimes(t *rig.T) {
	p, q := times(t), t.Queue
	before, err := q.Clock()
	t.OK(err)
	short, long := t.Load(t.BlankProgram("blank")), t.Load(zoned(t, 3000, chip.BRISC))
	for _, x := range []*reprise.Executable{short, long, short} {
		t.Start(x)
	}
	all := ranAt(t, p, 3, before.Cycles)
	if n := all[1].End - all[1].Start; n < 3000 {
		t.Errorf("a kernel that takes 3,000 cycles ran for %d", n)
	}
	tr := t.Capture("times", long, short)
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

func zones(t *rig.T, on chip.Processor) {
	l := listen(t)
	p, x := times(t), t.Load(zoned(t, 1000, on))
	t.OK(l.Drain())
	l.got = nil
	t.RunAndWait(x)
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
	rig.Equal(t, len(byCore), 2, "cores with zones")
}
