package reprise_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

func (b *bench) captureFlow(f func(r *reprise.Recorder) error) *reprise.Trace {
	b.Helper()
	return b.Record("flow", f)
}

func runs(r *reprise.Recorder, xs ...*reprise.Executable) func() error {
	return func() error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestIterationConditions(t *testing.T) {
	onAll(t, func(b *bench) {
		n := b.Pages("n", 2)
		one := b.Load(b.Adder("one", chip.Core{X: 1}, n, n, 1))
		fourth := reprise.Cond{Iteration: 1, Is: cq.NoneSet, Value: 3}
		trace := b.captureFlow(func(r *reprise.Recorder) error {
			return r.Loop(10, func() error { return errors.Join(r.If(fourth, runs(r, one), nil), r.Run(one)) })
		})
		for i, c := range trace.Parts()[0].Steps {
			if c.Name == "wait for results" {
				b.Errorf("step %d waits for results, which no condition here needs", i)
			}
		}
		b.Write(n, 0)
		b.Replay(trace)
		b.Holds(n, 3+10)
		b.Must(trace.Release(b.Ctx))
	})
}

func TestFlowRefusals(t *testing.T) {
	b := open(t, sim.Blackhole())
	elsewhere := open(t, sim.Blackhole())
	n := b.Pages("n", 2)
	one := b.Load(b.Adder("one", chip.Core{X: 1, Y: 2}, n, n, 1))
	other := elsewhere.Capture("other", elsewhere.Load(elsewhere.blank("blank", elsewhere.Dev.Grid())))
	less := func(c reprise.Cond) reprise.Cond { c.Is = cq.Less; return c }
	var deep func(r *reprise.Recorder, n int) error
	deep = func(r *reprise.Recorder, n int) error {
		return r.Loop(1, func() error {
			if n == 0 {
				return r.Run(one)
			}
			return deep(r, n-1)
		})
	}
	failed := errors.New("the body has failed")
	for _, tc := range []struct {
		name string
		do   func(r *reprise.Recorder) error
		says []string
	}{
		{"no body", func(r *reprise.Recorder) error { return r.Loop(2, nil) }, []string{"loop", "no function to record with"}},
		{"a body that fails", func(r *reprise.Recorder) error { return r.Loop(2, func() error { return failed }) }, []string{"loop", "the body has failed"}},
		{"no limit", func(r *reprise.Recorder) error { return r.While(less(reprise.Cond{Buffer: n}), 0, runs(r, one)) }, []string{"while", "its limit is 0"}},
		{"no buffer", func(r *reprise.Recorder) error { return r.If(less(reprise.Cond{}), runs(r, one), nil) }, []string{"if", "nil"}},
		{"another device's buffer", func(r *reprise.Recorder) error {
			return r.If(less(reprise.Cond{Buffer: elsewhere.Pages("x", 1)}), runs(r, one), nil)
		}, []string{"another device"}},
		{"no comparison", func(r *reprise.Recorder) error { return r.If(reprise.Cond{Buffer: n}, runs(r, one), nil) }, []string{"comparison never"}},
		{"an iteration of no loop", func(r *reprise.Recorder) error {
			return r.If(less(reprise.Cond{Iteration: 1}), runs(r, one), nil)
		}, []string{"if", "the iteration of loop 1", "0 loops"}},
		{"an iteration of too far a loop", func(r *reprise.Recorder) error {
			return r.While(less(reprise.Cond{Iteration: 2}), 5, runs(r, one))
		}, []string{"while", "the iteration of loop 2", "1 loops"}},
		{"an iteration below 0", func(r *reprise.Recorder) error {
			return r.While(less(reprise.Cond{Iteration: -1}), 5, runs(r, one))
		}, []string{"the iteration of loop -1"}},
		{"an iteration and a buffer", func(r *reprise.Recorder) error {
			return r.While(less(reprise.Cond{Iteration: 1, Buffer: n}), 5, runs(r, one))
		}, []string{"both an iteration and buffer"}},
		{"a word outside", func(r *reprise.Recorder) error {
			return r.If(less(reprise.Cond{Buffer: n, Offset: 128}), runs(r, one), nil)
		}, []string{"offset 128", "128 B"}},
		{"half a word", func(r *reprise.Recorder) error { return r.Switch(n, 2, runs(r, one)) }, []string{"switch", "offset 2", "multiple of 4"}},
		{"too deep", func(r *reprise.Recorder) error { return deep(r, cq.MaxLoops) }, []string{"17 deep"}},
		{"more than there are numbers for", func(r *reprise.Recorder) error {
			return r.Loop(1, func() error {
				for range cq.MaxLoopNumber + 1 {
					if err := r.Loop(1, func() error { return nil }); err != nil {
						return err
					}
				}
				return nil
			})
		}, []string{"loop", "65536 loops", "numbers up to 65535", "call it"}},
		{"another device's trace", func(r *reprise.Recorder) error { return r.Call(other) }, []string{`call trace "other"`, "no part on queue 0"}},
		{"no trace", func(r *reprise.Recorder) error { return r.Call(nil) }, []string{"it is nil"}},
		{"a loop in a branch", func(r *reprise.Recorder) error {
			return r.Parallel(func() error { return r.Loop(2, runs(r, one)) })
		}, []string{"loop", "a branch of Parallel has programs only"}},
		{"a computed argument in a branch", func(r *reprise.Recorder) error {
			return r.Parallel(func() error { return r.Run(one, from(addend, n, 0)) })
		}, []string{"run program", "programs only"}},
		{"no branch", func(r *reprise.Recorder) error { return r.Parallel(nil) }, []string{"parallel", "no function"}},
		{"too many branches", func(r *reprise.Recorder) error {
			var all []func() error
			for i := range 8 {
				x := b.Load(b.blank("x", chip.Single(i, 0)))
				defer func() { b.Must(x.Release(b.Ctx)) }()
				all = append(all, runs(r, x))
			}
			return r.Parallel(all...)
		}, []string{"parallel", "8 branches", "at most 7"}},
		{"an argument of a loop", func(r *reprise.Recorder) error {
			return errors.Join(r.Loop(2, runs(r, one)), r.Param("x", addend))
		}, []string{`"x"`, "no program"}},
	} {
		trace, err := b.Queue.Capture(b.Ctx, tc.name, func(_ context.Context, r *reprise.Recorder) error { return tc.do(r) })
		if trace != nil || err == nil {
			t.Errorf("%s: it was recorded", tc.name)
			continue
		}
		b.Says(err, tc.says...)
		if tc.name == "a body that fails" && !errors.Is(err, failed) {
			t.Errorf("%v isn't the body's error", err)
		}
	}
	b.Must(errors.Join(one.Release(b.Ctx), n.Release()))
	if s := b.Dev.Memory(allocator.DRAM); s.Allocated != 0 {
		t.Errorf("%d B of DRAM are still allocated", s.Allocated)
	}
}

func from(a reprise.Arg, b *reprise.Buffer, offset int) reprise.Arg {
	a.From, a.Offset = b, offset
	return a
}

func TestWordsAreHeld(t *testing.T) {
	onEmulators(t, func(b *bench) {
		n := b.Pages("n", 2)
		one, add := b.Load(b.Adder("one", chip.Core{X: 1}, n, n, 1)), b.Load(b.Adder("add", chip.Core{X: 2}, n, n, 0))
		words := func(name string) (all []*reprise.Buffer) {
			for _, kind := range []allocator.Kind{allocator.DRAM, allocator.L1} {
				for i := range 2 {
					all = append(all, b.Buffer(reprise.BufferConfig{Kind: kind, Size: 128, PageSize: 64, Name: fmt.Sprint(name, i)}))
				}
			}
			return all
		}
		read := words("read")
		trace := b.captureFlow(func(r *reprise.Recorder) error {
			var errs []error
			for i := 0; i < len(read); i += 2 {
				errs = append(errs, r.If(reprise.Cond{Buffer: read[i], Offset: 68, Is: cq.Equal, Value: 5 + 17}, runs(r, one), nil),
					r.Run(add, from(addend, read[i+1], 4)))
			}
			return errors.Join(errs...)
		})
		addrs := map[uint32]bool{}
		for _, u := range read {
			b.Write(u, 5)
			addrs[u.Addr()] = true
			b.Must(u.Release())
		}
		for _, u := range words("other") {
			if addrs[u.Addr()] {
				b.Errorf("memory at %#x was given away", u.Addr())
			}
			b.Write(u, 1000)
		}
		b.Write(n, 0)
		b.Replay(trace)
		b.Holds(n, 2*(1+6))
		b.Must(trace.Release(b.Ctx))
		for _, u := range words("again") {
			if !addrs[u.Addr()] {
				b.Errorf("a buffer lies at %#x: what the trace held isn't free", u.Addr())
			}
		}
	})
}

func TestComputedArgsRefusals(t *testing.T) {
	b, elsewhere := open(t, sim.Blackhole()), open(t, sim.Blackhole())
	n := b.Pages("n", 2)
	one := b.Load(b.Adder("one", chip.Core{X: 1, Y: 2}, n, n, 1))
	for _, tc := range []struct {
		name string
		arg  reprise.Arg
		says []string
	}{
		{"no buffer", addend, []string{`run program "one"`, "From names no buffer"}},
		{"another device's buffer", from(addend, elsewhere.Pages("x", 1), 0), []string{"another device"}},
		{"a word outside", from(addend, n, 128), []string{"offset 128", "128 B"}},
		{"half a word", from(addend, n, 2), []string{"offset 2", "multiple of 4"}},
		{"no such argument", from(reprise.Arg{Kernel: "add", Index: 4}, n, 0), []string{"unique argument 4", "has 4"}},
		{"no such kernel", from(reprise.Arg{Kernel: "x", Common: true}, n, 0), []string{"no such kernel"}},
	} {
		trace, err := b.Queue.Capture(b.Ctx, tc.name, func(_ context.Context, r *reprise.Recorder) error { return r.Run(one, tc.arg) })
		if trace != nil || err == nil {
			t.Errorf("%s: it was recorded", tc.name)
			continue
		}
		b.Says(err, tc.says...)
		if arg := (*dispatch.ArgError)(nil); strings.HasPrefix(tc.name, "no such") && !errors.As(err, &arg) {
			t.Errorf("%s: %v is no ArgError", tc.name, err)
		}
	}
	many := make([]reprise.Arg, cq.MaxReadArgs+1)
	for i := range many {
		many[i] = from(addend, b.Pages("word", 1), 0)
	}
	_, err := b.Queue.Capture(b.Ctx, "many", func(_ context.Context, r *reprise.Recorder) error { return r.Run(one, many...) })
	b.Says(err, "33 words", "at most 32")
	trace := b.captureFlow(func(r *reprise.Recorder) error { return errors.Join(r.Run(one), r.Run(one, from(addend, n, 0))) })
	b.Says(trace.Debug().Split(b.Ctx, 2, nil), "arguments that the device computes", "use Follow")
	b.Must(trace.Release(b.Ctx))
	if err := one.SetArg(from(addend, n, 0), 1); err == nil {
		t.Error("an argument of an executable is one that the device computes")
	} else {
		b.Says(err, "give it to Recorder.Run")
	}
}

func TestComputedArgsFileRefusals(t *testing.T) {
	b := open(t, sim.Blackhole())
	k, n := b.Pages("k", 2), b.Pages("n", 2)
	add := b.Load(b.Adder("add", chip.Core{X: 2, Y: 1}, n, n, 0))
	trace := b.captureFlow(func(r *reprise.Recorder) error { return r.Run(add, from(addend, k, 64)) })
	var file bytes.Buffer
	b.Must(trace.Save(b.Ctx, &file))
	for want, change := range map[string]func(f *tracebuf.File, args, run *tracebuf.Step){
		"no worker": func(f *tracebuf.File, args, _ *tracebuf.Step) {
			cq.Put32(f.Image.Bytes, args.Offset+cq.AtRelayed+cq.HeaderSize, 0xFFF)
		},
		"kernel memory is": func(f *tracebuf.File, args, run *tracebuf.Step) {
			cq.Put16(f.Image.Bytes, args.Offset+cq.AtRelayed+cq.HeaderSize+4, 0xFFF0)
			// Its kernels stay.
			cmds := f.Image.Bytes[run.Offset:][:run.Size]
			own := abi.Own(f.Target.Arch)
			last := 0
			for i := 0; i < len(cmds); i += 4 {
				if cq.Get32(cmds, i) == own.L1.KernelConfig {
					cq.Put32(cmds, i, own.L1.KernelConfig+0x2000)
					last = i
				}
			}
			for p := range chip.NumProcessors {
				text := last - int(own.Launch.ConfigBase) + int(own.Launch.Text) + 4*p
				cq.Put32(cmds, text, cq.Get32(cmds, text)-0x2000)
			}
		},
		"FORWARD": func(f *tracebuf.File, _, run *tracebuf.Step) {
			cmds := f.Image.Bytes[run.Offset:][:run.Size]
			cmds[bytes.LastIndexByte(cmds, byte(cq.DispatchForwardWithArgs))] = byte(cq.DispatchForwardSubordinate)
		},
	} {
		f := value(tracebuf.Decode(bytes.NewReader(file.Bytes())))(b)
		change(f, &f.Image.Steps[0], &f.Image.Steps[1])
		expect.Says(t, f.Validate(), nil, want)
	}
}

func TestCheckFlow(t *testing.T) {
	onEmulators(t, func(b *bench) {
		n, hidden, seen := b.Pages("n", 1), b.Pages("hidden", 1), b.Pages("seen", 1)
		one := b.Load(b.Adder("one", chip.Core{X: 1}, n, n, 1))
		count := b.Adder("count", chip.Core{}, hidden, hidden, 1)
		count.Buffers = nil
		show := b.Adder("show", chip.Core{X: 3}, hidden, seen, 0)
		show.Buffers = []*reprise.Buffer{seen}
		counts, shows := b.Load(count), b.Load(show)
		for _, u := range []*reprise.Buffer{n, hidden, seen} {
			b.Write(u, 0)
		}
		trace := b.captureFlow(func(r *reprise.Recorder) error {
			return r.Loop(3, func() error {
				return errors.Join(r.Run(one), r.If(reprise.Cond{Buffer: n, Is: cq.Equal, Value: 2}, runs(r, counts, shows), nil))
			})
		})
		var ce *debug.CheckError
		err := trace.Debug().Check(b.Ctx)
		if !errors.As(err, &ce) || ce.Name != "show" || ce.Buffer != "seen" || len(ce.Loops) != 1 || ce.Loops[0].Iteration != 1 {
			b.Errorf("found %v", err)
		}
		b.Says(err, `program "show" in loop 0, iteration 1 of 3`)
		b.Holds(n, 0)

		endless := b.captureFlow(func(r *reprise.Recorder) error {
			return r.While(reprise.Cond{Buffer: n, Is: cq.Less, Value: 100}, 3, runs(r, one))
		})
		ran := 0
		err = endless.Debug().Step(b.Ctx, func(int) error { ran++; return nil })
		var se *debug.StepError
		if !errors.Is(err, debug.ErrLimit) || !errors.As(err, &se) || ran != 3 ||
			!slices.ContainsFunc(se.Loops, func(i debug.Iteration) bool { return i.Iteration == 3 }) {
			b.Errorf("after %d programs: %v", ran, err)
		}
		b.Write(n, 98)
		b.Replay(endless)
		b.Holds(n, 100)
		b.Must(errors.Join(trace.Release(b.Ctx), endless.Release(b.Ctx)))
	})
}

func TestFollow(t *testing.T) {
	onAll(t, func(b *bench) {
		n := b.Pages("n", 2)
		add := func(name string, k uint32) *reprise.Executable {
			return b.Load(b.Adder(name, chip.Core{X: int(k) % 3, Y: 1}, n, n, k))
		}
		one, ten, hundred := add("one", 1), add("ten", 10), add("hundred", 100)
		inner := b.captureFlow(func(r *reprise.Recorder) error { return r.Run(one) })
		trace := b.captureFlow(func(r *reprise.Recorder) error {
			return errors.Join(
				r.Run(one),
				r.Loop(2, func() error {
					return errors.Join(r.Run(ten), r.If(reprise.Cond{Buffer: n, Is: cq.Less, Value: 20}, runs(r, one), runs(r, ten)))
				}),
				r.Call(inner),
				r.While(reprise.Cond{Buffer: n, Is: cq.Less, Value: 100}, 50, runs(r, hundred)),
				r.Run(one),
			)
		})
		b.Must(inner.Release(b.Ctx))
		before := b.Allocated()
		b.Write(n, 0)
		var at []string
		b.Must(trace.Debug().Follow(b.Ctx, func(p debug.Position) bool { return p.Kind == flow.Loop && p.Run == 1 },
			func(p debug.Position) error {
				at = append(at, fmt.Sprintf("%v %s: %d %v", p.Kind, p.Name, binary.LittleEndian.Uint32(b.Read(n)), p.Loops))
				return nil
			}))
		noDiff(b, at, []string{
			"none one: 1 []",
			"none ten: 11 [loop 0, iteration 0 of 2]", "branch if n[0] < 20: 12 [loop 0, iteration 0 of 2]",
			"none ten: 22 [loop 0, iteration 1 of 2]", "branch if n[0] < 20: 32 [loop 0, iteration 1 of 2]",
			"call call flow: 33 []", "loop while n[0] < 100: 133 []", "none one: 134 []",
		}, "positions")
		times := value(trace.Debug().Times(b.Ctx))(b)
		var timed []string
		for _, x := range times {
			timed = append(timed, x.Name)
		}
		noDiff(b, timed, []string{"one", "ten", "ten", "ten", "ten", "one", "one"}, "programs with times")
		b.sameMemory(before)
		b.Says(trace.Debug().Split(b.Ctx, 2, nil), "control flow", "use Follow")
		b.Must(trace.Release(b.Ctx))
	})
}

func TestRaceOfCondition(t *testing.T) {
	for name, body := range map[string]func(r *reprise.Recorder, x *reprise.Executable, n *reprise.Buffer) error{
		"condition": func(r *reprise.Recorder, x *reprise.Executable, n *reprise.Buffer) error {
			return r.If(reprise.Cond{Buffer: n, Is: cq.Greater, Value: 1000}, runs(r, x), nil)
		},
		"argument": func(r *reprise.Recorder, x *reprise.Executable, n *reprise.Buffer) error {
			return r.Run(x, from(addend, n, 0))
		},
	} {
		for _, ordered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, ordered %v", name, ordered), func(t *testing.T) { raceOfLoop(t, ordered, body) })
		}
	}
}

func raceOfLoop(t *testing.T, ordered bool, body func(r *reprise.Recorder, x *reprise.Executable, n *reprise.Buffer) error) {
	card := sim.Blackhole(sim.Seed(3), sim.RefuseRaces(), sim.Harvesting(chip.Harvesting{Tensix: 0x3FFC}))
	upper, lower := chip.Range{End: chip.Core{Y: 3}}, chip.Range{Start: chip.Core{Y: 4}, End: chip.Core{Y: 7}}
	b := open(t, card, reprise.WithQueues(2), reprise.WithQueueWorkers(0, upper), reprise.WithQueueWorkers(1, lower),
		reprise.WithHangTimeout(300*time.Millisecond))
	n, m, o := b.Pages("n", 2), b.Pages("m", 2), b.Pages("o", 2)
	b.Write(n, 9)
	b.Write(m, 0)
	b.Wait()
	x := b.Load(b.Adder("x", chip.Core{Y: 1}, m, m, 1))
	other, e := b.Dev.Queue(1), b.Dev.NewEvent("there")
	before, writer := b.Load(b.Adder("before", chip.Core{Y: 5}, o, o, 1)), b.Load(b.Adder("writer", chip.Core{Y: 5}, o, n, 1))
	b.Must(other.Write(b.Ctx, o, 0, make([]byte, o.Size())))
	b.Must(other.Wait(b.Ctx))
	trace := b.captureFlow(func(r *reprise.Recorder) error { return r.Loop(400, func() error { return body(r, x, n) }) })
	b.Replay(trace)
	if ordered {
		b.Must(errors.Join(b.Queue.Record(b.Ctx, e), other.WaitEvent(b.Ctx, e)))
	}
	var errs []error
	for range 5 {
		errs = append(errs, other.Run(b.Ctx, before))
	}
	err := errors.Join(errors.Join(errs...), other.Run(b.Ctx, writer), other.Wait(b.Ctx), b.Queue.Wait(b.Ctx))
	if ordered {
		b.Must(errors.Join(err, trace.Release(b.Ctx)))
		return
	}
	var hang *dispatch.HangError
	if fault := card.Chip().Fault(); !errors.As(err, &hang) || fault == nil || !strings.Contains(fault.Error(), "race") {
		t.Errorf("a race: %v, the chip has %v", err, fault)
	}
}

func (b *bench) chain(n int) (t *reprise.Trace, bufs [2]*reprise.Buffer) {
	b.Helper()
	bufs = [2]*reprise.Buffer{b.Pages("even", 2), b.Pages("odd", 2)}
	x := []*reprise.Executable{
		b.Load(b.Adder("to odd", chip.Core{X: 1}, bufs[0], bufs[1], 1)),
		b.Load(b.Adder("to even", chip.Core{X: 2}, bufs[1], bufs[0], 1)),
	}
	t = b.Record("chain", func(r *reprise.Recorder) error {
		var errs []error
		for i := range n {
			errs = append(errs, r.Run(x[i%2]))
		}
		return errors.Join(append(errs, r.Param("last", addend))...)
	})
	return t, bufs
}

func TestCheckOfWhatHappensOnce(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, hidden, seen := b.Pages("in", 1), b.Pages("hidden", 1), b.Pages("seen", 1)
		once, other := b.Adder("once", chip.Core{}, in, hidden, 0), b.Adder("again", chip.Core{X: 3}, hidden, seen, 0)
		before := b.Allocated()
		once.Buffers, other.Buffers = nil, []*reprise.Buffer{seen}
		b.Write(in, 50)
		b.Write(hidden, 0)
		y, z := b.Load(other), b.Load(once)
		trace := b.Capture("lost", y, z)
		var ce *debug.CheckError
		if err := trace.Debug().Check(b.Ctx); !errors.As(err, &ce) || ce.Step != -1 || ce.Buffer != "seen" {
			b.Errorf("error %v, want a *CheckError for no step", err)
		}
		b.Must(errors.Join(trace.Release(b.Ctx), y.Release(b.Ctx), z.Release(b.Ctx)))
		b.sameMemory(before)
	})
}

func TestStepOnSecondQueue(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithQueues(2))
	q := b.Dev.Queue(1)
	in, out := b.Pages("in", 2), b.Pages("out", 2)
	x, other := b.Load(b.Adder("x", chip.Core{X: 2}, in, out, 1)), b.Load(b.blank("other", chip.Single(1, 0)))
	r := value(q.Begin("second"))(b)
	b.Must(errors.Join(q.Run(b.Ctx, x), r.Param("addend", addend), b.Queue.Wait(b.Ctx), q.Run(b.Ctx, x)))
	trace := value(r.End(b.Ctx))(b)
	b.Write(in, 5)
	b.Must(errors.Join(b.Queue.Run(b.Ctx, other), b.Queue.Wait(b.Ctx), trace.Set("addend", 9)))
	steps := 0
	b.Must(trace.Debug().Step(b.Ctx, func(i int) error {
		steps++
		b.Holds(out, []uint32{14, 6}[i])
		b.fails("queue 0 beside a step", b.Queue.Run(b.Ctx, other), reprise.ErrReserved)
		return b.Queue.Wait(b.Ctx)
	}))
	equal(t, steps, 2, "steps")
	b.Must(errors.Join(b.Queue.Run(b.Ctx, other), b.Queue.Wait(b.Ctx), trace.Replay(b.Ctx), trace.Release(b.Ctx)))
}

func TestCheckBehindReplay(t *testing.T) {
	left, right := chip.Range{End: chip.Core{X: 3, Y: 3}}, chip.Range{Start: chip.Core{X: 4}, End: chip.Core{X: 7, Y: 3}}
	b := open(t, sim.Blackhole(), reprise.WithQueues(2), reprise.WithQueueWorkers(0, left), reprise.WithQueueWorkers(1, right))
	q0, q1 := b.Dev.Queue(0), b.Dev.Queue(1)
	in, mid, out, far, word := b.Pages("in", 4), b.Pages("mid", 4), b.Pages("out", 4), b.Pages("far", 4), b.word()
	a0, a1 := b.Load(b.Adder("a0", chip.Core{X: 0}, in, mid, 1)), b.Load(b.Adder("a1", chip.Core{X: 4}, far, out, 100))
	wait := b.spin("wait", word, chip.BRISC, chip.Single(4, 0))
	both, err := captureQueues(b.Ctx, "both", []*reprise.Queue{q0, q1}, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(a0), rs[1].Run(wait), rs[1].Run(a1))
	})
	b.Must(err)
	b.Write(in, 1)
	b.Write(mid, 0)
	b.Write(far, 5)
	b.Write(out, 0)
	b.Must(q0.Wait(b.Ctx))
	b.Replay(both)
	done := make(chan error)
	go func() { done <- both.Debug().Check(b.Ctx) }()
	time.Sleep(50 * time.Millisecond)
	b.letGo(q0, word)
	b.Must(<-done)
	b.Must(q1.Wait(b.Ctx))
	b.Holds(out, 105)
}

func TestInsideOfSteps(t *testing.T) {
	b := split(t, sim.Blackhole())
	q := []*reprise.Queue{b.Dev.Queue(0), b.Dev.Queue(1)}
	x, y, z := b.Pages("x", 2), b.Pages("y", 2), b.Pages("z", 2)
	there, back := b.Load(b.Adder("there", chip.Core{X: 1}, x, y, 1)), b.Load(b.Adder("back", chip.Core{X: 5, Y: 1}, y, z, 2))
	e := b.Dev.NewEvent("there")
	trace, err := captureQueues(b.Ctx, "both", q, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(there), rs[0].Param("addend", addend), rs[0].Record(e), rs[1].WaitEvent(e), rs[1].Run(back))
	})
	b.Must(err)
	before, d := b.Allocated(), trace.Debug()
	b.Write(x, 10)
	b.Must(q[0].Wait(b.Ctx))
	calls := 0
	look := func() error {
		calls++
		released := make(chan error)
		go func() { released <- trace.Release(b.Ctx) }()
		for op, err := range map[string]error{
			"replay": trace.Replay(b.Ctx), "release": trace.Release(b.Ctx), "step": d.Step(b.Ctx, nil), "split": d.Split(b.Ctx, 1, nil),
			"check": d.Check(b.Ctx), "bisect": second(d.Bisect(b.Ctx, nil, nil)), "another goroutine's release": <-released,
		} {
			b.fails(op+" from inside", err, reprise.ErrReserved)
		}
		b.fails("check results from inside", d.CheckResults(b.Ctx), debug.ErrNoResults)
		return errors.Join(trace.Save(b.Ctx, io.Discard), d.Verify(b.Ctx))
	}
	b.Must(d.Step(b.Ctx, func(int) error { return look() }))
	b.Holds(z, 13)
	b.Must(d.Split(b.Ctx, 2, func(int, int) error { return look() }))
	step := value(d.Bisect(b.Ctx, func(int) error { return look() }, func(int) (bool, error) { return true, look() }))(b)
	equal(t, step, -1, "step")
	equal(t, calls, 6, "calls")
	b.Must(errors.Join(trace.Set("addend", 5), trace.Replay(b.Ctx), q[1].Wait(b.Ctx)))
	b.Holds(z, 17)
	b.sameMemory(before)
	for op, err := range map[string]error{
		"step":  d.Step(b.Ctx, func(int) error { return b.Dev.Recover(b.Ctx) }),
		"split": d.Split(b.Ctx, 2, func(int, int) error { return b.Dev.Recover(b.Ctx) }),
	} {
		var at *debug.StepError
		if !errors.As(err, &at) || at.First != 0 || !errors.Is(err, reprise.ErrRecovering) {
			t.Errorf("%s, recovered from inside: %v", op, err)
		}
	}
	b.Write(x, 10)
	b.Must(errors.Join(q[0].Wait(b.Ctx), trace.Replay(b.Ctx), q[1].Wait(b.Ctx)))
	b.Holds(z, 17)
	b.Must(trace.Release(b.Ctx))
	b.fails("stepped after the release", d.Step(b.Ctx, nil), reprise.ErrReleased)
}

func TestCloseInsideOfSteps(t *testing.T) {
	onEmulators(t, func(b *bench) {
		trace, _ := b.chain(3)
		steps := 0
		err := trace.Debug().Step(b.Ctx, func(int) error {
			steps++
			return b.Dev.Close(t.Context())
		})
		expect.Fails(b, err, reprise.ErrClosed, "error")
		equal(b, steps, 1, "steps")
	})
}

func TestReleaseWaitsForOthers(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.Load(b.blank("blank", chip.Single(0, 0)))
	trace := b.Capture("t", x)
	r, w := make(chan struct{}), make(chan struct{})
	saved := make(chan error)
	go func() { saved <- trace.Save(b.Ctx, stopper{r, w}) }()
	<-r
	ctx, cancel := context.WithCancel(b.Ctx)
	cancel()
	err := trace.Release(ctx)
	b.Says(err, `release trace "t": it is in use`, "call Release again")
	b.fails("error", err, context.Canceled)
	b.fails("verified while it is released", trace.Debug().Verify(b.Ctx), reprise.ErrReleased)
	released := make(chan error)
	go func() { released <- trace.Release(b.Ctx) }()
	close(w)
	b.Must(errors.Join(<-saved, <-released))
	b.fails("released twice", trace.Release(b.Ctx), reprise.ErrReleased)
}

type stopper struct{ in, out chan struct{} }

func (s stopper) Write(p []byte) (int, error) {
	select {
	case s.in <- struct{}{}:
	case <-s.out:
	}
	<-s.out
	return len(p), nil
}

// Two branches take about as long as one, and keep their order with what is recorded around them.
func TestParallel(t *testing.T) {
	onAll(t, func(b *bench) {
		const pages, each, around = 64, 4, 100
		n := []*reprise.Buffer{b.Pages("0", pages), b.Pages("1", pages)}
		add := []*reprise.Executable{b.Load(b.Adder("add 1", chip.Core{}, n[0], n[0], 1)),
			b.Load(b.Adder("add 2", chip.Core{X: 3, Y: 2}, n[1], n[1], 2))}
		move := b.Load(b.Adder("move", chip.Core{X: 1}, n[0], n[1], around))
		branch := func(r *reprise.Recorder, i int) func() error {
			return func() error {
				return errors.Join(runs(r, slices.Repeat(add[i:i+1], each)...)(), r.Param(fmt.Sprint(i), addend))
			}
		}
		one := b.captureFlow(func(r *reprise.Recorder) error { return branch(r, 0)() })
		both := b.captureFlow(func(r *reprise.Recorder) error { return errors.Join(branch(r, 0)(), branch(r, 1)()) })
		atOnce := b.captureFlow(func(r *reprise.Recorder) error { return r.Parallel(branch(r, 0), branch(r, 1)) })
		begin, end := b.Dev.NewEvent("begin", reprise.Timed()), b.Dev.NewEvent("end", reprise.Timed())
		var took []uint64
		for _, tr := range []*reprise.Trace{one, both, atOnce} {
			b.Replay(tr)
			b.Must(b.Queue.Record(b.Ctx, begin))
			b.Replay(tr)
			b.Must(b.Queue.Record(b.Ctx, end))
			b.Wait()
			from, _ := begin.DeviceTime()
			to, _ := end.DeviceTime()
			took = append(took, to-from)
		}
		if took[2] > took[0]*5/4 || took[2] > took[1]*3/4 {
			b.Errorf("cycles of one branch, both in a row, and both at once: %d", took)
		}
		tr := b.captureFlow(func(r *reprise.Recorder) error {
			return r.Loop(2, func() error { return errors.Join(r.Run(move), r.Parallel(branch(r, 0), branch(r, 1)), r.Run(move)) })
		})
		var file bytes.Buffer
		b.Must(tr.Save(b.Ctx, &file))
		ran := 0
		for what, do := range map[string]func(*reprise.Trace) error{
			"replay": func(t *reprise.Trace) error { return t.Replay(b.Ctx) },
			"step":   func(t *reprise.Trace) error { return t.Debug().Step(b.Ctx, func(int) error { ran++; return nil }) },
			"check":  func(t *reprise.Trace) error { return errors.Join(t.Debug().Check(b.Ctx), t.Replay(b.Ctx)) },
		} {
			loaded := value(b.Dev.LoadTrace(b.Ctx, bytes.NewReader(file.Bytes()), reprise.WithBuffers(n...)))(b)
			for _, tr := range []*reprise.Trace{tr, loaded} {
				b.Must(tr.Set("0", 1000))
				b.Write(n[0], 0)
				b.Must(do(tr))
				b.Wait()
				b.Holds(n[0], 2*(each-1+1000))
				if b.Holds(n[1], 2*(each-1+1000)+around); b.Failed() {
					b.Fatal(what)
				}
				b.Must(tr.Set("0", 1))
			}
		}
		equal(b, ran, 2*2*(2*each+2), "programs stepped through")
		b.halves(0)
		b.Must(b.Dev.ClearSubDevices(b.Ctx))
	})
}

// A file whose steps around branches differ in any bit isn't taken.
func TestParallelFileRefusals(t *testing.T) {
	b := open(t, sim.Blackhole())
	x, y := b.Load(b.blank("x", chip.Grid(3, 2))), b.Load(b.blank("y", chip.Single(0, 4), chip.Single(2, 2)))
	var file bytes.Buffer
	b.Must(b.captureFlow(func(r *reprise.Recorder) error { return r.Parallel(runs(r, x), runs(r, y, y)) }).Save(b.Ctx, &file))
	f := value(tracebuf.Decode(&file))(b)
	for i := range f.Image.Steps {
		s, saved := &f.Image.Steps[i], f.Image.Steps[i].Control
		for at := s.Offset; s.Control.Kind == flow.Divide && at < s.Offset+s.Size; at++ {
			f.Image.Bytes[at] ^= 1
			expect.Says(t, f.Validate(), nil, "commands")
			f.Image.Bytes[at] ^= 1
		}
		s.Control = flow.Control{Kind: flow.Reset}
		expect.Says(t, f.Validate(), nil, "step")
		s.Control = saved
	}
	b.Must(f.Validate())
}

func TestParallelHangs(t *testing.T) {
	onEmulators(t, func(b *bench) {
		n, word := b.Pages("n", 2), b.word()
		add, spin := b.Load(b.Adder("add", chip.Core{}, n, n, 1)), b.spin("spin", word, chip.BRISC, chip.Single(2, 1))
		tr := b.captureFlow(func(r *reprise.Recorder) error { return r.Parallel(runs(r, add, add), runs(r, spin)) })
		b.Write(n, 0)
		b.Replay(tr)
		b.Says(errors.New(strings.ReplaceAll(b.hang(b.Queue.Wait(b.Ctx)).Detail(), "\n", " ")), "completion stream 50", "in spin/wait")
		b.Must(b.Dev.Recover(b.Ctx))
		b.Must(b.Queue.Write(b.Ctx, word, 0, bytes.Repeat([]byte{1, 0, 0, 0}, word.Size()/4)))
		b.Replay(tr)
		b.Holds(n, 4)
	}, short)
}

func TestParallelRefusesSharedCores(t *testing.T) {
	b := open(t, sim.Blackhole())
	x, y := b.Load(b.blank("x", chip.Grid(3, 2))), b.Load(b.blank("y", chip.Range{Start: chip.Core{X: 2}, End: chip.Core{X: 4, Y: 1}}))
	before := b.Allocated()
	_, err := b.Queue.Capture(b.Ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
		return r.Parallel(runs(r, x), runs(r, y))
	})
	var shared *program.SharedCoresError
	var at *reprise.CaptureError
	if !errors.As(err, &shared) || !errors.As(err, &at) || !strings.HasSuffix(at.File, "flow_test.go") {
		t.Fatalf("the error is %v", err)
	}
	noDiff(b, *shared, program.SharedCoresError{Programs: [2]string{"x", "y"}, Cores: []chip.Core{{X: 2}, {X: 2, Y: 1}}}, "the error")
	b.sameMemory(before)
}
