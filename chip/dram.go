package chip

import "slices"

// Bank is a DRAM bank, also called a DRAM view.
type Bank struct {
	Index      int
	Controller int
	Offset     uint64 // in the controller's address space
	Size       uint64

	// Endpoint is, by NoC, the name of the tile through which cores should reach the bank: virtual
	// on Blackhole, raw on Wormhole.
	Endpoint [2]XY
	// HostEndpoint is the host's, on NoC 0.
	HostEndpoint XY
	// Ports are the NoC 0 names of the three tiles that reach the controller.
	Ports [portsPerBank]XY
}

// DRAMBanks returns the chip's DRAM banks: 12 views of 1 GiB on Wormhole, two to a controller; 8,
// or 7 if one is harvested, of 0xFF000000 bytes on Blackhole.
func (c *Chip) DRAMBanks() []Bank { return slices.Clone(c.banks) }

// banksWormhole returns the views with their preferred endpoints (tt-metal
// tt_metal/soc_descriptors/wormhole_b0_80_arch.yaml).
func (c *Chip) banksWormhole() []Bank {
	workers := []XY{
		{0, 11}, {0, 1}, {0, 5}, {0, 7}, {5, 1}, {5, 11}, {5, 2}, {5, 9}, {5, 8}, {5, 3}, {5, 5}, {5, 7},
	}
	tiles := c.arch.dramTiles()
	var banks []Bank
	for i, at := range workers {
		banks = append(banks, Bank{
			Index: i, Controller: i / 2,
			Offset: uint64(i%2) * c.params.DRAMBankSize, Size: c.params.DRAMBankSize,
			Endpoint: [2]XY{at, c.arch.Mirror(at)}, HostEndpoint: at,
			Ports: tiles[i/2],
		})
	}
	return banks
}

// banksBlackhole returns the banks that are left, with their preferred ports (tt-metal
// tt_metal/soc_descriptors/blackhole_140_arch.yaml).
func (c *Chip) banksBlackhole() []Bank {
	preferred := [8][2]int{{2, 1}, {0, 1}, {0, 1}, {0, 1}, {2, 1}, {2, 1}, {2, 1}, {2, 1}}
	var banks []Bank
	at := make(map[int][portsPerBank]XY)
	for side, controllers := range c.dramSlots() {
		for slot, k := range controllers {
			var p [portsPerBank]XY
			for port := range p {
				p[port] = dramSlot(side, slot, port)
			}
			at[k] = p
		}
	}
	for k := range c.arch.dramTiles() {
		if c.h.DRAM>>k&1 != 0 {
			continue
		}
		i, p := len(banks), at[k]
		b := Bank{
			Index: i, Controller: k, Size: c.params.DRAMBankSize, Ports: p,
			Endpoint: [2]XY{p[preferred[i][NOC0]], p[preferred[i][NOC1]]},
		}
		b.HostEndpoint = b.Endpoint[NOC0]
		banks = append(banks, b)
	}
	return banks
}

// dramSlots returns the controllers of a Blackhole at virtual x 17 and 18, from y 12 up. If a bank
// is harvested, the side that keeps four banks lies at 17, with the bank opposite the missing one
// at its end; the missing bank comes last on its side (tt-umd
// device/coordinates/blackhole_coordinate_manager.cpp).
func (c *Chip) dramSlots() [2][]int {
	west, east := []int{0, 1, 2, 3}, []int{4, 5, 6, 7}
	last := func(s []int, k int) []int {
		i := slices.Index(s, k)
		return append(slices.Delete(s, i, i+1), k)
	}
	for k := range 8 {
		if c.h.DRAM>>k&1 == 0 {
			continue
		}
		if k < 4 {
			return [2][]int{last(east, k+4), last(west, k)}
		}
		return [2][]int{last(west, k-4), last(east, k)}
	}
	return [2][]int{west, east}
}

func dramSlot(side, slot, port int) XY {
	return XY{uint8(blackholeDRAMX + side), uint8(blackholeDRAMY + slot*portsPerBank + port)}
}
