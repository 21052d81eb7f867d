package reprise

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
	"github.com/reprise-tt/reprise/tracebuf/optimize"
)

// SaveOption changes what Trace.Save writes.
type SaveOption func(*saveOptions)

type saveOptions struct {
	data    bool
	only    []*Buffer
	results []*Buffer
}

// WithData saves the present contents of buffers: all that the trace's programs use, or only those
// given, which may be parts. Reading them waits for the trace's queues.
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
		target, err := p.q.fingerprint(p.subs)
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
		for i := range im.Callees {
			c := &im.Callees[i].Image
			c.After = c.StateAfter(&target)
		}
		im.After = im.StateAfter(&target)
		described = append(described, tracebuf.Part{Target: target, Image: im})
	}
	var buffers []tracebuf.Buffer
	for i, b := range bufs {
		u, err := b.file(bufs[:i])
		if err != nil {
			return nil, err
		}
		if f := parts[0].loaded; f != nil && i < len(f.buffers) {
			u.Output, u.Tensor = parts[0].image.Buffers[i].Output, parts[0].image.Buffers[i].Tensor
		}
		buffers = append(buffers, u)
	}
	f := tracebuf.NewFile(name, described, buffers)
	if o := parts[0].loaded; o != nil {
		f.Setup = o.setup
	}
	return f, nil
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
	im.L1End = t.cbEnd
	return im
}

// file describes a buffer, given those before it in the file.
func (b *Buffer) file(others []*Buffer) (tracebuf.Buffer, error) {
	u := tracebuf.Buffer{
		Name: b.name, Kind: uint8(b.ext.Kind), Addr: b.ext.Addr, Size: b.Size(), PageSize: b.PageSize(), Stride: int(b.PageStride()),
		Sharding: b.spec,
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
			return nil, fmt.Errorf("buffer %q is none of the trace's", b.name)
		}
		start := b.mem.First * b.PageSize()
		out[all[i]] = append(out[all[i]], tracebuf.ByteRange{Start: start, End: start + b.Size()})
	}
	for b := range out {
		out[b] = tracebuf.JoinRanges(out[b])
	}
	return out, nil
}

// fingerprint is the target of traces that are recorded now, with a division.
func (q *Queue) fingerprint(subs *dispatch.SubDevices) (tracebuf.Target, error) {
	d := q.d
	sum, err := d.disp.FirmwareHash()
	if err != nil {
		return tracebuf.Target{}, err
	}
	layout := ""
	if r := d.disp.WorkerLayout().Revision; !r.Own() {
		layout = r.Name
	}
	t := tracebuf.Target{
		Arch: d.Arch(), Harvesting: d.disp.Chip().Harvesting(), Workers: q.q.Workers(),
		Banks: d.DRAMBanks(), Dispatch: q.q.DispatchCore(), Queue: q.ID(), Firmware: sum, Revision: cq.Pinned, Layout: layout,
	}
	if subs != nil {
		t.SubDevices = subs.Sets()
	}
	return t, nil
}

// LoadOption changes how Device.LoadTrace loads.
type LoadOption func(*loadOptions)

type loadOptions struct {
	bufs    []*Buffer
	devices []*Device
}

// WithBuffers makes a loaded trace use these buffers instead of allocating those of the same names.
// Size, pages and layout must be equal. The address must be that in the file, unless all arguments
// with that address are parameters.
func WithBuffers(bufs ...*Buffer) LoadOption {
	return func(o *loadOptions) { o.bufs = append(o.bufs, bufs...) }
}

// WithDevices names the other devices of a trace over several, in the trace's order. The device of
// LoadTrace gets the parts of the first one.
func WithDevices(ds ...*Device) LoadOption {
	return func(o *loadOptions) { o.devices = append(o.devices, ds...) }
}

// LoadTrace reads a file of [Trace.Save] and makes it a trace of the first queue with the same
// workers. A trace over several queues needs a queue with the workers of each ([WithQueues],
// [WithQueueWorkers]), one over several devices as many devices ([WithDevices]). Buffers get
// their recorded addresses and the contents that are in the file. If those are taken, buffers may
// lie elsewhere if all arguments with their addresses are parameters ([Recorder.ParamBuffer]).
//
// Before anything reaches the device, a file is refused that is damaged ([ErrDamagedTrace]), holds
// what no recorder makes ([ErrInvalidTrace]), or was recorded for another kind or number of devices
// ([ErrOtherTarget]). The kernels in the file run on the device: load only files whose programs you
// would run.
func (d *Device) LoadTrace(ctx context.Context, r io.Reader, opts ...LoadOption) (*Trace, error) {
	var o loadOptions
	for _, opt := range opts {
		opt(&o)
	}
	ds := append([]*Device{d}, o.devices...)
	if err := distinct(ds); err != nil {
		return nil, fmt.Errorf("reprise: load trace: %w", err)
	}
	for _, d := range ds {
		if err := d.admit(ctx, nil, "load trace", opLoadTrace, ""); err != nil {
			return nil, err
		}
	}
	files, err := tracebuf.DecodeAll(r)
	if err != nil {
		return nil, fmt.Errorf("reprise: load trace: %w", err)
	}
	name := cmp.Or(files...).Name
	if len(files) != len(ds) {
		return nil, fmt.Errorf("reprise: load trace %q: it was recorded on %d devices, and is loaded on %d: name them with WithDevices: %w",
			name, len(files), len(ds), ErrOtherTarget)
	}
	for _, b := range o.bufs {
		if b == nil || !slices.Contains(ds, b.d) {
			return nil, fmt.Errorf("reprise: load trace %q: %w", name, b.checkDevice(d))
		}
	}
	for _, d := range lockOrder(ds) {
		d.work.RLock()
		defer d.work.RUnlock()
	}
	var parts []*part
	var wrote []*Queue
	for i, f := range files {
		if f == nil {
			continue
		}
		l := newLoading(ds[i], f, o.bufs)
		err = l.load(ctx)
		parts, wrote = append(parts, l.parts...), append(wrote, l.wrote...)
		if err != nil {
			d = ds[i]
			break
		}
	}
	var t *Trace
	if err == nil {
		err = tracebuf.SetUp(ctx, files, func(i int) tracebuf.Tiles { return ds[i].disp })
	}
	if err == nil {
		t, err = newTrace(name, parts, ds)
	}
	if err != nil {
		for _, p := range parts {
			on := slices.DeleteFunc(slices.Clone(wrote), func(q *Queue) bool { return q.d != p.q.d })
			err = errors.Join(err, p.discard(ctx, on...))
		}
		return nil, d.objectError("load trace", name, err)
	}
	return t, nil
}

// Optimize returns a trace that does the same on the same buffers in less of the device's time. Its
// Save says what was changed. t may be released. The error wraps [optimize.ErrControl] for a trace
// with control flow, [optimize.ErrNames] for buffers of one name.
func (t *Trace) Optimize(ctx context.Context) (*Trace, error) {
	var file, short bytes.Buffer
	err := t.save(ctx, &file, nil)
	if err == nil {
		err = optimize.Rewrite(&short, &file)
	}
	ds := t.devices()
	if err != nil {
		return nil, ds[0].objectError("optimize trace", t.name, err)
	}
	return ds[0].LoadTrace(ctx, &short, WithDevices(ds[1:]...), WithBuffers(t.Buffers()...))
}

type loading struct {
	d     *Device
	f     *tracebuf.File
	parts []*part           // in the file's order
	every []*part           // parts and callees, callees first
	made  []*Buffer         // the file's buffers
	plans []*Buffer         // the file's buffers without memory
	here  []tracebuf.Target // of the parts' queues
	given map[string]*Buffer
	wrote []*Queue // that may be writing buffers
}

func newLoading(d *Device, f *tracebuf.File, bufs []*Buffer) *loading {
	l := &loading{d: d, f: f, given: map[string]*Buffer{}}
	for _, b := range bufs {
		if b.d == d {
			l.given[b.name] = b
		}
	}
	images := f.Images()
	for i, p := range f.Parts() {
		q, im := d.queueFor(p.Target.Workers), images[i]
		var callees []*part
		for k := range im.Callees {
			c := &im.Callees[k]
			callees = append(callees, newLoaded(q, c.Name, &c.Image, callees))
		}
		l.parts = append(l.parts, newLoaded(q, f.Name, im, callees))
		l.every = append(append(l.every, callees...), l.parts[i])
	}
	return l
}

// queueFor returns the queue with these workers, else queue 0.
func (d *Device) queueFor(workers chip.Range) *Queue {
	for _, q := range d.queues {
		if q.q.Workers() == workers {
			return q
		}
	}
	return d.queues[0]
}

func (l *loading) load(ctx context.Context) error {
	afters, err := l.match()
	if err != nil {
		return err
	}
	if err := l.loadBuffers(); err != nil {
		return err
	}
	for _, t := range l.every {
		for i := range t.image.Programs {
			if err := t.loadKernels(ctx, &t.image.Programs[i]); err != nil {
				return err
			}
		}
	}
	if err := l.relocate(); err != nil {
		return err
	}
	for _, t := range l.every {
		if err := t.params.restore(t, l.made); err != nil {
			return err
		}
	}
	first := l.parts[0]
	if len(l.f.Data) > 0 {
		l.wrote = append(l.wrote, first.q)
	}
	for i := range l.f.Data {
		p := &l.f.Data[i]
		b := l.made[p.Buffer]
		if err := b.write(ctx, first.q.q, p.Offset, p.Bytes); err != nil {
			return fmt.Errorf("write buffer %q: %w", b.name, err)
		}
	}
	if len(l.parts) > 1 { // others don't wait for this queue
		if err := first.q.await(ctx); err != nil {
			return err
		}
	}
	*first.loaded = fileContents{l.made, l.f.Results, l.f.Setup}
	for i, t := range l.every {
		if t.ext.IsZero() {
			if err := t.allocate(); err != nil {
				return err
			}
		}
		if err := t.place(ctx, afters[i]...); err != nil {
			return err
		}
	}
	for _, t := range l.every {
		as := partLive
		if !slices.Contains(l.parts, t) {
			as = partCalled
		}
		if err := t.register(as); err != nil {
			return err
		}
	}
	return nil
}

// match checks that the trace is for this device, takes the memory of its circular buffers, and
// returns the queue states after each of l.every.
func (l *loading) match() (afters [][]dispatch.SubAfter, err error) {
	for i, p := range l.f.Parts() {
		t := l.parts[i]
		here, err := t.q.fingerprint(t.subs)
		if err != nil {
			return nil, err
		}
		if err := l.f.Match(&p.Target, &here); err != nil {
			return nil, err
		}
		if len(l.parts) > 1 {
			here.Word = t.q.q.EdgeWord()
		}
		l.here = append(l.here, here)
	}
	for _, t := range l.every {
		if t.image.HasControl() {
			if err := t.q.q.ControlFlow(); err != nil {
				return nil, err
			}
		}
		here := &l.here[slices.IndexFunc(l.parts, func(p *part) bool { return p.q == t.q })]
		if want := t.image.StateAfter(here); !bytes.Equal(t.image.After, want) {
			return nil, fmt.Errorf("%w: it leaves its queue as % x, its programs as % x", ErrInvalidTrace, t.image.After, want)
		}
		afters = append(afters, t.states(here))
		if end := t.image.L1End; end > l.d.cbs.Base() {
			if err := l.d.cbs.Grow(end); err != nil {
				return nil, err
			}
			t.cbEnd = end
		}
	}
	return afters, nil
}

// states are those after the part, of the sub-devices that run something.
func (p *part) states(t *tracebuf.Target) []dispatch.SubAfter {
	var out []dispatch.SubAfter
	for i, runs := range p.image.RunsOf(t) {
		on := p.q.q.Dispatcher()
		if p.subs != nil {
			on.Workers = p.subs.Workers(uint8(i))
		}
		if runs > 0 || p.subs == nil {
			out = append(out, dispatch.SubAfter{Sub: uint8(i), After: on.After(runs)})
		}
	}
	return out
}

func (l *loading) loadBuffers() error {
	wants := l.f.Image.Buffers
	l.made = make([]*Buffer, len(wants))
	for i := range wants {
		p, _, err := l.d.plan(l.config(i))
		if err != nil {
			return fmt.Errorf("buffer %q: %w", wants[i].Name, err)
		}
		l.plans = append(l.plans, p)
	}
	var moves []int
	for i := range wants {
		want := &wants[i]
		b, ok := l.given[want.Name]
		delete(l.given, want.Name)
		var err error
		if ok {
			err = l.take(i, b)
		} else if b, err = l.allocate(l.config(i)); err != nil {
			if why := l.movable(i); why != nil {
				return fmt.Errorf("buffer %q must lie where it lay when the trace was recorded: %w (%w)", want.Name, err, why)
			}
			moves = append(moves, i)
			continue
		}
		if err == nil {
			err = l.use(i, b)
		}
		if err != nil {
			return err
		}
	}
	for name := range l.given {
		return fmt.Errorf("the trace has no buffer %q", name)
	}
	// Moved buffers come last, so that the others get their places.
	for _, i := range moves {
		c := l.config(i)
		c.Addr = 0
		b, err := l.allocate(c)
		if err != nil {
			return fmt.Errorf("buffer %q: %w", wants[i].Name, err)
		}
		l.f.MoveBuffer(i, b.Addr())
		if err := l.use(i, b); err != nil {
			return err
		}
	}
	return nil
}

func (l *loading) movable(i int) error {
	b, plan, rows := &l.f.Image.Buffers[i], l.plans[i], 0
	if plan.dist != nil {
		rows = plan.dist.CorePages()
	} else {
		banks := l.d.DRAMBanks()
		if b.Kind != tracebuf.KindDRAM {
			banks = l.d.disp.L1Banks()
		}
		rows = (plan.mem.Pages + banks - 1) / banks
	}
	return l.f.CheckMovable(i, uint64(rows)*uint64(b.Stride))
}

func (l *loading) config(i int) *BufferConfig {
	u := &l.f.Image.Buffers[i]
	return &BufferConfig{Kind: allocator.Kind(u.Kind), Size: u.Size, PageSize: u.PageSize, Name: u.Name, Sharding: u.Sharding,
		Addr: uint32(u.Addr)}
}

func (l *loading) allocate(c *BufferConfig) (*Buffer, error) {
	b, err := l.d.newBuffer(c)
	if err == nil {
		l.parts[0].kept = append(l.parts[0].kept, b)
	}
	return b, err
}

func (l *loading) take(i int, b *Buffer) error {
	want, plan := &l.f.Image.Buffers[i], l.plans[i]
	if b.root != nil {
		return fmt.Errorf("buffer %q is a part of another: %w", b.name, ErrLayout)
	}
	same := b.ext.Kind == allocator.Kind(want.Kind) && b.Size() == want.Size && b.PageSize() == want.PageSize
	if !same || b.ext.Addr != want.Addr && l.movable(i) != nil {
		const is = "%d B of %v in pages of %d B at %#x"
		return fmt.Errorf("buffer %q is "+is+", the trace was recorded with "+is, b.name, b.Size(), b.ext.Kind, b.PageSize(), b.ext.Addr,
			want.Size, allocator.Kind(want.Kind), want.PageSize, want.Addr)
	}
	if !reflect.DeepEqual(b.dist, plan.dist) {
		return fmt.Errorf("buffer %q is %v over %s, the trace was recorded with one that is %v over %s", b.name, b.Layout(), b.where(),
			plan.Layout(), plan.where())
	}
	if b.ext.Addr != want.Addr {
		l.f.MoveBuffer(i, b.Addr())
	}
	return nil
}

func (b *Buffer) where() string {
	if b.dist == nil {
		return "all banks"
	}
	return fmt.Sprintf("the cores %v", b.dist.Cores())
}

func (l *loading) use(i int, b *Buffer) error {
	if stride := int(b.PageStride()); stride != l.f.Image.Buffers[i].Stride {
		return fmt.Errorf("the pages of buffer %q are %d B apart, in the trace %d B", b.name, stride, l.f.Image.Buffers[i].Stride)
	}
	l.made[i] = b
	for _, t := range l.parts {
		if err := t.keep(b); err != nil {
			return err
		}
	}
	return nil
}

func (t *part) loadKernels(ctx context.Context, p *tracebuf.Program) error {
	d := t.q.d
	x := &Executable{d: d, image: program.BinaryImage(p.Name, p.Binary, p.Prints), released: true}
	r := x.request()
	r.Site = userPC()
	ext, err := d.mem.Allocate(r)
	if err != nil {
		return err
	}
	// Held and freed: the trace's release frees the memory.
	if err := errors.Join(d.mem.Hold(ext), d.mem.Free(ext)); err != nil {
		return err
	}
	x.bin, p.Addr = ext, ext.Addr
	t.addProgram(x)
	iv := interleaved(ext)
	t.move(partWritten)
	return t.q.q.Write(ctx, &iv, 0, p.Binary)
}

func newLoaded(q *Queue, name string, im *tracebuf.Image, callees []*part) *part {
	p := &part{q: q, name: name, image: im, loaded: &fileContents{}, subs: q.q.SubDevices()}
	places, _ := im.Flow() // it was checked
	for i := range im.Steps {
		deep := places[i].Loops
		switch c := &im.Steps[i].Control; c.Kind {
		case flow.Loop:
			p.loops = max(p.loops, deep+1)
		case flow.Call:
			o := callees[c.Callee]
			p.loops = max(p.loops, deep+o.loops)
			_ = p.holdCallee(o) // a new part isn't released
		}
	}
	return p
}

func (l *loading) relocate() error {
	for i, t := range l.parts {
		for k, o := range l.calleesOf(i) {
			if err := o.allocate(); err != nil {
				return err
			}
			t.image.Callees[k].Addr = o.ext.Addr
		}
	}
	if err := l.f.Relocate(l.here); err != nil {
		return err
	}
	for i, t := range l.parts {
		callees := l.calleesOf(i)
		for _, o := range append(slices.Clone(callees), t) {
			for k := range o.image.Steps {
				if c := &o.image.Steps[k].Control; c.Kind == flow.Call { // of the file's callees, then of its own
					c.Callee = slices.Index(o.callees, callees[c.Callee])
				}
			}
			for k, c := range o.image.Conds {
				b := l.made[c.Buffer]
				noc, addr, err := b.word(c.Offset)
				if err != nil {
					return err
				}
				o.image.SetCond(k, noc, addr)
				o.conds = append(o.conds, condWord{at: c.At, buf: b, off: c.Offset})
			}
		}
		t.image.Callees = nil
	}
	return nil
}

func (l *loading) calleesOf(i int) []*part {
	end := slices.Index(l.every, l.parts[i])
	return l.every[end-len(l.parts[i].image.Callees) : end]
}
