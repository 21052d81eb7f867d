package reprise_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/sim"
)

// A word that conditions or arguments are read from is shared memory: a program of another queue
// that overwrites it, while a loop reads it again and again and nothing orders the two, is a race.
// An event orders them.
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

// raceOfLoop has a program of another queue overwrite n while a loop runs that reads it.
func raceOfLoop(t *testing.T, ordered bool, body func(r *reprise.Recorder, x *reprise.Executable, n *reprise.Buffer) error) {
	card := sim.Blackhole(sim.Seed(3), sim.RefuseRaces(), sim.Harvesting(chip.Harvesting{Tensix: 0x3FFC}))
	upper, lower := chip.Range{End: chip.Core{Y: 3}}, chip.Range{Start: chip.Core{Y: 4}, End: chip.Core{Y: 7}}
	b := open(t, card, reprise.WithQueues(2), reprise.WithQueueWorkers(0, upper), reprise.WithQueueWorkers(1, lower),
		reprise.WithHangTimeout(300*time.Millisecond))
	n, m, o := b.pages("n", 2), b.pages("m", 2), b.pages("o", 2)
	b.write(n, 9)
	b.write(m, 0)
	b.must(b.queue.Wait(b.ctx))
	x := b.load(b.adder("x", chip.Core{Y: 1}, m, m, 1))
	other, e := b.dev.Queue(1), b.dev.NewEvent("there")
	before, writer := b.load(b.adder("before", chip.Core{Y: 5}, o, o, 1)), b.load(b.adder("writer", chip.Core{Y: 5}, o, n, 1))
	b.must(other.Write(b.ctx, o, 0, make([]byte, o.Size())))
	b.must(other.Wait(b.ctx))
	trace := b.captureFlow(func(r *reprise.Recorder) error { return r.Loop(400, func() error { return body(r, x, n) }) })
	b.must(trace.Replay(b.ctx))
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
