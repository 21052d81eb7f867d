package chip_test

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

func ExampleChip_Virtual() {
	// A Wormhole with its fourth row of Tensix tiles fused off: the fifth row takes its place.
	c, err := chip.New(chip.Wormhole, chip.Harvesting{Tensix: 1 << 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	w, h := c.Grid()
	core := chip.Core{X: 0, Y: 3}
	virtual, _ := c.Virtual(core)
	physical, _ := c.Physical(core)
	fmt.Printf("%d x %d workers; core %s is at %s, physically %s\n", w, h, core, virtual, physical)
	// Output: 8 x 9 workers; core (0,3) is at (18,21), physically (1,5)
}

func ExampleChip_Rects() {
	c, err := chip.New(chip.Blackhole, chip.Harvesting{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range c.Rects(chip.Range{End: chip.Core{X: 9, Y: 1}}) {
		start, end := r.Corners(chip.NOC1)
		fmt.Printf("%s to %s reaches %d cores; word %#x\n", start, end, r.Cores, chip.Blackhole.NOCMulticast(start, end))
	}
	// Output: (12,3) to (1,2) reaches 20 cores; word 0xcc081
}

func ExampleEncodeWindow() {
	regs, err := chip.EncodeWindow(chip.Wormhole, 16<<20, chip.WindowConfig{
		Addr: 0xFF000000, Target: chip.XY{X: 18, Y: 18}, Ordering: chip.Strict,
	})
	fmt.Printf("%#x %v\n", regs[:2], err)
	_, err = chip.EncodeWindow(chip.Wormhole, 16<<20, chip.WindowConfig{Addr: 0x1000})
	fmt.Println(err)
	// Output:
	// [0x4920ff 0x40] <nil>
	// chip: wormhole TLB window of 0x1000000 B: address 0x1000: not a multiple of the window's size
}
