package topology_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/seam"
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
	return expect.Value(topology.Discover(t.Context(), devices))(t)
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
		expect.NoDiff(t, ends(g, spec), sorted(want), "%v: links", m)
		if d := g.Degraded(); len(d) != 0 || len(g.Chips) != len(spec.Chips) {
			t.Errorf("%v: %d chips of %d; %v", m, len(g.Chips), len(spec.Chips), d)
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
	g = discover(t, ds[:3]...)
	if len(g.Chips) != 4 || !errors.Is(g.Chips[3].Problem, remote.ErrUnreachable) {
		t.Errorf("without a card: %+v", g.Chips)
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
			s := expect.Value(ttsim.Start(ttsimtest.Path(t, tt.variable), ttsimtest.Server()))(t)
			t.Cleanup(func() { s.Close() })
			cards := expect.Value(s.Cards())(t)
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
			expect.NoDiff(t, ends(g, tt.spec), sorted(want), "links")
		})
	}
}

func open(t *testing.T, target kmd.Target) *kmd.Device {
	t.Helper()
	d := expect.Value(kmd.Open(t.Context(), target))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

func emulated(t *testing.T, m *sim.Machine) *sim.Machine {
	t.Helper()
	expect.Must(t, m.Err())
	t.Cleanup(func() { m.Close() })
	return m
}

func far(t *testing.T, m *sim.Machine) *kmd.Device {
	t.Helper()
	near := open(t, m.Card(0))
	g := expect.Value(topology.Discover(t.Context(), []*kmd.Device{near}))(t)
	target := expect.Value(g.Remote(1, []kmd.Target{m.Card(0)}))(t)
	return open(t, target)
}

type withoutDebug struct{ kmd.Target }

func (w withoutDebug) Node() seam.Node { return withoutDebugNode{w.Target.Node()} }

type withoutDebugNode struct{ seam.Node }

func (n withoutDebugNode) Open(flags int) (seam.File, error) {
	f, err := n.Node.Open(flags)
	return withoutDebugFile{f}, err
}

type withoutDebugFile struct{ seam.File }

func (withoutDebugFile) CoreDebug() bool { return false }

// A report of a remote chip's hang must not stop a simulator that has no debug interface.
func TestFarDebugInterface(t *testing.T) {
	m := emulated(t, sim.N300())
	g := expect.Value(topology.Discover(t.Context(), []*kmd.Device{open(t, m.Card(0))}))(t)
	for _, tt := range []struct {
		near kmd.Target
		want bool
	}{{m.Card(0), true}, {withoutDebug{m.Card(0)}, false}} {
		target := expect.Value(g.Remote(1, []kmd.Target{tt.near}))(t)
		expect.Equal(t, open(t, target).CoreDebug(), tt.want, "behind %T: debug interface", tt.near)
	}
}

func TestFarDevice(t *testing.T) {
	m := emulated(t, sim.N300(sim.Strict(3)))
	d := far(t, m)
	devtest.Must(t, d.Alive())
	h, err := d.Harvesting(t.Context())
	if err != nil || h != m.Spec().Chips[1].Harvesting {
		t.Errorf("harvesting %v, %v: want %v", h, err, m.Spec().Chips[1].Harvesting)
	}
	expect.Equal(t, len(expect.Value(d.Mappings())(t)), 0, "mappings that are left")
	first, last := chip.XY{X: 18, Y: 18}, chip.XY{X: 25, Y: 25}
	whole := make([]byte, 9000)
	for i := range whole {
		whole[i] = byte(i*13 + i>>7)
	}
	devtest.Must(t, d.Multicast(first, last, 0x20000, whole[:8192]))
	devtest.Must(t, d.Multicast(first, last, 0x24000, whole[:8]))
	for _, xy := range []chip.XY{first, {X: 21, Y: 20}, last} {
		got := make([]byte, 8192)
		if err := d.Read(xy, 0x20000, got); err != nil || !bytes.Equal(got, whole[:8192]) {
			t.Errorf("core %v has other bytes than were multicast; %v", xy, err)
		}
		if err := d.Read(xy, 0x24000, got[:8]); err != nil || !bytes.Equal(got[:8], whole[:8]) {
			t.Errorf("core %v has % x; %v", xy, got[:8], err)
		}
	}
	for _, tt := range []struct{ at, n int }{{0, 1}, {1, 3}, {5, 64}, {30, 100}, {32, 4096}, {3, 8000}} {
		dram := chip.XY{}
		devtest.Must(t, d.Write(dram, 0x100000, make([]byte, 9000)))
		want := make([]byte, 9000)
		copy(want[tt.at:], whole[:tt.n])
		devtest.Must(t, d.Write(dram, 0x100000+uint64(tt.at), whole[:tt.n]))
		got := make([]byte, 9000)
		if err := d.Read(dram, 0x100000, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes at %d: other bytes were read than written; %v", tt.n, tt.at, err)
		}
		if err := d.Read(dram, 0x100000+uint64(tt.at), got[:tt.n]); err != nil || !bytes.Equal(got[:tt.n], whole[:tt.n]) {
			t.Errorf("%d bytes at %d: the part differs; %v", tt.n, tt.at, err)
		}
	}
	w := expect.Value(d.OpenWindow(1<<20, kmd.Uncached))(t)
	devtest.Must(t, w.Configure(kmd.WindowConfig{Target: first}))
	w.Store64(0x30000, 0x0807060504030201)
	w.Store8(0x30001, 0xAA)
	w.Store16(0x30006, 0xBBCC)
	if v := w.Load64(0x30000); v != 0xBBCC06050403AA01 || w.Load16(0x30006) != 0xBBCC || w.Load8(0x30001) != 0xAA {
		t.Errorf("the window has %#x", v)
	}
	expect.Error(t, expect.ErrOf(d.PinHostMemory(4096))) // the chip reaches no host memory
	if u := d.Uplink(); u == nil || u.Link.NearChannel != 9 {
		t.Errorf("uplink %+v: want the last link", u)
	}
	for i := range 2 {
		if err := m.Chip(i).Fault(); err != nil {
			t.Error(err)
		}
	}
}

func TestFarLinkWithoutAnEnd(t *testing.T) {
	port := func(n int, peer topology.End) topology.Port {
		return topology.Port{Channel: n, State: topology.Up, Peer: &peer}
	}
	g := &topology.Graph{Arch: chip.Wormhole, Chips: []topology.Chip{
		{Name: "near", PCI: "0000:01:00.0", Ports: []topology.Port{port(0, topology.End{Chip: 1, Channel: 0})}},
		{Name: "far", Ports: []topology.Port{port(0, topology.End{Chip: 0, Channel: 200})}},
	}, Links: []topology.Link{{A: topology.End{Chip: 1}, B: topology.End{Channel: 200}, State: topology.Up}}}
	if _, err := g.Remote(1, []kmd.Target{sim.Wormhole()}); !errors.Is(err, remote.ErrUnreachable) {
		t.Errorf("%v", err)
	}
}

func TestFarLinks(t *testing.T) {
	for _, tt := range []struct {
		name    string
		down    []string
		channel int
	}{
		{"both", nil, 9},
		{"first only", []string{"link-down=0:9"}, 8},
		{"second only", []string{"link-down=0:8"}, 9},
	} {
		var opts []sim.Option
		for _, f := range tt.down {
			opts = append(opts, sim.LinkFault(f))
		}
		m := emulated(t, sim.N300(opts...))
		g := expect.Value(topology.Discover(t.Context(), []*kmd.Device{open(t, m.Card(0))}))(t)
		f, err := g.Remote(1, []kmd.Target{m.Card(0)})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		expect.Equal(t, open(t, f).Uplink().Link.NearChannel, tt.channel, "%s: channel", tt.name)
		for _, l := range g.Links {
			expect.Equal(t, g.Carries(l, 1), l.A.Channel == tt.channel, "%s: link %v carries queues", tt.name, l)
		}
		for i := range g.Links {
			g.Links[i].State = topology.Down
		}
		if _, err := g.Remote(1, []kmd.Target{m.Card(0)}); !errors.Is(err, remote.ErrUnreachable) ||
			!strings.Contains(err.Error(), "eth8 - ") {
			t.Errorf("%s: without a link: %v", tt.name, err)
		}
	}
}
