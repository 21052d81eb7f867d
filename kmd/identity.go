package kmd

import "fmt"

// Identity returns the serial number of the board at a PCI address, "" if it isn't known, and the memory node that the
// card is at, negative if there is none. Both are what the system's files tell: no card is opened for it. [System.List]
// tells more and opens them.
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
