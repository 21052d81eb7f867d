package driver

import (
	"fmt"
	"slices"
)

// Unplug takes card i out of the machine while it runs: its mappings fault, its files are ENODEV, its pins and buffers
// are gone. What is open stays open, and the number of the node with it.
func (d *Driver) Unplug(i int) error { return d.list()[i].remove() }

// Plug puts a card into the place that Unplug(i) left. It has the PCI address of the one before and the lowest free
// number, which is another one if a process still has the old node open.
func (d *Driver) Plug(i int, fn Function) (*Node, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.devices[i]
	old.mu.Lock()
	detached, open := old.detached, len(old.files) > 0
	old.mu.Unlock()
	if !detached {
		return nil, fmt.Errorf("driver: plug %s: there is a card: %w", old.address(), ErrConfig)
	}
	d.gone = slices.DeleteFunc(d.gone, func(g *device) bool { return g.openFiles() == 0 })
	if open {
		d.gone = append(d.gone, old)
	}
	n := 0
	for d.takenLocked(n, old, open) {
		n++
	}
	dev := newDevice(d, n, old.bdf)
	dev.attach(fn)
	d.devices[i] = dev
	return &dev.node, nil
}

// takenLocked reports whether a number is in use. The place's old device counts while it is open.
func (d *Driver) takenLocked(n int, old *device, open bool) bool {
	for _, dev := range append(slices.Clone(d.devices), d.gone...) {
		if dev.ordinal == n && (dev != old || open) {
			return true
		}
	}
	return false
}

func (d *device) openFiles() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.files)
}
