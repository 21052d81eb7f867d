package tracebuf

import (
	"fmt"
	"math/bits"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

type ReplayConfig struct {
	flow.ResetConfig
	Addr     uint32 // in every DRAM bank
	PageSize int    // a power of two
	Pages    int
}

// Replay is the commands of one replay. The two counts have to be filled in before they are sent.
type Replay struct {
	Bytes []byte
	// GoCount is the offset of the 32-bit count of completions before the workers may be reset:
	// what the queue expects.
	GoCount int
	// WaitCount is the offset of the 32-bit count after the reset of the workers: GoCount's plus
	// Workers.
	WaitCount int
	// ExecBuf is the offset of the last command, which runs the trace.
	ExecBuf int
}

// NewReplay builds the commands that replay a trace: a reset once all earlier programs are done,
// and the command that runs the trace.
func NewReplay(c ReplayConfig) (*Replay, error) {
	r, err := c.Append(make([]byte, 0, 4*c.Layout.Stride(2*cq.HeaderSize)))
	if err != nil {
		return nil, err
	}
	return &r, nil
}

func (c *ReplayConfig) Append(to []byte) (r Replay, err error) {
	if c.PageSize <= 0 || c.PageSize&(c.PageSize-1) != 0 {
		return r, fmt.Errorf("tracebuf: replay: pages of %d B: the size must be a power of two", c.PageSize)
	}
	b := cq.NewBuilder(c.Layout, to)
	r.GoCount, r.WaitCount = c.Begin(&b, 0, false)
	r.ExecBuf = b.ExecBuf(cq.ExecBuf{Base: c.Addr, LogPageSize: uint32(bits.TrailingZeros(uint(c.PageSize))), Pages: uint32(c.Pages)})
	if r.Bytes, err = b.Finish(); err != nil {
		return Replay{}, fmt.Errorf("tracebuf: replay: %w", err)
	}
	return r, nil
}

// Call returns the command that calls a trace that lies at an address of every bank.
func (im *Image) Call(addr uint32) cq.CallTrace {
	return cq.CallTrace{Base: addr, LogPageSize: uint32(bits.TrailingZeros(uint(im.PageSize))), Pages: uint32(im.Pages())}
}
