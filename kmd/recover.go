package kmd

import (
	"context"
	"errors"
	"fmt"
)

// Recover opens a lost device's card once more, under its new number. Windows, locks, kernel
// buffers and pins are gone; HostMemory needs HostMemory.Repin. No access may be in progress. It
// can be called again after a failure, and does nothing if the device isn't lost. The error is one
// of Open, or matches ErrDeviceLost if the card still doesn't answer.
func (d *Device) Recover(ctx context.Context) error {
	if d.closed.Load() {
		return d.opError(ErrClosed, "recover")
	}
	if d.Lost() == nil {
		return nil
	}
	return d.opError(d.recover(ctx), "recover")
}

func (d *Device) recover(ctx context.Context) error {
	d.abandon()
	t := d.sys.target(d.info.BDF(), d.target)
	f, err := openNode(ctx, t, d.flags, false)
	if err != nil {
		return err
	}
	was, first := d.info, d.lost.Load()
	d.target = t
	d.file.swap(f)
	err = d.identify(ctx)
	if err == nil && d.info.BDF() != was.BDF() {
		err = fmt.Errorf("%w: the node leads to the card at %s now, and the one at %s has none", ErrNoDevice, d.info.BDF(),
			was.BDF())
	}
	if err == nil {
		d.lost.Store(nil)
		if err = d.alive(); err == nil {
			for i := range d.features { // the driver may have changed
				d.features[i].Store(0)
			}
			return nil
		}
	}
	d.info = was
	d.lost.Store(first)
	return errors.Join(err, d.file.Close())
}

// The old file closes before another takes its place, so no old window number is used on the new
// one.
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
	d.cache.drop()
	for _, w := range inOrder(windows, (*Window).ID) {
		w.closed.Store(true)
		_ = w.mapping.Unmap() // the device is lost: an error changes nothing
	}
	for b := range mapped {
		b.once.Do(func() { _ = b.mapping.Unmap() })
	}
	_ = d.closeCleanupFiles()
	_ = d.file.Close()
}

func (k *windowCache) drop() {
	k.mu.Lock()
	k.control, k.bulk = nil, nil
	k.mu.Unlock()
}
