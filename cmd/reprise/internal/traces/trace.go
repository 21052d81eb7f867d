// Package traces has the commands about recorded traces.
package traces

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

// Cmd has the commands about recorded traces.
type Cmd struct {
	Dump   traceDumpCmd   `cmd:""`
	Stat   traceStatCmd   `cmd:""`
	Diff   traceDiffCmd   `cmd:""`
	Import traceImportCmd `cmd:""`
	Verify traceVerifyCmd `cmd:""`
	Run    traceRunCmd    `cmd:""`

	Optimize traceOptimizeCmd `cmd:""`
}

// maxRaw bounds raw commands in bytes.
const maxRaw = 1 << 30

type sourceFlags struct {
	Arch     string `placeholder:"ARCH"`
	Revision string `placeholder:"NAME"`
	Addr     uint64 `placeholder:"ADDRESS"`
	Pages    int    `placeholder:"N"`
	PageSize int    `default:"4096" placeholder:"BYTES"`
}

func RevisionNames() string {
	return cli.List(cq.Revisions(), func(v *cq.Revision) string { return v.Name })
}

type source struct {
	name   string
	files  []*tracebuf.File     // one for each device, nil for a device without parts; none for raw commands
	parts  []*tracebuf.Contents // one for each queue of each device
	banks  int                  // DRAM banks of a device, 0 for a file
	placed bool
	addr   uint64
}

func (s *source) partName(device, queue int) string {
	switch {
	case len(s.files) > 1:
		return fmt.Sprintf("device %d, queue %d", device, queue)
	case len(s.parts) > 1:
		return fmt.Sprintf("queue %d", queue)
	}
	return ""
}

func (c *sourceFlags) Validate() error {
	if _, err := c.layout(); err != nil {
		return err
	}
	return checkPages(c.Revision, c.Pages, c.PageSize, 1024, 2048, 4096)
}

func checkPages(revision string, pages, pageSize int, sizes ...int) error {
	if revision != "" && cq.RevisionByName(revision) == nil {
		return cli.Wrong("--revision", revision, "there is no such revision", "use one of "+RevisionNames())
	}
	if !slices.Contains(sizes, pageSize) {
		list := strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes[:len(sizes)-1]), " ", ", "), "[]")
		return cli.Wrong("--page-size", pageSize, "traces have other pages", fmt.Sprintf("use %s or %d", list, sizes[len(sizes)-1]))
	}
	if pages < 0 || pages > maxRaw/pageSize {
		return cli.Wrong("--pages", pages, "no trace is that large", "give the pages that its EXEC_BUF names")
	}
	return nil
}

func (c *sourceFlags) layout() (cq.Layout, error) {
	if c.Arch == "" {
		return 0, nil
	}
	a, err := chip.ParseArch(c.Arch)
	if err != nil {
		return 0, cli.Wrong("--arch", c.Arch, "unknown architecture", "use blackhole or wormhole").By(err)
	}
	return cq.Layout(a), nil
}

func (c *sourceFlags) read(ctx context.Context, name string) (*source, error) {
	st, err := os.Stat(name)
	if cli.IsFile(name) || err == nil && st.IsDir() {
		return c.readFile(ctx, name)
	}
	d, wrong := cli.ParseDevice("DEVICE", name)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case wrong == nil && err != nil && missing && c.Pages == 0 && d.Kind == target.Silicon:
		return nil, fmt.Errorf("trace: %s: there is no such file or device", name)
	case wrong == nil && (err != nil || d.Kind == target.Silicon):
		return c.readDevice(ctx, name, d.Open())
	case err != nil && !missing:
		return nil, fmt.Errorf("trace: %w", err)
	}
	return nil, fmt.Errorf("trace: %s: there is no such file, and no device is called so; devices are %s", name, cli.DeviceHelp)
}

func (c *sourceFlags) readFile(ctx context.Context, name string) (*source, error) {
	f, err := cli.Open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	head, err := r.Peek(len(tracebuf.FileMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("trace: %w", err)
	}
	s := &source{name: name}
	if tracebuf.IsFile(head) {
		if s.files, err = tracebuf.DecodeAll(r); err == nil {
			s.parts, err = tracebuf.InspectAll(s.files)
		}
	} else if l, wrong := c.layout(); wrong != nil {
		return nil, wrong
	} else if l == 0 {
		err = fmt.Errorf("%w: if it holds raw commands, say of which chip: --arch blackhole or --arch wormhole", tracebuf.ErrNotTrace)
	} else {
		var b []byte
		if b, err = readRaw(r); err == nil {
			s.parts, err = c.inspect(l, b)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("trace: %s: %w", name, err)
	}
	return s, nil
}

func readRaw(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxRaw+1))
	if err == nil && len(b) > maxRaw {
		err = fmt.Errorf("it has more than %d B: no trace is that large", maxRaw)
	}
	return b, err
}

func (c *sourceFlags) inspect(l cq.Layout, b []byte) ([]*tracebuf.Contents, error) {
	t, err := tracebuf.InspectRaw(l, b, c.Revision)
	return []*tracebuf.Contents{t}, hintRevision(err)
}

func hintRevision(err error) error {
	var e *cq.RevisionError
	if errors.As(err, &e) && len(e.Accepted) > 1 {
		return fmt.Errorf("%w; give --revision", err)
	}
	return err
}

func (c *sourceFlags) readDevice(ctx context.Context, name string, t kmd.Target) (*source, error) {
	if c.Pages == 0 {
		return nil, fmt.Errorf("trace: %s is a device: say where in its DRAM the trace lies: --addr, --pages and --page-size, "+
			"as in the EXEC_BUF that replays it", name)
	}
	b, ch, err := readDRAM(ctx, t, c.Addr, c.PageSize, c.Pages)
	if err != nil {
		return nil, fmt.Errorf("trace: %s: %w", name, err)
	}
	s := &source{name: name, banks: len(ch.DRAMBanks()), addr: c.Addr, placed: true}
	if s.parts, err = c.inspect(cq.Layout(ch.Arch()), b); err != nil {
		return nil, fmt.Errorf("trace: %s, %d pages of %d B at %#x: %w", name, c.Pages, c.PageSize, c.Addr, err)
	}
	s.parts[0].PageSize = c.PageSize
	return s, nil
}

// memory is the DRAM of a device, or a folder with copies of it.
type memory struct {
	ctx    context.Context
	ch     *chip.Chip
	dev    *kmd.Device
	folder string
	files  map[int]*os.File
	of     metaltrace.Memory // that a recording has, or nil
}

func openMemory(ctx context.Context, t kmd.Target) (*memory, error) {
	d, ch, err := cli.OpenChip(ctx, t, kmd.WithoutPower(), kmd.WithoutWaiting())
	return &memory{ctx: ctx, ch: ch, dev: d, files: map[int]*os.File{}}, err
}

func (m *memory) ReadDRAM(bank int, addr uint64, b []byte) error {
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	k := &m.ch.DRAMBanks()[bank]
	if addr > k.Size || uint64(len(b)) > k.Size-addr {
		return fmt.Errorf("%d B at %#x end beyond the bank's %#x B", len(b), addr, k.Size)
	}
	if m.of != nil {
		return m.of.ReadDRAM(bank, addr, b)
	}
	if m.dev != nil {
		return m.dev.Read(k.HostEndpoint, k.Offset+addr, b)
	}
	f := m.files[bank]
	if f == nil {
		var err error
		if f, err = os.Open(filepath.Join(m.folder, strconv.Itoa(bank)+".bin")); err != nil {
			return err
		}
		m.files[bank] = f
	}
	if _, err := f.ReadAt(b, int64(addr)); err != nil {
		return fmt.Errorf("%s: %d B at %#x: %w", f.Name(), len(b), addr, err)
	}
	return nil
}

func (m *memory) trace(addr uint64, pageSize, pages int) ([]byte, error) {
	banks := m.ch.DRAMBanks()
	rows := uint64((pages + len(banks) - 1) / len(banks))
	if size := banks[0].Size; addr > size || rows*uint64(pageSize) > size-addr {
		return nil, fmt.Errorf("%d pages of %d B over %d banks from %#x on end beyond a bank's %#x B", pages, pageSize, len(banks), addr, size)
	}
	b := make([]byte, pages*pageSize)
	return b, metaltrace.ReadInterleaved(m, len(banks), addr, pageSize, 0, b)
}

func (m *memory) scan(window uint64) ([]metaltrace.Candidate, *metaltrace.NearMiss, error) {
	banks := m.ch.DRAMBanks()
	return metaltrace.Scan(m.ctx, m, len(banks), cq.Layout(m.ch.Arch()), banks[0].Size, window)
}

func (m *memory) close() error {
	var err error
	if m.dev != nil {
		err = m.dev.Close()
	}
	for _, f := range m.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

func readDRAM(ctx context.Context, t kmd.Target, addr uint64, pageSize, pages int) (b []byte, ch *chip.Chip, err error) {
	m, err := openMemory(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	b, err = m.trace(addr, pageSize, pages)
	return b, m.ch, errors.Join(err, m.close())
}

type sourceCmd struct {
	Source string `arg:"" placeholder:"FILE|DEVICE"`
	sourceFlags
	cli.AsJSON
}

func (c *sourceCmd) OnlyReads() bool { return cli.IsFile(c.Source) }

type traceDumpCmd struct{ sourceCmd }

type dumpJSON struct {
	Source   string        `json:"source"`
	Revision string        `json:"revision"`
	Arch     string        `json:"arch"`
	Bytes    int           `json:"bytes"`
	Programs []programJSON `json:"programs"`
	Commands []commandJSON `json:"commands"`
}

type programJSON struct {
	Device   int    `json:"device,omitempty"` // in the order of the capture
	Queue    int    `json:"queue"`
	Name     string `json:"name"`
	Edge     string `json:"edge,omitempty"` // of a step that runs no program
	Offset   int    `json:"offset"`
	Bytes    int    `json:"bytes"`
	First    int    `json:"first_command"`
	Commands int    `json:"commands"`
	Control  string `json:"control,omitempty"` // what a step of control flow does
	Loop     *int   `json:"loop,omitempty"`    // number of the loop that begins
	Count    uint32 `json:"count,omitempty"`   // most iterations of that loop
	Depth    int    `json:"depth,omitempty"`   // loops and branches around the step
	Callee   string `json:"callee,omitempty"`  // the trace's name in a called one
}

type commandJSON struct {
	Device int `json:"device,omitempty"`
	Queue  int `json:"queue"`
	cq.Reading
}

func (c *traceDumpCmd) Run(ctx context.Context, s cli.Streams) error {
	src, err := c.read(ctx, c.Source)
	if err != nil {
		return err
	}
	if c.JSON {
		return cli.PrintJSON(s.Out, toDump(src))
	}
	w := bufio.NewWriter(s.Out)
	first, n := src.parts[0], 0
	for _, p := range src.parts {
		n += len(p.Bytes)
	}
	fmt.Fprintf(w, "%s: %s, protocol revision %s, %s of commands\n", src.name, first.Layout, first.Revision, cli.Bytes(n))
	for _, p := range src.parts {
		if name := src.partName(p.Device, p.Queue); name != "" {
			fmt.Fprintf(w, "\n%s\n", name)
		}
		if err := p.Print(w); err != nil {
			return errors.Join(err, w.Flush())
		}
	}
	return w.Flush()
}

func toDump(src *source) *dumpJSON {
	first := src.parts[0]
	out := &dumpJSON{Source: src.name, Revision: first.Revision, Arch: first.Layout.String(), Programs: []programJSON{},
		Commands: []commandJSON{}}
	var all []*tracebuf.Contents
	for _, t := range src.parts {
		all = append(all, t)
		for _, c := range t.Callees {
			c.Device, c.Queue = t.Device, t.Queue
			all = append(all, c)
		}
	}
	for _, t := range all {
		out.Bytes += len(t.Bytes)
		before := len(out.Commands)
		for i := range t.Steps {
			p := &t.Steps[i]
			j := programJSON{Device: t.Device, Queue: t.Queue, Name: p.Name, Offset: p.Offset, Bytes: p.Size, First: before + p.First,
				Commands: p.Count}
			if p.Edge.Kind != tracebuf.EdgeNone {
				j.Edge = p.Edge.Kind.String()
			}
			if k := &p.Control; k.Kind != flow.None {
				j.Control = k.Kind.String()
				if k.Kind == flow.Loop {
					j.Loop, j.Count = &k.Loop, k.Count
				}
			}
			j.Depth, j.Callee = p.Depth, t.Name
			out.Programs = append(out.Programs, j)
		}
		for _, r := range t.Commands {
			r.Fields = append([]cq.Field{}, r.Fields...) // in JSON a list, not null
			out.Commands = append(out.Commands, commandJSON{t.Device, t.Queue, r})
		}
	}
	return out
}

type traceStatCmd struct{ sourceCmd }

type statJSON struct {
	Source string `json:"source"`
	tracebuf.Stats
	placeJSON
	Queues  []queueJSON `json:"queues,omitempty"`
	File    *fileJSON   `json:"file,omitempty"`
	Devices []fileJSON  `json:"devices,omitempty"`
}

type placeJSON struct {
	PageSize int               `json:"page_size,omitempty"`
	Pages    int               `json:"pages,omitempty"`
	Banks    []tracebuf.Extent `json:"banks,omitempty"`
}

type queueJSON struct {
	Device  int      `json:"device,omitempty"` // in the order of the capture
	Queue   int      `json:"queue"`
	Workers cli.Grid `json:"workers"`
	Bytes   int      `json:"bytes"`
	placeJSON
}

type fileJSON struct {
	Device  int          `json:"device,omitempty"`
	Name    string       `json:"name"`
	Grid    cli.Grid     `json:"workers"`
	Buffers []bufferJSON `json:"buffers"`
	Params  []paramJSON  `json:"patch_points"`
	Kernels int          `json:"kernel_bytes"`
	Data    int          `json:"data_bytes"`
}

type bufferJSON struct {
	Name   string `json:"name"`
	Memory string `json:"memory"`
	Layout string `json:"layout"`
	Addr   uint64 `json:"addr"`
	Bytes  int    `json:"bytes"`
	Output bool   `json:"output"`
	Data   int    `json:"data_bytes"`

	Tensor *tensorJSON `json:"tensor,omitempty"`
}

type paramJSON struct {
	Queue int    `json:"queue"`
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Value uint32 `json:"value"`
	Words int    `json:"words"`
	// A part of the buffer whose address the parameter is.
	Buffer    string `json:"buffer,omitempty"`
	FirstPage int    `json:"first_page,omitempty"`
	Pages     int    `json:"pages,omitempty"`
}

func (c *traceStatCmd) Run(ctx context.Context, s cli.Streams) error {
	src, err := c.read(ctx, c.Source)
	if err != nil {
		return err
	}
	out := toStat(src)
	return s.Print(c.JSON, out, func(w cli.Text) { out.print(w, src) })
}

func toStat(src *source) *statJSON {
	out := &statJSON{Source: src.name, Stats: tracebuf.StatsOf(src.parts...)}
	if len(src.files) == 0 {
		out.placeJSON = src.place(src.parts[0], src.banks)
		return out
	}
	parts := src.parts
	for device, f := range src.files {
		if f == nil {
			continue
		}
		for _, p := range f.Parts() {
			at := src.place(parts[0], f.Target.Banks)
			if len(src.parts) == 1 {
				out.placeJSON = at
			} else {
				out.Queues = append(out.Queues, queueJSON{device, parts[0].Queue, gridOf(p.Target.Workers), len(parts[0].Bytes), at})
			}
			parts = parts[1:]
		}
		file := toFile(f)
		if len(src.files) == 1 {
			out.File = file
			break
		}
		file.Device = device
		out.Devices = append(out.Devices, *file)
	}
	return out
}

func toFile(f *tracebuf.File) *fileJSON {
	out := &fileJSON{Name: f.Name, Grid: gridOf(f.Target.Workers), Buffers: []bufferJSON{}, Params: []paramJSON{}}
	for i := range f.Image.Buffers {
		b := &f.Image.Buffers[i]
		out.Buffers = append(out.Buffers, bufferJSON{b.Name, allocator.Kind(b.Kind).String(), layoutOf(b), b.Addr, b.Size, b.Output, 0,
			toTensor(b.Tensor)})
	}
	for _, d := range f.Data {
		out.Buffers[d.Buffer].Data += len(d.Bytes)
		out.Data += len(d.Bytes)
	}
	for _, part := range partsAndCallees(f) {
		for k := range part.Image.Params {
			p := &part.Image.Params[k]
			j := paramJSON{Queue: part.Target.Queue, Name: p.Name, Kind: p.Kind.String(), Value: p.Value, Words: len(p.At)}
			if p.Kind == tracebuf.BufferAddr {
				b := &f.Image.Buffers[p.Buffer]
				if j.Buffer = b.Name; p.Pages != b.Pages() {
					j.FirstPage, j.Pages = p.First, p.Pages
				}
			}
			out.Params = append(out.Params, j)
		}
		for i := range part.Image.Programs {
			out.Kernels += len(part.Image.Programs[i].Binary)
		}
	}
	return out
}

func partsAndCallees(f *tracebuf.File) []tracebuf.Part {
	var out []tracebuf.Part
	for _, p := range f.Parts() {
		out = append(out, p)
		for i := range p.Image.Callees {
			out = append(out, tracebuf.Part{Target: p.Target, Image: p.Image.Callees[i].Image})
		}
	}
	return out
}

func gridOf(r chip.Range) cli.Grid {
	return cli.Grid{Width: r.End.X - r.Start.X + 1, Height: r.End.Y - r.Start.Y + 1}
}

func layoutOf(b *tracebuf.Buffer) string {
	if b.Sharding == nil {
		return allocator.Interleaved.String()
	}
	return allocator.Layout(b.Sharding.Layout).String()
}

func (src *source) place(t *tracebuf.Contents, banks int) (at placeJSON) {
	if t.PageSize == 0 {
		return at
	}
	at.PageSize, at.Pages = t.PageSize, (len(t.Bytes)+t.PageSize-1)/t.PageSize
	im := tracebuf.Image{PageSize: t.PageSize, Bytes: make([]byte, at.Pages*t.PageSize)}
	at.Banks = im.Extents(src.addr, banks)
	return at
}

func (o *statJSON) print(w cli.Text, src *source) {
	w.F("%s: %s, protocol revision %s\n", o.Source, o.Layout, o.Revision)
	count := func(n int) string { return humanize.Comma(int64(n)) }
	runs := 0
	for _, p := range o.Programs {
		runs += p.Runs
	}
	w.F("%s in %s, %s of %s", cli.Bytes(o.Bytes), cli.Count(o.Commands, "command"), cli.Count(runs, "run"),
		cli.Count(len(o.Programs), "program"))
	if o.Edges > 0 {
		w.F(", %s of %s between %d queues", cli.Count(o.Edges, "edge"), cli.Bytes(o.EdgeBytes), len(o.Queues))
	}
	if o.Control > 0 {
		w.F(", %s of control flow of %s, %s called", cli.Count(o.Stats.Control, "step"), cli.Bytes(o.ControlBytes),
			cli.Count(o.Callees, "trace"))
	}
	w.F("\n\n")
	t := w.Table()
	t.Row("runs", "commands", "bytes", "kernels", "program")
	for _, p := range o.Programs {
		kernels := "-"
		if p.Kernels > 0 {
			kernels = count(p.Kernels)
		}
		t.Row(count(p.Runs), count(p.Commands), count(p.Bytes), kernels, tracebuf.Printable(p.Name))
	}
	t.Flush()
	w.F("\n")
	t.Row("commands", "bytes", "data", "kind")
	for _, k := range o.Kinds {
		t.Row(count(k.Count), count(k.Bytes), count(k.Data), k.Who+" "+k.Name)
	}
	t.Flush()
	o.placeJSON.print(w, "", src)
	for i := range o.Queues {
		q := &o.Queues[i]
		q.placeJSON.print(w, fmt.Sprintf("%s, %d x %d workers: %s, ", src.partName(q.Device, q.Queue), q.Workers.Width, q.Workers.Height,
			cli.Bytes(q.Bytes)), src)
	}
	if o.File != nil {
		o.File.print(w, "")
	}
	for i := range o.Devices {
		o.Devices[i].print(w, fmt.Sprintf(" on device %d", o.Devices[i].Device))
	}
}

func (f *fileJSON) print(w cli.Text, on string) {
	w.F("\nfile of trace %s%s, for %d x %d workers; %s of kernels, %s of data\n", tracebuf.Printable(f.Name), on,
		f.Grid.Width, f.Grid.Height, cli.Bytes(f.Kernels), cli.Bytes(f.Data))
	for _, b := range f.Buffers {
		note := ""
		if b.Output {
			note = ", output"
		}
		if b.Layout != allocator.Interleaved.String() {
			note = ", " + b.Layout + note
		}
		w.F("  buffer %s: %s in %s at %#x%s, %s in the file%v\n", tracebuf.Printable(b.Name), cli.Bytes(b.Bytes), b.Memory, b.Addr, note,
			cli.Bytes(b.Data), b.Tensor)
	}
	for _, p := range f.Params {
		of := ""
		switch {
		case p.Pages > 0:
			of = fmt.Sprintf(", pages %d to %d of buffer %s", p.FirstPage, p.FirstPage+p.Pages-1, tracebuf.Printable(p.Buffer))
		case p.Buffer != "":
			of = ", buffer " + tracebuf.Printable(p.Buffer)
		}
		w.F("  patch point %s: %s in %s, %#x%s\n", tracebuf.Printable(p.Name), p.Kind, cli.Count(p.Words, "word"), p.Value, of)
	}
}

func (p *placeJSON) print(w cli.Text, of string, src *source) {
	if len(p.Banks) == 0 {
		return
	}
	w.F("\n%s%s of %d B", of, cli.Count(p.Pages, "page"), p.PageSize)
	if src.placed {
		w.F(" at %#x", src.addr)
	}
	w.F("\n")
	for _, b := range p.Banks {
		w.F("  bank %2d  %s\n", b.Bank, cli.Bytes(b.End-b.Start))
	}
}

func (c *traceDiffCmd) OnlyReads() bool { return cli.IsFile(c.A) && cli.IsFile(c.B) }

type traceDiffCmd struct {
	A string `arg:"" placeholder:"FILE|DEVICE"`
	B string `arg:"" placeholder:"FILE|DEVICE"`
	sourceFlags
	cli.AsJSON
}

type diffJSON struct {
	A           string                `json:"a"`
	B           string                `json:"b"`
	Same        bool                  `json:"same"`
	Programs    int                   `json:"programs"`
	Differences []tracebuf.Difference `json:"differences"`
}

func (c *traceDiffCmd) Run(ctx context.Context, s cli.Streams) error {
	a, err := c.read(ctx, c.A)
	if err != nil {
		return err
	}
	b, err := c.read(ctx, c.B)
	if err != nil {
		return err
	}
	if err := haveSameParts(a, b); err != nil {
		return err
	}
	out := diffJSON{A: a.name, B: b.name, Differences: []tracebuf.Difference{}}
	for i, p := range a.parts {
		out.Programs += max(len(p.Steps), len(b.parts[i].Steps))
		out.Differences = append(out.Differences, tracebuf.Diff(p, b.parts[i])...)
	}
	out.Same = len(out.Differences) == 0
	if !out.Same {
		err = fmt.Errorf("trace diff: %d of %d programs differ", len(out.Differences), out.Programs)
	}
	return errors.Join(s.Print(c.JSON, out, func(w cli.Text) { out.print(w, a) }), err)
}

func (out *diffJSON) print(w cli.Text, a *source) {
	if out.Same {
		w.F("the traces are the same: %s\n", cli.Count(out.Programs, "program"))
	}
	for i := range out.Differences {
		d := &out.Differences[i]
		if name := a.partName(d.Device, d.Queue); name != "" {
			w.F("%s, ", name)
		}
		if d.Callee != "" {
			w.F("callee %s, ", tracebuf.Printable(d.Callee))
		}
		w.F("program %d %s: ", d.Step, tracebuf.Printable(d.Name))
		if d.Command >= 0 {
			w.F("command %d: ", d.Command)
		}
		w.F("%s\n", d.What)
		if d.A != "" {
			w.F("  - %08x  %s\n", d.OffsetA, d.A)
		}
		if d.B != "" {
			w.F("  + %08x  %s\n", d.OffsetB, d.B)
		}
		for _, c := range d.Changes {
			w.F("  %v\n", c)
		}
	}
}

func haveSameParts(a, b *source) error {
	differ := func(format string, args ...any) error {
		return fmt.Errorf("trace diff: "+format+": they have nothing in common", args...)
	}
	if la, lb := a.parts[0].Layout, b.parts[0].Layout; la != lb {
		return differ("%s is for %v, %s for %v", a.name, la, b.name, lb)
	}
	if na, nb := len(a.parts), len(b.parts); na != nb {
		return differ("%s has parts on %d queues, %s on %d", a.name, na, b.name, nb)
	}
	for i, p := range a.parts {
		if o := b.parts[i]; o.Device != p.Device || o.Layout != p.Layout {
			return differ("part %d of %s is for %v on device %d, of %s for %v on device %d", i, a.name, p.Layout, p.Device, b.name, o.Layout,
				o.Device)
		}
	}
	return nil
}
