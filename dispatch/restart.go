package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kmd"
)

// ErrOtherChip is returned by Restart when the chip isn't the one that the device was started with.
var ErrOtherChip = errors.New("it is another chip than before")

// Content is data that Restart writes to device memory.
type Content struct {
	Name string
	At   Interleaved
	Data []byte
}

// Interrupt ends every wait of the queues with cause; until Restart the queues refuse commands with
// it. Queued commands are lost.
func (d *Device) Interrupt(cause error) {
	for _, q := range d.queues {
		q.status.stop.Store(&cause)
		q.status.failed.CompareAndSwap(nil, &cause)
	}
	for _, q := range d.queues {
		q.mu.Lock()
		_ = q.releaseLocked(cause)
		q.mu.Unlock()
	}
}

// StopRelay stops the near end of an interrupted device's Ethernet link: it would go on using host
// memory after the device's file is closed.
func (d *Device) StopRelay() {
	_ = d.up.close()
}

// Restart restarts a device whose queues were interrupted and whose driver side the caller has
// recovered (kmd.Device.Recover): it holds all cores in reset, brings up the base firmware, writes
// contents, reads them back, and starts the queues with empty rings. The *Queue values stay valid.
// If it fails, it can be called again.
func (d *Device) Restart(ctx context.Context, contents []Content) error {
	h, err := d.kd.Harvesting(ctx) // before any core is accessed: another chip may have other cores
	if err != nil {
		return fmt.Errorf("dispatch: restart: read harvesting: %w", err)
	}
	if was := d.ch.Harvesting(); h != was || d.kd.Arch() != d.ch.Arch() {
		return fmt.Errorf("dispatch: restart: %w: it is a %v with harvesting %+v, it was a %v with %+v: open it anew", ErrOtherChip, d.kd.Arch(),
			h, d.ch.Arch(), was)
	}
	// Cores stop before the memory that they write to is unpinned.
	if err := d.hold(); err != nil {
		return fmt.Errorf("dispatch: restart: %w", err)
	}
	d.printing.stopped()
	d.restarts.Add(1)
	if err := d.up.close(); err != nil {
		return fmt.Errorf("dispatch: restart: %w", err)
	}
	if u := d.kd.Uplink(); u != nil {
		d.up = &uplink{Uplink: u, d: d.machine}
	}
	if d.sysmem != nil {
		if err := d.sysmem.Close(); err != nil {
			return fmt.Errorf("dispatch: restart: %w", err)
		}
		d.sysmem = nil
	}
	if err := d.bringUp(ctx); err != nil {
		return err
	}
	for i := range contents {
		if err := d.restore(ctx, &contents[i]); err != nil {
			return fmt.Errorf("dispatch: restart: write %s: %w", contents[i].Name, err)
		}
	}
	if err := d.pinQueueMemory(); err != nil {
		return fmt.Errorf("dispatch: restart: %w", err)
	}
	if err := d.startLink(); err != nil {
		return err
	}
	if err := d.pinned.repin(); err != nil {
		return fmt.Errorf("dispatch: restart: pinned host memory: %w", err)
	}
	for _, q := range d.queues {
		if err := q.restart(); err != nil {
			return fmt.Errorf("dispatch: restart: queue %d: %w", q.id, err)
		}
	}
	if err := d.guard(); err != nil {
		return err
	}
	for _, q := range d.queues {
		q.status.stop.Store(nil)
		q.status.failed.Store(nil)
	}
	return nil
}

func (q *Queue) restart() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.life.mu.Lock()
	defer q.life.mu.Unlock()
	if !q.life.closed {
		if err := errors.Join(q.tiles.dispatchL1.Close(), q.tiles.prefetchL1.Close()); err != nil {
			return err
		}
		q.life.closed = true
	}
	if err := q.start(); err != nil {
		return err
	}
	q.resetOwnerLocked()
	q.life.closed = false
	return nil
}

func (d *Device) restore(ctx context.Context, c *Content) error {
	if want := c.At.Bytes(); len(c.Data) != want {
		return fmt.Errorf("%d B for a buffer of %d B", len(c.Data), want)
	}
	host := int(c.At.HostPage)
	for _, move := range []func(xy chip.XY, addr uint64, p []byte) error{d.kd.Write, d.compare} {
		for page := range c.At.Pages {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			xy, addr := d.place(&c.At, page)
			if err := move(xy, addr, c.Data[page*host:(page+1)*host]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Device) place(b *Interleaved, page int) (chip.XY, uint64) {
	bank, addr := b.at(page)
	if !b.DRAM {
		return d.l1Banks[bank], uint64(addr)
	}
	at := d.ch.DRAMBanks()[bank]
	return at.HostEndpoint, at.Offset + uint64(addr)
}

func (d *Device) compare(xy chip.XY, addr uint64, want []byte) error {
	got := make([]byte, len(want))
	if err := d.kd.Read(xy, addr, got); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%w: %d B at %v %#x are not what was written", kmd.ErrDeviceLost, len(want), xy, addr)
	}
	return nil
}
