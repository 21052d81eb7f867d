package flow

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Lane is the workers of a branch that runs beside others.
type Lane struct {
	Rects    []cq.Rect
	Workers  uint32
	Expected uint32 // completions of all its programs
}

// Division divides reset workers: branch i is sub-device i+1. Other workers stay sub-device 0.
type Division struct {
	ResetConfig
	Go, GoIndex uint32 // in a worker's L1: its go messages, and which it reads
	Lanes       []Lane
}

// Append appends the commands that divide the workers, or with join those that wait for the
// branches, reset the workers and undo that.
func (d *Division) Append(dst []byte, join bool) ([]byte, error) {
	if n := len(d.Lanes); n >= cq.MaxSubDevices || (d.Go|d.GoIndex)%cq.L1Align != 0 {
		return nil, fmt.Errorf("%d branches: at most %d are possible, and none with base firmware before ttnn 0.63.0", n, cq.MaxSubDevices-1)
	}
	b := cq.NewBuilder(d.Layout, dst)
	for i, l := range d.Lanes {
		write := func(addr uint32, v uint8, size uint16) {
			data := make([]byte, cq.SlotStride(int(size)))
			data[0] = v
			b.WritePacked(cq.WritePacked{Type: cq.PackedGoIndex, NoStride: true, Size: size, Addr: addr, Rects: l.Rects, Data: data})
		}
		c, sub := d.ResetConfig, uint8(i+1)
		if c.Sub, c.Workers = sub, l.Workers; join {
			c.Begin(&b, l.Expected, false)
			sub = 0
		} else { // go signals reach all workers: those of others are still there
			write(d.Go, 0, 4*cq.MaxSubDevices)
			b.Wait(cq.Master, cq.Wait{Flags: cq.WaitBarrier})
		}
		write(d.GoIndex, sub, 4)
	}
	b.Wait(cq.Master, cq.Wait{Flags: cq.WaitBarrier})
	return b.Finish()
}

// encodeParallel takes the branches' programs in turn: a queue starts them in that order.
func encodeParallel[R, S any](to Target[R, S], n *Node[R]) error {
	branches := slices.DeleteFunc(n.Cases, func(c Case[R]) bool { return len(c.Body) == 0 })
	if len(branches) == 0 {
		return nil
	}
	var lanes []Lane
	longest := 0
	for _, c := range branches {
		lanes, longest = append(lanes, c.Lane), max(longest, len(c.Body))
	}
	err := to.Reset(false)
	if err == nil {
		err = to.Divide(n.Name, lanes, false)
	}
	for i := range longest {
		for k, c := range branches {
			if i < len(c.Body) && err == nil {
				to.SetLane(uint8(k+1), lanes[k].Workers)
				err = to.Leaf(&c.Body[i])
			}
		}
	}
	if err != nil {
		return err
	}
	return to.Divide("end of "+n.Name, lanes, true)
}
