package dispatch

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

type workerSet struct {
	cores  chip.Range
	shared bool // by several queues
	slot   uint8
}

func (d *machine) workerSets() ([]*workerSet, error) {
	for id, r := range d.opts.Workers {
		if id < 0 || id >= d.opts.Queues {
			return nil, fmt.Errorf("workers %v are given to queue %d, but the device has %d queues: give workers to queues from 0 to %d", r, id,
				d.opts.Queues, d.opts.Queues-1)
		}
		if r.Empty() || !d.grid.Contains(r.Start) || !d.grid.Contains(r.End) {
			return nil, fmt.Errorf("workers %v of queue %d are not a rectangle inside the worker grid %v", r, id, d.grid)
		}
	}
	sets := make([]*workerSet, d.opts.Queues)
	for id := range sets {
		r, ok := d.opts.Workers[id]
		if !ok {
			r = d.grid
		}
		for other, s := range sets[:id] {
			if s.cores == r {
				sets[id], s.shared = s, true
			} else if s.cores.Overlaps(r) {
				return nil, fmt.Errorf("queue %d uses the workers %v and queue %d the workers %v, which overlap: give every queue its workers, equal or apart; a queue without any uses the whole grid %v", other, s.cores, id, r, d.grid)
			}
		}
		if sets[id] == nil {
			sets[id] = &workerSet{cores: r}
		}
	}
	if d.opts.QueueFirmware != nil {
		d.slotWorkers(sets)
	}
	return sets, nil
}

// slotWorkers gives each set a go message of its own: tt-metal's dispatchers send go signals to all
// workers, and a worker reads only the go message whose number is in its mailbox, at first number
// 0.
func (d *machine) slotWorkers(sets []*workerSet) {
	n := uint8(0)
	for id, s := range sets {
		if slices.Index(sets, s) == id {
			s.slot = n
			n++
		}
	}
}

// Workers of no set read a message that no queue sends.
