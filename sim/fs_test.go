package sim_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/driver"
)

func TestCardsHaveAMachine(t *testing.T) {
	for _, tt := range []struct {
		card  *sim.Card
		board string
		iommu kmd.IOMMU
	}{
		{sim.Blackhole(), "p150a", kmd.IOMMUTranslating},
		{sim.Wormhole(sim.WithoutIOMMU()), "n150", kmd.IOMMUOff},
	} {
		c := kmd.Inspect(t.Context(), tt.card)
		if c.Problem != nil || c.Board != tt.board || c.IOMMU != tt.iommu || c.Harvesting == nil || !c.AICLK.OK || len(c.Holders) != 0 {
			t.Errorf("%+v", c)
		}
		open(t, tt.card)
		if c := kmd.Inspect(t.Context(), tt.card); len(c.Holders) != 1 {
			t.Errorf("open, and held by %v", c.Holders)
		}
		b, err := fs.ReadFile(tt.card.FS(), "sys/module/tenstorrent/version")
		if err != nil || strings.TrimSpace(string(b)) != "2.10.0" {
			t.Errorf("version %q, %v", b, err)
		}
	}
}

func TestFaultyCards(t *testing.T) {
	d := open(t, sim.Blackhole(sim.Fault("busy-windows")))
	fails(t, second(d.OpenWindow(2<<20, kmd.Uncached)), kmd.ErrBusy, "busy windows")
	fails(t, second(kmd.Open(t.Context(), sim.Blackhole(sim.Fault("hiccups")))), driver.ErrConfig, "a fault that isn't known")
	fails(t, second(fs.ReadFile(sim.Blackhole(sim.DriverVersion(1, 0, 0)).FS(), "dev")), fs.ErrNotExist, "a machine that can't exist")
}
