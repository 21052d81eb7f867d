package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/tracebuf"
)

type params struct {
	changed atomic.Bool // some are not in DRAM yet

	mu      sync.Mutex // guards the fields below, and the placed part's commands on the host
	patches tracebuf.Patches[*Buffer]
	pieces  []dispatch.Patch
	// The commands in DRAM may still name replaced buffers; only replays under way use retired
	// ones.
	replaced []allocator.Extent
	retired  []retired
}

type retired struct {
	ext  allocator.Extent
	wait uint64 // number of the first wait for the queue after which nothing uses it
}

func (ps *params) add(t *part, cmds []byte, name string, kind tracebuf.ParamKind, b *Buffer, at []int) error {
	value, err := tracebuf.SameWords(cmds, at)
	if err != nil {
		return err
	}
	if kind == tracebuf.BufferAddr && value != b.Addr() {
		return fmt.Errorf("an argument is %#x, buffer %q is at %#x", value, b.name, b.Addr())
	}
	added, err := ps.patches.Add(name, kind, value, b, at)
	if err == nil && added && b != nil {
		err = t.q.d.mem.Hold(b.owned())
	}
	return err
}

func (ps *params) drop(mem *allocator.Allocator) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var errs []error
	for _, p := range ps.patches.All() {
		if p.Of != nil {
			errs = append(errs, mem.Unhold(p.Of.owned()))
			p.Of = nil
		}
	}
	for _, e := range ps.replaced {
		errs = append(errs, mem.Unhold(e))
	}
	for _, r := range ps.retired {
		errs = append(errs, mem.Unhold(r.ext))
	}
	ps.replaced, ps.retired = nil, nil
	return errors.Join(errs...)
}

// describe returns the parameters with their buffers as indices into bufs.
func (ps *params) describe(bufs []*Buffer) []tracebuf.Param {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var out []tracebuf.Param
	for _, p := range ps.patches.All() {
		c := p.Param
		c.At = slices.Clone(c.At)
		if b := p.Of; b != nil {
			c.Buffer, c.First, c.Pages = slices.IndexFunc(bufs, func(o *Buffer) bool { return o.ext == b.ext }), b.mem.First, b.mem.Pages
		}
		out = append(out, c)
	}
	return out
}

// Set gives a parameter a value from the next replay on, in all parts with a parameter of that
// name, or, if there are none, in the called traces. Replays in a queue keep their value. The next
// replay writes only the changed words to the trace.
func (t *Trace) Set(name string, v uint32) error {
	if t.ownParam(name) {
		return t.parts[0].set(name, v)
	}
	return t.set(name, func(p *part) error { return p.set(name, v) })
}

// SetBuffer is Set for a buffer's address. For a trace over several devices it takes a buffer on
// each device with the parameter. A buffer must have the kind and pages of the one before, and at
// least its size. The trace holds the new buffer instead of the old one.
func (t *Trace) SetBuffer(name string, bufs ...*Buffer) error {
	if t.ownParam(name) {
		return t.parts[0].setOneBuffer(name, bufs)
	}
	return t.set(name, func(p *part) error { return p.setOneBuffer(name, bufs) })
}

// ownParam is the fast path of set, for a single part.
func (t *Trace) ownParam(name string) bool {
	return len(t.parts) == 1 && (t.parts[0].params.has(name) || len(t.parts[0].called()) == 0)
}

func (p *part) setOneBuffer(name string, bufs []*Buffer) error {
	b, err := bufferOn(p.q.d, bufs)
	if err == nil {
		err = p.setBuffer(name, b)
	}
	if err != nil {
		return fmt.Errorf("reprise: trace %q: set buffer %q: %w", p.name, name, err)
	}
	return nil
}

// bufferOn returns the buffer on a device. A single buffer is refused later.
func bufferOn(d *Device, bufs []*Buffer) (*Buffer, error) {
	for _, b := range bufs {
		if b != nil && b.d == d {
			return b, nil
		}
	}
	if len(bufs) == 1 {
		return bufs[0], nil
	}
	return nil, fmt.Errorf("%d buffers are given, and none is on %s: %w", len(bufs), d.name, ErrWrongDevice)
}

func (t *Trace) set(name string, f func(*part) error) error {
	errs, found := make([]error, len(t.parts)), false
	try := func(in func(*part) []*part) {
		for i, p := range t.parts {
			for _, o := range in(p) {
				if o.params.has(name) {
					found = true
					errs[i] = cmp.Or(errs[i], f(o))
				}
			}
		}
	}
	if try(func(p *part) []*part { return []*part{p} }); !found {
		try(func(p *part) []*part { return allCallees(p) })
	}
	if !found {
		return fmt.Errorf("reprise: trace %q: set parameter %q: %w", t.name, name, ErrNoParam)
	}
	return t.errorOf(fmt.Sprintf("set parameter %q of", name), errs)
}

func (p *part) set(name string, v uint32) error {
	p.params.mu.Lock()
	defer p.params.mu.Unlock()
	one, err := p.findLocked(name, tracebuf.Arg)
	if err != nil {
		return fmt.Errorf("reprise: trace %q: set parameter %q: %w", p.name, name, err)
	}
	p.setWordsLocked(one, v)
	return nil
}

func (p *part) setBuffer(name string, b *Buffer) error {
	p.params.mu.Lock()
	defer p.params.mu.Unlock()
	one, err := p.findLocked(name, tracebuf.BufferAddr)
	if err != nil {
		return err
	}
	if err := b.checkDevice(p.q.d); err != nil {
		return err
	}
	if b == one.Of {
		return nil
	}
	if old := one.Of; !b.like(old) || b.Size() < old.Size() {
		return fmt.Errorf("buffer %q has %d B of %v in pages of %d B, the program was given %d B of %v in pages of %d B: take one like that",
			b.name, b.Size(), b.ext.Kind, b.PageSize(), old.Size(), old.ext.Kind, old.PageSize())
	}
	mem := p.q.d.mem
	if err := mem.Hold(b.owned()); err != nil {
		return err
	}
	p.params.replaced = append(p.params.replaced, one.Of.owned())
	one.Of = b
	p.setWordsLocked(one, b.Addr())
	finished, errs := p.q.finished.Load(), []error(nil)
	p.params.retired = slices.DeleteFunc(p.params.retired, func(r retired) bool {
		if finished < r.wait {
			return false
		}
		errs = append(errs, mem.Unhold(r.ext))
		return true
	})
	return errors.Join(errs...)
}

func (p *part) findLocked(name string, kind tracebuf.ParamKind) (*tracebuf.Patch[*Buffer], error) {
	one, err := p.params.patches.Find(name, kind)
	if err == nil {
		err = p.usableLocked()
	}
	return one, err
}

func (ps *params) has(name string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.patches.Has(name)
}

func (b *Buffer) like(o *Buffer) bool {
	return b.ext.Kind == o.ext.Kind && b.PageSize() == o.PageSize() && b.PageStride() == o.PageStride() && b.mem.First == o.mem.First &&
		slices.Equal(b.mem.Banks, o.mem.Banks) && reflect.DeepEqual(b.dist, o.dist)
}

func (p *part) setWordsLocked(one *tracebuf.Patch[*Buffer], v uint32) {
	if p.params.patches.Set(p.image.Bytes, one, v) {
		p.params.changed.Store(true)
	}
}

func (p *part) flushAll(ctx context.Context) error {
	for _, o := range p.called() {
		if err := o.flushAll(ctx); err != nil {
			return err
		}
	}
	if !p.params.changed.Load() {
		return nil
	}
	return p.flush(ctx, false)
}

// flush writes changed parameters to DRAM, with a replay if asked for.
func (p *part) flush(ctx context.Context, replay bool) error {
	ps := &p.params
	ps.mu.Lock()
	defer ps.mu.Unlock()
	err := p.usableLocked()
	if err != nil || !replay && !ps.changed.Load() {
		return err
	}
	iv := interleaved(p.ext)
	if pieces := p.piecesLocked(); replay {
		err = p.q.q.SubmitPatched(ctx, &p.prep, &iv, pieces)
	} else {
		err = p.q.q.Patch(ctx, &iv, pieces)
	}
	if err == nil {
		p.writtenLocked()
	}
	return err
}

func (p *part) piecesLocked() []dispatch.Patch {
	ps, commands := &p.params, p.q.q.TraceBytes(p.image.Bytes)
	ps.pieces = ps.pieces[:0]
	for _, r := range ps.patches.Changed() {
		ps.pieces = append(ps.pieces, dispatch.Patch{Off: r.Start, Data: commands[r.Start:r.End]})
	}
	return ps.pieces
}

func (p *part) writtenLocked() {
	ps := &p.params
	ps.patches.Written()
	ps.changed.Store(false)
	for _, e := range ps.replaced {
		ps.retired = append(ps.retired, retired{ext: e, wait: p.q.begun.Load() + 1})
	}
	ps.replaced = ps.replaced[:0]
}

func (ps *params) buffers() []*Buffer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var out []*Buffer
	for _, p := range ps.patches.All() {
		if p.Of != nil {
			out = append(out, p.Of)
		}
	}
	return out
}

// restore adds the parameters of a loaded trace with the file's buffers.
func (ps *params) restore(t *part, made []*Buffer) error {
	for _, p := range t.image.Params {
		var b *Buffer
		if p.Kind == tracebuf.BufferAddr {
			if b = made[p.Buffer]; p.Pages != b.mem.Pages {
				b = b.part(p.First, p.Pages)
			}
		}
		if err := ps.add(t, t.image.Bytes, p.Name, p.Kind, b, p.At); err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
	}
	return nil
}

func (p *part) usableLocked() error {
	if p.state >= partReleased {
		return ErrReleased
	}
	return nil
}

// commands are those of the next replay; nil after a release.
func (p *part) commands() []byte {
	p.params.mu.Lock()
	defer p.params.mu.Unlock()
	if p.state == partRecycled {
		return nil
	}
	return slices.Clone(p.image.Bytes)
}
