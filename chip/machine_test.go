package chip

import "testing"

func TestMachinesHangTogether(t *testing.T) {
	want := map[string][3]int{ // chips, with PCI, links
		"n150": {1, 1, 0}, "n300": {2, 1, 2}, "t3000": {8, 4, 20}, "galaxy-wh": {32, 32, 256}, "p100": {1, 1, 0}, "p150": {1, 1, 0},
		"p300": {2, 2, 2}, "quietbox": {4, 4, 16}, "quietbox2": {4, 4, 8}, "galaxy-bh": {32, 32, 104},
	}
	for _, m := range Machines() {
		pci := 0
		channels := make([]int, len(m.Chips))
		next := map[int][]int{}
		used := map[[2]int]bool{}
		for i, c := range m.Chips {
			top, err := New(m.Arch, c.Harvesting)
			if err != nil {
				t.Fatalf("%s: chip %d: %v", m.Name, i, err)
			}
			for raw := range top.Tiles(Ethernet) {
				if !top.Tile(raw).Harvested {
					channels[i]++
				}
			}
			if c.PCI {
				pci++
			}
		}
		for _, l := range m.Links {
			for _, e := range [2][2]int{{l.Chip, l.Channel}, {l.PeerChip, l.PeerChannel}} {
				if e[1] >= channels[e[0]] || used[e] {
					t.Errorf("%s: link %v: channel %d of chip %d is used or doesn't work", m.Name, l, e[1], e[0])
				}
				used[e] = true
			}
			next[l.Chip], next[l.PeerChip] = append(next[l.Chip], l.PeerChip), append(next[l.PeerChip], l.Chip)
		}
		seen := map[int]bool{0: true}
		for q := []int{0}; len(q) > 0; q = q[1:] {
			for _, n := range next[q[0]] {
				if !seen[n] {
					seen[n] = true
					q = append(q, n)
				}
			}
		}
		if got := [3]int{len(m.Chips), pci, len(m.Links)}; got != want[m.Name] || len(seen) != len(m.Chips) {
			t.Errorf("%s: chips, with PCI, links: %v, want %v; %d are reached from chip 0", m.Name, got, want[m.Name], len(seen))
		}
		equal(t, m.Shape[0]*m.Shape[1], len(m.Chips), "%s: chips of %v", m.Name, m.Shape)
	}
	if _, ok := MachineNamed("abacus"); ok {
		t.Error("there is a machine called abacus")
	}
}
