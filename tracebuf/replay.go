package tracebuf

import (
	"fmt"
	"math/bits"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// ReplayConfig is what the commands of a replay depend on.
type ReplayConfig struct {
	Layout      cq.Layout
	Addr        uint32 // of the trace in every DRAM bank
	PageSize    int    // a power of two
	Pages       int
	DispatchX   uint8 // virtual coordinates of the dispatch core
	DispatchY   uint8
	Subordinate bool   // a subordinate dispatcher sends the go signals
	Workers     uint32 // completions that the go signal causes
	Stream      uint16 // that counts completions
	Packed      bool   // commands may share relays and pages, as cq.Pack makes them; else it is the stock wire format
}

// Replay is the commands of one replay. The two counts have to be filled in before they are sent.
type Replay struct {
	Bytes []byte
	// GoCount is the offset of the 32-bit count of completions that must be reached before the workers may be reset:
	// what the queue expects.
	GoCount int
	// WaitCount is the offset of the 32-bit count after the workers were reset: that much plus Workers.
	WaitCount int
	// ExecBuf is the offset of the last command, which runs the trace. What is before it makes the workers ready.
	ExecBuf int
}

// NewReplay builds the commands that replay a trace: have every worker reset its launch pointer once all earlier
// programs are done, wait for that, clear the completion count, and run the trace. Source: tt-metal
// trace/dispatch.cpp.
func NewReplay(c ReplayConfig) (*Replay, error) {
	r, err := c.Append(make([]byte, 0, 4*c.Layout.Stride(2*cq.HeaderSize)))
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// Append is NewReplay that builds the commands in the caller's memory, which is empty, as long as they fit.
func (c *ReplayConfig) Append(to []byte) (r Replay, err error) {
	if c.PageSize <= 0 || c.PageSize&(c.PageSize-1) != 0 {
		return r, fmt.Errorf("tracebuf: replay: pages of %d B: the size must be a power of two", c.PageSize)
	}
	b := cq.NewBuilder(c.Layout, to)
	reset := cq.SendGoSignal{Go: cq.NewGoWord(0, c.DispatchX, c.DispatchY, cq.SignalReplayTrace), WaitStream: uint32(c.Stream)}
	switch {
	case c.Subordinate && c.Packed:
		b.BeginSequence()
		r.GoCount = cq.AtForwarded + b.ForwardSubordinateGo(false, reset)
	case c.Subordinate:
		b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
		r.GoCount = b.SendGoSignal(cq.Subordinate, reset)
	default:
		r.GoCount = b.SendGoSignal(cq.Master, reset)
	}
	r.GoCount += cq.AtGoWaitCount
	r.WaitCount = cq.AtWaitCount + b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream | cq.ClearStream, Stream: c.Stream})
	if c.Subordinate && c.Packed {
		b.EndSequence()
	}
	r.ExecBuf = b.ExecBuf(cq.ExecBuf{Base: c.Addr, LogPageSize: uint32(bits.TrailingZeros(uint(c.PageSize))), Pages: uint32(c.Pages)})
	if r.Bytes, err = b.Finish(); err != nil {
		return Replay{}, fmt.Errorf("tracebuf: replay: %w", err)
	}
	return r, nil
}

// call returns the command that calls a trace that lies at an address of every bank.
func (im *Image) call(addr uint32) cq.CallTrace {
	return cq.CallTrace{Base: addr, LogPageSize: uint32(bits.TrailingZeros(uint(im.PageSize))), Pages: uint32(im.Pages())}
}

// SetExpected fills in the counts for a queue that expects that many completions before the replay.
func (r *Replay) SetExpected(expected, workers uint32) {
	cq.Put32(r.Bytes, r.GoCount, expected)
	cq.Put32(r.Bytes, r.WaitCount, expected+workers)
}
