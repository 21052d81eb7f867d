package hwtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

func debugCases() []testCase {
	var cs []testCase
	for _, n := range []int{1, 5, 8, 17} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("%d programs in steps and pieces", n),
			protects: "a trace that is stepped through or split does what a replay does, and leaves the queue as one",
			fn:       func(t *fixture) { inPieces(t, n) },
		})
	}
	return append(cs, []testCase{
		{name: "times of programs", protects: "each program of a trace has a time on the device, one after the other, and does what it does in a replay", fn: timesOfPrograms},
		{name: "large programs in steps", protects: "commands longer than a fetch entry can be stepped through", fn: stepLongCommands},
		{name: "look between steps", protects: "buffers can be read and written between steps, and nothing else runs", fn: lookBetween},
		{name: "inside of steps", protects: "what a trace can't do while it is stepped through is an error at once, not a deadlock", fn: insideOfSteps},
		{name: "check a trace", protects: "a trace that does what its programs do passes, and its buffers stay as they were", fn: checkTrace},
		{name: "check finds the program", protects: "the first program that differs in a replay is named", fn: checkFinds},
		{name: "bisect by results", protects: "the first program after which a result is wrong is found", fn: bisectResults},
		{name: "bisect a hang", unsafe: hangs, needs: needSimulator, protects: "the program that hangs is found by steps and by replays of beginnings", fn: bisectHang},
	}...)
}

// sequence records n programs of different sizes, the second of them with a parameter.
func (t *fixture) sequence(f *follow, n int) (tr *reprise.Trace, play func()) {
	var xs []*reprise.Executable
	for i, size := range []int{0, 30_000, 4000} {
		xs = append(xs, t.load(t.mixProgram(fmt.Sprint(size), t.grid(), f.b, uint32(i+1), size&^15)))
	}
	tr, err := t.rq.Capture(t.ctx, "sequence", func(_ context.Context, r *reprise.Recorder) error {
		var errs []error
		for i := range n {
			errs = append(errs, r.Run(xs[i%3]))
			if i == 0 {
				errs = append(errs, r.Param("first", number))
			}
		}
		return errors.Join(errs...)
	})
	t.ok(err)
	t.closing(tr.Release)
	t.ok(tr.Set("first", 50))
	return tr, func() {
		for i := range n {
			v := uint32(i%3 + 1)
			if i == 0 {
				v = 50
			}
			f.run(v, t.grid())
		}
	}
}

func timesOfPrograms(t *fixture) {
	f := t.follow()
	n := t.size(70, 9) // more than the smallest completion queue holds reports
	tr, play := t.sequence(f, n)
	before := t.allocated()
	times, err := tr.Debug().Times(t.ctx)
	t.ok(err)
	play()
	if len(times) != n {
		t.Fatalf("%d times of %d programs", len(times), n)
	}
	for i, s := range times {
		if s.Start >= s.End || i > 0 && s.Start != times[i-1].End || s.Name != []string{"0", "30000", "4000"}[i%3] || s.Queue != 0 {
			t.Errorf("program %d: %+v after %+v", i, s, times[max(i-1, 0)])
		}
	}
	f.check("after the times")
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
	t.ok(tr.Replay(t.ctx))
	play()
	f.check("after a replay")
	t.ok(tr.Release(t.ctx))
	if times, err := tr.Debug().Times(t.ctx); !errors.Is(err, reprise.ErrReleased) || times != nil {
		t.Errorf("after the release: %v", err)
	}
}

func inPieces(t *fixture, n int) {
	f := t.follow()
	tr, play := t.sequence(f, n)
	x := t.load(t.mixProgram("x", t.grid(), f.b, 9, 0))
	before := t.allocated()
	for _, pieces := range slices.Compact([]int{0, 1, (n + 1) / 2, n}) { // 0 for steps
		if pieces == 0 {
			t.ok(tr.Debug().Step(t.ctx, nil))
		} else {
			t.ok(tr.Debug().Split(t.ctx, pieces, nil))
		}
		play()
		t.ok(t.rq.Run(t.ctx, x))
		f.run(9, t.grid())
		t.ok(tr.Replay(t.ctx))
		play()
	}
	f.check("all pieces")
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
}

func stepLongCommands(t *fixture) {
	t.longTrace(func(tr *reprise.Trace) {
		t.ok(tr.Debug().Step(t.ctx, nil))
		t.ok(tr.Debug().Split(t.ctx, 2, nil))
	})
}

func lookBetween(t *fixture) {
	f := t.follow()
	x := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0))
	tr := t.capture("t", x, x, x)
	side := t.buffer(allocator.DRAM, 4096, 64)
	t.ok(tr.Debug().Step(t.ctx, func(i int) error {
		f.run(5, t.grid())
		f.check(fmt.Sprintf("after step %d", i))
		want := pattern(uint32(i), side.Size())
		t.ok(t.rq.Write(t.ctx, side, 0, want))
		t.same("a buffer beside", want, t.readAll(side))
		for op, err := range map[string]error{"run": t.rq.Run(t.ctx, x), "replay": tr.Replay(t.ctx)} {
			if !errors.Is(err, reprise.ErrReserved) {
				t.Errorf("%s between steps: %v", op, err)
			}
		}
		return nil
	}))
	mine := errors.New("enough")
	var at *debug.StepError
	err := tr.Debug().Step(t.ctx, func(i int) error {
		f.run(5, t.grid())
		return map[bool]error{true: mine}[i == 1]
	})
	if !errors.Is(err, mine) || !errors.As(err, &at) || at.First != 1 {
		t.Errorf("error %v", err)
	}
	t.runAndWait(x)
	f.run(5, t.grid())
	f.check("after a run that was cut short")
}

func insideOfSteps(t *fixture) {
	f := t.follow()
	tr, play := t.sequence(f, 4)
	calls := 0
	inside := func() error {
		calls++
		for op, err := range map[string]error{
			"replay": tr.Replay(t.ctx), "release": tr.Release(t.ctx), "step": tr.Debug().Step(t.ctx, nil), "split": tr.Debug().Split(t.ctx, 2, nil),
			"check": tr.Debug().Check(t.ctx),
		} {
			if !errors.Is(err, reprise.ErrReserved) {
				t.Errorf("%s from inside: %v, want ErrReserved", op, err)
			}
		}
		if err := tr.Debug().CheckResults(t.ctx); !errors.Is(err, debug.ErrNoResults) {
			t.Errorf("check results from inside: %v, want ErrNoResults", err)
		}
		return tr.Debug().Verify(t.ctx)
	}
	t.ok(tr.Debug().Step(t.ctx, func(int) error { return inside() }))
	play()
	t.ok(tr.Debug().Split(t.ctx, 2, func(int, int) error { return inside() }))
	play()
	if calls != 6 {
		t.Errorf("%d calls, want 6", calls)
	}
	f.check("after both")
	t.ok(tr.Replay(t.ctx))
	play()
	t.ok(tr.Release(t.ctx))
	f.check("after a replay and the release")
}

func checkTrace(t *fixture) {
	f := t.follow()
	tr, play := t.sequence(f, 9)
	before := t.allocated()
	t.ok(tr.Debug().Check(t.ctx))
	f.check("after the check")
	t.ok(tr.Replay(t.ctx))
	play()
	t.ok(tr.Debug().Check(t.ctx))
	f.check("after a replay and a check")
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
}

// addTo is a program on one core that copies a page of 64 B from one DRAM buffer to another and adds to its words.
func (t *fixture) addTo(name string, from, to *reprise.Buffer, n uint32) *reprise.Program {
	t.Helper()
	cores := []chip.Range{{}}
	args := func(a ...uint32) func(chip.Core) []uint32 { return func(chip.Core) []uint32 { return a } }
	p := &reprise.Program{Name: name, Buffers: []*reprise.Buffer{from, to}, Kernels: []reprise.Kernel{
		{Name: "reader", Image: t.kernel(kernels.CopyReader), Processor: chip.BRISC, Cores: cores, Args: args(from.Addr(), uint32(from.FirstPage()), 1, 64, 0)},
		{Name: "add", Image: t.kernel(kernels.Add), Processor: chip.TRISC0, Cores: cores, Args: args(0, 16, 1, n)},
		{Name: "writer", Image: t.kernel(kernels.CopyWriter), Processor: chip.NCRISC, Cores: cores, Args: args(to.Addr(), uint32(to.FirstPage()), 1, 64, 16)},
	}}
	for _, i := range []int{0, 16} {
		p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: i, Cores: cores, PageSize: 64, Pages: 2})
	}
	return p
}

// checkFinds makes a program count in a buffer that it doesn't declare, so that the second of two runs finds something else
// there than the first.
func checkFinds(t *fixture) {
	hidden, out := t.buffer(allocator.DRAM, 64, 64), t.buffer(allocator.DRAM, 64, 64)
	t.ok(t.rq.Write(t.ctx, hidden, 0, pattern(1, 64)))
	t.ok(t.rq.Write(t.ctx, out, 0, pattern(2, 64)))
	count, show := t.addTo("count", hidden, hidden, 1), t.addTo("show", hidden, out, 0)
	count.Buffers, show.Buffers = nil, []*reprise.Buffer{out}
	f := t.follow()
	x, y, z := t.load(t.mixProgram("x", t.grid(), f.b, 5, 0)), t.load(count), t.load(show)
	tr := t.capture("t", x, y, x, x, z, x, x)
	var ce *debug.CheckError
	if err := tr.Debug().Check(t.ctx); !errors.As(err, &ce) || ce.Step != 4 || ce.Name != "show" || ce.Differ == 0 {
		t.Errorf("error %v, want a *CheckError for step 4", err)
	}
	t.same("a buffer after the check", pattern(2, 64), t.readAll(out))
	f.check("after the check")
}

func bisectResults(t *fixture) {
	f := t.follow()
	tr, _ := t.sequence(f, 10)
	clear := func(int) error { return t.rq.Write(t.ctx, f.b, 0, make([]byte, f.b.Size())) }
	for _, bad := range []int{0, 3, 7, 9} {
		step, err := tr.Debug().Bisect(t.ctx, clear, func(n int) (bool, error) { return n <= bad, nil })
		t.ok(err)
		if step != bad {
			t.Errorf("step %d was found, want %d", step, bad)
		}
	}
	step, err := tr.Debug().Bisect(t.ctx, clear, func(int) (bool, error) { return true, nil })
	t.ok(err)
	if step != -1 {
		t.Errorf("step %d was found in a trace that is right", step)
	}
}

func bisectHang(t *fixture) {
	u := t.short()
	b := u.perWorker(16)
	f := u.follow()
	x, stuck := u.load(u.mixProgram("x", u.grid(), f.b, 5, 0)), u.load(u.spin(b, chip.BRISC, chip.Core{X: 1, Y: 1}))
	tr := u.capture("t", x, x, stuck, x)
	prepare := func(v uint32) func(int) error {
		return func(int) error {
			words := make([]byte, b.Size())
			for i := 0; i < len(words); i += 4 {
				binary.LittleEndian.PutUint32(words[i:], v)
			}
			// A device that was reset has lost all memory.
			return errors.Join(u.rq.Write(u.ctx, b, 0, words), u.rq.Write(u.ctx, f.b, 0, make([]byte, f.b.Size())))
		}
	}
	good := func(int) (bool, error) { return true, nil }
	step, err := tr.Debug().Bisect(u.ctx, prepare(0), good)
	t.ok(err)
	if step != 2 {
		t.Errorf("step %d was found, want 2", step)
	}
	t.ok(prepare(0)(0))
	err = tr.Debug().Step(u.ctx, nil)
	var at *debug.StepError
	var hang *dispatch.HangError
	if !errors.As(err, &at) || at.First != 2 || at.Name != "spin" || !errors.As(err, &hang) {
		t.Errorf("stepped: %v", err)
	}
	t.says(err, `trace "t": step 2, program "spin"`, "hangs", "step 2 of trace")
	t.ok(u.dev.Recover(u.ctx))
	for _, bad := range []int{-1, 3} { // what works, and what is said to be wrong after the program that can hang
		step, err = tr.Debug().Bisect(u.ctx, prepare(0x12345678), func(n int) (bool, error) { return bad < 0 || n <= bad, nil })
		t.ok(err)
		if step != bad {
			t.Errorf("step %d was found in a trace that works, want %d", step, bad)
		}
	}
	t.ok(errors.Join(prepare(0x12345678)(0), tr.Replay(u.ctx), u.rq.Wait(u.ctx)))
}
