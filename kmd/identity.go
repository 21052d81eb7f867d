package kmd

import "fmt"

// Identity returns the serial number of the board at a PCI address, "" if it isn't known, and the memory node of the card,
// negative if it isn't known. Both come from the system's files; no card is opened. [System.List] finds out more and opens
// each card.
func (s System) Identity(bdf string) (serial string, numaNode int) {
	numaNode = -1
	if n, ok := s.int(pciDir + "/" + bdf + "/numa_node"); ok {
		numaNode = int(n)
	}
	if n, ok := s.find(bdf); ok {
		if v, ok := s.read(fmt.Sprintf("%s/tenstorrent!%d/tt_serial", classDir, n.ordinal)); ok && v != "unknown" {
			serial = v
		}
	}
	return serial, numaNode
}
