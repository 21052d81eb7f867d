package dispatch

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// queuePlan is how the command queues of a device are laid out: by this runtime's own kernels, or
// by files.
type queuePlan struct {
	ctl    memmap.Control
	cores  [memmap.MaxQueues][2]chip.Core // prefetch and dispatch core
	host   [memmap.MaxQueues]memmap.Host
	memory int // bytes of sysmem
}

// ownCores returns the prefetch core and the dispatch core of a queue with this runtime's own
// kernels.
func ownCores(ch *chip.Chip, id int) [2]chip.Core {
	w, h := ch.Grid()
	if ch.Arch() == chip.Wormhole {
		return [2]chip.Core{{X: 2 * id, Y: h - 1}, {X: 2*id + 1, Y: h - 1}}
	}
	return [2]chip.Core{{X: w - 1, Y: 2 * id}, {X: w - 1, Y: 2*id + 1}}
}

// DefaultQueue returns what queue 0 of a chip is if nothing is asked for: the logical cores that it
// starts programs on, and the virtual coordinates of the core that runs its dispatcher.
func DefaultQueue(ch *chip.Chip) (workers chip.Range, dispatcher chip.XY, err error) {
	dispatcher, err = ch.Virtual(ownCores(ch, 0)[1])
	return programGrid(ch), dispatcher, err
}

// planQueues lays the command queues out. The layouts, the grid and the sets of workers are known.
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
