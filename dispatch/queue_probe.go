package dispatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// probe runs through what other firmware must do: a go signal from the subordinate that resets all
// launch pointers, a wait for all workers that clears the count, and a write of the dispatcher.
func (q *Queue) probe(ctx context.Context) error {
	d, word := q.d, q.d.ctl.EdgeWord[0]
	stream := d.pr.Stream.FirstDispatch
	q.mu.Lock()
	defer q.mu.Unlock()
	b := cq.NewBuilder(d.layout(), q.stream.buf[:0])
	b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
	b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{Go: q.dispatcher.GoWord(cq.SignalReplayTrace), WaitStream: uint32(stream)})
	// With another meaning of the flags this doesn't wait, or waits forever.
	b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream, Stream: uint16(stream), Count: q.dispatcher.Workers})
	b.Wait(cq.Master, cq.Wait{Flags: cq.ClearStream, Stream: uint16(stream), Count: q.dispatcher.Workers + 1})
	b.WriteLinear(cq.WriteLinear{NOC: d.eventXYs[q.id], Addr: uint64(word), Data: []byte{probeAnswer, 0, 0, 0}})
	if err := q.sendBuiltLocked(ctx, "probe", &b); err != nil {
		return err
	}
	w := newWaiter(d.opts.HangTimeout, Pace{}, &d.naps)
	for q.tiles.dispatchL1.Load32(uint64(word)) != probeAnswer {
		if err := d.kd.Fault(); err != nil {
			return err
		}
		if err := w.pause(ctx); err != nil {
			return q.silentLocked(err)
		}
	}
	if err := d.write(q.tiles.dispatch, word, make([]byte, 4)); err != nil {
		return err
	}
	if n, err := d.kd.Read32(q.dispatcher.At, uint64(d.pr.Stream.Reg(stream, chip.SpaceAvailable))); err != nil {
		return err
	} else if n != 0 {
		return q.silentLocked(fmt.Errorf("%w: workers' reports are still counted after they were cleared: %d", errWrongAnswer, n))
	}
	return q.rings.fetch.poll()
}

var errWrongAnswer = errors.New("wrong answer")

func (q *Queue) silentLocked(why error) error {
	d := q.d
	return q.fail(&QueueFirmwareError{Name: d.opts.QueueFirmware.Name, Silent: why, Queue: q.id,
		Cores: []CoreState{d.report.Core(q.tiles.prefetch), d.report.Core(q.tiles.dispatch)}})
}

const probeAnswer = 0xA5
