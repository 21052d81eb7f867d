package reprise

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// params are the patch points of a trace.
type params struct {
	changed atomic.Bool // some are not in DRAM yet

	mu      sync.Mutex // guards everything below, and the trace's commands on the host once it has been placed
	list    []*param
	byName  map[string]*param
	dirty   []*param
	patches []dispatch.Patch
	// replaced buffers may be named by what is in DRAM; retired ones aren't, but replays under way may use them.
	replaced []allocator.Extent
	retired  []retired
}

type param struct {
	tracebuf.Param
	buf     *Buffer          // whose address it is
	patches []dispatch.Patch // the aligned pieces of the commands that hold it
	dirty   bool
}

type retired struct {
	ext    allocator.Extent
	finish uint64 // the number of the first Finish after which nothing uses it
}

// add names words of what is being recorded.
func (ps *params) add(t *Trace, cmds []byte, name string, kind tracebuf.ParamKind, b *Buffer, at []int) error {
	value := cq.Get32(cmds, at[0])
	if kind == tracebuf.BufferAddr {
		value = b.Addr()
	}
	for _, o := range at {
		if v := cq.Get32(cmds, o); v != value {
			if kind == tracebuf.BufferAddr {
				return fmt.Errorf("an argument is %#x, buffer %q is at %#x", v, b.name, value)
			}
			return fmt.Errorf("the arguments have different values, %#x and %#x: use a name for each", value, v)
		}
	}
	p := ps.byName[name]
	if p == nil {
		p = &param{Param: tracebuf.Param{Name: name, Kind: kind, Value: value}, buf: b}
		if b != nil {
			if err := t.q.d.mem.Hold(b.owned()); err != nil {
				return err
			}
		}
		if ps.byName == nil {
			ps.byName = map[string]*param{}
		}
		ps.byName[name] = p
		ps.list = append(ps.list, p)
	}
	if p.Kind != kind || p.Value != value || p.buf != b {
		return fmt.Errorf("the name stands for a %v of value %#x already, this is a %v of value %#x: use another name", p.Kind, p.Value, kind, value)
	}
	p.At = append(p.At, at...)
	return nil
}

// place finds out which aligned pieces of the trace have to be written for each parameter.
func (ps *params) place(im *tracebuf.Image, align int) {
	for _, p := range ps.list {
		slices.Sort(p.At)
		p.At = slices.Compact(p.At)
		p.patches = p.patches[:0]
		for _, at := range p.At {
			off := at &^ (align - 1)
			if n := len(p.patches); n > 0 {
				last := &p.patches[n-1]
				end := last.Off + len(last.Data)
				if off < end {
					continue
				}
				if off == end && end%im.PageSize != 0 {
					last.Data = im.Bytes[last.Off : end+align]
					continue
				}
			}
			p.patches = append(p.patches, dispatch.Patch{Off: off, Data: im.Bytes[off : off+align]})
		}
	}
}

// drop gives back what the parameters hold.
func (ps *params) drop(mem *allocator.Allocator) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var errs []error
	for _, p := range ps.list {
		if p.buf != nil {
			errs = append(errs, mem.Unhold(p.buf.owned()))
			p.buf = nil
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

// Params returns the trace's parameters with the values that the next replay will use. Their buffers are by number in
// [Trace.Buffers].
func (t *Trace) Params() []tracebuf.Param { return t.params.describe(t.Buffers()) }

// describe returns the parameters. Those that are the address of a buffer name one of bufs.
func (ps *params) describe(bufs []*Buffer) []tracebuf.Param {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var out []tracebuf.Param
	for _, p := range ps.list {
		c := p.Param
		c.At = slices.Clone(c.At)
		if b := p.buf; b != nil {
			c.Buffer, c.First, c.Pages = slices.IndexFunc(bufs, func(o *Buffer) bool { return o.ext == b.ext }), b.first, b.pages
		}
		out = append(out, c)
	}
	return out
}

// Set gives a parameter a value from the next replay on. Replays that are in the queue keep the one they have. The next
// replay writes the words that have changed to the trace, and only these; until then it costs nothing.
func (t *Trace) Set(name string, v uint32) error {
	t.params.mu.Lock()
	defer t.params.mu.Unlock()
	p, err := t.params.find(name, tracebuf.Arg)
	if err == nil {
		err = t.usable()
	}
	if err != nil {
		return fmt.Errorf("reprise: trace %q: set parameter %q: %w", t.name, name, err)
	}
	t.setWords(p, v)
	return nil
}

// SetBuffer is Set for the address of a buffer. The buffer must be of the same kind and have the same pages as the one
// before, and at least its size. The trace holds it in place of that one.
func (t *Trace) SetBuffer(name string, b *Buffer) error {
	t.params.mu.Lock()
	defer t.params.mu.Unlock()
	if err := t.setBuffer(name, b); err != nil {
		return fmt.Errorf("reprise: trace %q: set buffer %q: %w", t.name, name, err)
	}
	return nil
}

func (t *Trace) setBuffer(name string, b *Buffer) error {
	p, err := t.params.find(name, tracebuf.BufferAddr)
	if err != nil {
		return err
	}
	if err := t.usable(); err != nil {
		return err
	}
	if err := b.of(t.q.d); err != nil {
		return err
	}
	if b == p.buf {
		return nil
	}
	if old := p.buf; !b.like(old) || b.Size() < old.Size() {
		return fmt.Errorf("buffer %q has %d B of %v in pages of %d B, the program was given %d B of %v in pages of %d B: take one like that",
			b.name, b.Size(), b.ext.Kind, b.PageSize(), old.Size(), old.ext.Kind, old.PageSize())
	}
	mem := t.q.d.mem
	if err := mem.Hold(b.owned()); err != nil {
		return err
	}
	t.params.replaced = append(t.params.replaced, p.buf.owned())
	p.buf = b
	t.setWords(p, b.Addr())
	return t.params.settle(mem, t.q.finished.Load())
}

// like says whether programs find the pages of two buffers in the same way.
func (b *Buffer) like(o *Buffer) bool {
	return b.ext.Kind == o.ext.Kind && b.PageSize() == o.PageSize() && b.PageStride() == o.PageStride() && b.first == o.first &&
		slices.Equal(b.banks, o.banks) && reflect.DeepEqual(b.dist, o.dist)
}

// find returns the parameter of a name.
func (ps *params) find(name string, kind tracebuf.ParamKind) (*param, error) {
	p := ps.byName[name]
	if p == nil {
		var names []string
		for _, p := range ps.list {
			names = append(names, fmt.Sprintf("%q", p.Name))
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("%w: it has none", ErrNoParam)
		}
		return nil, fmt.Errorf("%w: it has %s", ErrNoParam, strings.Join(names, ", "))
	}
	if p.Kind != kind {
		return nil, fmt.Errorf("%w: it is of the other kind (%v): use Set for arguments and SetBuffer for buffers", ErrNoParam, p.Kind)
	}
	return p, nil
}

// setWords changes a parameter on the host. Called with params.mu held.
func (t *Trace) setWords(p *param, v uint32) {
	if v == p.Value {
		return
	}
	p.Value = v
	for _, at := range p.At {
		cq.Put32(t.image.Bytes, at, v)
	}
	if !p.dirty {
		p.dirty = true
		t.params.dirty = append(t.params.dirty, p)
	}
	t.params.changed.Store(true)
}

// replayChanged is Replay when parameters have changed.
func (t *Trace) replayChanged(ctx context.Context) error {
	ps := &t.params
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if err := t.usable(); err != nil {
		return err
	}
	iv := interleaved(t.ext)
	if err := t.q.q.SubmitPatched(ctx, &t.prep, &iv, ps.collect()); err != nil {
		return err
	}
	ps.written(t.q)
	return nil
}

// flush writes changed parameters to the trace without a replay.
func (t *Trace) flush(ctx context.Context) error {
	ps := &t.params
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if err := t.usable(); err != nil || len(ps.dirty) == 0 {
		return err
	}
	iv := interleaved(t.ext)
	if err := t.q.q.Patch(ctx, &iv, ps.collect()); err != nil {
		return err
	}
	ps.written(t.q)
	return nil
}

// collect returns the patches of what has changed. Called with mu held.
func (ps *params) collect() []dispatch.Patch {
	ps.patches = ps.patches[:0]
	for _, p := range ps.dirty {
		ps.patches = append(ps.patches, p.patches...)
	}
	if len(ps.dirty) > 1 {
		ps.patches = merge(ps.patches)
	}
	return ps.patches
}

// written notes that the patches are in the queue. Called with mu held.
func (ps *params) written(q *Queue) {
	for _, p := range ps.dirty {
		p.dirty = false
	}
	ps.dirty = ps.dirty[:0]
	ps.changed.Store(false)
	for _, e := range ps.replaced {
		ps.retired = append(ps.retired, retired{ext: e, finish: q.begun.Load() + 1})
	}
	ps.replaced = ps.replaced[:0]
}

// buffers returns those whose addresses are parameters.
func (ps *params) buffers() []*Buffer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var out []*Buffer
	for _, p := range ps.list {
		if p.buf != nil {
			out = append(out, p.buf)
		}
	}
	return out
}

// restore makes parameters of those that a trace was loaded with. made are the file's buffers.
func (ps *params) restore(t *Trace, made []*Buffer) error {
	for _, p := range t.image.Params {
		var b *Buffer
		if p.Kind == tracebuf.BufferAddr {
			if b = made[p.Buffer]; p.Pages != b.pages {
				b = b.part(p.First, p.Pages)
			}
		}
		if err := ps.add(t, t.image.Bytes, p.Name, p.Kind, b, p.At); err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
	}
	return nil
}

// merge sorts patches and leaves out those that are part of another. Patches may overlap only in whole.
func merge(ps []dispatch.Patch) []dispatch.Patch {
	slices.SortFunc(ps, func(a, b dispatch.Patch) int {
		if a.Off != b.Off {
			return a.Off - b.Off
		}
		return len(b.Data) - len(a.Data)
	})
	out := ps[:0]
	for _, p := range ps {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if p.Off+len(p.Data) <= last.Off+len(last.Data) {
				continue
			}
			if over := last.Off + len(last.Data) - p.Off; over > 0 {
				p.Off, p.Data = p.Off+over, p.Data[over:]
			}
		}
		out = append(out, p)
	}
	return out
}

// settle gives back the buffers that nothing uses any more, when that Finish has returned.
func (ps *params) settle(mem *allocator.Allocator, finished uint64) error {
	var errs []error
	ps.retired = slices.DeleteFunc(ps.retired, func(r retired) bool {
		if finished < r.finish {
			return false
		}
		errs = append(errs, mem.Unhold(r.ext))
		return true
	})
	return errors.Join(errs...)
}

// usable says whether the trace has been released. Called with params.mu held.
func (t *Trace) usable() error {
	if t.gone {
		return ErrReleased
	}
	return nil
}

// commands returns the trace as the next replay will find it.
func (t *Trace) commands() []byte {
	t.params.mu.Lock()
	defer t.params.mu.Unlock()
	return slices.Clone(t.image.Bytes)
}
