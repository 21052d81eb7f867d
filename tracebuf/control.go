package tracebuf

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// ReplayConfig is what the commands of a replay depend on.
type ReplayConfig struct {
	flow.ResetConfig
	Others   []flow.ResetConfig // of further sub-devices
	Addr     uint32             // in every DRAM bank
	PageSize int                // a power of two
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
	// Others are these of further sub-devices.
	Others []Counts
	// ExecBuf is the offset of the last command, which runs the trace.
	ExecBuf int
}

// Counts are the offsets of a sub-device's counts: see [Replay].
type Counts struct{ Go, Wait int }

// NewReplay builds the commands that replay a trace: a reset once all earlier programs are done,
// and the command that runs the trace.
func NewReplay(c ReplayConfig) (*Replay, error) {
	r, err := c.Append(make([]byte, 0, 4*c.Layout.Stride(2*cq.HeaderSize)))
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// Append is NewReplay that builds the commands in the caller's empty memory while they fit.
func (c *ReplayConfig) Append(to []byte) (r Replay, err error) {
	if c.PageSize <= 0 || c.PageSize&(c.PageSize-1) != 0 {
		return r, fmt.Errorf("tracebuf: replay: pages of %d B: the size must be a power of two", c.PageSize)
	}
	b := cq.NewBuilder(c.Layout, to)
	r.GoCount, r.WaitCount = c.Begin(&b, 0, false)
	for i := range c.Others {
		var n Counts
		n.Go, n.Wait = c.Others[i].Begin(&b, 0, false)
		r.Others = append(r.Others, n)
	}
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

// Cond is a word of a buffer that a BRANCH or a READ_ARG reads.
type Cond struct {
	At     int // in Image.Bytes
	Buffer int // in the trace's Buffers
	Offset int // a multiple of 4
}

// Callee is a trace that a part of another trace calls on its queue.
type Callee struct {
	Name string
	Addr uint64 // in every DRAM bank
	// Image has no Buffers and no Callees: it uses those of the file's first part and of its part.
	Image Image
}

// HasControl reports whether the trace has loops, branches, calls, or arguments that the device
// computes.
func (im *Image) HasControl() bool {
	return slices.ContainsFunc(im.Steps, func(s Step) bool { return s.Control.Kind != flow.None })
}

// Counted returns how many programs a queue counts when the trace has ended: none with control
// flow, which ends in a reset.
func (im *Image) Counted() int {
	if im.HasControl() {
		return 0
	}
	return im.Runs()
}

func (s *Step) program() int {
	if s.Control.Kind == flow.Kernels {
		return s.Control.Program
	}
	return s.Program
}

// Flow returns a place for each step and for the end.
func (im *Image) Flow() ([]flow.Place, error) {
	return flow.Read(im.Layout, len(im.Steps), func(i int) (*flow.Control, []byte) {
		s := &im.Steps[i]
		if s.Offset < 0 || s.Size < 0 || s.Offset+s.Size > len(im.Bytes) {
			return &s.Control, nil
		}
		return &s.Control, im.Bytes[s.Offset : s.Offset+s.Size]
	})
}

// AddControl records a step of control flow, with its commands.
func (r *Recording) AddControl(name string, c flow.Control, commands []byte) int {
	r.steps = append(r.steps, Step{Name: name, Offset: len(r.cmds), Size: len(commands), Program: NoProgram, Control: c})
	r.cmds = append(r.cmds, commands...)
	return len(r.steps) - 1
}

// SetTarget sets the target of a step of control flow.
func (r *Recording) SetTarget(step, target int) {
	s := &r.steps[step]
	s.Control.Target = target
	to := len(r.cmds)
	if target < len(r.steps) {
		to = r.steps[target].Offset
	}
	cq.Put32(r.cmds, s.Offset+4, uint32(to)) // LOOP_BEGIN, LOOP_END and BRANCH have it at the same place
}
