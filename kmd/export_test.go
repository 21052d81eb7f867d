package kmd

const ProbeWait = probeWait

func WithMapper(f func(size, page, node int) ([]byte, error)) Option {
	return func(o *options) { o.mapMemory = f }
}

func MapMemory(size int) ([]byte, error) { return mapMemory(size, int(hostPage()), -1) }

func (d *Device) PinReadOnly(size int) (*HostMemory, error) {
	return d.pin(PinConfig{Size: size, readOnly: true})
}

func (m *HostMemory) Pins() int { return len(m.pins) }

func AddressOf(b []byte) uint64 { return addressOf(b) }
