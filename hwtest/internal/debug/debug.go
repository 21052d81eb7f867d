// Package debug has the cases of what running and hanging kernels tell.
package debug

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/kernels/watch"
)

// Cases are the cases of what running and hanging kernels tell.
func Cases() (cs rig.Table) {
	for _, p := range rig.Processors() {
		rig.Each(&cs, "prints of %v", "what a kernel prints arrives, in order, with where and when", prints, p)
		rig.Each(&cs, "DPRINT of %v", "a stream of C++ prints as the macro of C does", dprints, p)
	}
	cs.Add("prints of many cores", "no line is missing, and each core's are in order", printsEverywhere)
	cs.Add("more lines than a ring holds", "a kernel with a full ring waits for the host, and no line is lost", func(t *rig.T) {
		l := listen(t)
		n := uint32(t.Size(400, 150))
		l.hear(lines(t, n, t.Grid().Start.Range(), chip.BRISC))
		sameLines(t, "prints", wantLines(n), l.got)
	})
	cs.Add("prints without a reader", "a kernel never waits for an absent host, and the newest lines are left", func(t *rig.T) {
		t.OK(listen(t).Close()) // takes what others left
		const n = 200
		t.RunProgram(lines(t, n, t.Grid().Start.Range(), chip.TRISC1))
		l := listen(t)
		t.OK(l.Drain())
		if len(l.got) < 10 || l.got[0].Lost == 0 || int(l.got[0].Lost)+len(l.got)-1 != n+1 || l.got[len(l.got)-1].Text != wantLines(n)[n] {
			t.Fatalf("%d records of %d lines: %v", len(l.got), n+1, l.got)
		}
	})
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
	cs.Add("no debug interface of NCRISC", "NCRISC is refused, and its pc is known without a pause", func(t *rig.T) {
		tile := tile(t)
		c, err := tile.Core(chip.NCRISC)
		t.OK(err)
		t.Fails("pause", c.Pause(t.Ctx), core.ErrUnsupported)
		at := counting(t, tile, chip.NCRISC)
		if pc, err := c.Sample(); pc < at || pc > at+32 || err != nil {
			t.Errorf("pc is %#x, %v: want one from %#x on", pc, err, at)
		}
	}).Level = rig.LevelKMD
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
	p.t.RunProgram(x)
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
	t.Recover()
	sameLines(t, "listener", wantLines(4)[:4], l.got)
	l.got = nil
	l.hear(lines(t, 1, t.Grid().Start.Range(), chip.NCRISC))
	sameLines(t, "after the recovery", wantLines(1), l.got)
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

func tile(t *rig.T) *core.Tile {
	tile, err := core.Open(t.KMD, t.Virtual(t.Grid().Start))
	if errors.Is(err, core.ErrUnsupported) {
		t.Skip(err)
	}
	t.OK(err)
	return tile
}

const counted = 0x20000

// counting lets a processor count in a0 and in L1. It is held in reset again with the case.
func counting(t *rig.T, tile *core.Tile, p chip.Processor) (at uint32) {
	at = t.Params.ResetPC[p]
	if uint64(at) >= uint64(t.Params.L1Size) {
		t.Skip(p.String() + " doesn't start in L1")
	}
	code := rig.WordsOf(
		0x00000513, // li a0, 0
		0x000205B7, // lui a1, 0x20
		0x00150513, // addi a0, a0, 1
		0x00A5A023, // sw a0, 0(a1)
		0xFF9FF06F, // j .-8
	)
	startsAt(t, tile, p, at)
	t.Ends(func() error { return t.KMD.Write32(tile.XY(), uint64(t.Params.SoftReset), t.Params.ResetAll) })
	release(t, tile, p, code)
	return at
}

// release lets a processor run a program, and waits until it has stored to L1.
func release(t *rig.T, tile *core.Tile, p chip.Processor, code []byte) {
	xy := tile.XY()
	t.OK(t.KMD.Write(xy, uint64(t.Params.ResetPC[p]), code))
	t.Store32(xy, counted, 0)
	t.Store32(xy, uint64(t.Params.SoftReset), t.Params.ResetAll&^p.ResetBit())
	counts(t, tile, 0)
}

// startsAt has BRISC set where another processor starts: on Wormhole the host can't.
func startsAt(t *rig.T, tile *core.Tile, p chip.Processor, at uint32) {
	if p == chip.BRISC {
		return
	}
	override, bit := t.Params.NCRISCResetPCOverride, uint32(1)
	if p >= chip.TRISC0 {
		override, bit = t.Params.TRISCResetPCOverride, 1<<(p-chip.TRISC0)
	}
	const a0, a1 = 10, 11
	lui := func(rd, v uint32) uint32 { return v&^0xFFF | rd<<7 | 0x37 }
	sw := func(rs2, off, rs1 uint32) uint32 {
		return off>>5&0x7F<<25 | rs2<<20 | rs1<<15 | 2<<12 | off&0x1F<<7 | 0x23
	}
	store := func(addr uint32) []uint32 {
		return []uint32{lui(a1, addr+0x800), sw(a0, addr&0xFFF, a1)}
	}
	const loop = 0x0000006F // j .
	code := slices.Concat([]uint32{lui(a0, at)}, store(t.Params.ResetPCRegister[p]),
		[]uint32{bit<<20 | a0<<7 | 0x13}, // li a0, bit
		store(override), store(counted), []uint32{loop})
	release(t, tile, chip.BRISC, rig.WordsOf(code...))
	t.Store32(tile.XY(), uint64(t.Params.SoftReset), t.Params.ResetAll)
}

func counts(t *rig.T, tile *core.Tile, from uint32) {
	for t.Load32(tile.XY(), counted) == from {
		t.OK(t.Ctx.Err())
	}
}

func debugInterface(t *rig.T, p chip.Processor) {
	tile := tile(t)
	at := counting(t, tile, p)
	c, err := tile.Core(p)
	t.OK(err)
	t.Fails("registers of a running processor", rig.Error(c.Registers()), core.ErrRunning)
	t.OK(c.Pause(t.Ctx))
	before := t.Load32(tile.XY(), counted)
	t.OK(c.SetRegister(10, 1000))
	t.OK(c.SetRegister(core.PC, at+8))
	t.OK(c.Step(t.Ctx))
	t.OK(c.Step(t.Ctx))
	regs, err := c.Registers()
	t.OK(err)
	v := t.Load32(tile.XY(), counted)
	if before == 0 || regs[10] != 1001 || regs[11] != counted || regs[core.PC] != at+16 || v != 1001 {
		t.Errorf("after two steps: a0 %d, a1 %#x, pc %#x, L1 has %d; it was %d", regs[10], regs[11], regs[core.PC], v, before)
	}
	start, _ := c.LocalRAM()
	var got [4]byte
	t.OK(c.Write(start+16, []byte{1, 2, 3, 4}))
	t.OK(c.Read(start+16, got[:]))
	rig.Equal(t, got, [4]byte{1, 2, 3, 4}, "local RAM")
	slot, err := c.Watch(core.StoreTo, counted)
	t.OK(err)
	t.OK(c.Resume())
	s := core.Status{}
	for !s.Paused {
		s, err = c.Status()
		t.OK(err)
		t.OK(t.Ctx.Err())
	}
	if !s.Watch || s.Hits != 1<<slot {
		t.Errorf("after a store that is watched: %+v", s)
	}
	v = t.Load32(tile.XY(), counted)
	t.OK(c.Detach())
	counts(t, tile, v)
}

func debugInReset(t *rig.T) {
	tile := tile(t)
	c, err := tile.Core(chip.TRISC1)
	t.OK(err)
	t.Fails("pause", c.Pause(t.Ctx), core.ErrInReset)
	all, err := live.Take(t.Ctx, t.KMD, []live.Place{{XY: tile.XY(), Processor: chip.TRISC1}, {XY: tile.XY(), Processor: chip.NCRISC}},
		t.Patience())
	t.OK(err)
	for _, s := range all {
		if s.Note != "in reset" || s.Registers != nil || s.Err != nil {
			t.Errorf("%v: %+v", s.Processor, s)
		}
	}
}

// hung runs a program that doesn't end. A report waits 250 ms for processors to pause; on a busy
// machine the program runs again, after a recovery.
func hung(t *rig.T, program func() *reprise.Program) *dispatch.HangError {
	const tries = 10
	for try := 1; ; try++ {
		h := t.Hangs(program())
		late := slices.ContainsFunc(h.Dump.Stacks, func(s live.Snapshot) bool { return strings.Contains(s.Note, core.ErrStuck.Error()) })
		if !late || try == tries {
			return h
		}
		t.Recover()
	}
}

// stuckStack runs kernels that have symbols alone.
func stuckStack(t *rig.T, p chip.Processor) {
	u := t.Short()
	at := chip.Core{X: 2, Y: 3}
	word := u.PerWorker(16)
	h := hung(u, func() *reprise.Program { return u.Spin(word, p, at.Range()) })
	if strings.Contains(h.Dump.StacksNote, "no debug interface") {
		if len(h.Dump.Stacks) != 0 || !strings.Contains(h.Detail(), h.Dump.StacksNote) {
			t.Errorf("%d stacks, and the report:\n%s", len(h.Dump.Stacks), h.Detail())
		}
		_ = u.Dev.Close(t.Context())
		t.Skip("call stacks: " + h.Dump.StacksNote)
	}
	i := slices.IndexFunc(h.Dump.Stacks, func(s live.Snapshot) bool { return s.Core == at && s.Processor == p })
	if i < 0 {
		t.Fatalf("no stack of %v: %+v", p, h.Dump.Stacks)
	}
	s := h.Dump.Stacks[i]
	if s.Err != nil || len(s.Frames) == 0 || s.Frames[0].Function != "kernel_main" || s.Frames[0].File != "" ||
		s.Frames[0].Module != "spin/spin" {
		t.Errorf("stack of %v: %+v", p, s)
	}
	firmware := func() bool {
		last := s.Frames[len(s.Frames)-1]
		return len(s.Frames) > 1 && strings.Contains(last.Module, "firmware") &&
			(!t.Config.Firmware.Own() || last.Function == "firmware_main" && last.Line > 0)
	}
	if known := s.Registers != nil; known != (p != chip.NCRISC) || known && !firmware() {
		t.Errorf("stack of %v: %d registers, %v", p, len(s.Registers), s.Frames)
	}
	u.Recover()
}

func stuckEverywhere(t *rig.T) {
	u := t.Short()
	word := u.PerWorker(16)
	h := hung(u, func() *reprise.Program { return u.Spin(word, chip.BRISC, u.Grid()) })
	if h.Dump.Stacks == nil {
		_ = u.Dev.Close(t.Context())
		t.Skip("call stacks: " + h.Dump.StacksNote)
	}
	workers := 0
	for _, s := range h.Dump.Stacks {
		if u.Grid().Contains(s.Core) {
			workers++
		}
	}
	if want := fmt.Sprintf("those of 32 of %d busy workers", u.Grid().Size()); h.Dump.StacksNote != want || workers != 32 {
		t.Errorf("%d stacks of workers, %q, want %q", workers, h.Dump.StacksNote, want)
	}
	if strings.Count(h.Detail(), "#0 kernel_main") != 1 {
		t.Errorf("32 stacks that are alike are shown more often than once:\n%s", h.Detail())
	}
	u.Recover()
	u.RunProgram(lines(u, 1, u.Grid(), chip.BRISC))
}

func watched(t *rig.T, what uint32, on chip.Processor) *reprise.Program {
	cores := []chip.Range{t.Grid().End.Range()}
	return &reprise.Program{
		Name:            "watched",
		CircularBuffers: []reprise.CircularBuffer{{Index: 3, Cores: cores, PageSize: 64, Pages: 2}},
		Kernels: []reprise.Kernel{{
			Name: on.String(), Image: t.Own("watch"), Processor: on, Cores: cores, Args: rig.Args(what),
		}},
	}
}

func checksFail(t *rig.T, on chip.Processor) {
	if _, ok := t.Dev.Debug().PrintArea(); !ok {
		t.Skip("the workers run tt-metal's base firmware, with which kernels report nothing")
	}
	t = t.Short()
	for i, want := range []struct {
		check watch.Check
		says  string
	}{
		{watch.Assertion, "assertion `what < 1 && \"numbers, 100%\"` failed"},
		{watch.CircularBuffer, "circular buffer 3: the kernel pushes 1 page, but has reserved 0"},
		{watch.CircularBuffer, "circular buffer 3: the kernel waits for 3 pages, but the buffer has 2: it would wait for ever"},
		{watch.NoC, "the addresses must be equal modulo 16"},
		{watch.NoC, "tile (15,15) by NoC 0: the chip has no such tile"},
		{watch.NoC, "it is beyond the tile's memory"},
		{watch.Stack, "stack overflow: "},
	} {
		if want.check == watch.NoC && on >= chip.TRISC0 {
			continue
		}
		t.Start(t.Load(watched(t, uint32(i+1), on)))
		err := t.Queue.Wait(t.Ctx)
		var k *dispatch.KernelError
		if want.check == watch.Stack && errors.As(err, &k) { // a strict emulator stops before the kernel's check
			if k.Core != t.Grid().End || k.Processor != on || k.Kernel != on.String() || !strings.Contains(k.Error(), want.says) {
				t.Error(k)
			}
			_ = t.Dev.Close(context.WithoutCancel(t.Ctx))
			return
		}
		f := rig.As[*watch.Failure](t, err)
		if f.Check != want.check || !strings.Contains(f.Text, want.says) || f.Core != t.Grid().End || f.Processor != on ||
			f.Program != "watched" || f.Kernel != on.String() || f.Offset == 0 {
			t.Errorf("%+v, want %s", f, want.says)
		}
		if f.Check == watch.Assertion && (!strings.HasSuffix(f.File, "watch.c") || f.Line == 0) {
			t.Errorf("at %s:%d", f.File, f.Line)
		}
		t.Recover()
	}
	t.RunProgram(watched(t, 0, on))
}
