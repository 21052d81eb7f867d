package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/remote"
)

// Graph is the chips of a machine and their links.
type Graph struct {
	Arch  chip.Arch
	Chips []Chip // the devices' chips in their order, then the remote chips
	Links []Link
}

// Chip is a chip of a machine.
type Chip struct {
	// Name is the PCI address, or "0000:01:00.0/eth8" for the remote chip at channel 8 of another
	// one.
	Name     string       `json:"name"`
	PCI      string       `json:"pci,omitempty"`
	Node     string       `json:"node,omitempty"`
	Serial   string       `json:"serial,omitempty"` // of the board: 16 hexadecimal digits, or the part that the other end of a link knows
	ASIC     string       `json:"asic,omitempty"`   // unique in a machine
	Location int          `json:"location"`         // of the chip on its board, where the firmware reports it
	Place    remote.Place `json:"-"`                // in Wormhole's Ethernet firmware
	// Gateway is the channel of another chip that leads to a remote chip; nil with a PCI interface.
	Gateway *End   `json:"behind,omitempty"`
	Ports   []Port `json:"-"`
	// Problem is why the chip's links could not be read, or nil. It wraps remote.ErrUnreachable,
	// remote.ErrNoAnswer or an error of package kmd.
	Problem error `json:"-"`
}

// End is an Ethernet channel of a chip of a Graph.
type End struct {
	Chip    int `json:"chip"`
	Channel int `json:"channel"`
}

// Port is an Ethernet tile and its link.
type Port struct {
	Channel int     // index among the working Ethernet tiles
	Tile    chip.XY // raw NoC 0 coordinate
	State   State
	Peer    *End // the current or last other end; nil if its chip is unknown
}

// State is the state of a link.
type State uint8

// The states of a link.
const (
	Unconnected State = iota // no other end was ever seen
	Training                 // the firmware has not decided yet
	Up
	Down // the other end was seen, and the link is lost
)

// String returns "up" and so on.
func (s State) String() string {
	return [...]string{"unconnected", "training", "up", "down"}[min(s, Down)]
}

// Link is a cable between two channels.
type Link struct {
	A, B  End
	State State // the worse state of both ends
}

// Degraded describes the links that are lost or training, and the chips that can't be read. Parts
// that were never seen are not listed.
func (g *Graph) Degraded() []string {
	var out []string
	for i := range g.Chips {
		if err := g.Chips[i].Problem; err != nil {
			out = append(out, fmt.Sprintf("chip %s: %v", g.Chips[i].Name, err))
		}
	}
	linked := map[End]bool{}
	for _, l := range g.Links {
		linked[l.A], linked[l.B] = true, true
		if l.State != Up {
			out = append(out, fmt.Sprintf("link %s is %v", g.linkName(l), l.State))
		}
	}
	for i := range g.Chips {
		for _, p := range g.Chips[i].Ports {
			if p.State != Unconnected && !linked[End{i, p.Channel}] {
				out = append(out, fmt.Sprintf("link %s eth%d is %v, and its other end isn't known", g.Chips[i].Name, p.Channel, p.State))
			}
		}
	}
	return out
}

func (g *Graph) linkName(l Link) string {
	return fmt.Sprintf("%s eth%d - %s eth%d", g.Chips[l.A.Chip].Name, l.A.Channel, g.Chips[l.B.Chip].Name, l.B.Channel)
}

// Neighbors returns the chips that are linked to chip i, with the number of links that are up.
func (g *Graph) Neighbors(i int) map[int]int {
	out := map[int]int{}
	for _, l := range g.Links {
		switch {
		case l.State != Up:
		case l.A.Chip == i:
			out[l.B.Chip]++
		case l.B.Chip == i:
			out[l.A.Chip]++
		}
	}
	return out
}

// Join makes the list of links from what the ports of both ends report.
func (g *Graph) Join() {
	g.Links = nil
	for i := range g.Chips {
		for _, p := range g.Chips[i].Ports {
			if p.Peer == nil {
				continue
			}
			a, b := End{i, p.Channel}, *p.Peer
			state := p.State
			far := g.port(b)
			if far == nil && len(g.Chips[b.Chip].Ports) > 0 {
				state = Down
			}
			if far != nil {
				if far.Peer != nil && *far.Peer == a && (b.Chip < a.Chip || b.Chip == a.Chip && b.Channel < a.Channel) {
					continue
				}
				if far.State != Up {
					state = far.State
				}
				if far.State == Unconnected || far.Peer == nil || *far.Peer != a {
					state = Down
				}
			}
			g.Links = append(g.Links, Link{A: a, B: b, State: state})
		}
	}
}

func (g *Graph) port(e End) *Port {
	if p := g.Chips[e.Chip].Ports; e.Channel >= 0 && e.Channel < len(p) {
		return &p[e.Channel]
	}
	return nil
}

// Remote returns the target of chip i, which has no PCI interface, through a neighbour that has
// one. local are the targets of Discover's devices, in order. Of the links to the neighbour that
// are up, the first carries the tunnel and the last the command queues. The error wraps
// remote.ErrUnreachable or remote.ErrRange, or is the chip's Problem.
func (g *Graph) Remote(i int, local []kmd.Target) (*remote.Target, error) {
	if i < len(local) || i >= len(g.Chips) {
		return nil, fmt.Errorf("topology: chip %d: %w: of %d chips those from %d on have no PCI interface", i,
			remote.ErrRange, len(g.Chips), len(local))
	}
	c := &g.Chips[i]
	fail := func(err error) (*remote.Target, error) { return nil, fmt.Errorf("topology: chip %s: %w", c.Name, err) }
	switch {
	case c.Problem != nil:
		return fail(c.Problem)
	case g.Arch != chip.Wormhole:
		return fail(fmt.Errorf("%w: only Wormhole's Ethernet firmware forwards", remote.ErrUnreachable))
	}
	links := g.linksToLocal(i, len(local))
	if len(links) == 0 {
		return fail(fmt.Errorf("%w: no link that is up leads to a chip with a PCI interface%s", remote.ErrUnreachable, g.lost(i)))
	}
	n, last := links[0].A.Chip, links[len(links)-1]
	return &remote.Target{
		Local: local[n], Name: g.Chips[n].Name + "/" + c.Place.String(), Place: c.Place,
		Tile: g.Chips[n].Ports[links[0].A.Channel].Tile,
		Link: kmd.Link{
			Name: g.linkName(last),
			Near: g.Chips[n].Ports[last.A.Channel].Tile, Far: c.Ports[last.B.Channel].Tile, NearChannel: last.A.Channel,
		},
	}, nil
}

// Carries reports whether a link carries the command queues of a chip without a PCI interface, so
// that nothing else may drive it; devices is the number of chips with one.
func (g *Graph) Carries(l Link, devices int) bool {
	for _, e := range []End{l.A, l.B} {
		if e.Chip < devices || e.Chip >= len(g.Chips) || g.Chips[e.Chip].Problem != nil {
			continue
		}
		if links := g.linksToLocal(e.Chip, devices); len(links) > 0 {
			last := links[len(links)-1]
			if l == last || l == (Link{A: last.B, B: last.A, State: last.State}) {
				return true
			}
		}
	}
	return false
}

// linksToLocal returns the links that are up to chip i from the first local chip that has any, by
// its channels. End A is the local chip.
func (g *Graph) linksToLocal(i, devices int) []Link {
	var out []Link
	for _, l := range g.Links {
		if l.B.Chip != i {
			l.A, l.B = l.B, l.A
		}
		if l.State == Up && l.B.Chip == i && l.A.Chip < devices && l.B.Channel < len(g.Chips[i].Ports) &&
			l.A.Channel < len(g.Chips[l.A.Chip].Ports) { // the channel of a chip that wasn't read can be any number
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Link) int { return cmp.Or(a.A.Chip-b.A.Chip, a.A.Channel-b.A.Channel) })
	for k, l := range out {
		if l.A.Chip != out[0].A.Chip {
			return out[:k]
		}
	}
	return out
}

func (g *Graph) lost(i int) string {
	s := ""
	for _, l := range g.Links {
		if (l.A.Chip == i || l.B.Chip == i) && l.State != Up {
			s += fmt.Sprintf("; link %s is %v", g.linkName(l), l.State)
		}
	}
	return s
}

// ErrMixed is returned for devices of different architectures, which no link joins.
var ErrMixed = errors.New("devices of different architectures")
