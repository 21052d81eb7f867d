package ops

import (
	"fmt"
	"strings"
)

// clusterDescriptor returns the chips of the mesh and the links between them as YAML, with the keys of tt-umd's descriptor of a
// cluster that the vendor's visualizer reads. Chips have their numbers in graphs.
func (m *Mesh) clusterDescriptor() string {
	var b strings.Builder
	number := map[int]int{} // by index in the graph of the machine
	section := func(name string, line func(i int) string) {
		fmt.Fprintf(&b, "%s:\n", name)
		for i := range m.chips {
			if s := line(i); s != "" {
				fmt.Fprintf(&b, "  %s\n", s)
			}
		}
	}
	g, chips := m.m.Graph(), m.m.Chips()
	for i, c := range chips {
		number[m.m.InGraph(c)] = i
	}
	section("arch", func(i int) string { return fmt.Sprintf("%d: %s", i, archName(m.chips[i].dev.Arch())) })
	section("chips", func(i int) string { return fmt.Sprintf("%d: %s", i, place(chips[i].Coord)) })
	section("chip_unique_ids", func(i int) string { return fmt.Sprintf("%d: %d", i, i+1) })
	section("chips_with_mmio", func(i int) string {
		if chips[i].Remote {
			return ""
		}
		return fmt.Sprintf("- %d: %d", i, i)
	})
	var links []string
	if g != nil {
		for _, l := range g.Links {
			i, ok := number[l.A.Chip]
			k, too := number[l.B.Chip]
			if ok && too {
				links = append(links, fmt.Sprintf("- [{chip: %d, chan: %d}, {chip: %d, chan: %d}]", i, l.A.Channel, k, l.B.Channel))
			}
		}
	}
	if len(links) == 0 {
		b.WriteString("ethernet_connections: []\n")
	} else {
		fmt.Fprintf(&b, "ethernet_connections:\n  %s\n", strings.Join(links, "\n  "))
	}
	return b.String()
}

// meshMapping returns the places of the chips in the mesh as YAML.
func (m *Mesh) meshMapping() string {
	var b strings.Builder
	b.WriteString("chips:\n")
	for i, c := range m.m.Chips() {
		fmt.Fprintf(&b, "  %d: %s\n", i, place(c.Coord))
	}
	return b.String()
}

// place returns a coordinate of a mesh as a YAML list of column, row and two zeros, which are rack and shelf.
func place(coord []int) string {
	x, y := 0, 0
	if n := len(coord); n > 0 {
		x = coord[n-1]
		if n > 1 {
			y = coord[n-2]
		}
	}
	return fmt.Sprintf("[%d, %d, 0, 0]", x, y)
}
