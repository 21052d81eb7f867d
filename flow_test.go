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
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

func (b *bench) captureFlow(f func(r *reprise.Recorder) error) *reprise.Trace {
	b.Helper()
	return b.recorded("flow", f)
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
		n := b.pages("n", 2)
		one := b.load(b.adder("one", chip.Core{X: 1}, n, n, 1))
		fourth := reprise.Cond{Iteration: 1, Is: cq.NoneSet, Value: 3}
		trace := b.captureFlow(func(r *reprise.Recorder) error {
			return r.Loop(10, func() error { return errors.Join(r.If(fourth, runs(r, one), nil), r.Run(one)) })
		})
		for i, c := range trace.Parts()[0].Steps {
			if c.Name == "wait for results" {
				b.Errorf("step %d waits for results, which no condition here needs", i)
			}
		}
		b.write(n, 0)
		b.replay(trace)
		b.holds(n, 3+10)
		b.must(trace.Release(b.ctx))
	})
}

func TestFlowRefusals(t *testing.T) {
	b := open(t, sim.Blackhole())
	elsewhere := open(t, sim.Blackhole())
	n := b.pages("n", 2)
	one := b.load(b.adder("one", chip.Core{X: 1, Y: 2}, n, n, 1))
	other := elsewhere.capture("other", elsewhere.load(elsewhere.blank("blank", elsewhere.dev.Grid())))
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
			return r.If(less(reprise.Cond{Buffer: elsewhere.pages("x", 1)}), runs(r, one), nil)
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
		{"an argument of a loop", func(r *reprise.Recorder) error {
			return errors.Join(r.Loop(2, runs(r, one)), r.Param("x", addend))
		}, []string{`"x"`, "no program"}},
	} {
		trace, err := b.queue.Capture(b.ctx, tc.name, func(_ context.Context, r *reprise.Recorder) error { return tc.do(r) })
		if trace != nil || err == nil {
			t.Errorf("%s: it was recorded", tc.name)
			continue
		}
		b.says(err, tc.says...)
		if tc.name == "a body that fails" && !errors.Is(err, failed) {
			t.Errorf("%v isn't the body's error", err)
		}
	}
	b.must(errors.Join(one.Release(b.ctx), n.Release()))
	if s := b.dev.Memory(allocator.DRAM); s.Allocated != 0 {
		t.Errorf("%d B of DRAM are still allocated", s.Allocated)
	}
}

func from(a reprise.Arg, b *reprise.Buffer, offset int) reprise.Arg {
	a.From, a.Offset = b, offset
	return a
}

func TestWordsAreHeld(t *testing.T) {
	onEmulators(t, func(b *bench) {
		n := b.pages("n", 2)
		one, add := b.load(b.adder("one", chip.Core{X: 1}, n, n, 1)), b.load(b.adder("add", chip.Core{X: 2}, n, n, 0))
		words := func(name string) (all []*reprise.Buffer) {
			for _, kind := range []allocator.Kind{allocator.DRAM, allocator.L1} {
				for i := range 2 {
					all = append(all, b.buffer(reprise.BufferConfig{Kind: kind, Size: 128, PageSize: 64, Name: fmt.Sprint(name, i)}))
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
			b.write(u, 5)
			addrs[u.Addr()] = true
			b.must(u.Release())
		}
		for _, u := range words("other") {
			if addrs[u.Addr()] {
				b.Errorf("memory at %#x was given away", u.Addr())
			}
			b.write(u, 1000)
		}
		b.write(n, 0)
		b.replay(trace)
		b.holds(n, 2*(1+6))
		b.must(trace.Release(b.ctx))
		for _, u := range words("again") {
			if !addrs[u.Addr()] {
				b.Errorf("a buffer lies at %#x: what the trace held isn't free", u.Addr())
			}
		}
	})
}

func TestComputedArgsRefusals(t *testing.T) {
	b, elsewhere := open(t, sim.Blackhole()), open(t, sim.Blackhole())
	n := b.pages("n", 2)
	one := b.load(b.adder("one", chip.Core{X: 1, Y: 2}, n, n, 1))
	for _, tc := range []struct {
		name string
		arg  reprise.Arg
		says []string
	}{
		{"no buffer", addend, []string{`run program "one"`, "From names no buffer"}},
		{"another device's buffer", from(addend, elsewhere.pages("x", 1), 0), []string{"another device"}},
		{"a word outside", from(addend, n, 128), []string{"offset 128", "128 B"}},
		{"half a word", from(addend, n, 2), []string{"offset 2", "multiple of 4"}},
		{"no such argument", from(reprise.Arg{Kernel: "add", Index: 4}, n, 0), []string{"unique argument 4", "has 4"}},
		{"no such kernel", from(reprise.Arg{Kernel: "x", Common: true}, n, 0), []string{"no such kernel"}},
	} {
		trace, err := b.queue.Capture(b.ctx, tc.name, func(_ context.Context, r *reprise.Recorder) error { return r.Run(one, tc.arg) })
		if trace != nil || err == nil {
			t.Errorf("%s: it was recorded", tc.name)
			continue
		}
		b.says(err, tc.says...)
		if arg := (*dispatch.ArgError)(nil); strings.HasPrefix(tc.name, "no such") && !errors.As(err, &arg) {
			t.Errorf("%s: %v is no ArgError", tc.name, err)
		}
	}
	many := make([]reprise.Arg, cq.MaxReadArgs+1)
	for i := range many {
		many[i] = from(addend, b.pages("word", 1), 0)
	}
	_, err := b.queue.Capture(b.ctx, "many", func(_ context.Context, r *reprise.Recorder) error { return r.Run(one, many...) })
	b.says(err, "33 words", "at most 32")
	trace := b.captureFlow(func(r *reprise.Recorder) error { return errors.Join(r.Run(one), r.Run(one, from(addend, n, 0))) })
	b.says(trace.Debug().Split(b.ctx, 2, nil), "arguments that the device computes", "use Follow")
	b.must(trace.Release(b.ctx))
	if err := one.SetArg(from(addend, n, 0), 1); err == nil {
		t.Error("an argument of an executable is one that the device computes")
	} else {
		b.says(err, "give it to Recorder.Run")
	}
}

func TestComputedArgsFileRefusals(t *testing.T) {
	b := open(t, sim.Blackhole())
	k, n := b.pages("k", 2), b.pages("n", 2)
	add := b.load(b.adder("add", chip.Core{X: 2, Y: 1}, n, n, 0))
	trace := b.captureFlow(func(r *reprise.Recorder) error { return r.Run(add, from(addend, k, 64)) })
	var file bytes.Buffer
	b.must(trace.Save(b.ctx, &file))
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
		f, err := tracebuf.Decode(bytes.NewReader(file.Bytes()))
		b.must(err)
		change(f, &f.Image.Steps[0], &f.Image.Steps[1])
		if err := f.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCheckFlow(t *testing.T) {
	onEmulators(t, func(b *bench) {
		n, hidden, seen := b.pages("n", 1), b.pages("hidden", 1), b.pages("seen", 1)
		one := b.load(b.adder("one", chip.Core{X: 1}, n, n, 1))
		count := b.adder("count", chip.Core{}, hidden, hidden, 1)
		count.Buffers = nil
		show := b.adder("show", chip.Core{X: 3}, hidden, seen, 0)
		show.Buffers = []*reprise.Buffer{seen}
		counts, shows := b.load(count), b.load(show)
		for _, u := range []*reprise.Buffer{n, hidden, seen} {
			b.write(u, 0)
		}
		trace := b.captureFlow(func(r *reprise.Recorder) error {
			return r.Loop(3, func() error {
				return errors.Join(r.Run(one), r.If(reprise.Cond{Buffer: n, Is: cq.Equal, Value: 2}, runs(r, counts, shows), nil))
			})
		})
		var ce *debug.CheckError
		err := trace.Debug().Check(b.ctx)
		if !errors.As(err, &ce) || ce.Name != "show" || ce.Buffer != "seen" || len(ce.Loops) != 1 || ce.Loops[0].Iteration != 1 {
			b.Errorf("found %v", err)
		}
		b.says(err, `program "show" in loop 0, iteration 1 of 3`)
		b.holds(n, 0)

		endless := b.captureFlow(func(r *reprise.Recorder) error {
			return r.While(reprise.Cond{Buffer: n, Is: cq.Less, Value: 100}, 3, runs(r, one))
		})
		ran := 0
		err = endless.Debug().Step(b.ctx, func(int) error { ran++; return nil })
		var se *debug.StepError
		if !errors.Is(err, debug.ErrLimit) || !errors.As(err, &se) || ran != 3 ||
			!slices.ContainsFunc(se.Loops, func(i debug.Iteration) bool { return i.Iteration == 3 }) {
			b.Errorf("after %d programs: %v", ran, err)
		}
		b.write(n, 98)
		b.replay(endless)
		b.holds(n, 100)
		b.must(errors.Join(trace.Release(b.ctx), endless.Release(b.ctx)))
	})
}

func TestFollow(t *testing.T) {
	onAll(t, func(b *bench) {
		n := b.pages("n", 2)
		add := func(name string, k uint32) *reprise.Executable {
			return b.load(b.adder(name, chip.Core{X: int(k) % 3, Y: 1}, n, n, k))
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
		b.must(inner.Release(b.ctx))
		before := b.allocated()
		b.write(n, 0)
		var at []string
		b.must(trace.Debug().Follow(b.ctx, func(p debug.Position) bool { return p.Kind == flow.Loop && p.Run == 1 },
			func(p debug.Position) error {
				at = append(at, fmt.Sprintf("%v %s: %d %v", p.Kind, p.Name, binary.LittleEndian.Uint32(b.read(n)), p.Loops))
				return nil
			}))
		noDiff(b, at, []string{
			"none one: 1 []",
			"none ten: 11 [loop 0, iteration 0 of 2]", "branch if n[0] < 20: 12 [loop 0, iteration 0 of 2]",
			"none ten: 22 [loop 0, iteration 1 of 2]", "branch if n[0] < 20: 32 [loop 0, iteration 1 of 2]",
			"call call flow: 33 []", "loop while n[0] < 100: 133 []", "none one: 134 []",
		}, "positions")
		times := value(trace.Debug().Times(b.ctx))(b)
		var timed []string
		for _, x := range times {
			timed = append(timed, x.Name)
		}
		noDiff(b, timed, []string{"one", "ten", "ten", "ten", "ten", "one", "one"}, "programs with times")
		b.sameMemory(before)
		b.says(trace.Debug().Split(b.ctx, 2, nil), "control flow", "use Follow")
		b.must(trace.Release(b.ctx))
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
	n, m, o := b.pages("n", 2), b.pages("m", 2), b.pages("o", 2)
	b.write(n, 9)
	b.write(m, 0)
	b.wait()
	x := b.load(b.adder("x", chip.Core{Y: 1}, m, m, 1))
	other, e := b.dev.Queue(1), b.dev.NewEvent("there")
	before, writer := b.load(b.adder("before", chip.Core{Y: 5}, o, o, 1)), b.load(b.adder("writer", chip.Core{Y: 5}, o, n, 1))
	b.must(other.Write(b.ctx, o, 0, make([]byte, o.Size())))
	b.must(other.Wait(b.ctx))
	trace := b.captureFlow(func(r *reprise.Recorder) error { return r.Loop(400, func() error { return body(r, x, n) }) })
	b.replay(trace)
	if ordered {
		b.must(errors.Join(b.queue.Record(b.ctx, e), other.WaitEvent(b.ctx, e)))
	}
	var errs []error
	for range 5 {
		errs = append(errs, other.Run(b.ctx, before))
	}
	err := errors.Join(errors.Join(errs...), other.Run(b.ctx, writer), other.Wait(b.ctx), b.queue.Wait(b.ctx))
	if ordered {
		b.must(errors.Join(err, trace.Release(b.ctx)))
		return
	}
	var hang *dispatch.HangError
	if fault := card.Chip().Fault(); !errors.As(err, &hang) || fault == nil || !strings.Contains(fault.Error(), "race") {
		t.Errorf("a race: %v, the chip has %v", err, fault)
	}
}

func (b *bench) chain(n int) (t *reprise.Trace, bufs [2]*reprise.Buffer) {
	b.Helper()
	bufs = [2]*reprise.Buffer{b.pages("even", 2), b.pages("odd", 2)}
	x := []*reprise.Executable{
		b.load(b.adder("to odd", chip.Core{X: 1}, bufs[0], bufs[1], 1)),
		b.load(b.adder("to even", chip.Core{X: 2}, bufs[1], bufs[0], 1)),
	}
	t = b.recorded("chain", func(r *reprise.Recorder) error {
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
		in, hidden, seen := b.pages("in", 1), b.pages("hidden", 1), b.pages("seen", 1)
		once, other := b.adder("once", chip.Core{}, in, hidden, 0), b.adder("again", chip.Core{X: 3}, hidden, seen, 0)
		before := b.allocated()
		once.Buffers, other.Buffers = nil, []*reprise.Buffer{seen}
		b.write(in, 50)
		b.write(hidden, 0)
		y, z := b.load(other), b.load(once)
		trace := b.capture("lost", y, z)
		var ce *debug.CheckError
		if err := trace.Debug().Check(b.ctx); !errors.As(err, &ce) || ce.Step != -1 || ce.Buffer != "seen" {
			b.Errorf("error %v, want a *CheckError for no step", err)
		}
		b.must(errors.Join(trace.Release(b.ctx), y.Release(b.ctx), z.Release(b.ctx)))
		b.sameMemory(before)
	})
}

func TestStepOnSecondQueue(t *testing.T) {
	b := open(t, sim.Wormhole(), reprise.WithQueues(2))
	q := b.dev.Queue(1)
	in, out := b.pages("in", 2), b.pages("out", 2)
	x, other := b.load(b.adder("x", chip.Core{X: 2}, in, out, 1)), b.load(b.blank("other", chip.Single(1, 0)))
	r, err := q.Begin("second")
	b.must(err)
	b.must(errors.Join(q.Run(b.ctx, x), r.Param("addend", addend), b.queue.Wait(b.ctx), q.Run(b.ctx, x)))
	trace, err := r.End(b.ctx)
	b.must(err)
	b.write(in, 5)
	b.must(errors.Join(b.queue.Run(b.ctx, other), b.queue.Wait(b.ctx), trace.Set("addend", 9)))
	steps := 0
	b.must(trace.Debug().Step(b.ctx, func(i int) error {
		steps++
		b.holds(out, []uint32{14, 6}[i])
		b.fails("queue 0 beside a step", b.queue.Run(b.ctx, other), reprise.ErrReserved)
		return b.queue.Wait(b.ctx)
	}))
	if steps != 2 {
		t.Errorf("%d steps", steps)
	}
	b.must(errors.Join(b.queue.Run(b.ctx, other), b.queue.Wait(b.ctx), trace.Replay(b.ctx), trace.Release(b.ctx)))
}

func TestCheckBehindReplay(t *testing.T) {
	left, right := chip.Range{End: chip.Core{X: 3, Y: 3}}, chip.Range{Start: chip.Core{X: 4}, End: chip.Core{X: 7, Y: 3}}
	b := open(t, sim.Blackhole(), reprise.WithQueues(2), reprise.WithQueueWorkers(0, left), reprise.WithQueueWorkers(1, right))
	q0, q1 := b.dev.Queue(0), b.dev.Queue(1)
	in, mid, out, far, word := b.pages("in", 4), b.pages("mid", 4), b.pages("out", 4), b.pages("far", 4), b.word()
	a0, a1 := b.load(b.adder("a0", chip.Core{X: 0}, in, mid, 1)), b.load(b.adder("a1", chip.Core{X: 4}, far, out, 100))
	wait := b.spin("wait", word, chip.BRISC, chip.Single(4, 0))
	both, err := captureQueues(b.ctx, "both", []*reprise.Queue{q0, q1}, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(a0), rs[1].Run(wait), rs[1].Run(a1))
	})
	b.must(err)
	b.write(in, 1)
	b.write(mid, 0)
	b.write(far, 5)
	b.write(out, 0)
	b.must(q0.Wait(b.ctx))
	b.replay(both)
	done := make(chan error)
	go func() { done <- both.Debug().Check(b.ctx) }()
	time.Sleep(50 * time.Millisecond)
	b.letGo(q0, word)
	b.must(<-done)
	b.must(q1.Wait(b.ctx))
	b.holds(out, 105)
}

func TestInsideOfSteps(t *testing.T) {
	b := split(t, sim.Blackhole())
	q := []*reprise.Queue{b.dev.Queue(0), b.dev.Queue(1)}
	x, y, z := b.pages("x", 2), b.pages("y", 2), b.pages("z", 2)
	there, back := b.load(b.adder("there", chip.Core{X: 1}, x, y, 1)), b.load(b.adder("back", chip.Core{X: 5, Y: 1}, y, z, 2))
	e := b.dev.NewEvent("there")
	trace, err := captureQueues(b.ctx, "both", q, func(rs []*reprise.Recorder) error {
		return errors.Join(rs[0].Run(there), rs[0].Param("addend", addend), rs[0].Record(e), rs[1].WaitEvent(e), rs[1].Run(back))
	})
	b.must(err)
	before, d := b.allocated(), trace.Debug()
	b.write(x, 10)
	b.must(q[0].Wait(b.ctx))
	calls := 0
	look := func() error {
		calls++
		released := make(chan error)
		go func() { released <- trace.Release(b.ctx) }()
		for op, err := range map[string]error{
			"replay": trace.Replay(b.ctx), "release": trace.Release(b.ctx), "step": d.Step(b.ctx, nil), "split": d.Split(b.ctx, 1, nil),
			"check": d.Check(b.ctx), "bisect": second(d.Bisect(b.ctx, nil, nil)), "another goroutine's release": <-released,
		} {
			b.fails(op+" from inside", err, reprise.ErrReserved)
		}
		b.fails("check results from inside", d.CheckResults(b.ctx), debug.ErrNoResults)
		return errors.Join(trace.Save(b.ctx, io.Discard), d.Verify(b.ctx))
	}
	b.must(d.Step(b.ctx, func(int) error { return look() }))
	b.holds(z, 13)
	b.must(d.Split(b.ctx, 2, func(int, int) error { return look() }))
	step, err := d.Bisect(b.ctx, func(int) error { return look() }, func(int) (bool, error) { return true, look() })
	b.must(err)
	if step != -1 || calls != 6 {
		t.Errorf("%d calls, step %d", calls, step)
	}
	b.must(errors.Join(trace.Set("addend", 5), trace.Replay(b.ctx), q[1].Wait(b.ctx)))
	b.holds(z, 17)
	b.sameMemory(before)
	for op, err := range map[string]error{
		"step":  d.Step(b.ctx, func(int) error { return b.dev.Recover(b.ctx) }),
		"split": d.Split(b.ctx, 2, func(int, int) error { return b.dev.Recover(b.ctx) }),
	} {
		var at *debug.StepError
		if !errors.As(err, &at) || at.First != 0 || !errors.Is(err, reprise.ErrRecovering) {
			t.Errorf("%s, recovered from inside: %v", op, err)
		}
	}
	b.write(x, 10)
	b.must(errors.Join(q[0].Wait(b.ctx), trace.Replay(b.ctx), q[1].Wait(b.ctx)))
	b.holds(z, 17)
	b.must(trace.Release(b.ctx))
	b.fails("stepped after the release", d.Step(b.ctx, nil), reprise.ErrReleased)
}

func TestCloseInsideOfSteps(t *testing.T) {
	onEmulators(t, func(b *bench) {
		trace, _ := b.chain(3)
		steps := 0
		err := trace.Debug().Step(b.ctx, func(int) error {
			steps++
			return b.dev.Close(t.Context())
		})
		if !errors.Is(err, reprise.ErrClosed) || steps != 1 {
			b.Errorf("%d steps, %v, want ErrClosed", steps, err)
		}
	})
}

func TestReleaseWaitsForOthers(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.load(b.blank("blank", chip.Single(0, 0)))
	trace := b.capture("t", x)
	r, w := make(chan struct{}), make(chan struct{})
	saved := make(chan error)
	go func() { saved <- trace.Save(b.ctx, stopper{r, w}) }()
	<-r
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	err := trace.Release(ctx)
	b.says(err, `release trace "t": it is in use`, "call Release again")
	b.fails("error", err, context.Canceled)
	b.fails("verified while it is released", trace.Debug().Verify(b.ctx), reprise.ErrReleased)
	released := make(chan error)
	go func() { released <- trace.Release(b.ctx) }()
	close(w)
	b.must(errors.Join(<-saved, <-released))
	b.fails("released twice", trace.Release(b.ctx), reprise.ErrReleased)
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
