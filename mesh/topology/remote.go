package topology

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/remote"
)

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
