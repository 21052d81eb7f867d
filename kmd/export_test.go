package kmd

// ProbeWait is how long a card is asked.
const ProbeWait = probeWait

// WithMapper makes a device map host memory by f.
func WithMapper(f func(size, page, node int) ([]byte, error)) Option {
	return func(o *options) { o.mapMemory = f }
}

// MapMemory is the mapping of ordinary pages.
func MapMemory(size int) ([]byte, error) { return mapMemory(size, int(hostPage()), -1) }

// Pins returns how many outbound regions a memory has.
func (m *HostMemory) Pins() int { return len(m.pins) }

// FindNode returns the node of a PCI device.
func (s System) FindNode(bdf string) (string, bool) {
	n, ok := s.find(bdf)
	return n.path(), ok
}

// AddressOf returns where mapped memory lies.
func AddressOf(b []byte) uint64 { return addressOf(b) }
