package ttsim

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// serveDMA does what the simulated devices ask of host memory, in their order, until the server is gone. It takes no
// lock, because others hold locks while they wait for the server, which waits for this.
func (s *Sim) serveDMA() {
	defer close(s.served)
	r := &s.shm.dma
	for {
		rec, ok := r.next()
		if !ok {
			if s.dead.Load() {
				return
			}
			r.items.wait(spins/4, forever, func() bool { return !r.empty() || s.dead.Load() })
			continue
		}
		if err := s.transfer(rec); err != nil && s.dmaErr.Load() == nil {
			verb := "write"
			if rec.op == opDMARead {
				verb = "read"
			}
			s.dmaErr.Store(&Error{
				Category: CategoryHostDMA,
				Message:  fmt.Sprintf("%s of %d bytes at bus address %#x: %v", verb, rec.size, rec.addr, err),
				Clock:    atomic.LoadUint64(s.shm.clock),
				Status:   -1,
				Err:      err,
			})
			s.cmd.Process.Kill()
		}
		r.advance(rec)
	}
}

// transfer does one record, with the host memory of the device that asks. While all devices are clocked together it
// isn't known which one that is: then the first function whose memory has the address gets it.
func (s *Sim) transfer(rec record) error {
	var errs []error
	for _, f := range s.functions {
		if rec.device != anyDevice && uint32(rec.device) != f.device {
			continue
		}
		d := f.dma.Load()
		if d == nil {
			continue
		}
		var err error
		if rec.op == opDMARead {
			err = (*d).ReadHost(rec.addr, s.shm.dmaReply[:rec.size])
		} else {
			err = (*d).WriteHost(rec.addr, rec.payload)
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
