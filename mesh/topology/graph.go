package topology

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

// Graph is what was found out about the chips of a machine and their links.
type Graph struct {
	Arch  chip.Arch
	Chips []Chip // first those with a PCI interface in the order of the devices, then those behind them
	Links []Link
}

// Chip is a chip of a machine.
type Chip struct {
	// Name says where the chip is: its PCI address, or "0000:01:00.0/eth8" for the one that channel 8 of another chip
	// leads to.
	Name   string
	PCI    string // PCI address, or ""
	Node   string // what the device is called, or ""
	Serial string // of the board, 16 hexadecimal digits, or what of it the other end of a link knows
	ASIC   string // number of the chip, which tells the chips of a machine apart
	// Location is which chip of its board it is, where the firmware says so.
	Location int
	// Place is where Wormhole's Ethernet firmware puts the chip.
	Place Place
	// Behind is the link that leads to a chip without a PCI interface.
	Behind *End
	Ports  []Port // by channel
	// Problem is why the chip's own links could not be read. It matches ErrUnreachable, ErrNoAnswer or what package kmd
	// says.
	Problem error
}

// End is an Ethernet channel of a chip of a Graph.
type End struct{ Chip, Channel int }

// Port is what an Ethernet tile says of its link.
type Port struct {
	Channel int     // counts the working tiles
	Tile    chip.XY // raw NoC 0 coordinate
	State   State
	Peer    *End // who is, or was, at the other end, if that chip is known
}

// State is that of a link.
type State uint8

// The states of a link.
const (
	Unconnected State = iota // nobody was ever there
	Training                 // the firmware has not decided yet
	Up
	Down // there was somebody, and the link is lost
)

// String returns "up" and so on.
func (s State) String() string {
	return [...]string{"unconnected", "training", "up", "down"}[min(s, Down)]
}

// Link is a cable between two channels.
type Link struct {
	A, B  End
	State State // the worse of what its ends say; Up if only one end could be asked and says so
}

// Degraded tells what is wrong: links that are lost or still training, and chips that can't be read. Nil says that all that
// was found works; what was never there at all can't be missed (Missing compares with what ought to be).
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
			out = append(out, fmt.Sprintf("link %s eth%d - %s eth%d is %v", g.Chips[l.A.Chip].Name, l.A.Channel, g.Chips[l.B.Chip].Name, l.B.Channel, l.State))
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

// Missing compares with a machine as it ought to be: how many of its chips and of its links that are up were not found.
// Chips of the machine are told by how many there are, not by which.
func (g *Graph) Missing(m chip.Machine) (chips, links int) {
	up := 0
	for _, l := range g.Links {
		if l.State == Up {
			up++
		}
	}
	read := 0
	for i := range g.Chips {
		if g.Chips[i].Problem == nil {
			read++
		}
	}
	return max(len(m.Chips)-read, 0), max(len(m.Links)-up, 0)
}

// Neighbors returns the chips that links which are up join to a chip, and over how many.
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
