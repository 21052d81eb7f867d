package ops

import (
	"context"

	"github.com/reprise-tt/reprise"
)

// Empty allocates a tensor. Its content is undefined.
func (d *Device) Empty(ctx context.Context, s Spec) (*Tensor, error) {
	return d.do(ctx, "ttnn::empty", specArgs(s, d.id), func(c *call) (*Tensor, error) { return c.create(s) })
}

// ToDevice allocates a tensor and copies a host tensor to it.
func (d *Device) ToDevice(ctx context.Context, h *Host, l Layout, m MemoryConfig) (*Tensor, error) {
	return d.do(ctx, "ttnn::to_device", argList{h, d.id, m}, func(c *call) (*Tensor, error) {
		if err := h.check(); err != nil {
			return nil, err
		}
		t, err := c.create(Spec{Shape: h.Shape, DType: h.DType, Layout: l, Memory: m})
		if err != nil {
			return nil, err
		}
		if err := c.to.write(c.ctx, t, func() []byte { return t.encode(h.Data) }); err != nil {
			return nil, release(err, t)
		}
		return t, nil
	})
}

// CopyHostToDevice copies a host tensor to a device tensor of the same shape and data type.
func (d *Device) CopyHostToDevice(ctx context.Context, h *Host, t *Tensor) error {
	_, err := d.do(ctx, "ttnn::copy_host_to_device_tensor", argList{h, t}, func(c *call) (*Tensor, error) {
		if err := h.check(); err != nil {
			return nil, err
		}
		if err := h.fits(t.spec); err != nil {
			return nil, err
		}
		return nil, c.to.write(c.ctx, t, func() []byte { return t.encode(h.Data) })
	})
	return err
}

// ToHost waits for the operations before it on its queue and copies a tensor to the host.
func (d *Device) ToHost(ctx context.Context, t *Tensor) (*Host, error) {
	h := &Host{}
	if _, err := d.read(ctx, t, h, (*Read).wait); err != nil {
		return nil, err
	}
	return h, nil
}

// Read is a tensor that is on its way to the host. Its methods may be called by one goroutine at a
// time.
type Read struct {
	pending *reprise.Pending // nil in a capture without dispatch, and after the end
	into    *Host
	*geometry
	pages []byte
}

// StartToHost puts a read of a tensor behind the operations of its queue and returns without
// waiting for the data.
//
// The host tensor gets the shape and data type now, and its elements when Wait has returned nil or
// Done has reported true, in the memory of its Data if that has room for them. Until then it
// belongs to the read, unless [Read.Abandon] was called.
func (d *Device) StartToHost(ctx context.Context, t *Tensor, into *Host) (*Read, error) {
	return d.read(ctx, t, into, func(*Read, context.Context) error { return nil })
}

func (d *Device) read(ctx context.Context, t *Tensor, into *Host, then func(*Read, context.Context) error) (*Read, error) {
	r := &Read{into: into}
	_, err := d.do(ctx, "ttnn::from_device", argList{t}, func(c *call) (_ *Tensor, err error) {
		into.Shape, into.DType = t.Shape(), t.spec.DType
		r.geometry = t.geometry
		if t.empty() { // nothing was written
			r.end(nil)
			return nil, nil
		}
		if t.buf != nil {
			r.pages = make([]byte, t.buf.Size())
		}
		if r.pending, err = c.to.read(c.ctx, t, r.pages); err != nil {
			return nil, err
		}
		return nil, then(r, c.ctx)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Wait waits for the data. When it fails, the read is abandoned.
func (r *Read) Wait(ctx context.Context) error {
	if err := r.wait(ctx); err != nil {
		return &opError{"ttnn::from_device", err}
	}
	return nil
}

func (r *Read) wait(ctx context.Context) error {
	if r.pending == nil {
		return nil
	}
	err := r.pending.Wait(ctx)
	r.end(err)
	return err
}

// Done reports whether the data have arrived, without waiting.
func (r *Read) Done() (bool, error) {
	if r.pending == nil {
		return true, nil
	}
	done, err := r.pending.Done()
	if done || err != nil {
		r.end(err)
	}
	if err != nil {
		err = &opError{"ttnn::from_device", err}
	}
	return done, err
}

// Abandon returns the host tensor to the caller: nothing is written to it any more.
func (r *Read) Abandon() {
	if r.pending != nil {
		r.pending.Abandon()
		r.pending = nil
	}
}

func (r *Read) end(err error) {
	r.pending = nil
	if err == nil {
		r.into.Data = r.decode(r.into.Data, r.pages)
	}
	r.pages = nil
}
