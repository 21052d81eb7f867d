package hwtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels/print"
)

func printCases() []testCase {
	var cs []testCase
	for _, p := range processors() {
		cs = append(cs,
			testCase{name: fmt.Sprintf("prints of %v", p), protects: "what a kernel prints arrives, in order, with where and when",
				fn: func(t *fixture) { prints(t, p) }},
			testCase{name: fmt.Sprintf("DPRINT of %v", p), protects: "a stream of C++ prints as the macro of C does",
				fn: func(t *fixture) { dprints(t, p) }},
		)
	}
	return append(cs, []testCase{
		{name: "prints of many cores", protects: "lines of each core are in the order of their device time, and none is missing", fn: printsEverywhere},
		{name: "more lines than a ring holds", protects: "a kernel with a full ring waits for the host, and no line is lost", fn: printsMany},
		{name: "nobody listens to prints", protects: "a kernel never waits for a host that isn't there, and the newest lines are left", fn: printsUnheard},
		{name: "host gone", protects: "a kernel waits only so long for a host that stopped reading", fn: printsDeserted},
		{name: "prints in a trace", protects: "each replay prints, also of a trace that was loaded from its file", fn: printsInTrace},
		{name: "prints before a hang", unsafe: hangs, needs: needSimulator,
			protects: "the report of a hang has what was printed, Recover loses no line, and prints work after it", fn: printsInHang},
	}...)
}

// printer is a listener and what it has heard.
type printer struct {
	*print.Listener
	got []print.Record
}

// listen collects what kernels print, and stops with the case.
func (t *fixture) listen(o print.Options) *printer {
	t.Helper()
	p := &printer{}
	var err error
	p.Listener, err = print.Listen(t.dev.Debug(), func(r print.Record) { p.got = append(p.got, r) }, o)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the workers run tt-metal's base firmware, with which kernels don't print")
	}
	t.ok(err)
	t.closing(func(context.Context) error { return p.Close() })
	return p
}

// printing is a program whose kernels print n lines each.
func (t *fixture) printing(image string, n, stop uint32, cores chip.Range, ps ...chip.Processor) *reprise.Program {
	t.Helper()
	p := &reprise.Program{Name: "prints"}
	for _, on := range ps {
		p.Kernels = append(p.Kernels, reprise.Kernel{
			Name: on.String(), Image: t.own(image), Processor: on, Cores: []chip.Range{cores},
			Args: func(chip.Core) []uint32 { return []uint32{n, stop} },
		})
	}
	return p
}

// wantLines are those of kernel print.c.
func wantLines(n uint32) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("line %d of %d", i, n))
	}
	return append(out, "end:  1.50 -5000000000")
}

func (t *fixture) sameLines(what string, want []string, got []print.Record) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			t.Fatalf("%s: %d lines, want %d: the next is %q", what, len(got), len(want), want[i])
		case i >= len(want) || got[i].Text != want[i]:
			t.Fatalf("%s: line %d of %d is %v, want %q", what, i, len(want), got[i], append(want, "no more")[min(i, len(want))])
		}
	}
}

func prints(t *fixture, on chip.Processor) {
	l := t.listen(print.Options{})
	at := t.grid().End
	t.ran(t.printing("print", 3, 0, at.Range(), on))
	t.ok(l.Drain())
	t.sameLines("prints", wantLines(3), l.got)
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

func dprints(t *fixture, on chip.Processor) {
	l := t.listen(print.Options{})
	t.ran(t.printing("dprint", 12, 0, t.grid().Start.Range(), on))
	t.ok(l.Drain())
	var want []string
	for i := range 12 {
		want = append(want, fmt.Sprintf("line %d of c, half of it 1.5  -2", i))
	}
	t.sameLines("DPRINT", want, l.got)
}

func printsEverywhere(t *fixture) {
	l := t.listen(print.Options{})
	cores := t.grid()
	cores.End = chip.Core{X: min(cores.End.X, 2), Y: min(cores.End.Y, 1)}
	t.ran(t.printing("print", 20, 0, cores, processors()...))
	t.ok(l.Drain())
	last := map[chip.Core]uint64{}
	by := map[chip.Core]map[chip.Processor][]print.Record{}
	for _, r := range l.got {
		if r.Time < last[r.Core] {
			t.Fatalf("%v at %d after one at %d", r, r.Time, last[r.Core])
		}
		last[r.Core] = r.Time
		if by[r.Core] == nil {
			by[r.Core] = map[chip.Processor][]print.Record{}
		}
		by[r.Core][r.Processor] = append(by[r.Core][r.Processor], r)
	}
	for c := range cores.Cores() {
		for _, p := range processors() {
			t.sameLines(fmt.Sprintf("%v %v", c, p), wantLines(20), by[c][p])
		}
	}
}

func printsMany(t *fixture) {
	l := t.listen(print.Options{})
	n := uint32(t.size(400, 150))
	t.ran(t.printing("print", n, 0, t.grid().Start.Range(), chip.BRISC))
	t.ok(l.Drain())
	t.sameLines("prints", wantLines(n), l.got)
}

func printsUnheard(t *fixture) {
	t.ok(t.listen(print.Options{}).Close()) // takes what others left
	const n = 200
	t.ran(t.printing("print", n, 0, t.grid().Start.Range(), chip.TRISC1))
	l := t.listen(print.Options{})
	t.ok(l.Drain())
	if len(l.got) < 10 || l.got[0].Lost == 0 || int(l.got[0].Lost)+len(l.got)-1 != n+1 || l.got[len(l.got)-1].Text != wantLines(n)[n] {
		t.Fatalf("%d records of %d lines: %v", len(l.got), n+1, l.got)
	}
}

func printsDeserted(t *fixture) {
	back := make(chan struct{})
	var lines, lost uint32
	first := true
	l, err := print.Listen(t.dev.Debug(), func(r print.Record) {
		if first {
			first = false
			<-back
		}
		if lost += r.Lost; r.Lost == 0 {
			lines++
		}
	}, print.Options{Patience: 50_000})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the workers run tt-metal's base firmware, with which kernels don't print")
	}
	t.ok(err)
	const n = 300
	err = t.dev.Queue(0).Run(t.ctx, t.load(t.printing("print", n, 0, t.grid().Start.Range(), chip.NCRISC)))
	if err == nil {
		err = t.dev.Queue(0).Wait(t.ctx)
	}
	close(back)
	t.ok(errors.Join(err, l.Close()))
	if lines+lost != n+1 || lost == 0 {
		t.Fatalf("%d lines and %d lost ones of %d", lines, lost, n+1)
	}
}

func printsInTrace(t *fixture) {
	x := t.load(t.printing("print", 2, 0, t.grid().Start.Range(), chip.BRISC, chip.TRISC2))
	tr, err := t.dev.Queue(0).Capture(t.ctx, "prints", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) })
	t.ok(err)
	var file bytes.Buffer
	t.ok(tr.Save(t.ctx, &file))
	replay := func(what string, tr *reprise.Trace) {
		t.Helper()
		l := t.listen(print.Options{})
		for range 2 {
			t.ok(tr.Replay(t.ctx))
		}
		t.ok(t.dev.Queue(0).Wait(t.ctx))
		t.ok(l.Close())
		by := map[chip.Processor][]print.Record{}
		for _, r := range l.got {
			by[r.Processor] = append(by[r.Processor], r)
		}
		for _, p := range []chip.Processor{chip.BRISC, chip.TRISC2} {
			t.sameLines(fmt.Sprintf("%s, %v", what, p), append(wantLines(2), wantLines(2)...), by[p])
		}
		t.ok(tr.Release(t.ctx))
	}
	replay("captured", tr)
	loaded, err := t.dev.LoadTrace(t.ctx, &file)
	t.ok(err)
	replay("loaded", loaded)
}

func printsInHang(t *fixture) {
	t = t.short()
	l := t.listen(print.Options{})
	err := t.dev.Queue(0).Run(t.ctx, t.load(t.printing("print", 4, 1, t.grid().Start.Range(), chip.NCRISC)))
	t.ok(err)
	err = t.dev.Queue(0).Wait(t.ctx)
	var h *dispatch.HangError
	if !errors.As(err, &h) {
		t.Fatalf("a kernel that doesn't end: %v", err)
	}
	left := h.Dump.Prints
	t.sameLines("report", wantLines(4)[:4], left[max(0, len(left)-4):])
	t.ok(t.dev.Recover(t.ctx))
	t.sameLines("listener", wantLines(4)[:4], l.got)
	l.got = nil
	t.ran(t.printing("print", 1, 0, t.grid().Start.Range(), chip.NCRISC))
	t.ok(l.Drain())
	t.sameLines("after the recovery", wantLines(1), l.got)
}

// ran runs a program and waits for it.
func (t *fixture) ran(p *reprise.Program) {
	t.Helper()
	t.ok(t.dev.Queue(0).Run(t.ctx, t.load(p)))
	t.ok(t.dev.Queue(0).Wait(t.ctx))
}
