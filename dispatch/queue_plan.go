package dispatch

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

type queuePlan struct {
	ctl    memmap.Control
	cores  [memmap.MaxQueues][2]chip.Core
	host   [memmap.MaxQueues]memmap.Host
	memory int // bytes of sysmem
}

func ownCores(ch *chip.Chip, id int) [2]chip.Core {
	w, h := ch.Grid()
	if ch.Arch() == chip.Wormhole {
		return [2]chip.Core{{X: 2 * id, Y: h - 1}, {X: 2*id + 1, Y: h - 1}}
	}
	return [2]chip.Core{{X: w - 1, Y: 2 * id}, {X: w - 1, Y: 2*id + 1}}
}

// DefaultQueue returns the workers and the dispatch core's virtual coordinates of queue 0 without
// options.
func DefaultQueue(ch *chip.Chip) (workers chip.Range, dispatcher chip.XY, err error) {
	dispatcher, err = ch.Virtual(ownCores(ch, 0)[1])
	return programGrid(ch), dispatcher, err
}

func (d *machine) planQueues() error {
	if fw := d.opts.QueueFirmware; fw != nil {
		return d.planFrom(fw)
	}
	p := &d.queuePlan
	p.ctl = memmap.Own(d.queue)
	p.memory = d.opts.Queues * int(d.opts.QueueMemory)
	for id := range d.opts.Queues {
		p.cores[id] = ownCores(d.ch, id)
		p.host[id] = memmap.OwnHost(d.pr, id, d.opts.QueueMemory)
	}
	return nil
}
