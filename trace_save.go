package reprise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// SaveOption changes what Trace.Save writes.
type SaveOption func(*saveOptions)

type saveOptions struct {
	data    bool
	only    []*Buffer
	results []*Buffer
}

// WithData has the file hold what is in buffers now: all that the trace's programs use, or only those given. So a trace
// with its weights and inputs runs anywhere. Reading them waits for the queue.
func WithData(only ...*Buffer) SaveOption {
	return func(o *saveOptions) { o.data, o.only = true, append(o.only, only...) }
}

// WithResults has the file hold what is in these buffers now as what a replay gives, so that who loads it can compare
// ([Trace.CheckResults]). Replay the trace on the data that are saved with it before. What WithData would save of these
// buffers is left out.
func WithResults(bufs ...*Buffer) SaveOption {
	return func(o *saveOptions) { o.results = append(o.results, bufs...) }
}

// Save writes the trace as a file that [Device.LoadTrace] takes on any device of the same kind; docs/trace-file.md
// describes it. Buffers are in it by name and address, with their contents only if asked for.
func (t *Trace) Save(ctx context.Context, w io.Writer, opts ...SaveOption) error {
	var o saveOptions
	for _, opt := range opts {
		opt(&o)
	}
	d := t.q.d
	if err := d.usable("save trace"); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.released {
		return fmt.Errorf("reprise: save trace %q: %w", t.name, ErrReleased)
	}
	f, err := t.file()
	if err == nil {
		err = t.readData(ctx, f, &o)
	}
	if err == nil {
		err = tracebuf.Encode(w, f)
	}
	if err != nil {
		return d.failed(fmt.Sprintf("save trace %q", t.name), err)
	}
	return nil
}

// file describes the trace. Called with mu held.
func (t *Trace) file() (*tracebuf.File, error) {
	target, err := t.q.fingerprint()
	if err != nil {
		return nil, err
	}
	f := &tracebuf.File{Name: t.name, Target: target, Image: *t.image}
	im := &f.Image
	im.Programs, im.Relocs, im.Buffers = nil, nil, nil
	im.Bytes, im.Params = t.commands(), t.Params()
	for _, x := range t.progs {
		bin := x.image.Binary()
		im.Programs = append(im.Programs, tracebuf.Program{Name: x.Name(), Binary: bin, Addr: x.bin.Addr, Pages: len(bin) / dispatch.BinaryPageSize})
	}
	if im.Relocs = t.image.Relocs; im.Relocs == nil {
		im.Relocs = t.relocations()
	}
	for i, b := range t.Buffers() {
		if err := b.plain(); err != nil {
			return nil, err
		}
		if err := storable(b, im.Buffers); err != nil {
			return nil, err
		}
		kind := uint8(tracebuf.KindDRAM)
		if b.ext.Kind == L1 {
			kind = tracebuf.KindL1
		}
		im.Buffers = append(im.Buffers, tracebuf.Buffer{Name: b.name, Kind: kind, Addr: b.ext.Addr, Size: b.Size(), PageSize: b.PageSize()})
		if len(t.made) > 0 {
			im.Buffers[i].Output = t.image.Buffers[i].Output
		}
	}
	im.L1End, im.After = t.cbEnd, t.prep.After.AppendDetached(nil)
	return f, nil
}

// storable says whether a file can hold a buffer beside others.
func storable(b *Buffer, others []tracebuf.Buffer) error {
	if err := b.plain(); err != nil {
		return err
	}
	if b.ext.Kind != DRAM && b.ext.Kind != L1 {
		return fmt.Errorf("buffer %q is in %v: trace files know buffers in DRAM and L1", b.name, b.ext.Kind)
	}
	if b.pool != nil {
		for _, o := range others {
			if (o.Kind == tracebuf.KindL1) == (b.ext.Kind == L1) && o.Addr == b.ext.Addr {
				return fmt.Errorf("buffers %q and %q share memory of pool %q: record the trace with buffers of their own", o.Name, b.name, b.pool.name)
			}
		}
	}
	return nil
}

// relocations finds the places in the commands that name DRAM of kernels: the entries of the relays of each step, in
// the order in which the program's image has them.
func (t *Trace) relocations() []tracebuf.Reloc {
	var out []tracebuf.Reloc
	step, next := 0, 0
	var pages []int
	for e := range cq.All(t.image.Layout, t.image.Bytes[:t.image.Size]) {
		for step < len(t.image.Steps) && e.Offset >= t.image.Steps[step].Offset {
			pages, next = t.progs[t.image.Steps[step].Program].image.BinaryPages(t.image.Steps[step].Size), 0
			step++
		}
		relay, ok := e.Command.(cq.RelayPagedPacked)
		if !ok {
			continue
		}
		for i := range relay.Subs {
			if next < len(pages) {
				out = append(out, tracebuf.Reloc{At: e.Offset + cq.AtPagedSub(i), Program: t.image.Steps[step-1].Program, Page: pages[next]})
			}
			next++
		}
	}
	return out
}

// Buffers returns the buffers that the trace's programs use, in order of first use, and those that [Trace.SetBuffer] has
// put in their place. Those of a loaded trace belong to it: they are gone when it is released.
func (t *Trace) Buffers() []*Buffer {
	var out []*Buffer
	seen := map[allocator.Extent]bool{}
	add := func(all []*Buffer) {
		for _, b := range all {
			if !seen[b.ext] {
				seen[b.ext] = true
				out = append(out, b.whole())
			}
		}
	}
	add(t.buffers)
	add(t.made)
	add(t.params.buffers())
	return out
}

// readData adds the contents of buffers to a file. The trace holds their memory, also if they were freed.
func (t *Trace) readData(ctx context.Context, f *tracebuf.File, o *saveOptions) error {
	all := t.Buffers()
	results, err := among(all, o.results)
	if err != nil {
		return err
	}
	only, err := among(all, o.only)
	if err != nil {
		return err
	}
	for i, b := range all {
		to := &f.Data
		switch {
		case results[b.ext]:
			f.Image.Buffers[i].Output = true
			to = &f.Results
		case !o.data || len(only) > 0 && !only[b.ext]:
			continue
		}
		data := make([]byte, b.Size())
		if err := t.q.q.Read(ctx, &b.iv, 0, data); err != nil {
			return fmt.Errorf("read buffer %q: %w", b.name, err)
		}
		*to = append(*to, tracebuf.Data{Buffer: i, Bytes: data})
	}
	return nil
}

// among returns buffers as a set, of which each must be one of all.
func among(all, bufs []*Buffer) (map[allocator.Extent]bool, error) {
	set := map[allocator.Extent]bool{}
	for _, b := range bufs {
		if b == nil {
			return nil, errors.New("no buffer: it is nil")
		}
		if !slices.ContainsFunc(all, func(o *Buffer) bool { return o.ext == b.ext }) {
			return nil, fmt.Errorf("buffer %q is none of the trace's: give only buffers of its programs", b.name)
		}
		set[b.ext] = true
	}
	return set, nil
}

// fingerprint is what of the device and the queue is in the commands of a trace.
func (q *Queue) fingerprint() (tracebuf.Target, error) {
	d := q.d
	sum, err := dispatch.FirmwareHash(d.Arch())
	if err != nil {
		return tracebuf.Target{}, err
	}
	return tracebuf.Target{
		Arch: d.Arch(), Harvesting: d.disp.Chip().Harvesting(), Workers: q.q.Workers(),
		Banks: d.DRAMBanks(), Dispatch: q.q.DispatchCore(), Firmware: sum, Revision: cq.Pinned,
	}, nil
}
