package reprise

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise/allocator"
)

// NewBuffers allocates a buffer of the same configuration on each of several devices, all at one
// address. Devices with equal fingerprints ([Device.MemoryFingerprint]) have equal ones afterwards.
// Either all devices have their buffer or none. Errors are those of NewBuffer, or an
// *allocator.NoCommonAddressError if no address is free on all devices.
func NewBuffers(ds []*Device, c BufferConfig) (bufs []*Buffer, err error) {
	if err := distinct(ds); err != nil {
		return nil, fmt.Errorf("reprise: new buffer %q: %w", c.Name, err)
	}
	ctx := context.Background()
	begun := beginAll(ctx, callsOn(ds), func(int) *Call { return &Call{Kind: CallAllocate, Name: c.Name, Bytes: c.Size} })
	defer endAll(ctx, begun, func(i int, call *Call) { call.Object, call.Bytes = bufs[i], bufs[i].Size() }, &err)
	made := make([]*Buffer, len(ds))
	if err := newBuffers(ds, made, &c); err != nil {
		return nil, err
	}
	return made, nil
}

func newBuffers(ds []*Device, bufs []*Buffer, c *BufferConfig) error {
	fail := func(err error) error {
		return fmt.Errorf("reprise: new buffer %q on %d devices: %w", c.Name, len(ds), err)
	}
	rs, mems := make([]allocator.Request, len(ds)), memories(ds)
	site := userPC()
	for i, d := range ds {
		err := d.admit(context.Background(), nil, "new buffer", opAllocate, c.Name)
		if err != nil {
			return err
		}
		if bufs[i], rs[i], err = d.plan(c); err != nil {
			return fail(err)
		}
		rs[i].Site = site
	}
	if c.Kind == allocator.L1 {
		for _, d := range lockOrder(ds) { // as in newBuffer
			d.cbs.Lock()
			defer d.cbs.Unlock()
		}
	}
	var exts []allocator.Extent
	var err error
	if c.Addr == 0 {
		exts, err = allocator.AllocateAll(mems, rs)
	} else {
		exts, err = allocator.AllocateAllAt(mems, rs, uint64(c.Addr))
	}
	if err != nil {
		return fail(err)
	}
	for i, b := range bufs {
		b.setExtent(exts[i])
	}
	return nil
}

// LoadAll loads program ps[i] on device ds[i], as [Device.Load] does, with the kernels of all
// programs at one address. So equal programs have equal commands on all devices. Each takes as much
// memory as the largest. Either all programs are loaded or none.
func LoadAll(ctx context.Context, ds []*Device, ps []*Program) (xs []*Executable, err error) {
	if len(ds) != len(ps) {
		return nil, fmt.Errorf("reprise: load: %d programs for %d devices", len(ps), len(ds))
	}
	if err := distinct(ds); err != nil {
		return nil, fmt.Errorf("reprise: load: %w", err)
	}
	if slices.Contains(ps, nil) {
		return nil, errors.New("reprise: load: no program: it is nil")
	}
	begun := beginAll(ctx, callsOn(ds), func(i int) *Call { return &Call{Kind: CallLoad, Name: ps[i].Name} })
	defer endAll(ctx, begun, func(i int, call *Call) { call.Object, call.Bytes = xs[i], len(xs[i].image.Binary()) }, &err)
	made := make([]*Executable, len(ds))
	if err := loadAll(ctx, ds, ps, made); err != nil {
		return nil, err
	}
	return made, nil
}

func loadAll(ctx context.Context, ds []*Device, ps []*Program, xs []*Executable) error {
	for i, d := range ds {
		if err := d.admit(ctx, nil, "load", opLoad, ps[i].Name); err != nil {
			return err
		}
		xs[i] = &Executable{d: d}
	}
	for _, d := range lockOrder(ds) {
		d.work.RLock()
		defer d.work.RUnlock()
	}
	each := func(f func(i int) error) error {
		return eachOf(len(ds), func(i int) error { return loadError(ps[i].Name, ds[i:i+1], len(ds), f(i)) })
	}
	err := each(func(i int) error { return xs[i].prepare(ps[i]) })
	if err == nil {
		err = loadError(ps[0].Name, ds, len(ds), placeAll(ds, xs))
	}
	if err == nil {
		err = each(func(i int) error { return xs[i].place(ctx) })
	}
	if err != nil {
		for _, x := range xs {
			err = errors.Join(err, x.discard(ctx))
		}
		return err
	}
	for i, d := range ds {
		d.mu.Lock()
		d.execs[xs[i]] = struct{}{}
		d.mu.Unlock()
	}
	return nil
}

func loadError(program string, on []*Device, n int, err error) error {
	where := ""
	switch {
	case err == nil:
		return nil
	case len(on) > 1:
		where = fmt.Sprintf(" on %d devices", len(on))
	case n > 1:
		where = " on " + on[0].name
	}
	return fmt.Errorf("reprise: load program %q%s: %w", program, where, nameOnce(program, err))
}

func placeAll(ds []*Device, xs []*Executable) error {
	rs, site := make([]allocator.Request, len(xs)), userPC()
	most, end := uint64(0), uint64(0)
	for i, x := range xs {
		rs[i] = x.request()
		rs[i].Site = site
		most, end = max(most, rs[i].Size), max(end, x.cbEnd)
	}
	for i, x := range xs {
		rs[i].Size = most
		if x.cbEnd < end {
			if err := x.d.cbs.Move(x.cbEnd, end); err != nil {
				return err
			}
			x.cbEnd = end
		}
	}
	exts, err := allocator.AllocateAll(memories(ds), rs)
	if err != nil {
		return err
	}
	for i, x := range xs {
		x.bin = exts[i]
	}
	return nil
}

func lockOrder(ds []*Device) []*Device {
	return slices.SortedFunc(slices.Values(ds), func(a, b *Device) int { return a.queues[0].q.Compare(b.queues[0].q) })
}

func distinct(ds []*Device) error {
	for i, d := range ds {
		if d == nil {
			return fmt.Errorf("device %d of the list is nil", i)
		}
		if slices.Contains(ds[:i], d) {
			return fmt.Errorf("device %s is given twice", d.name)
		}
	}
	if len(ds) == 0 {
		return errors.New("no devices")
	}
	return nil
}

func memories(ds []*Device) []*allocator.Allocator {
	out := make([]*allocator.Allocator, len(ds))
	for i, d := range ds {
		out[i] = d.mem
	}
	return out
}

func eachOf(n int, f func(i int) error) error {
	if n == 1 {
		return f(0)
	}
	var g errgroup.Group
	for i := range n {
		g.Go(func() error { return f(i) })
	}
	return g.Wait()
}
