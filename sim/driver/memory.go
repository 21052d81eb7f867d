package driver

import "syscall"

type reach struct {
	bus    uint64
	region int
	mem    hostPages
}

type pin struct {
	reach
	va, size uint64
}

type fileMemory struct {
	pins  []*pin
	bufs  map[uint8]*reach // buffers of the driver
	peers []uint64         // bus addresses of peers' BARs
}

// On failure nothing is mapped.
func (d *device) reachLocked(mem hostPages, readOnly, noc, topDown bool) (r reach, nocAddr uint64, err error) {
	r = reach{region: noRegion, mem: mem}
	var ok bool
	if r.bus, ok = d.dma.insert(busRange{size: mem.size, mem: mem, readOnly: readOnly}); !ok {
		err = syscall.ENOMEM
	} else if noc {
		if r.region, nocAddr, err = d.iatu.mapOutbound(d.fn, topDown, mem.size, r.bus); err != nil {
			d.dma.remove(r.bus)
		}
	}
	if err != nil {
		mem.drop()
	}
	return r, nocAddr, err
}

func (d *device) dropLocked(r *reach) {
	d.iatu.unmapOutbound(d.fn, &r.region)
	d.dma.remove(r.bus)
	r.mem.drop()
}

func (d *device) releasePagesLocked(m *fileMemory) {
	for _, b := range m.bufs {
		d.dropLocked(b)
	}
	clear(m.bufs)
	for _, p := range m.pins {
		d.dropLocked(&p.reach)
	}
	m.pins = nil
	for _, bus := range m.peers {
		d.dma.remove(bus)
	}
	m.peers = nil
}
