package ttsim

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/sim/serve/function"
)

// The first failed transfer ends the server.
func (p *process) transfer(t *function.Transfer) {
	err := p.move(t)
	if err == nil || p.dmaErr.Load() != nil {
		return
	}
	verb := "read"
	if t.Write {
		verb = "write"
	}
	p.dmaErr.Store(&Error{
		Category: CategoryHostDMA,
		Message:  fmt.Sprintf("%s of %d bytes at bus address %#x: %v", verb, len(t.Data), t.Addr&busMask, err),
		Clock:    p.client.Clocks(),
		Status:   -1,
		Err:      err,
	})
	p.cmd.Process.Kill()
}

// A transfer is to the memory of the device in the address's tag, or else of the device whose BAR
// is being accessed, or else of the first that has the address.
func (p *process) move(t *function.Transfer) error {
	device := uint32(t.Device)
	if tag := t.Addr >> tagShift; tag != 0 {
		device = uint32(tag) - 1
	}
	bus := t.Addr & busMask
	var errs []error
	for _, f := range p.sim.functions {
		if device != function.AnyDevice && device != f.device {
			continue
		}
		if f.controller.access(t, bus) {
			return nil
		}
		d := f.dma.Load()
		if d == nil {
			continue
		}
		var err error
		if t.Write {
			err = (*d).WriteHost(bus, t.Data)
		} else {
			err = (*d).ReadHost(bus, t.Data)
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
