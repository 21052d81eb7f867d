package sim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/schedules"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

var worker = chip.XY{X: 18, Y: 18} // the first

// add has two processors of a worker each add 1 to a word, and not by an atomic operation.
func add(d *kmd.Device) error {
	program := []uint32{
		0x00030537, // lui a0, 0x30
		0x00052583, // lw a1, 0(a0)
		0x00158593, // addi a1, a1, 1
		0x00B52023, // sw a1, 0(a0)
		0x0000006F, // j .
	}
	var errs []error
	for _, start := range []uint64{0, 0x6000} { // of BRISC and TRISC0
		for i, w := range program {
			errs = append(errs, d.Write32(worker, start+uint64(4*i), w))
		}
	}
	errs = append(errs, d.Write32(worker, 0xFFB121B0, 0x46000)) // out of reset, both at once
	n, err := d.Read32(worker, 0x30000)
	if n != 2 {
		errs = append(errs, fmt.Errorf("the word is %d", n))
	}
	return errors.Join(append(errs, err)...)
}

func adds(ctx context.Context, card *sim.Card) error {
	d, err := kmd.Open(ctx, card)
	if err != nil {
		return err
	}
	defer d.Close()
	return add(d)
}

func ExampleExplore() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	state := filepath.Join(dir, "state.json")
	run := func(ctx context.Context, o sim.Option) error { return adds(ctx, sim.Wormhole(o)) }
	found, err := sim.Explore(context.Background(), sim.Bounds{Schedules: 10, Preemptions: 2, State: state}, run)
	fmt.Printf("schedule %d: %s, %v\n", found.Runs, found.Failure, err)
	again, err := sim.Schedule(state)
	fmt.Println(adds(context.Background(), sim.Wormhole(again)), err)
	// Output:
	// schedule 2: the word is 1, <nil>
	// the word is 1 <nil>
}

func TestDebuggerChangesNoOrder(t *testing.T) {
	ctx, state, stopped, done := t.Context(), filepath.Join(t.TempDir(), "state.json"), make(chan string, 1), make(chan error)
	_, err := sim.Explore(ctx, sim.Bounds{Schedules: 10, Preemptions: 2, State: state},
		func(ctx context.Context, o sim.Option) error { return adds(ctx, sim.Wormhole(o)) })
	expect.Must(t, err)
	found, run := expect.Value(schedules.ReadFile(state))(t), expect.Value(schedules.Open(state))(t)
	card := sim.Wormhole(sim.Scheduled(run), sim.StopAtHold(func(access string) { stopped <- access }), sim.Resident())
	defer card.Close()
	go func() { done <- adds(ctx, card) }()
	expect.Equal(t, <-stopped, found.Pending[0][0].Text, "it stops at")
	d := expect.Value(kmd.Open(ctx, card.Tools()))(t)
	defer d.Close()
	tile := expect.Value(core.Open(d, worker))(t)
	for _, p := range []chip.Processor{chip.BRISC, chip.TRISC0} {
		c := expect.Value(tile.Core(p))(t)
		expect.Must(t, c.Pause(ctx))
		for pc := uint32(0); pc&0xFFF != 0x10; {
			must(t, c.Step(ctx))
			pc = expect.Value(c.Register(core.PC))(t)
		}
		expect.Must(t, c.Detach())
	}
	expect.Equal(t, (<-done).Error(), found.Failure, "the failure")
	expect.Equal(t, run.Result().Held, found.Held, "what happened until then")
}
