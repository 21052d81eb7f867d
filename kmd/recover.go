package kmd

import (
	"context"
	"errors"
	"fmt"
)

// Recover makes a lost device usable again: it gives up everything that hung on the old file, opens the card anew,
// under another number if it has one now, and reads it. All windows, locks, kernel buffers and pins are gone: windows
// are closed, HostMemory stays mapped and is not the device's any more until HostMemory.Repin. No access through the
// Device may be under way. If it fails, the device stays lost, and Recover can be called again.
//
// A device that isn't lost is left as it is. The error matches what Open says, or ErrDeviceLost if the card still
// doesn't answer.
func (d *Device) Recover(ctx context.Context) error {
	if d.closed.Load() {
		return d.opError("recover", ErrClosed)
	}
	if !d.lost.Load() {
		return nil
	}
	if err := d.recover(ctx); err != nil {
		return d.opError("recover", err)
	}
	return nil
}

func (d *Device) recover(ctx context.Context) error {
	d.abandon()
	t := d.target
	if n, ok := d.sys.find(d.info.BDF()); ok {
		t = d.sys.Open(n.path())
	}
	f, err := openNode(ctx, t, d.flags, false)
	if err != nil {
		return err
	}
	was := d.info
	d.target = t
	d.file.swap(f)
	err = d.identify()
	if err == nil && d.info.BDF() != was.BDF() {
		err = fmt.Errorf("%w: the node leads to the card at %s now, and the one at %s has none", ErrNoDevice, d.info.BDF(),
			was.BDF())
	}
	if err == nil {
		d.lost.Store(false)
		if err = d.alive(); err == nil {
			for i := range d.features {
				d.features[i].Store(0) // the driver may be another one
			}
			return nil
		}
	}
	d.info = was
	d.lost.Store(true)
	return errors.Join(err, d.file.Close())
}

// abandon gives up what hangs on the old file. The file goes first, with its last mapping, so that no window number of
// its is ever used on another file.
func (d *Device) abandon() {
	d.mu.Lock()
	windows, memory, mapped := d.windows, d.memory, d.mapped
	d.windows, d.memory, d.mapped = map[*Window]struct{}{}, map[*HostMemory]struct{}{}, map[*DMABuffer]struct{}{}
	for m := range memory {
		m.pins = nil
		d.stale[m] = struct{}{}
	}
	d.buffers = 0
	d.mu.Unlock()
	d.cache.forget()
	for _, w := range inOrder(windows, (*Window).ID) {
		w.closed.Store(true)
		_ = w.mapping.Unmap() // of a device that is lost: there is nothing to be done about an error
	}
	for b := range mapped {
		b.once.Do(func() { _ = b.mapping.Unmap() })
	}
	_ = d.closeGuards()
	_ = d.file.Close()
}

// forget drops the Device's own windows.
func (k *windowCache) forget() {
	k.mu.Lock()
	k.control, k.bulk = nil, nil
	k.mu.Unlock()
}
