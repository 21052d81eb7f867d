package ops

import "context"

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
		if err := c.to.write(c.ctx, t, func() []byte { return t.geo.encode(h.Data) }); err != nil {
			return nil, c.discard(err, t)
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
		if err := h.fits(t.geo.spec); err != nil {
			return nil, err
		}
		return nil, c.to.write(c.ctx, t, func() []byte { return t.geo.encode(h.Data) })
	})
	return err
}

// ToHost waits for the operations before it and copies a tensor to the host.
func (d *Device) ToHost(ctx context.Context, t *Tensor) (*Host, error) {
	var h *Host
	_, err := d.do(ctx, "ttnn::from_device", argList{t}, func(c *call) (*Tensor, error) {
		h = &Host{Shape: t.Shape(), DType: t.geo.spec.DType}
		pages, err := c.to.read(c.ctx, t)
		if err == nil && pages != nil {
			h.Data = t.geo.decode(pages)
		}
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}
