package sim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

// Two processors of a worker each add 1 to a word, and not by an atomic operation.
func ExampleExplore() {
	program := []uint32{
		0x00030537, // lui a0, 0x30
		0x00052583, // lw a1, 0(a0)
		0x00158593, // addi a1, a1, 1
		0x00B52023, // sw a1, 0(a0)
		0x0000006F, // j .
	}
	adds := func(ctx context.Context, o sim.Option) error {
		d, err := kmd.Open(ctx, sim.Wormhole(o))
		if err != nil {
			return err
		}
		defer d.Close()
		at := chip.XY{X: 18, Y: 18} // the first worker
		var errs []error
		for _, start := range []uint64{0, 0x6000} { // of BRISC and TRISC0
			for i, w := range program {
				errs = append(errs, d.Write32(at, start+uint64(4*i), w))
			}
		}
		errs = append(errs, d.Write32(at, 0xFFB121B0, 0x46000)) // out of reset, both at once
		n, err := d.Read32(at, 0x30000)
		if n != 2 {
			errs = append(errs, fmt.Errorf("the word is %d", n))
		}
		return errors.Join(append(errs, err)...)
	}
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	state := filepath.Join(dir, "state.json")
	found, err := sim.Explore(context.Background(), sim.Bounds{Schedules: 10, Preemptions: 2, State: state}, adds)
	fmt.Printf("schedule %d: %s, %v\n", found.Runs, found.Failure, err)
	again, err := sim.Schedule(state)
	fmt.Println(adds(context.Background(), again), err)
	// Output:
	// schedule 2: the word is 1, <nil>
	// the word is 1 <nil>
}
