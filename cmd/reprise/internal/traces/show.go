package traces

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

func (c *traceDumpCmd) OnlyReads() bool { return cli.IsFile(c.Source) }

type traceDumpCmd struct {
	Source string `arg:"" placeholder:"FILE|DEVICE"`
	sourceFlags
	cli.AsJSON
}

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

func (c *traceStatCmd) OnlyReads() bool { return cli.IsFile(c.Source) }

type traceStatCmd struct {
	Source string `arg:"" placeholder:"FILE|DEVICE"`
	sourceFlags
	cli.AsJSON
}

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
