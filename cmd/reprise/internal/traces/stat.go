package traces

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/tracebuf"
)

func (c *traceStatCmd) OnlyReads() bool { return cli.IsFile(c.Source) }

type traceStatCmd struct {
	Source string `arg:"" help:"${source_help}" placeholder:"FILE|DEVICE"`
	sourceFlags
	cli.AsJSON
}

type statJSON struct {
	Source string `json:"source"`
	tracebuf.Stats
	placeJSON             // of a trace of one queue
	Queues    []queueJSON `json:"queues,omitempty"`
	File      *fileJSON   `json:"file,omitempty"`    // of one device
	Devices   []fileJSON  `json:"devices,omitempty"` // of several
}

// placeJSON is the DRAM of commands, if known.
type placeJSON struct {
	PageSize int             `json:"page_size,omitempty"`
	Pages    int             `json:"pages,omitempty"`
	Banks    []cli.BankRange `json:"banks,omitempty"`
}

type queueJSON struct {
	Device  int      `json:"device,omitempty"` // in the order of the capture
	Queue   int      `json:"queue"`
	Workers cli.Grid `json:"workers"`
	Bytes   int      `json:"bytes"`
	placeJSON
}

// fileJSON is what a trace file has beside the commands.
type fileJSON struct {
	Device  int          `json:"device,omitempty"`
	Name    string       `json:"name"`
	Grid    cli.Grid     `json:"workers"` // of the first queue
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
	Data   int    `json:"data_bytes"` // in the file
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
	data := make([]int, len(f.Image.Buffers))
	for _, d := range f.Data {
		data[d.Buffer] += len(d.Bytes)
		out.Data += len(d.Bytes)
	}
	for i := range f.Image.Buffers {
		b := &f.Image.Buffers[i]
		out.Buffers = append(out.Buffers,
			bufferJSON{b.Name, allocator.Kind(b.Kind).String(), layoutOf(b), b.Addr, b.Size, b.Output, data[i]})
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

// partsAndCallees returns the parts of a file, each followed by its callees.
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
	for _, e := range im.Extents(src.addr, banks) {
		at.Banks = append(at.Banks, cli.BankRange{Bank: e.Bank, Start: e.Start, End: e.End})
	}
	return at
}

func (o *statJSON) print(w cli.Text, src *source) {
	w.F("%s: %s, protocol revision %s\n", o.Source, o.Layout, o.Revision)
	count := func(n int) string { return humanize.Comma(int64(n)) }
	runs := 0
	for _, p := range o.Programs {
		runs += p.Runs
	}
	w.F("%s in %s, %s of %s", cli.Bytes(o.Bytes), cli.Count(o.Commands, "command"), cli.Count(runs, "run"), cli.Count(len(o.Programs), "program"))
	if o.Edges > 0 {
		w.F(", %s of %s between %d queues", cli.Count(o.Edges, "edge"), cli.Bytes(o.EdgeBytes), len(o.Queues))
	}
	if o.Control > 0 {
		w.F(", %s of control flow of %s, %s called", cli.Count(o.Stats.Control, "step"), cli.Bytes(o.ControlBytes), cli.Count(o.Callees, "trace"))
	}
	w.F("\n\n")
	t := w.Table(tabwriter.AlignRight)
	t.Row("runs", "commands", "bytes", "kernels", "  program")
	for _, p := range o.Programs {
		kernels := "-"
		if p.Kernels > 0 {
			kernels = count(p.Kernels)
		}
		t.Row(count(p.Runs), count(p.Commands), count(p.Bytes), kernels, "  "+tracebuf.Printable(p.Name))
	}
	t.Flush()
	w.F("\n")
	t.Row("commands", "bytes", "data", "  kind")
	for _, k := range o.Kinds {
		t.Row(count(k.Count), count(k.Bytes), count(k.Data), fmt.Sprintf("  %s %s", k.Who, k.Name))
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
		w.F("  buffer %s: %s in %s at %#x%s, %s in the file\n", tracebuf.Printable(b.Name), cli.Bytes(b.Bytes), b.Memory, b.Addr, note,
			cli.Bytes(b.Data))
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
