package hoststest

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/mesh"
)

// Counter is a trace that adds to a number in DRAM of each chip of this host.
type Counter struct {
	Trace *reprise.Trace
	Queue *mesh.Queue

	buf *mesh.Buffer
	x   *mesh.Executable
}

// NewCounter loads and captures a counter that starts at 0 and adds step.
func NewCounter(ctx context.Context, m *mesh.Mesh, step uint32) (*Counter, error) {
	const page = 64
	c := &Counter{Queue: m.Queue(0)}
	var err error
	if c.buf, err = m.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: page, PageSize: page,
		Name: "counter"}}); err != nil {
		return nil, err
	}
	if c.x, err = m.Load(ctx, "count", mesh.Part{Program: func(at *mesh.Chip) (*reprise.Program, error) {
		return rig.Adding(at.Device.Arch(), "count", chip.Core{}, c.buf.On(at), c.buf.On(at), step)
	}}); err != nil {
		return nil, err
	}
	if err := c.Set(ctx, 0); err != nil {
		return nil, err
	}
	c.Trace, err = c.Queue.Capture(ctx, "step", func(_ context.Context, r *mesh.Recorder) error { return r.Run(c.x) })
	return c, err
}

// Set sets the number on all chips of this host.
func (c *Counter) Set(ctx context.Context, v uint32) error {
	b := make([]byte, c.buf.Size())
	binary.LittleEndian.PutUint32(b, v)
	return c.Queue.Write(ctx, c.buf, b)
}

// Value returns the number on the first chip of this host.
func (c *Counter) Value(ctx context.Context) (uint32, error) {
	b := make([]byte, c.buf.Size())
	err := c.Queue.Read(ctx, c.buf, b)
	return binary.LittleEndian.Uint32(b), err
}

// Release releases the trace, the program and the memory.
func (c *Counter) Release(ctx context.Context) error {
	return errors.Join(c.Trace.Release(ctx), c.x.Release(ctx), c.buf.Release())
}
