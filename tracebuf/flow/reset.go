package flow

import "github.com/reprise-tt/reprise/dispatch/cq"

// ResetConfig is what the commands of a reset depend on.
type ResetConfig struct {
	Layout    cq.Layout
	DispatchX uint8 // virtual coordinates of the dispatch core
	DispatchY uint8
	Workers   uint32
	Stream    uint16 // that counts completions
	Packed    bool   // commands may share relays and pages
}

// Begin appends commands that have every worker reset its launch pointer once so many completions
// are counted, wait for the workers and clear the count. With stall the prefetcher goes on only
// then, with all results in memory. It returns the offsets of the 32-bit counts of the go signal
// and the wait. Source: tt-metal trace/dispatch.cpp.
func (c *ResetConfig) Begin(b *cq.Builder, expected uint32, stall bool) (goCount, waitCount int) {
	signal := cq.SendGoSignal{
		Go: cq.NewGoWord(0, c.DispatchX, c.DispatchY, cq.SignalReplayTrace), WaitCount: expected, WaitStream: uint32(c.Stream),
	}
	if c.Packed {
		b.BeginSequence()
		goCount = cq.AtForwarded + b.ForwardSubordinateGo(false, signal)
	} else {
		b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
		goCount = b.SendGoSignal(cq.Subordinate, signal)
	}
	w := cq.Wait{Flags: cq.WaitStream | cq.ClearStream, Stream: c.Stream, Count: expected + c.Workers}
	if stall {
		w.Flags |= cq.WaitBarrier | cq.NotifyFetch
	}
	waitCount = b.Wait(cq.Master, w)
	if c.Packed {
		b.EndSequence()
	}
	if stall {
		b.Stall()
	}
	return goCount + cq.AtGoWaitCount, waitCount + cq.AtWaitCount
}

func AppendReset(dst []byte, c ResetConfig, expected uint32, stall bool) ([]byte, error) {
	b := cq.NewBuilder(c.Layout, dst)
	c.Begin(&b, expected, stall)
	return b.Finish()
}

// AppendStall appends commands after which the prefetcher goes on only when expected completions
// are counted and all results are in memory.
func AppendStall(dst []byte, c ResetConfig, expected uint32) ([]byte, error) {
	b := cq.NewBuilder(c.Layout, dst)
	b.WaitStall(cq.Wait{Flags: cq.WaitStream, Stream: c.Stream, Count: expected})
	return b.Finish()
}
