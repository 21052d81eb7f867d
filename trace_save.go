package reprise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// SaveOption changes what Trace.Save writes.
type SaveOption func(*saveOptions)

type saveOptions struct {
	data    bool
	only    []*Buffer
	results []*Buffer
}

// WithData saves the present contents of buffers: all that the trace's programs use, or only those
// given, which may be parts. So a trace with its weights and inputs runs anywhere. Reading them
// waits for the trace's queues.
func WithData(only ...*Buffer) SaveOption {
	return func(o *saveOptions) { o.data, o.only = true, append(o.only, only...) }
}

// WithResults saves the present contents of these buffers, or parts, as a replay's results, for
// CheckResults of [Trace.Debug] after loading. Replay the trace on the saved data before. WithData
// leaves these bytes out.
func WithResults(bufs ...*Buffer) SaveOption {
	return func(o *saveOptions) { o.results = append(o.results, bufs...) }
}

// Save writes the trace as a file that [Device.LoadTrace] takes on any device of the same kind;
// docs/trace-file.md describes it. Buffers are saved by name, address and layout, with contents
// only if asked for.
func (t *Trace) Save(ctx context.Context, w io.Writer, opts ...SaveOption) error {
	return t.parts[0].q.d.objectError("save trace", t.name, t.save(ctx, w, opts))
}

func (t *Trace) save(ctx context.Context, w io.Writer, opts []SaveOption) error {
	var o saveOptions
	for _, opt := range opts {
		opt(&o)
	}
	leave, err := t.enter("save")
	if err != nil {
		return err
	}
	defer leave()
	only, err := wholeRanges(t.Buffers(), o.only)
	if err != nil {
		return err
	}
	results, err := wholeRanges(t.Buffers(), o.results)
	if err != nil {
		return err
	}
	var files []*tracebuf.File
	for _, d := range t.devices() {
		parts := t.partsOn(d)
		if len(parts) == 0 {
			files = append(files, nil)
			continue
		}
		f, err := fileOf(t.name, parts)
		if err == nil {
			err = readData(ctx, f, parts, &o, only, results)
		}
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	return tracebuf.EncodeAll(w, files)
}

func (t *Trace) partsOn(d *Device) []*part {
	var out []*part
	for _, p := range t.parts {
		if p.q.d == d {
			out = append(out, p)
		}
	}
	return out
}

func fileOf(name string, parts []*part) (*tracebuf.File, error) {
	bufs := buffersOf(parts, nil)
	var described []tracebuf.Part
	for _, p := range append(slices.Clip(parts), allCallees(parts...)...) {
		for _, kept := range p.kept {
			if h, ok := kept.(*HostBuffer); ok {
				return nil, fmt.Errorf("host buffer %q: %w", h.name, tracebuf.ErrHostMemory)
			}
		}
	}
	for _, p := range parts {
		if p.subs != nil {
			return nil, dispatch.ErrSubDevices
		}
		target, err := p.q.fingerprint()
		if err != nil {
			return nil, err
		}
		if len(parts) > 1 {
			target.Word = p.q.q.EdgeWord()
		}
		callees := allCallees(p)
		im := p.file(bufs, callees)
		for _, o := range callees {
			im.Callees = append(im.Callees, tracebuf.Callee{Name: o.name, Addr: o.ext.Addr, Image: o.file(bufs, callees)})
		}
		described = append(described, tracebuf.Part{Target: target, Image: im})
	}
	var buffers []tracebuf.Buffer
	for i, b := range bufs {
		u, err := b.file(bufs[:i])
		if err != nil {
			return nil, err
		}
		if f := parts[0].loaded; f != nil && i < len(f.buffers) {
			u.Output = parts[0].image.Buffers[i].Output
		}
		buffers = append(buffers, u)
	}
	return tracebuf.NewFile(name, described, buffers), nil
}

func (t *part) file(bufs []*Buffer, callees []*part) tracebuf.Image {
	im := *t.image
	im.Programs, im.Buffers, im.Callees, im.Conds = nil, nil, nil, nil
	im.Bytes, im.Params = t.commands(), t.params.describe(bufs)
	for _, x := range t.programs {
		bin := x.image.Binary()
		im.Programs = append(im.Programs, tracebuf.Program{Name: x.Name(), Binary: bin, Addr: x.bin.Addr,
			Pages: len(bin) / program.BinaryPageSize, Prints: x.image.Prints()})
	}
	if im.Relocs == nil {
		im.Relocs = t.relocations()
	}
	if im.HasControl() {
		im.Steps = slices.Clone(im.Steps)
	}
	for i := range im.Steps {
		switch s := &im.Steps[i]; s.Control.Kind {
		case flow.Loop: // a parameter may have changed it
			s.Control.Count = cq.Get32(im.Bytes, s.Offset+cq.AtLoopCount)
		case flow.Call:
			s.Control.Callee = slices.Index(callees, t.callees[s.Control.Callee])
		}
	}
	for _, c := range t.conds {
		im.Conds = append(im.Conds, tracebuf.Cond{At: c.at, Buffer: slices.IndexFunc(bufs, func(b *Buffer) bool { return b.ext == c.buf.ext }),
			Offset: c.off})
	}
	im.L1End, im.After = t.cbEnd, t.prep.After.AppendDetached(nil)
	return im
}

// file describes a buffer, given those before it in the file.
func (b *Buffer) file(others []*Buffer) (tracebuf.Buffer, error) {
	u := tracebuf.Buffer{
		Name: b.name, Kind: uint8(b.ext.Kind), Addr: b.ext.Addr, Size: b.Size(), PageSize: b.PageSize(), Stride: int(b.PageStride()),
	}
	if s := b.spec; s != nil {
		u.Sharding = &tracebuf.Sharding{
			Layout: uint8(s.Layout), Orientation: uint8(s.Orientation), Strategy: uint8(s.Strategy), Tensor: s.Tensor, Shard: s.Shard,
			Cores: s.Cores,
		}
	}
	if b.pool != nil {
		for _, o := range others {
			if o.ext.Overlaps(b.ext) {
				return u, fmt.Errorf("buffers %q and %q share memory of pool %q: record the trace with buffers of their own", o.name, b.name,
					b.pool.name)
			}
		}
	}
	return u, nil
}

func (t *part) relocations() []tracebuf.Reloc {
	return t.image.FindRelocs(func(step int) []int {
		s := &t.image.Steps[step]
		if c := &s.Control; c.Kind == flow.Kernels {
			return t.programs[c.Program].image.KernelPages()
		}
		return t.programs[s.Program].image.RelayedPages(dispatch.Variant(s.Variant))
	})
}

type byteRanges map[*Buffer][]tracebuf.ByteRange

func readData(ctx context.Context, f *tracebuf.File, parts []*part, o *saveOptions, only, results byteRanges) error {
	if o.data || len(results) > 0 {
		for _, p := range parts[1:] { // reading waits for the first part's queue
			if err := p.q.await(ctx); err != nil {
				return err
			}
		}
	}
	read := func(to *[]tracebuf.Data, i int, b *Buffer, ranges []tracebuf.ByteRange) error {
		for _, r := range ranges {
			data := make([]byte, r.End-r.Start)
			if err := b.read(ctx, parts[0].q.q, r.Start, data); err != nil {
				return fmt.Errorf("read buffer %q: %w", b.name, err)
			}
			*to = append(*to, tracebuf.Data{Buffer: i, Offset: r.Start, Bytes: data})
		}
		return nil
	}
	for i, b := range buffersOf(parts, nil) {
		if len(results[b]) > 0 {
			f.Image.Buffers[i].Output = true
		}
		if err := read(&f.Results, i, b, results[b]); err != nil {
			return err
		}
		var data []tracebuf.ByteRange
		switch {
		case len(only) > 0:
			data = only[b]
		case o.data:
			data = []tracebuf.ByteRange{{Start: 0, End: b.Size()}}
		}
		if err := read(&f.Data, i, b, tracebuf.SubtractRanges(data, results[b])); err != nil {
			return err
		}
	}
	return nil
}

// wholeRanges returns bufs as byte ranges of the whole buffers in all.
func wholeRanges(all, bufs []*Buffer) (byteRanges, error) {
	out := byteRanges{}
	for _, b := range bufs {
		if b == nil {
			return nil, errors.New("no buffer: it is nil")
		}
		i := slices.IndexFunc(all, func(o *Buffer) bool { return o.d == b.d && o.ext == b.ext })
		if i < 0 {
			return nil, fmt.Errorf("buffer %q is none of the trace's: give only buffers of its programs", b.name)
		}
		start := b.mem.First * b.PageSize()
		out[all[i]] = append(out[all[i]], tracebuf.ByteRange{Start: start, End: start + b.Size()})
	}
	for b := range out {
		out[b] = tracebuf.JoinRanges(out[b])
	}
	return out, nil
}

func (q *Queue) fingerprint() (tracebuf.Target, error) {
	d := q.d
	sum, err := d.disp.FirmwareHash()
	if err != nil {
		return tracebuf.Target{}, err
	}
	layout := ""
	if r := d.disp.WorkerLayout().Revision; !r.Own() {
		layout = r.Name
	}
	return tracebuf.Target{
		Arch: d.Arch(), Harvesting: d.disp.Chip().Harvesting(), Workers: q.q.Workers(),
		Banks: d.DRAMBanks(), Dispatch: q.q.DispatchCore(), Queue: q.ID(), Firmware: sum, Revision: cq.Pinned, Layout: layout,
	}, nil
}
