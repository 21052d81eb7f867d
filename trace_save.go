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

// WithData has the file hold what is in buffers now: all that the trace's programs use, or only those given, which may be
// parts of them. So a trace with its weights and inputs runs anywhere. Reading them waits for the trace's queues.
func WithData(only ...*Buffer) SaveOption {
	return func(o *saveOptions) { o.data, o.only = true, append(o.only, only...) }
}

// WithResults has the file hold what is in these buffers, or parts of buffers, now as what a replay gives, so that who
// loads it can compare ([Trace.CheckResults]). Replay the trace on the data that are saved with it before. What WithData
// would save of these bytes is left out.
func WithResults(bufs ...*Buffer) SaveOption {
	return func(o *saveOptions) { o.results = append(o.results, bufs...) }
}

// Save writes the trace as a file that [Device.LoadTrace] takes on any device of the same kind; docs/trace-file.md
// describes it. Buffers are in it by name, address and layout, with their contents only if asked for.
func (t *Trace) Save(ctx context.Context, w io.Writer, opts ...SaveOption) error {
	return save(ctx, w, t.q.d, t.name, []*Trace{t}, opts)
}

// Save is [Trace.Save]. [Device.LoadSpanningTrace] takes the file.
func (t *SpanningTrace) Save(ctx context.Context, w io.Writer, opts ...SaveOption) error {
	return save(ctx, w, t.d, t.name, t.parts, opts)
}

func save(ctx context.Context, w io.Writer, d *Device, name string, parts []*Trace, opts []SaveOption) error {
	var o saveOptions
	for _, opt := range opts {
		opt(&o)
	}
	leave, err := enter("save", name, parts)
	if err != nil {
		return err
	}
	defer leave()
	f, err := fileOf(name, parts)
	if err == nil {
		err = readData(ctx, f, parts, &o)
	}
	if err == nil {
		err = tracebuf.Encode(w, f)
	}
	if err != nil {
		return d.failed(fmt.Sprintf("save trace %q", name), err)
	}
	return nil
}

// fileOf describes a trace of one part or more, without the contents of its buffers.
func fileOf(name string, parts []*Trace) (*tracebuf.File, error) {
	f := &tracebuf.File{Name: name}
	bufs := buffersOf(parts)
	for i, t := range parts {
		target, err := t.q.fingerprint()
		if err != nil {
			return nil, err
		}
		if len(parts) > 1 {
			target.Word = t.q.q.SpanWord()
		}
		im := t.file(bufs)
		if i > 0 {
			f.Others = append(f.Others, tracebuf.Part{Target: target, Image: im})
		} else {
			f.Target, f.Image = target, im
		}
	}
	for i, b := range bufs {
		u, err := b.file(bufs[:i])
		if err != nil {
			return nil, err
		}
		if made := parts[0].made; i < len(made) {
			u.Output = parts[0].image.Buffers[i].Output
		}
		f.Image.Buffers = append(f.Image.Buffers, u)
	}
	return f, nil
}

// file describes what of a trace runs on the queue, without its buffers, which are bufs.
func (t *Trace) file(bufs []*Buffer) tracebuf.Image {
	im := *t.image
	im.Programs, im.Buffers = nil, nil
	im.Bytes, im.Params = t.commands(), t.params.describe(bufs)
	for _, x := range t.progs {
		bin := x.image.Binary()
		im.Programs = append(im.Programs, tracebuf.Program{Name: x.Name(), Binary: bin, Addr: x.bin.Addr, Pages: len(bin) / dispatch.BinaryPageSize})
	}
	if im.Relocs == nil {
		im.Relocs = t.relocations()
	}
	im.L1End, im.After = t.cbEnd, t.prep.After.AppendDetached(nil)
	return im
}

// file describes a buffer that stands beside others in a file.
func (b *Buffer) file(others []*Buffer) (tracebuf.Buffer, error) {
	u := tracebuf.Buffer{
		Name: b.name, Kind: uint8(b.ext.Kind), Addr: b.ext.Addr, Size: b.Size(), PageSize: b.PageSize(), Stride: int(b.PageStride()),
	}
	if s := b.spec; s != nil {
		u.Sharding = &tracebuf.Sharding{
			Layout: uint8(s.Layout), Orientation: uint8(s.Orientation), Strategy: uint8(s.Strategy), Tensor: s.Tensor, Shard: s.Shard, Cores: s.Cores,
		}
	}
	if b.pool != nil {
		for _, o := range others {
			if o.ext.Overlaps(b.ext) {
				return u, fmt.Errorf("buffers %q and %q share memory of pool %q: record the trace with buffers of their own", o.name, b.name, b.pool.name)
			}
		}
	}
	return u, nil
}

// relocations finds the places in the commands that name DRAM of kernels: the entries of the relays of each step, in
// the order in which the program's image has them.
func (t *Trace) relocations() []tracebuf.Reloc {
	var out []tracebuf.Reloc
	step, next := 0, 0
	var pages []int
	for e := range cq.All(t.image.Layout, t.image.Bytes[:t.image.Size]) {
		for step < len(t.image.Steps) && e.Offset >= t.image.Steps[step].Offset {
			s := &t.image.Steps[step]
			if pages, next = nil, 0; s.Program != tracebuf.NoProgram {
				pages = t.progs[s.Program].image.BinaryPages(s.Size)
			}
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
// put in their place: the whole ones, where a program was given a part. Those of a loaded trace belong to it: they are gone
// when it is released.
func (t *Trace) Buffers() []*Buffer { return buffersOf([]*Trace{t}) }

// Buffers returns the buffers of all parts, as [Trace.Buffers] does those of one.
func (t *SpanningTrace) Buffers() []*Buffer { return buffersOf(t.parts) }

func buffersOf(parts []*Trace) []*Buffer {
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
	for _, t := range parts {
		add(t.buffers)
		add(t.made)
		add(t.params.buffers())
	}
	return out
}

// byteSpan is bytes of a buffer, from start up to end.
type byteSpan struct{ start, end int }

// readData adds the contents of buffers to a file. The trace holds their memory, also if they were freed.
func readData(ctx context.Context, f *tracebuf.File, parts []*Trace, o *saveOptions) error {
	all := buffersOf(parts)
	results, err := among(all, o.results)
	if err != nil {
		return err
	}
	only, err := among(all, o.only)
	if err != nil {
		return err
	}
	if o.data || len(o.results) > 0 {
		for _, t := range parts[1:] { // the reads wait for the first part's queue
			if err := t.q.await(ctx); err != nil {
				return err
			}
		}
	}
	read := func(to *[]tracebuf.Data, i int, spans []byteSpan) error {
		b := all[i]
		for _, s := range spans {
			data := make([]byte, s.end-s.start)
			if err := b.read(ctx, parts[0].q.q, s.start, data); err != nil {
				return fmt.Errorf("read buffer %q: %w", b.name, err)
			}
			*to = append(*to, tracebuf.Data{Buffer: i, Offset: s.start, Bytes: data})
		}
		return nil
	}
	for i, b := range all {
		if len(results[b.ext]) > 0 {
			f.Image.Buffers[i].Output = true
		}
		if err := read(&f.Results, i, results[b.ext]); err != nil {
			return err
		}
		var data []byteSpan
		switch {
		case len(only) > 0:
			data = only[b.ext]
		case o.data:
			data = []byteSpan{{0, b.Size()}}
		}
		if err := read(&f.Data, i, without(data, results[b.ext])); err != nil {
			return err
		}
	}
	return nil
}

// among returns buffers, or parts of some, as bytes of the whole buffers, each of which must be one of all: by buffer,
// rising and apart.
func among(all, bufs []*Buffer) (map[allocator.Extent][]byteSpan, error) {
	set := map[allocator.Extent][]byteSpan{}
	for _, b := range bufs {
		if b == nil {
			return nil, errors.New("no buffer: it is nil")
		}
		if !slices.ContainsFunc(all, func(o *Buffer) bool { return o.ext == b.ext }) {
			return nil, fmt.Errorf("buffer %q is none of the trace's: give only buffers of its programs", b.name)
		}
		start := b.first * b.PageSize()
		set[b.ext] = append(set[b.ext], byteSpan{start, start + b.Size()})
	}
	for e, spans := range set {
		slices.SortFunc(spans, func(a, b byteSpan) int { return a.start - b.start })
		joined := spans[:1]
		for _, s := range spans[1:] {
			if last := &joined[len(joined)-1]; s.start <= last.end {
				last.end = max(last.end, s.end)
			} else {
				joined = append(joined, s)
			}
		}
		set[e] = joined
	}
	return set, nil
}

// without returns what of spans isn't in others. Both rise and are apart.
func without(spans, others []byteSpan) []byteSpan {
	var out []byteSpan
	for _, s := range spans {
		for _, o := range others {
			if o.end <= s.start || o.start >= s.end {
				continue
			}
			if o.start > s.start {
				out = append(out, byteSpan{s.start, o.start})
			}
			s.start = min(o.end, s.end)
		}
		if s.start < s.end {
			out = append(out, s)
		}
	}
	return out
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
		Banks: d.DRAMBanks(), Dispatch: q.q.DispatchCore(), Queue: q.ID(), Firmware: sum, Revision: cq.Pinned,
	}, nil
}
