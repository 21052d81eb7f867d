package deploy

import (
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim/driver"
	"github.com/reprise-tt/reprise/sim/emu"
)

// card is an emulated chip with the model of the driver.
type card struct{ node seam.Node }

func (c card) Node() seam.Node { return c.node }
func (c card) String() string  { return c.node.String() }

func emulated(t *testing.T, cfg emu.Config) kmd.Target {
	t.Helper()
	c, err := emu.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d, err := driver.New(driver.Config{Arch: cfg.Arch, Functions: []driver.Function{c}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return card{d.Node(0)}
}

// Slow networks in several orders, on chips that refuse reads of memory that was never written: a
// page that is used before it has arrived shows as a wrong byte or as an error.
func TestEmulatorAgreesBitForBit(t *testing.T) {
	effort.Long(t)
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		for _, cfg := range []emu.Config{
			{Arch: arch},
			{Arch: arch, Seed: 1, Delay: 20, RefuseUnwritten: true},
			{Arch: arch, Seed: 2, Delay: 300, RefuseUnwritten: true},
			{Arch: arch, Seed: 3, Delay: 3000},
			{Arch: arch, Seed: 4, Delay: 100, RefuseUnwritten: true, RefuseStaleCode: true, RefuseRaces: true, RefuseCounters: true, DataCache: true},
			{Arch: arch, Harvesting: chip.Harvesting{Tensix: 0b101}},
		} {
			t.Run(fmt.Sprintf("%v seed %d delay %d harvested %b", arch, cfg.Seed, cfg.Delay, cfg.Harvesting.Tensix), func(t *testing.T) {
				agrees(t, emulated(t, cfg))
			})
		}
	}
}
