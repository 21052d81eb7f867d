package dispatch

import (
	"encoding/binary"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
)

// QueueState is what a core of a command queue does.
type QueueState uint8

// The states.
const (
	QueueWorks   QueueState = iota
	QueueIdle               // waits for commands
	QueueBlocked            // waits for workers, the host, another core or memory
	QueueUnknown            // unreadable, or tt-metal's firmware without waypoints
)

// Activity is what a device does at one time.
type Activity struct {
	Workers, Busy int    // workers, and those that run a kernel
	Kernels       uint32 // run on the workers since they started, modulo 2^32; 0 if not asked for, or with tt-metal's firmware
	Queues        []QueueActivity
}

// QueueActivity has the states of a queue's cores.
type QueueActivity struct{ Prefetcher, Dispatcher QueueState }

// Activity looks at a word of each worker, at a few more if kernels are to be counted, and at the
// cores of the queues. What can't be read is left out.
func (d *Device) Activity(kernels bool) Activity {
	a := Activity{Workers: d.grid.Size()}
	l1 := &d.worker.L1
	counted := kernels && d.worker.Revision.Own()
	word := make([]byte, 4)
	for c := range d.grid.Cores() {
		if d.report.Read(c, l1.Go+4*uint32(d.goSlots[c]), word) == nil && word[3] == postmortem.SignalGo {
			a.Busy++
		}
		for p := range uint32(chip.NumProcessors) {
			if counted && d.report.Read(c, l1.CoreState+p*l1.CoreStateSize+d.worker.State.Kernels, word) == nil {
				a.Kernels += binary.LittleEndian.Uint32(word)
			}
		}
	}
	for _, q := range d.queues {
		a.Queues = append(a.Queues, QueueActivity{queueState(d.report.Core(q.tiles.prefetch)), queueState(d.report.Core(q.tiles.dispatch))})
	}
	return a
}

// Waypoints of idle cores; those of working ones are RUN and empty.
var idleWaypoints = []string{"IDLE", "HQW", "UAPW"}

func queueState(s CoreState) QueueState {
	at := s.Processors[chip.BRISC].Waypoint
	switch {
	case s.Unreadable != "" || s.Firmware != "" && at == "RUN":
		return QueueUnknown
	case slices.Contains(idleWaypoints, at):
		return QueueIdle
	case at == "RUN" || at == "" || at == "R":
		return QueueWorks
	}
	return QueueBlocked
}
