package debug

import (
	"context"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// ControlLog is a queue's log of the loops, branches and calls that replays go through.
type ControlLog interface {
	// Stop ends the log, waits until the queue has finished, and frees the log's memory. It returns
	// the entries in the order of time, also with an error, and how many the log had no room for. A
	// recovery of the device loses the entries before.
	Stop(ctx context.Context) (log []cq.TurnEntry, dropped int, err error)
}

// LogControl has the queue of a part write the loops, branches and calls of all replays that are
// submitted from here on into a log in DRAM that has room for entries of 16 B. Parts are numbered
// in the order of the trace's capture. A queue has one log at a time: a second one is refused.
// While it has one, every turn costs the device some hundred cycles more, and replays without
// control flow nothing. The error is [dispatch.ErrQueueFirmware] if the queue's firmware knows no
// control flow.
func (d *Debugger) LogControl(part, entries int) (ControlLog, error) {
	return d.t.LogControl(part, entries)
}

// ControlImages returns the commands of a part, and those of all traces that it calls, by the
// address that each has in every DRAM bank: what [tracebuf.ControlSpans] needs to read a log. It is
// empty for a part without loops, branches and calls.
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
