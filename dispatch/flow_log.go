package dispatch

import (
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Offsets in the prefetcher's struct cq_control, as in flow.go.
const (
	controlLogLimit = controlLoops + 16*controlLoop
	controlLogXY    = controlLogLimit + 4
	controlLogAddr  = controlLogLimit + 8
	controlLogged   = controlLogLimit + 12
)

// LogControl has the queue log what its prefetcher decides in the replays that are submitted from here on: entries of
// cq.TurnSize bytes, in the order of time, at an address in DRAM bank 0, a multiple of 16. It has room for entries of them. 0
// ends the log: replays that were submitted before may still write to it until the queue has finished.
func (q *Queue) LogControl(addr uint64, entries uint32) error {
	if err := q.ControlFlow(); err != nil {
		return err
	}
	bank := &q.d.ch.DRAMBanks()[0]
	return q.control("log control flow", func(w controlWords) error {
		if entries != 0 {
			for off, v := range map[uint32]uint32{controlLogXY: q.d.ch.Arch().NOCXY(bank.Endpoint[0]), controlLogAddr: uint32(addr + bank.Offset),
				controlLogged: 0} {
				if err := w.store(off, v); err != nil {
					return err
				}
			}
		}
		if err := w.store(controlLogLimit, entries); err != nil {
			return err
		}
		_, err := w.load(controlLogLimit) // the words are there before the next replay's commands, which come another way
		return err
	})
}

// ReadControlLog reads the log that was begun with LogControl, with the same arguments, once the queue has finished, bypassing
// the queue. dropped is how many entries the log had no room for.
func (q *Queue) ReadControlLog(addr uint64, entries uint32) (log []cq.TurnEntry, dropped int, err error) {
	if err := q.ControlFlow(); err != nil {
		return nil, 0, err
	}
	var n uint32
	if err := q.control("read the log of control flow", func(w controlWords) (err error) {
		n, err = w.load(controlLogged)
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
