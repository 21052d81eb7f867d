package dispatch

import (
	"bytes"
	"errors"
	"runtime/debug"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// ControlFlow returns [ErrQueueFirmware] unless traces of the queue may have loops, conditions and
// calls.
func (q *Queue) ControlFlow() error {
	if q.d.ctl.Loops == 0 {
		return q.errorf("control flow in traces: %w", ErrQueueFirmware)
	}
	return nil
}

// Abort asks the queue to end the replays submitted so far at the end of a loop's iteration,
// without waiting. Replays without loops run to their end. While another goroutine waits for room
// in the queue, only the running replay is asked.
func (q *Queue) Abort() (err error) {
	if q.mu.TryLock() {
		defer q.leave(&err, debug.SetPanicOnFault(true))
		if err := q.usable("abort"); err != nil {
			return err
		}
		return q.control("abort", func(w controlWords) error { return w.store(memmap.LoopsAbort, q.stream.replays) })
	}
	return q.control("abort", func(w controlWords) error {
		n, err := w.load(memmap.LoopsReplays)
		if err != nil {
			return err
		}
		return w.store(memmap.LoopsAbort, n)
	})
}

// Aborted returns how many replays Abort has ended since the queue was started.
func (q *Queue) Aborted() (n uint32, err error) {
	err = q.control("read how many replays were aborted", func(w controlWords) (err error) {
		n, err = w.load(memmap.LoopsAborted)
		return err
	})
	return n, err
}

func (q *Queue) control(op string, f func(controlWords) error) error {
	if err := q.ControlFlow(); err != nil {
		return err
	}
	return q.beside(op, func() error {
		xy, err := q.d.ch.Virtual(q.tiles.prefetch)
		if err != nil {
			return err
		}
		return f(controlWords{q.d, xy})
	})
}

// beside calls f, which accesses the queue's cores without commands.
func (q *Queue) beside(op string, f func() error) error {
	q.life.mu.RLock()
	defer q.life.mu.RUnlock()
	err := q.overLifeLocked()
	if err == nil {
		err = f()
	}
	if err != nil {
		return q.errorf("%s: %w", op, err)
	}
	return nil
}

// controlWords are the words of a prefetcher's struct cq_control, by offset. The tile's NoC address
// also works for a chip behind Ethernet.
type controlWords struct {
	d    *machine
	core chip.XY
}

func (w controlWords) load(off uint32) (uint32, error) {
	return w.d.kd.Read32(w.core, uint64(w.d.ctl.Loops+off))
}

func (w controlWords) store(off, v uint32) error {
	return w.d.kd.Write32(w.core, uint64(w.d.ctl.Loops+off), v)
}

// ErrWireFormat is returned for features that the stock wire format has no command for.
var ErrWireFormat = errors.New("the stock wire format, with which the device was opened, has no command for it")

// DeviceArgs returns [ErrQueueFirmware] or [ErrWireFormat] unless programs in traces of the queue
// may have arguments that the device computes.
func (q *Queue) DeviceArgs() error {
	var err error
	switch {
	case q.d.ctl.ArgWords == 0:
		err = ErrQueueFirmware
	case q.d.programs.PackedPage() == 0:
		err = ErrWireFormat
	default:
		return nil
	}
	return q.errorf("arguments that the device computes: %w", err)
}

// TraceBytes returns a trace's commands in the dialect of the queue's firmware.
func (q *Queue) TraceBytes(image []byte) []byte {
	if !q.translates {
		return image
	}
	image = bytes.Clone(image)
	q.dialect.translate(q.d.layout(), image)
	return image
}

// LogControl has the queue log its prefetcher's decisions in later replays: entries of cq.TurnSize
// bytes, in the order of time, at an address in DRAM bank 0, a multiple of 16. 0 entries end the
// log once the queue has finished.
func (q *Queue) LogControl(addr uint64, entries uint32) error {
	bank := &q.d.ch.DRAMBanks()[0]
	return q.control("log control flow", func(w controlWords) error {
		if entries != 0 {
			for off, v := range map[uint32]uint32{memmap.LoopsLogXY: q.d.ch.Arch().NOCXY(bank.Endpoint[0]),
				memmap.LoopsLogAddr: uint32(addr + bank.Offset), memmap.LoopsLogged: 0} {
				if err := w.store(off, v); err != nil {
					return err
				}
			}
		}
		if err := w.store(memmap.LoopsLogLimit, entries); err != nil {
			return err
		}
		_, err := w.load(memmap.LoopsLogLimit)
		return err
	})
}

// ReadControlLog reads the log of LogControl once the queue has finished. dropped entries had no
// room.
func (q *Queue) ReadControlLog(addr uint64, entries uint32) (log []cq.TurnEntry, dropped int, err error) {
	var n uint32
	if err := q.control("read the log of control flow", func(w controlWords) (err error) {
		n, err = w.load(memmap.LoopsLogged)
		return err
	}); err != nil {
		return nil, 0, err
	}
	kept := min(n, entries)
	b := make([]byte, cq.TurnSize*kept)
	if kept > 0 {
		bank := &q.d.ch.DRAMBanks()[0]
		if err := q.d.kd.Read(bank.Endpoint[0], addr+bank.Offset, b); err != nil {
			return nil, 0, q.errorf("read the log of control flow: %w", err)
		}
	}
	log, err = cq.ParseTurns(b)
	return log, int(n - kept), err
}
