package ops

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
)

// BufferConfig returns the configuration of a buffer for a tensor with this spec. The error wraps
// [ErrShape], [ErrDataType] or [ErrMemory].
func (s Spec) BufferConfig(name string) (reprise.BufferConfig, error) {
	g, err := s.geometry()
	if err != nil {
		return reprise.BufferConfig{}, fmt.Errorf("ops: buffer configuration: %w", err)
	}
	return g.config(name), nil
}

// Encode returns the buffer's content for a host tensor of this shape and data type, with zeros in
// the padding of tiles. The error wraps [ErrShape] or [ErrDataType].
func (s Spec) Encode(h *Host) ([]byte, error) {
	g, err := s.geometry()
	if err == nil {
		err = h.check()
	}
	if err == nil {
		err = h.fits(s)
	}
	if err != nil {
		return nil, fmt.Errorf("ops: encode: %w", err)
	}
	return g.encode(h.Data), nil
}

// Decode is the inverse of [Spec.Encode]. The error wraps [ErrShape] for a content of another size.
func (s Spec) Decode(pages []byte) (*Host, error) {
	g, err := s.geometry()
	if want := 0; err == nil {
		if want = g.pages * g.pageBytes; len(pages) != want {
			err = shapeError("%d B are not the %d B of %v", len(pages), want, s)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("ops: decode: %w", err)
	}
	return &Host{Shape: s.clone().Shape, DType: s.DType, Data: g.decode(nil, pages)}, nil
}

// FromBuffer returns a tensor in a buffer that the caller allocated with
// [Spec.BufferConfig] and releases. The error wraps [ErrWrongDevice], or [ErrMemory] if the buffer
// has other pages.
func (d *Device) FromBuffer(b *reprise.Buffer, s Spec) (*Tensor, error) {
	t, err := d.fromBuffer(b, s)
	if err != nil {
		return nil, &opError{"ttnn::from_buffer", err}
	}
	return t, nil
}

func (d *Device) fromBuffer(b *reprise.Buffer, s Spec) (*Tensor, error) {
	g, err := s.geometry()
	if err != nil {
		return nil, err
	}
	switch {
	case b == nil:
		return nil, memoryError("the buffer is nil")
	case b.Device() != d.dev:
		return nil, fmt.Errorf("buffer %q: %w", b.Name(), ErrWrongDevice)
	case b.FirstPage() != 0:
		return nil, memoryError("buffer %q begins at page %d of another buffer: want a buffer of its own, or one from page 0",
			b.Name(), b.FirstPage())
	case b.Kind() != s.Memory.Kind || b.PageSize() != g.pageBytes || b.Pages() != g.pages:
		return nil, memoryError("buffer %q has %d pages of %d B in %v, the tensor %d of %d B in %v: see Spec.BufferConfig", b.Name(), b.Pages(),
			b.PageSize(), b.Kind(), g.pages, g.pageBytes, s.Memory.Kind)
	case !g.dealtAs(b):
		return nil, memoryError("the pages of buffer %q, which is %v, are dealt to other cores than those of the tensor, which is %v", b.Name(),
			b.Layout(), s.Memory.Layout)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastID++
	return &Tensor{d: d, id: d.lastID, geometry: g, buf: b, borrowed: true}, nil
}

// dealtAs reports whether a buffer's pages are dealt to banks as the tensor's are.
func (g *geometry) dealtAs(b *reprise.Buffer) bool {
	if g.sharding == nil || b.Layout() != g.sharding.Layout {
		return g.sharding == nil && b.Layout() == allocator.Interleaved
	}
	dist, err := allocator.NewDistribution(*g.sharding)
	for i := 0; err == nil && i < g.pages; i++ {
		core, slot := dist.Page(i)
		if p, ok := b.Page(i); !ok || p.Core != dist.Cores()[core] || p.Addr != b.Addr()+uint32(slot)*b.PageStride() {
			return false
		}
	}
	return err == nil
}

func (h *Host) fits(s Spec) error {
	if !slices.Equal(h.Shape, s.Shape) || h.DType != s.DType {
		return shapeError("host tensor %v of %v, device tensor %v of %v", h.Shape, h.DType, s.Shape, s.DType)
	}
	return nil
}
