package dispatch

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// ControlFlow returns nil if traces of the queue may have loops, conditions and calls, and
// [ErrQueueFirmware] otherwise.
func (q *Queue) ControlFlow() error {
	if q.d.ctl.Loops == 0 {
		return fmt.Errorf("dispatch: queue %d: control flow in traces: %w", q.id, ErrQueueFirmware)
	}
	return nil
}

// Abort asks the queue to end the replays submitted so far at the end of a loop's iteration.
// Replays without loops run to their end. While another goroutine waits for room in the queue, only
// the running replay is asked. Abort doesn't wait.
func (q *Queue) Abort() (err error) {
	if err := q.ControlFlow(); err != nil {
		return err
	}
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

// Aborted returns how many replays have ended because of Abort since the queue was started.
func (q *Queue) Aborted() (n uint32, err error) {
	if err := q.ControlFlow(); err != nil {
		return 0, err
	}
	err = q.control("read how many replays were aborted", func(w controlWords) (err error) {
		n, err = w.load(memmap.LoopsAborted)
		return err
	})
	return n, err
}

func (q *Queue) control(op string, f func(controlWords) error) error {
	q.life.mu.RLock()
	defer q.life.mu.RUnlock()
	err := q.overLifeLocked()
	if err == nil {
		var xy chip.XY
		if xy, err = q.d.ch.Virtual(q.tiles.prefetch); err == nil {
			err = f(controlWords{q.d, xy})
		}
	}
	if err != nil {
		return fmt.Errorf("dispatch: queue %d: %s: %w", q.id, op, err)
	}
	return nil
}

// controlWords are the words of a prefetcher's struct cq_control, by offset. They are accessed
// through the tile's NoC address, which works for a chip behind Ethernet too, unlike the queue's
// windows.
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

// DeviceArgs returns nil if programs in traces of the queue may have arguments that the device
// computes, otherwise [ErrQueueFirmware] or [ErrWireFormat].
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
	return fmt.Errorf("dispatch: queue %d: arguments that the device computes: %w", q.id, err)
}

// TraceBytes returns a trace's commands as the queue's firmware reads them: translated for
// tt-metal's firmware with other flags, or for a queue with a part of the workers.
func (q *Queue) TraceBytes(image []byte) []byte {
	if !q.translates {
		return image
	}
	image = bytes.Clone(image)
	q.dialect.translate(q.d.layout(), image)
	return image
}

// LogControl has the queue log its prefetcher's decisions in the replays that are submitted from
// here on: entries of cq.TurnSize bytes, in the order of time, at an address in DRAM bank 0, a
// multiple of 16. 0 entries end the log; replays that were submitted before may still write to it
// until the queue has finished.
func (q *Queue) LogControl(addr uint64, entries uint32) error {
	if err := q.ControlFlow(); err != nil {
		return err
	}
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
		_, err := w.load(memmap.LoopsLogLimit) // the words are there before the next replay's commands, which come another way
		return err
	})
}

// ReadControlLog reads the log of LogControl, with the same arguments, bypassing the queue. Call it
// once the queue has finished. dropped is the number of entries that had no room.
func (q *Queue) ReadControlLog(addr uint64, entries uint32) (log []cq.TurnEntry, dropped int, err error) {
	if err := q.ControlFlow(); err != nil {
		return nil, 0, err
	}
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
			return nil, 0, fmt.Errorf("dispatch: queue %d: read the log of control flow: %w", q.id, err)
		}
	}
	log, err = cq.ParseTurns(b)
	return log, int(n - kept), err
}
