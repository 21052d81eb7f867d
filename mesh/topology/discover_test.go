package topology_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/remote"
	"github.com/reprise-tt/reprise/mesh/topology"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

func discover(t *testing.T, devices ...*kmd.Device) *topology.Graph {
	t.Helper()
	g, err := topology.Discover(t.Context(), devices)
	devtest.Must(t, err)
	return g
}

func devices(t *testing.T, m *sim.Machine) []*kmd.Device {
	t.Helper()
	var ds []*kmd.Device
	for _, c := range m.Cards() {
		ds = append(ds, open(t, c))
	}
	return ds
}

func ends(g *topology.Graph, m chip.Machine) []chip.Link {
	number := func(i int) int {
		for n, c := range m.Chips {
			if g.Chips[i].PCI == "" && (remote.Place{X: c.X, Y: c.Y}) == g.Chips[i].Place && !c.PCI {
				return n
			}
		}
		pci := 0
		for n, c := range m.Chips {
			if c.PCI {
				if pci == i {
					return n
				}
				pci++
			}
		}
		return -1
	}
	var out []chip.Link
	for _, l := range g.Links {
		a, b := number(l.A.Chip), number(l.B.Chip)
		if e := (chip.Link{Chip: a, Channel: l.A.Channel, PeerChip: b, PeerChannel: l.B.Channel}); l.State == topology.Up {
			out = append(out, inOrder(e))
		}
	}
	return sorted(out)
}

func inOrder(l chip.Link) chip.Link {
	if l.PeerChip < l.Chip {
		return chip.Link{Chip: l.PeerChip, Channel: l.PeerChannel, PeerChip: l.Chip, PeerChannel: l.Channel}
	}
	return l
}

func sorted(l []chip.Link) []chip.Link {
	slices.SortFunc(l, func(a, b chip.Link) int {
		return (a.Chip-b.Chip)*10000 + (a.Channel-b.Channel)*100 + a.PeerChip - b.PeerChip
	})
	return l
}

func TestDiscoverMachines(t *testing.T) {
	for _, spec := range chip.Machines() {
		m := emulated(t, sim.NewMachine(spec))
		g := discover(t, devices(t, m)...)
		var want []chip.Link
		for _, l := range spec.Links {
			want = append(want, inOrder(l))
		}
		if diff := cmp.Diff(sorted(want), ends(g, spec)); diff != "" {
			t.Errorf("%v: links (-described +found):\n%s", m, diff)
		}
		if d := g.Degraded(); len(d) != 0 || len(g.Chips) != len(spec.Chips) {
			t.Errorf("%v: %d chips of %d; %v", m, len(g.Chips), len(spec.Chips), d)
		}
		if c, l := g.Missing(spec); c != 0 || l != 0 {
			t.Errorf("%v: %d chips and %d links are missing", m, c, l)
		}
	}
}

func TestDiscoverNamesChips(t *testing.T) {
	m := emulated(t, sim.N300())
	g := discover(t, devices(t, m)...)
	if c := g.Chips[0]; c.Name != "0000:01:00.0" || c.Serial != "0000014000000001" || c.ASIC != "0000000100000001" || c.Gateway != nil {
		t.Errorf("%+v", c)
	}
	if c := g.Chips[1]; c.Name != "0000:01:00.0/eth8" || c.ASIC != "0000000100000002" ||
		*c.Gateway != (topology.End{Chip: 0, Channel: 8}) ||
		c.Place != (remote.Place{X: 1}) || c.Problem != nil {
		t.Errorf("%+v", c)
	}
	if n := g.Neighbors(1); len(n) != 1 || n[0] != 2 {
		t.Errorf("neighbors %v", n)
	}
}

func TestDiscoverDegraded(t *testing.T) {
	m := emulated(t, sim.QuietBox(sim.LinkFault("link-down=0:5"), sim.LinkFault("link-down=1:4")))
	ds := devices(t, m)
	g := discover(t, ds...)
	if d := g.Degraded(); len(d) != 2 || !strings.Contains(d[0], "eth5 is down") && !strings.Contains(d[0], "eth5 - ") {
		t.Errorf("two links are down: %q", d)
	}
	if c, l := g.Missing(m.Spec()); c != 0 || l != 2 {
		t.Errorf("%d chips and %d links are missing, want 0 and 2", c, l)
	}
	g = discover(t, ds[:3]...)
	if c, _ := g.Missing(m.Spec()); c != 1 || len(g.Chips) != 4 || !errors.Is(g.Chips[3].Problem, remote.ErrUnreachable) {
		t.Errorf("without a card: %d chips are missing, %+v", c, g.Chips[3])
	}
	n300 := emulated(t, sim.N300(sim.LinkFault("link-down=0:8")))
	g = discover(t, devices(t, n300)...)
	if len(g.Chips) != 2 || len(g.Degraded()) == 0 {
		t.Errorf("n300 with a link down: %+v", g)
	}
	if _, err := topology.Discover(t.Context(), []*kmd.Device{ds[0], open(t, sim.Wormhole())}); !errors.Is(err, topology.ErrMixed) {
		t.Errorf("both architectures: %v", err)
	}
}

func TestDiscoverSimulator(t *testing.T) {
	for _, tt := range []struct {
		variable string
		spec     chip.Machine
	}{{ttsimtest.WormholeX2, chip.N300()}, {ttsimtest.BlackholeX2, chip.P300()}} {
		t.Run(tt.spec.Name, func(t *testing.T) {
			s, err := ttsim.Start(ttsimtest.Path(t, tt.variable), ttsimtest.Server())
			devtest.Must(t, err)
			t.Cleanup(func() { s.Close() })
			cards, err := s.Cards()
			devtest.Must(t, err)
			var ds []*kmd.Device
			for _, c := range cards {
				ds = append(ds, open(t, c))
			}
			g := discover(t, ds...)
			if d := g.Degraded(); len(d) != 0 || len(g.Chips) != 2 {
				t.Errorf("%d chips, %q", len(g.Chips), d)
			}
			var want []chip.Link
			for _, l := range tt.spec.Links {
				want = append(want, inOrder(l))
			}
			if diff := cmp.Diff(sorted(want), ends(g, tt.spec)); diff != "" {
				t.Errorf("links (-described +found):\n%s", diff)
			}
		})
	}
}

func open(t *testing.T, target kmd.Target) *kmd.Device {
	t.Helper()
	d, err := kmd.Open(t.Context(), target)
	devtest.Must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func emulated(t *testing.T, m *sim.Machine) *sim.Machine {
	t.Helper()
	if m.Err() != nil {
		t.Fatal(m.Err())
	}
	t.Cleanup(func() { m.Close() })
	return m
}
