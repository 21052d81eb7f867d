package ttsim

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/reprise-tt/reprise/sim/ttsim/internal/link"
)

// serveDMA does what the simulated devices ask of host memory, in their order, until the server is gone. It takes no
// lock, because others hold locks while they wait for the server, which waits for this.
func (p *process) serveDMA() {
	defer close(p.served)
	r := &p.shm.DMA
	for {
		rec, ok := r.Next()
		if !ok {
			if p.dead.Load() {
				return
			}
			r.Items.Wait(link.Spins/4, link.Forever, func() bool { return !r.Empty() || p.dead.Load() })
			continue
		}
		p.sent.Load()
		err := p.transfer(rec)
		p.moved.Store(1)
		if err != nil && p.dmaErr.Load() == nil {
			verb := "write"
			if rec.Op == link.OpDMARead {
				verb = "read"
			}
			p.dmaErr.Store(&Error{
				Category: CategoryHostDMA,
				Message:  fmt.Sprintf("%s of %d bytes at bus address %#x: %v", verb, rec.Size, rec.Addr&busMask, err),
				Clock:    atomic.LoadUint64(p.shm.Clock),
				Status:   -1,
				Err:      err,
			})
			p.cmd.Process.Kill()
		}
		r.Advance(rec)
	}
}

// transfer does one record, with the host memory of the device that asks: the one in the address's tag, or the one
// whose BAR is being accessed. An address without a tag while all devices are clocked doesn't say which one that is:
// then the first function whose memory has the address gets it.
func (p *process) transfer(rec link.Record) error {
	device := uint32(rec.Device)
	if tag := rec.Addr >> tagShift; tag != 0 {
		device = uint32(tag) - 1
	}
	bus := rec.Addr & busMask
	var errs []error
	for _, f := range p.sim.functions {
		if device != link.AnyDevice && device != f.device {
			continue
		}
		if f.controller.access(rec, bus, p.shm.DMAReply) {
			return nil
		}
		d := f.dma.Load()
		if d == nil {
			continue
		}
		var err error
		if rec.Op == link.OpDMARead {
			err = (*d).ReadHost(bus, p.shm.DMAReply[:rec.Size])
		} else {
			err = (*d).WriteHost(bus, rec.Payload)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	if errs == nil {
		return fmt.Errorf("%w: no host memory was attached", ErrDMA)
	}
	return fmt.Errorf("%w: %w", ErrDMA, errors.Join(errs...))
}
