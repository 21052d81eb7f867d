package ttnn

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/libttsim"
)

// clusterDescriptor describes a machine in tt-umd's cluster_descriptor.yaml
// (device/cluster_descriptor.cpp). Chips are numbered as their PCI devices: those with one come
// first in spec.
func clusterDescriptor(spec *chip.Machine) []byte {
	var b bytes.Buffer
	each := func(heading string, line func(i int, c *chip.MachineChip) string) {
		fmt.Fprintf(&b, "%s:\n", heading)
		for i := range spec.Chips {
			if text := line(i, &spec.Chips[i]); text != "" {
				fmt.Fprintf(&b, "  %s\n", text)
			}
		}
	}
	arch := map[chip.Arch]string{chip.Wormhole: "wormhole_b0", chip.Blackhole: "blackhole"}[spec.Arch]
	each("arch", func(i int, _ *chip.MachineChip) string { return fmt.Sprintf("%d: %s", i, arch) })
	if spec.Arch == chip.Wormhole {
		each("chips", func(i int, c *chip.MachineChip) string { return fmt.Sprintf("%d: [%d, %d, 0, 0]", i, c.X, c.Y) })
	} else {
		b.WriteString("chips: {}\n")
	}
	each("chip_unique_ids", func(i int, _ *chip.MachineChip) string { return fmt.Sprintf("%d: %d", i, i+1) })
	b.WriteString("ethernet_connections:\n")
	if len(spec.Links) == 0 {
		b.WriteString("  []\n")
	}
	for _, l := range spec.Links {
		fmt.Fprintf(&b, "  - [{chip: %d, chan: %d}, {chip: %d, chan: %d}]\n", l.Chip, l.Channel, l.PeerChip, l.PeerChannel)
	}
	b.WriteString("ethernet_connections_to_remote_devices: []\n")
	each("chips_with_mmio", func(i int, c *chip.MachineChip) string {
		if !c.PCI {
			return ""
		}
		return fmt.Sprintf("- %d: %d", i, i)
	})
	each("harvesting", func(i int, c *chip.MachineChip) string {
		return fmt.Sprintf("%d: {noc_translation: true, harvest_mask: %d, dram_harvesting_mask: %d, eth_harvesting_mask: %d, pcie_harvesting_mask: %d, l2cpu_harvesting_mask: 0}",
			i, c.Harvesting.Tensix, c.Harvesting.DRAM, c.Harvesting.Ethernet, libttsim.UnusedPCIe(spec.Arch, c))
	})
	boards := map[int][]string{}
	for i, c := range spec.Chips {
		boards[c.Board] = append(boards[c.Board], fmt.Sprint(i))
	}
	b.WriteString("boards:\n")
	for _, n := range slices.Sorted(maps.Keys(boards)) {
		c := &spec.Chips[slices.IndexFunc(spec.Chips, func(c chip.MachineChip) bool { return c.Board == n })]
		fmt.Fprintf(&b, "  - [{board_id: %d}, {board_type: %s}, {chips: [%s]}]\n", c.Serial(), boardTypes[c.Kind], strings.Join(boards[n], ", "))
	}
	each("asic_locations", func(i int, c *chip.MachineChip) string { return fmt.Sprintf("%d: %d", i, c.Location) })
	return b.Bytes()
}

// boardTypes are tt-umd's (device/api/umd/device/types/cluster_descriptor_types.hpp).
var boardTypes = map[uint16]string{
	chip.BoardN150: "n150", chip.BoardN300: "n300", chip.BoardGalaxyWormhole: "ubb_wormhole",
	chip.BoardP100: "p100", chip.BoardP150: "p150", chip.BoardP300: "p300", chip.BoardGalaxyBlackhole: "ubb_blackhole",
}
