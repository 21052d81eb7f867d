package tracebuf

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// lane is the workers that go signals of one kind start, and what a trace has done there: a
// sub-device, or without sub-devices all workers of the queue.
type lane struct {
	sub     uint8
	workers int
	runs    int
	flight  flight
	texts   []text // written so far
}

// divide makes the walker's lanes.
func (w *walker) divide() error {
	t := w.target
	if t.SubDevices == nil {
		w.lane = &lane{workers: t.Workers.Size()}
		return nil
	}
	if len(w.peers) > 0 || w.im.HasControl() {
		return invalid("sub-devices", "the trace has parts on other queues or control flow, which go with all workers only")
	}
	of, n, err := chip.Divide(t.Workers, cq.MaxSubDevices, t.SubDevices)
	if err != nil {
		return &FileError{Part: "sub-devices", What: err.Error(), Err: ErrInvalid}
	}
	w.subs, w.of = w.im.stepSubDevices(), of
	for i, n := range n {
		w.lanes = append(w.lanes, lane{sub: uint8(i), workers: n})
	}
	w.lane = &w.lanes[0]
	return nil
}

// enterLane makes the lane of the present step the walker's.
func (w *walker) enterLane(at int) error {
	if w.subs == nil || w.step >= len(w.im.Steps) {
		return nil
	}
	if w.step >= len(w.subs) || int(w.subs[w.step]) >= len(w.lanes) {
		return w.fail(at, "step %d starts none of the %d sub-devices", w.step, len(w.lanes))
	}
	w.lane = &w.lanes[w.subs[w.step]]
	return nil
}

// stepSubDevices returns the sub-device that each step's go signal starts.
func (im *Image) stepSubDevices() []uint8 {
	var out []uint8
	for _, c := range im.goSignals {
		out = append(out, c.Multicast)
	}
	return out
}

// goSignals yields the go signals with their offsets.
func (im *Image) goSignals(yield func(at int, c cq.SendGoSignal) bool) {
	for e := range cq.All(im.Layout, im.Bytes[:im.Size]) {
		for r := range e.Relayed {
			if h, ok := r.Command.(cq.ForwardSubordinate); ok {
				r.At, r.Command = r.At+cq.AtForwarded, h.Command
			}
			if c, ok := r.Command.(cq.SendGoSignal); ok && !yield(r.At, c) {
				return
			}
		}
	}
}

// RunsOf returns how many programs the trace runs on each sub-device, in the order of Target's
// SubDevices, or on all workers.
func (im *Image) RunsOf(t *Target) []int {
	if t.SubDevices == nil {
		return []int{im.Counted()}
	}
	out := make([]int, len(t.SubDevices))
	for _, sub := range im.stepSubDevices() {
		if int(sub) < len(out) {
			out[sub]++
		}
	}
	return out
}

// StateAfter is the completion count and the slot of the next launch message after a valid trace,
// as 32-bit words, of each sub-device or of all workers.
func (im *Image) StateAfter(t *Target) []byte {
	var out []byte
	workers := []int{t.Workers.Size()}
	if t.SubDevices != nil {
		_, workers, _ = chip.Divide(t.Workers, cq.MaxSubDevices, t.SubDevices)
	}
	for i, runs := range im.RunsOf(t) {
		out = le.AppendUint32(out, uint32(runs*workers[i]))
		out = le.AppendUint32(out, uint32(runs)%t.layout().L1.LaunchEntries)
	}
	return out
}
