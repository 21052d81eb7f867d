package reprise

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/tracebuf"
)

// LoadOption changes how Device.LoadTrace loads.
type LoadOption func(*loadOptions)

type loadOptions struct{ bufs []*Buffer }

// WithBuffers has a loaded trace use these buffers instead of allocating those of the same names. They must have
// the same size and pages, and lie where the file says unless all arguments that name the place are parameters.
func WithBuffers(bufs ...*Buffer) LoadOption {
	return func(o *loadOptions) { o.bufs = append(o.bufs, bufs...) }
}

// LoadTrace reads a file that [Trace.Save] wrote, and makes it a trace of the first queue that has the workers of the one
// that it was captured on. The kernels and the commands get memory wherever there is some. Buffers are allocated where
// they lay when the trace was recorded, or elsewhere if that is taken and all arguments with their addresses are
// parameters ([Recorder.ParamBuffer]); they get the contents that are in the file.
//
// A file is refused, before anything reaches the device, if it is damaged ([ErrDamagedTrace]), holds what no recorder
// makes ([ErrInvalidTrace]) or was recorded for another kind of device ([ErrOtherTarget]); the error says what is wrong.
// The kernels in it run on the device: load files whose programs you would run.
func (d *Device) LoadTrace(ctx context.Context, r io.Reader, opts ...LoadOption) (*Trace, error) {
	if err := d.usable("load trace"); err != nil {
		return nil, err
	}
	if err := d.refuse(nil, opLoadTrace, ""); err != nil {
		return nil, err
	}
	var o loadOptions
	for _, opt := range opts {
		opt(&o)
	}
	f, err := tracebuf.Decode(r)
	if err != nil {
		return nil, fmt.Errorf("reprise: load trace: %w", err)
	}
	d.work.RLock()
	defer d.work.RUnlock()
	t := &Trace{q: d.queueFor(f.Target.Workers), name: f.Name, image: &f.Image}
	if err = t.load(ctx, f, o.bufs); err == nil {
		err = t.register()
	}
	if err != nil {
		return nil, d.failed(fmt.Sprintf("load trace %q", f.Name), errors.Join(err, t.drop()))
	}
	return t, nil
}

// queueFor is the first queue with these workers, or the first one if there is none.
func (d *Device) queueFor(workers Range) *Queue {
	for _, q := range d.queues {
		if q.q.Workers() == workers {
			return q
		}
	}
	return d.queues[0]
}

func (t *Trace) load(ctx context.Context, f *tracebuf.File, bufs []*Buffer) error {
	d, im := t.q.d, t.image
	here, err := t.q.fingerprint()
	if err != nil {
		return err
	}
	if err := f.Target.Match(&here); err != nil {
		return err
	}
	after, err := t.q.q.ParseDetached(im.After, len(im.Steps))
	if err != nil {
		return err
	}
	if im.L1End > d.cbs.base {
		if err := d.cbs.grow(im.L1End); err != nil {
			return err
		}
		t.cbEnd = im.L1End
	}
	if err := t.loadBuffers(bufs); err != nil {
		return err
	}
	for i := range im.Programs {
		if err := t.loadKernels(ctx, &im.Programs[i]); err != nil {
			return err
		}
	}
	im.Relocate(here.Banks, here.Dispatch)
	if err := t.params.restore(t); err != nil {
		return err
	}
	for i := range f.Data {
		p := &f.Data[i]
		b := t.made[p.Buffer]
		if err := t.q.q.Write(ctx, &b.iv, p.Offset, p.Bytes); err != nil {
			return fmt.Errorf("write buffer %q: %w", b.name, err)
		}
	}
	t.results = f.Results
	return t.place(ctx, after, t.name)
}

// loadBuffers allocates the file's buffers at their addresses, or takes those that are given.
func (t *Trace) loadBuffers(given []*Buffer) error {
	byName := map[string]*Buffer{}
	for _, b := range given {
		if err := b.of(t.q.d); err != nil {
			return err
		}
		byName[b.name] = b
	}
	var moves []moving
	for i, want := range t.image.Buffers {
		kind := DRAM
		if want.Kind == tracebuf.KindL1 {
			kind = L1
		}
		b, ok := byName[want.Name]
		delete(byName, want.Name)
		if ok {
			if err := b.plain(); err != nil {
				return err
			}
			e := b.ext
			if e.Kind == kind && e.Addr != want.Addr && t.movable(i) == nil {
				t.movingOf(i).to(t.image, b)
				want.Addr = e.Addr
			}
			if e.Kind != kind || e.Addr != want.Addr || b.Size() != want.Size || b.PageSize() != want.PageSize {
				return fmt.Errorf("buffer %q is %d B of %v in pages of %d B at %#x, the trace was recorded with %d B of %v in pages of %d B at %#x",
					b.name, b.Size(), e.Kind, b.PageSize(), e.Addr, want.Size, kind, want.PageSize, want.Addr)
			}
		} else {
			var err error
			if b, err = t.newBufferAt(kind, &want); err != nil {
				if why := t.movable(i); why != nil {
					return fmt.Errorf("buffer %q must lie where it lay when the trace was recorded: %w (%w)", want.Name, err, why)
				}
				t.made = append(t.made, nil)
				moves = append(moves, t.movingOf(i))
				continue
			}
			t.owned = append(t.owned, b)
		}
		if err := t.keep(b); err != nil {
			return err
		}
		t.made = append(t.made, b)
	}
	for name := range byName {
		return fmt.Errorf("the trace has no buffer %q", name)
	}
	// Last, so that they leave the others their places.
	for _, m := range moves {
		if err := t.moveBuffer(m); err != nil {
			return err
		}
	}
	return nil
}

// keep holds a buffer for a loaded trace.
func (t *Trace) keep(b *Buffer) error {
	if err := t.q.d.mem.Hold(b.owned()); err != nil {
		return err
	}
	t.holds = append(t.holds, b.owned())
	return nil
}

func (t *Trace) newBufferAt(kind Kind, want *tracebuf.Buffer) (*Buffer, error) {
	d := t.q.d
	if kind == L1 {
		d.cbs.mu.Lock()
		defer d.cbs.mu.Unlock()
	}
	ext, err := d.mem.AllocateAt(allocator.Request{Kind: kind, Size: uint64(want.Size), PageSize: uint64(want.PageSize), Owner: want.Name, Tag: "buffer", Site: userPC()}, want.Addr)
	if err != nil {
		return nil, err
	}
	return &Buffer{d: d, name: want.Name, ext: ext, iv: interleaved(ext), pages: int(ext.Pages())}, nil
}

// loadKernels gives a program's kernels memory and writes them there.
func (t *Trace) loadKernels(ctx context.Context, p *tracebuf.Program) error {
	d := t.q.d
	x := &Executable{d: d, image: dispatch.BinaryImage(p.Name, p.Binary), closed: true}
	t.progs = append(t.progs, x)
	ext, err := d.mem.Allocate(allocator.Request{Kind: DRAM, Size: uint64(len(p.Binary)), PageSize: dispatch.BinaryPageSize, Owner: p.Name, Tag: "kernels", Site: userPC()})
	if err != nil {
		return err
	}
	// Held and freed at once, it goes when the trace does.
	if err := errors.Join(d.mem.Hold(ext), d.mem.Free(ext)); err != nil {
		return err
	}
	t.holds = append(t.holds, ext)
	x.bin, p.Addr = ext, ext.Addr
	iv := interleaved(ext)
	return t.q.q.Write(ctx, &iv, 0, p.Binary)
}
