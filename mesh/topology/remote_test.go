package topology_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/seam"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/remote"
	"github.com/reprise-tt/reprise/mesh/topology"
	"github.com/reprise-tt/reprise/sim"
)

func far(t *testing.T, m *sim.Machine) *kmd.Device {
	t.Helper()
	near := open(t, m.Card(0))
	g, err := topology.Discover(t.Context(), []*kmd.Device{near})
	devtest.Must(t, err)
	target, err := g.Remote(1, []kmd.Target{m.Card(0)})
	devtest.Must(t, err)
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
	g, err := topology.Discover(t.Context(), []*kmd.Device{open(t, m.Card(0))})
	devtest.Must(t, err)
	for _, tt := range []struct {
		near kmd.Target
		want bool
	}{{m.Card(0), true}, {withoutDebug{m.Card(0)}, false}} {
		target, err := g.Remote(1, []kmd.Target{tt.near})
		devtest.Must(t, err)
		if got := open(t, target).CoreDebug(); got != tt.want {
			t.Errorf("behind %T: debug interface %t, want %t", tt.near, got, tt.want)
		}
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
	if l, err := d.Mappings(); err != nil || len(l) != 0 {
		t.Errorf("mappings %v, %v: it has no BARs", l, err)
	}
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
	w, err := d.OpenWindow(1<<20, kmd.Uncached)
	devtest.Must(t, err)
	if err := w.Configure(kmd.WindowConfig{Target: first}); err != nil {
		t.Fatal(err)
	}
	w.Store64(0x30000, 0x0807060504030201)
	w.Store8(0x30001, 0xAA)
	w.Store16(0x30006, 0xBBCC)
	if v := w.Load64(0x30000); v != 0xBBCC06050403AA01 || w.Load16(0x30006) != 0xBBCC || w.Load8(0x30001) != 0xAA {
		t.Errorf("the window has %#x", v)
	}
	if _, err := d.PinHostMemory(4096); err == nil {
		t.Error("host memory was pinned for a chip that reaches none")
	}
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
		g, err := topology.Discover(t.Context(), []*kmd.Device{open(t, m.Card(0))})
		devtest.Must(t, err)
		f, err := g.Remote(1, []kmd.Target{m.Card(0)})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if u := open(t, f).Uplink(); u.Link.NearChannel != tt.channel {
			t.Errorf("%s: channel %d carries queues, want %d", tt.name, u.Link.NearChannel, tt.channel)
		}
		for _, l := range g.Links {
			if got := g.Carries(l, 1); got != (l.A.Channel == tt.channel) {
				t.Errorf("%s: link %v carries queues: %v", tt.name, l, got)
			}
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
