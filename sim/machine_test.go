package sim_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh/topology"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu"
)

func machine(t *testing.T, m *sim.Machine) *sim.Machine {
	t.Helper()
	if m.Err() != nil {
		t.Fatal(m.Err())
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestMachinesAreListed(t *testing.T) {
	for _, tt := range []struct {
		machine *sim.Machine
		cards   int
		board   string
	}{
		{sim.N150(), 1, "n150"}, {sim.N300(), 1, "n300"}, {sim.T3000(), 4, "n300"}, {sim.P100(), 1, "p100a"},
		{sim.P150(), 1, "p150a"}, {sim.P300(), 2, "p300b"}, {sim.QuietBox(), 4, "p150a"},
	} {
		m := machine(t, tt.machine)
		l, err := kmd.SystemOf(m.Card(0)).List(t.Context())
		if err != nil || len(l) != tt.cards || len(m.Cards()) != tt.cards {
			t.Fatalf("%v: %d cards of %d, %v", m, len(l), len(m.Cards()), err)
		}
		serials := map[string]bool{}
		for _, c := range l {
			if c.Problem != nil || c.Board != tt.board || c.Harvesting == nil {
				t.Errorf("%v: %+v", m, c)
			}
			serials[c.Serial] = true
		}
		if tt.cards > 2 && len(serials) != tt.cards {
			t.Errorf("%v: serial numbers %v", m, serials)
		}
	}
}

func TestGalaxiesAreCheap(t *testing.T) {
	for _, open := range []func(...sim.Option) *sim.Machine{sim.GalaxyWormhole, sim.GalaxyBlackhole} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		m := machine(t, open())
		var g errgroup.Group
		devices := make([]*kmd.Device, len(m.Cards()))
		for i, c := range m.Cards() {
			g.Go(func() (err error) {
				devices[i], err = kmd.Open(context.Background(), c)
				return err
			})
		}
		must(t, g.Wait())
		took := time.Since(start)
		runtime.GC()
		runtime.ReadMemStats(&after)
		// What tests before have left may be collected only now, so that there is less than before.
		perChip := max(int64(after.HeapAlloc)-int64(before.HeapAlloc), 0) / int64(len(devices))
		t.Logf("%v: 32 chips open in %v, %d KiB of memory for each", m, took, perChip>>10)
		if perChip > 16<<20 {
			t.Errorf("%v: %d bytes of memory for an idle chip", m, perChip)
		}
		for i, d := range devices {
			if d.Arch() != m.Spec().Arch || len(m.Chip(i).Cores()) != 0 {
				t.Errorf("%v: chip %d is %v and runs %v", m, i, d.Arch(), m.Chip(i).Cores())
			}
			d.Close()
		}
	}
}

func TestImpossibleMachines(t *testing.T) {
	for _, m := range []*sim.Machine{
		sim.NewMachine(chip.Machine{Name: "none", Arch: chip.Wormhole}),
		sim.N300(sim.LinkFault("link-cut=0:8")), sim.N300(sim.LinkFault("link-down=0:1")), sim.N300(sim.LinkFault("link-drop=8")),
		sim.N300(sim.LinkFault("link-drop=0:8/0")),
	} {
		fails(t, m.Err(), emu.ErrConfig, "%v", m)
		for _, c := range m.Cards() {
			fails(t, second(kmd.Open(t.Context(), c)), emu.ErrConfig, "%v: open", m)
		}
	}
	fails(t, second(kmd.Open(t.Context(), sim.Wormhole(sim.LinkFault("link-down=0:8")))), emu.ErrConfig, "a link of a card by itself")
	m := machine(t, sim.N300(sim.LinkFault("link-down=0:8"), sim.LinkFault("link-delay=1:1/5"), sim.LinkFault("link-duplicate=0:9/5")))
	must(t, m.SetLink(0, 8, true))
}

func TestTopologyIsCleanOnStrictMachines(t *testing.T) {
	for _, m := range []*sim.Machine{
		sim.N300(sim.Strict(3)), sim.T3000(sim.Strict(5), sim.Synchronous()), sim.QuietBox(sim.Strict(4), sim.Synchronous()),
	} {
		machine(t, m)
		var ds []*kmd.Device
		for _, c := range m.Cards() {
			ds = append(ds, open(t, c))
		}
		g, err := topology.Discover(t.Context(), ds)
		if err != nil || len(g.Degraded()) != 0 || len(g.Links) != len(m.Spec().Links) {
			t.Errorf("%v: %d links, %v, %v", m, len(g.Links), g.Degraded(), err)
		}
		for i := range m.Spec().Chips {
			if err := m.Chip(i).Fault(); err != nil {
				t.Errorf("%v: chip %d: %v", m, i, err)
			}
		}
	}
}
