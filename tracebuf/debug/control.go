package debug

import (
	"context"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// ControlLog is a queue's log of the loops, branches and calls of replays.
type ControlLog interface {
	// Stop ends the log, waits until the queue has finished, and frees the log's memory. It returns
	// the entries in the order of time, also with an error, and the number of entries without room.
	// A recovery of the device loses earlier entries.
	Stop(ctx context.Context) (log []cq.TurnEntry, dropped int, err error)
}

// LogControl has the queue of a part write the loops, branches and calls of all later replays into
// a log in DRAM, with room for entries of 16 B. Parts are numbered in the order of the trace's
// capture. A second log of a queue is refused. Meanwhile every turn costs the device some hundred
// cycles; replays without control flow cost nothing. The error is [dispatch.ErrQueueFirmware] if
// the queue's firmware knows no control flow.
func (d *Debugger) LogControl(part, entries int) (ControlLog, error) {
	return d.t.LogControl(part, entries)
}

// ControlImages returns the commands of a part and all its callees, by their address in every DRAM
// bank, for [tracebuf.ControlSpans]. It is empty for a part without loops, branches and calls.
func (d *Debugger) ControlImages(part int) map[uint32]*tracebuf.Image {
	out := map[uint32]*tracebuf.Image{}
	if d.parts[part].Image.HasControl() {
		d.addImages(out, part)
	}
	return out
}

func (d *Debugger) addImages(to map[uint32]*tracebuf.Image, part int) {
	to[d.all[part].Addr] = d.all[part].Image
	for _, i := range d.all[part].Callees {
		d.addImages(to, i)
	}
}
