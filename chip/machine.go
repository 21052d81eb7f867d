package chip

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Machine describes a machine: its boards, its chips, and the Ethernet links between chips.
type Machine struct {
	Name  string
	Arch  Arch
	Chips []MachineChip
	Links []Link
	Shape [2]int // rows and columns of the mesh that the links make, or zero
}

// MachineChip is a chip of a machine.
type MachineChip struct {
	Board      int
	Kind       uint16     // of the board: the code in its serial number
	Location   uint8      // on its board
	PCI        bool       // other chips are reached through Ethernet
	X, Y       uint8      // in Wormhole's Ethernet firmware
	Harvesting Harvesting // fused off in the product
}

// Link joins channels of two chips. Channels count the working Ethernet tiles of a chip.
type Link struct {
	Chip, Channel         int
	PeerChip, PeerChannel int
}

func (l Link) String() string {
	return fmt.Sprintf("%d:%d-%d:%d", l.Chip, l.Channel, l.PeerChip, l.PeerChannel)
}

// Codes of boards in serial numbers and PCI subsystem ids (tt-kmd telemetry.c).
const (
	BoardN300            = 0x14
	BoardN150            = 0x18
	BoardGalaxyWormhole  = 0x35
	BoardP150            = 0x40
	BoardP100            = 0x43
	BoardP300            = 0x44
	BoardGalaxyBlackhole = 0x47
)

// BoardName names a board by its code, as tt-kmd does (tt_sysfs_show_card_type); empty for others.
func BoardName(code uint16) string {
	return map[uint16]string{BoardN300: "n300", BoardN150: "n150", BoardGalaxyWormhole: "galaxy-wormhole", 0x36: "p100", BoardP150: "p150a",
		0x41: "p150b", 0x42: "p150c", BoardP100: "p100a", BoardP300: "p300b", 0x45: "p300a", 0x46: "p300c",
		BoardGalaxyBlackhole: "galaxy-blackhole"}[code]
}

// Serial returns the serial number that the chip's board has in emulated machines.
func (c *MachineChip) Serial() uint64 { return uint64(c.Kind)<<36 | uint64(c.Board+1) }

// Machines returns all machines that this package describes.
func Machines() []Machine {
	return []Machine{
		N150(), N300(), T3000(), GalaxyWormhole(), P100(), P150(), P300(), QuietBox(), QuietBox2(), GalaxyBlackhole(),
	}
}

// MachineNamed returns the machine of a name such as "t3000"; false if there is none.
func MachineNamed(name string) (Machine, bool) {
	l := Machines()
	i := slices.IndexFunc(l, func(m Machine) bool { return m.Name == name })
	if i < 0 {
		return Machine{}, false
	}
	return l[i], true
}

// What products have fused off (tt-isa-documentation WormholeB0/NoC/Coordinates.md,
// BlackholeA0/README.md). Which rows, columns and channels differs from chip to chip.
var (
	oneRow      = Harvesting{Tensix: 1 << 9}
	twoRows     = Harvesting{Tensix: 1<<9 | 1<<4}
	twoChannels = Harvesting{Ethernet: 1<<12 | 1<<13}
	p100Parts   = Harvesting{Tensix: 1<<12 | 1<<13, DRAM: 1 << 7, Ethernet: 1<<14 - 1}
	p300Parts   = Harvesting{Tensix: 1<<12 | 1<<13, Ethernet: 1<<12 | 1<<13}
)

func board(n int, kind uint16, h Harvesting, chips ...MachineChip) []MachineChip {
	for i := range chips {
		// The host is at the other PCIe tile of a P300's right chip (tt-umd soc_descriptor.cpp).
		h.SecondPCIe = kind == BoardP300 && i == 1
		chips[i].Board, chips[i].Kind, chips[i].Location, chips[i].Harvesting = n, kind, uint8(i), h
	}
	return chips
}

// N150 is a Wormhole card.
func N150() Machine {
	return Machine{Name: "n150", Arch: Wormhole, Shape: [2]int{1, 1}, Chips: board(0, BoardN150, oneRow, MachineChip{PCI: true})}
}

// N300 is a Wormhole card with two chips, of which one has the PCI interface (tt-umd
// tests/cluster_descriptor_examples).
func N300() Machine {
	return Machine{Name: "n300", Arch: Wormhole, Shape: [2]int{1, 2},
		Chips: board(0, BoardN300, twoRows, MachineChip{PCI: true}, MachineChip{X: 1}),
		Links: bundles(2, [][4]int{{0, 8, 1, 0}})}
}

// T3000 is four N300 in a mesh of 2 by 4: chips 0 to 3 have PCI interfaces, chip 4+i is the other
// one of card i.
func T3000() Machine {
	m := Machine{Name: "t3000", Arch: Wormhole, Shape: [2]int{2, 4}, Chips: make([]MachineChip, 8), Links: bundles(2, linksOf("t3000"))}
	places := [8][2]uint8{{1, 0}, {1, 1}, {2, 0}, {2, 1}, {0, 0}, {0, 1}, {3, 0}, {3, 1}}
	for i := range 4 {
		for j, c := range board(i, BoardN300, twoRows, MachineChip{PCI: true}, MachineChip{}) {
			n := 4*j + i
			c.X, c.Y = places[n][0], places[n][1]
			m.Chips[n] = c
		}
	}
	return m
}

// P100 is a Blackhole card without Ethernet.
func P100() Machine {
	return Machine{Name: "p100", Arch: Blackhole, Shape: [2]int{1, 1}, Chips: board(0, BoardP100, p100Parts, MachineChip{PCI: true})}
}

// P150 is a Blackhole card.
func P150() Machine {
	return Machine{Name: "p150", Arch: Blackhole, Shape: [2]int{1, 1}, Chips: board(0, BoardP150, twoChannels, MachineChip{PCI: true})}
}

// P300 is a Blackhole card with two chips with PCI interfaces.
func P300() Machine {
	return Machine{Name: "p300", Arch: Blackhole, Shape: [2]int{1, 2},
		Chips: board(0, BoardP300, p300Parts, MachineChip{PCI: true}, MachineChip{PCI: true}),
		Links: bundles(1, [][4]int{{0, 2, 1, 9}, {0, 3, 1, 8}})}
}

// QuietBox is four P150 in a ring 0-2-1-3 (tt-umd
// tests/cluster_descriptor_examples/blackhole_4xP150.yaml).
func QuietBox() Machine {
	m := Machine{Name: "quietbox", Arch: Blackhole, Shape: [2]int{2, 2}, Links: bundles(4, [][4]int{
		{0, 4, 2, 4}, {1, 4, 3, 4}, {0, 8, 3, 8}, {1, 8, 2, 8}})}
	for i := range 4 {
		m.Chips = append(m.Chips, board(i, BoardP150, twoChannels, MachineChip{PCI: true})...)
	}
	return m
}

// QuietBox2 is two P300 (ttsim src/tile.cpp).
func QuietBox2() Machine {
	m := Machine{Name: "quietbox2", Arch: Blackhole, Shape: [2]int{2, 2}, Links: bundles(1, [][4]int{
		{0, 2, 3, 5}, {0, 4, 3, 4}, {0, 8, 1, 3}, {0, 9, 1, 2}, {1, 4, 2, 4}, {1, 5, 2, 2}, {2, 8, 3, 3}, {2, 9, 3, 2}})}
	for i := range 2 {
		m.Chips = append(m.Chips, board(i, BoardP300, p300Parts, MachineChip{PCI: true}, MachineChip{PCI: true})...)
	}
	return m
}

// GalaxyWormhole is 32 Wormholes, eight to a tray, in a torus of 8 by 4 (ttsim src/tile.cpp).
func GalaxyWormhole() Machine {
	return galaxy("galaxy-wh", Wormhole, BoardGalaxyWormhole, Harvesting{}, bundles(4, linksOf("galaxyWormhole")))
}

// GalaxyBlackhole is 32 Blackholes, eight to a tray (ttsim src/tile.cpp).
func GalaxyBlackhole() Machine {
	return galaxy("galaxy-bh", Blackhole, BoardGalaxyBlackhole, twoChannels, bundles(2, linksOf("galaxyBlackhole")))
}

func galaxy(name string, a Arch, kind uint16, h Harvesting, links []Link) Machine {
	m := Machine{Name: name, Arch: a, Shape: [2]int{8, 4}, Links: links}
	for i := range 4 {
		tray := make([]MachineChip, 8)
		for j := range tray {
			tray[j] = MachineChip{PCI: true, X: uint8(8*i + j)}
		}
		m.Chips = append(m.Chips, board(i, kind, h, tray...)...)
	}
	return m
}

// A row is a chip, its first channel, another chip and its first channel.
func bundles(n int, rows [][4]int) []Link {
	var out []Link
	for _, r := range rows {
		for i := range n {
			out = append(out, Link{r[0], r[1] + i, r[2], r[3] + i})
		}
	}
	return out
}

//go:embed links.txt
var linksText string

// linksOf returns a section of links.txt.
func linksOf(section string) (rows [][4]int) {
	_, text, _ := strings.Cut(linksText, "["+section+"]")
	text, _, _ = strings.Cut(text, "[")
	for numbers := range slices.Chunk(strings.Fields(text), 4) {
		var row [4]int
		for i, n := range numbers {
			row[i], _ = strconv.Atoi(n) // the file is compiled in
		}
		rows = append(rows, row)
	}
	return rows
}
