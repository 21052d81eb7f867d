package sim_test

import (
	"context"
	"fmt"

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
		c, err := chip.New(chip.Wormhole, chip.Harvesting{})
		if err != nil {
			return err
		}
		at, err := c.Virtual(chip.Core{})
		if err != nil {
			return err
		}
		for _, start := range []uint64{0, 0x6000} { // of BRISC and TRISC0
			for i, w := range program {
				if err := d.Write32(at, start+uint64(4*i), w); err != nil {
					return err
				}
			}
		}
		if err := d.Write32(at, 0xFFB121B0, 0x46000); err != nil { // out of reset, both at once
			return err
		}
		n, err := d.Read32(at, 0x30000)
		if err == nil && n != 2 {
			err = fmt.Errorf("the word is %d", n)
		}
		return err
	}
	found, err := sim.Explore(context.Background(), sim.Bounds{Schedules: 10, Preemptions: 2}, adds)
	if err != nil {
		panic(err)
	}
	fmt.Printf("schedule %d: %s\n", found.Runs, found.Failure)
	again, err := sim.Schedule(found.Failing)
	if err != nil {
		panic(err)
	}
	fmt.Println(adds(context.Background(), again))
	// Output:
	// schedule 2: the word is 1
	// the word is 1
}
