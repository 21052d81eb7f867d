package traces

import (
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

func debugCases() (cs rig.Table) {
	rig.Each(&cs, "%d programs in steps and pieces", "a trace in steps or pieces does what a replay does",
		InPieces, 1, 5, 8, 17)
	cs.Add("times of programs", "each program of a trace has a time, one after the other", timesOfPrograms)
	cs.Add("large programs in steps", "commands longer than a fetch entry can be stepped through", stepLongCommands)
	cs.Add("look between steps", "buffers can be read and written between steps, and nothing else runs", lookBetween)
	cs.Add("check a trace", "a trace that does what its programs do passes", checkTrace)
	cs.Add("check finds the program", "the first program that differs in a replay is named", checkFinds)
	cs.Add("bisect by results", "the first program after which a result is wrong is found", bisectResults)
	cs.AddHang("bisect a hang", "the program that hangs is found by steps and by replays of beginnings", bisectHang)
	return cs
}

func sequence(t *rig.T, f *rig.Mix, n int) (tr *reprise.Trace, play func()) {
	xs := f.LoadSizes(1, []int{0, 30_000, 4000})
	tr = t.Trace("sequence", func(r *reprise.Recorder) {
		for i := range n {
			r.Run(xs[i%3])
			if i == 0 {
				r.Param("first", rig.MixNumber)
			}
		}
	})
	t.OK(tr.Set("first", 50))
	return tr, func() {
		for i := range n {
			v := uint32(i%3 + 1)
			if i == 0 {
				v = 50
			}
			f.Run(v)
		}
	}
}

func timesOfPrograms(t *rig.T) {
	f := t.Follow()
	n := t.Size(70, 9) // more than the smallest completion queue holds reports
	tr, play := sequence(t, f, n)
	before := t.Allocated()
	times, err := tr.Debug().Times(t.Ctx)
	t.OK(err)
	play()
	if len(times) != n {
		t.Fatalf("%d times of %d programs", len(times), n)
	}
	for i, s := range times {
		name := fmt.Sprint("size ", []int{0, 30_000, 4000}[i%3])
		if s.Start >= s.End || i > 0 && s.Start != times[i-1].End || s.Name != name || s.Queue != 0 {
			t.Errorf("program %d: %+v after %+v", i, s, times[max(i-1, 0)])
		}
	}
	f.Check("after the times")
	t.SameMemory(before)
	t.Replay(tr)
	play()
	f.Check("after a replay")
	t.Release(tr)
	if times, err := tr.Debug().Times(t.Ctx); !errors.Is(err, reprise.ErrReleased) || times != nil {
		t.Errorf("after the release: %v", err)
	}
}

// InPieces replays a trace of n programs piece by piece.
func InPieces(t *rig.T, n int) {
	f := t.Follow()
	tr, play := sequence(t, f, n)
	x := f.Load("x", 9)
	before := t.Allocated()
	for _, pieces := range slices.Compact([]int{0, 1, (n + 1) / 2, n}) {
		if pieces == 0 {
			t.OK(tr.Debug().Step(t.Ctx, nil))
		} else {
			t.OK(tr.Debug().Split(t.Ctx, pieces, nil))
		}
		play()
		f.Start(x)
		t.Replay(tr)
		play()
	}
	f.Check("all pieces")
	t.SameMemory(before)
}

func stepLongCommands(t *rig.T) {
	longTrace(t, func(tr *reprise.Trace) {
		t.OK(tr.Debug().Step(t.Ctx, nil))
		t.OK(tr.Debug().Split(t.Ctx, 2, nil))
	})
}

func lookBetween(t *rig.T) {
	f := t.Follow()
	x := f.Load("x", 5)
	tr := t.Capture("t", x, x, x)
	side := t.DRAMBuffer(4096, 64)
	t.OK(tr.Debug().Step(t.Ctx, func(i int) error {
		f.Run(5)
		f.Check("after step %d", i)
		want := t.Fill(side, i)
		t.Holds(side, want, "a buffer beside")
		t.AllFail(reprise.ErrReserved, map[string]error{"run": t.Queue.Run(t.Ctx, x), "replay": tr.Replay(t.Ctx)})
		return nil
	}))
	mine := errors.New("enough")
	err := tr.Debug().Step(t.Ctx, func(i int) error {
		f.Run(5)
		return map[bool]error{true: mine}[i == 1]
	})
	t.Fails("cut short", err, mine)
	if at := rig.As[*debug.StepError](t, err); at.First != 1 {
		t.Errorf("error %v", err)
	}
	f.Start(x)
	f.Check("after a run that was cut short")
}

func checkTrace(t *rig.T) {
	f := t.Follow()
	tr, play := sequence(t, f, 9)
	before := t.Allocated()
	t.OK(tr.Debug().Check(t.Ctx))
	f.Check("after the check")
	t.Replay(tr)
	play()
	t.OK(tr.Debug().Check(t.Ctx))
	f.Check("after a replay and a check")
	t.SameMemory(before)
}

// checkFinds counts in a buffer that the program doesn't declare.
func checkFinds(t *rig.T) {
	hidden, out := t.DRAMBuffer(64, 64), t.DRAMBuffer(64, 64)
	t.Write(hidden, rig.Pattern(1, 64))
	t.Write(out, rig.Pattern(2, 64))
	count, show := t.AddProgram("count", chip.Core{}, hidden, hidden, 1), t.AddProgram("show", chip.Core{}, hidden, out, 0)
	count.Buffers, show.Buffers = nil, []*reprise.Buffer{out}
	f := t.Follow()
	x, y, z := f.Load("x", 5), t.Load(count), t.Load(show)
	tr := t.Capture("t", x, y, x, x, z, x, x)
	if ce := rig.As[*debug.CheckError](t, tr.Debug().Check(t.Ctx)); ce.Step != 4 || ce.Name != "show" || ce.Differ == 0 {
		t.Errorf("error %v, want one for step 4", ce)
	}
	t.Holds(out, rig.Pattern(2, 64), "a buffer after the check")
	f.Check("after the check")
}

func bisectResults(t *rig.T) {
	f := t.Follow()
	tr, _ := sequence(t, f, 10)
	t.Bisects(tr, func(int) error { return t.Queue.Write(t.Ctx, f.Buffer, 0, make([]byte, f.Buffer.Size())) }, 0, 3, 7, 9, -1)
}

func bisectHang(t *rig.T) {
	u := t.Short()
	b := u.PerWorker(16)
	f := u.Follow()
	x, stuck := f.Load("x", 5), u.Load(u.Spin(b, chip.BRISC, chip.Single(1, 1)))
	tr := u.Capture("t", x, x, stuck, x)
	prepare := func(v uint32) func(int) error {
		return func(int) error {
			return errors.Join(u.Queue.Write(u.Ctx, b, 0, rig.Repeated(b.Size(), v)),
				u.Queue.Write(u.Ctx, f.Buffer, 0, make([]byte, f.Buffer.Size())))
		}
	}
	step, err := tr.Debug().Bisect(u.Ctx, prepare(0), func(int) (bool, error) { return true, nil })
	t.OK(err)
	rig.Equal(t, step, 2, "the step that was found")
	t.OK(prepare(0)(0))
	err = tr.Debug().Step(u.Ctx, nil)
	var at *debug.StepError
	var hang *dispatch.HangError
	if !errors.As(err, &at) || at.First != 2 || at.Name != "spin" || !errors.As(err, &hang) {
		t.Errorf("stepped: %v", err)
	}
	t.Says(err, `trace "t": step 2, program "spin"`, "hangs", "step 2 of trace")
	t.OK(u.Dev.Recover(u.Ctx))
	u.Bisects(tr, prepare(0x12345678), -1, 3) // the last is after the program that can hang
	t.OK(prepare(0x12345678)(0), tr.Replay(u.Ctx), u.Queue.Wait(u.Ctx))
}
