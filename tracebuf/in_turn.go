package tracebuf

import (
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// InTurn changes commands of the trace, which it returns, so that programs of branches run one
// after the other, as those outside of branches do. No step changes its size.
func (im *Image) InTurn(commands []byte, c flow.ResetConfig, l1 *abi.L1Map) []byte {
	ran, inside := uint32(0), false
	for i := range im.Steps {
		s := &im.Steps[i]
		divides := s.Control.Kind == flow.Divide
		if inside = inside != divides; !inside && !divides {
			continue
		}
		b := commands[s.Offset:][:s.Size]
		for e := range cq.All(im.Layout, b) {
			for r := range e.Relayed {
				if f, ok := r.Command.(cq.ForwardSubordinate); ok {
					r.At, r.Command = r.At+cq.AtForwarded, f.Command
				}
				at := b[r.At:]
				switch d := r.Command.(type) {
				case cq.NotifySubordinate:
					cq.Put16(at, cq.AtNotifyMask, 1)
				case cq.SendGoSignal:
					cq.Put32(at, cq.AtGoWord, uint32(cq.NewGoWord(0, c.DispatchX, c.DispatchY, d.Go.Signal())))
					cq.Put8(at, cq.AtGoMulticast, 0)
					cq.Put32(at, cq.AtGoWaitCount, ran*c.Workers)
					cq.Put32(at, cq.AtGoWaitStream, uint32(c.Stream))
					ran++
				case cq.Wait:
					cq.Put8(at, cq.AtWaitFlags, uint8(d.Flags|cq.WaitStream))
					cq.Put16(at, cq.AtWaitStream, c.Stream)
					cq.Put32(at, cq.AtWaitCount, ran*c.Workers)
					if d.Flags&cq.ClearStream != 0 {
						ran = 0
					}
				case cq.WritePacked:
					if d.Type == cq.PackedLaunch {
						cq.Put32(at, cq.AtPackedAddr, l1.Launch+ran%l1.LaunchEntries*l1.LaunchSize)
					} else if d.Addr == l1.GoIndex {
						at[cq.SlotStride(cq.AtPackedCore(2*len(d.Rects)))] = 0
					}
				}
			}
		}
	}
	return commands
}
