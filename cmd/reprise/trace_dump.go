package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// sourceHelp is how arguments describe what sourceFlags.read accepts.
const sourceHelp = "A trace file, a file of raw commands (with --arch), or a device (with --addr and --pages)."

type traceDumpCmd struct {
	Source string `arg:"" help:"${source_help}" placeholder:"FILE|DEVICE"`
	sourceFlags
	JSON bool `help:"Print one JSON object instead of text." name:"json"`
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
	Name     string `json:"name"`
	Offset   int    `json:"offset"`
	Bytes    int    `json:"bytes"`
	First    int    `json:"first_command"`
	Commands int    `json:"commands"`
}

type commandJSON struct {
	Offset int         `json:"offset"`
	Bytes  int         `json:"bytes"`
	Who    string      `json:"who"`
	Name   string      `json:"name"`
	Relay  string      `json:"relay,omitempty"`
	Data   int         `json:"data_bytes"`
	Fields []fieldJSON `json:"fields"`
}

type fieldJSON struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
	Text  string `json:"text"`
}

func (c *traceDumpCmd) Run(ctx context.Context, s streams) error {
	src, err := c.read(ctx, c.Source)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.out, toDump(src))
	}
	w := bufio.NewWriter(s.out)
	fmt.Fprintf(w, "%s: %s, protocol revision %s, %s B of commands\n", src.name, src.trace.Layout, src.trace.Revision, humanize.Comma(int64(len(src.trace.Bytes))))
	return errors.Join(src.trace.Print(w), w.Flush())
}

func toDump(src *source) *dumpJSON {
	t := src.trace
	out := &dumpJSON{Source: src.name, Revision: t.Revision, Arch: t.Layout.String(), Bytes: len(t.Bytes), Programs: []programJSON{}, Commands: []commandJSON{}}
	for i := range t.Steps {
		p := &t.Steps[i]
		out.Programs = append(out.Programs, programJSON{Name: p.Name, Offset: p.Offset, Bytes: p.Size, First: p.First, Commands: p.Count})
	}
	for i := range t.Commands {
		out.Commands = append(out.Commands, toCommand(&t.Commands[i]))
	}
	return out
}

func toCommand(r *cq.Reading) commandJSON {
	c := commandJSON{Offset: r.Offset, Bytes: r.Size, Who: r.Who, Name: r.Name, Relay: r.Relay, Data: r.Data, Fields: []fieldJSON{}}
	for _, f := range r.Fields {
		c.Fields = append(c.Fields, fieldJSON{f.Name, f.Value, f.Text})
	}
	return c
}

type traceStatCmd struct {
	Source string `arg:"" help:"${source_help}" placeholder:"FILE|DEVICE"`
	sourceFlags
	JSON bool `help:"Print one JSON object instead of text." name:"json"`
}

type statJSON struct {
	Source string `json:"source"`
	tracebuf.Stats
	// Pages and Banks are there where the size of pages and the number of banks are known.
	PageSize int         `json:"page_size,omitempty"`
	Pages    int         `json:"pages,omitempty"`
	Banks    []traceBank `json:"banks,omitempty"`
	// The rest is what a file has beside the commands.
	File *fileJSON `json:"file,omitempty"`
}

type fileJSON struct {
	Name    string       `json:"name"`
	Grid    gridJSON     `json:"workers"`
	Buffers []bufferJSON `json:"buffers"`
	Params  []paramJSON  `json:"patch_points"`
	Kernels int          `json:"kernel_bytes"`
	Data    int          `json:"data_bytes"`
}

type bufferJSON struct {
	Name   string `json:"name"`
	Memory string `json:"memory"`
	Addr   uint64 `json:"addr"`
	Bytes  int    `json:"bytes"`
	Output bool   `json:"output"`
	Data   int    `json:"data_bytes"` // that the file has of it
}

type paramJSON struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Value uint32 `json:"value"`
	Words int    `json:"words"`
}

func (c *traceStatCmd) Run(ctx context.Context, s streams) error {
	src, err := c.read(ctx, c.Source)
	if err != nil {
		return err
	}
	out := toStat(src)
	if c.JSON {
		return printJSON(s.out, out)
	}
	return out.print(s.out, src)
}

func toStat(src *source) *statJSON {
	out := &statJSON{Source: src.name, Stats: src.trace.Stats()}
	if p := src.trace.PageSize; p > 0 {
		out.PageSize, out.Pages = p, (len(src.trace.Bytes)+p-1)/p
		im := tracebuf.Image{PageSize: p, Bytes: make([]byte, out.Pages*p)}
		for _, e := range im.Extents(src.addr, src.banks) {
			out.Banks = append(out.Banks, traceBank{e.Bank, e.Start, e.End})
		}
	}
	if f := src.file; f != nil {
		out.File = &fileJSON{Name: f.Name, Grid: gridJSON{f.Target.Workers.End.X - f.Target.Workers.Start.X + 1, f.Target.Workers.End.Y - f.Target.Workers.Start.Y + 1}, Buffers: []bufferJSON{}, Params: []paramJSON{}}
		data := make([]int, len(f.Image.Buffers))
		for _, d := range f.Data {
			data[d.Buffer] += len(d.Bytes)
			out.File.Data += len(d.Bytes)
		}
		for i, b := range f.Image.Buffers {
			memory := "DRAM"
			if b.Kind == tracebuf.KindL1 {
				memory = "L1"
			}
			out.File.Buffers = append(out.File.Buffers, bufferJSON{b.Name, memory, b.Addr, b.Size, b.Output, data[i]})
		}
		for _, p := range f.Image.Params {
			out.File.Params = append(out.File.Params, paramJSON{p.Name, p.Kind.String(), p.Value, len(p.At)})
		}
		for i := range f.Image.Programs {
			out.File.Kernels += len(f.Image.Programs[i].Binary)
		}
	}
	return out
}

func (o *statJSON) print(out io.Writer, src *source) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s: %s, protocol revision %s\n", o.Source, o.Layout, o.Revision)
	count := func(n int) string { return humanize.Comma(int64(n)) }
	fmt.Fprintf(w, "%s B in %s commands, %d runs of %d programs\n\n", count(o.Bytes), count(o.Commands), len(src.trace.Steps), len(o.Programs))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "runs\tcommands\tbytes\tkernels\t  program")
	for _, p := range o.Programs {
		kernels := "-"
		if p.Kernels > 0 {
			kernels = count(p.Kernels)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t  %s\n", count(p.Runs), count(p.Commands), count(p.Bytes), kernels, tracebuf.Printable(p.Name))
	}
	t.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(t, "commands\tbytes\tdata\t  kind")
	for _, k := range o.Kinds {
		fmt.Fprintf(t, "%s\t%s\t%s\t  %s %s\n", count(k.Count), count(k.Bytes), count(k.Data), k.Who, k.Name)
	}
	t.Flush()
	if len(o.Banks) > 0 {
		fmt.Fprintf(w, "\n%d pages of %d B", o.Pages, o.PageSize)
		if src.placed {
			fmt.Fprintf(w, " at %#x", src.addr)
		}
		fmt.Fprintln(w)
		for _, b := range o.Banks {
			fmt.Fprintf(w, "  bank %2d  %s B\n", b.Bank, humanize.Comma(int64(b.End-b.Start)))
		}
	}
	if f := o.File; f != nil {
		fmt.Fprintf(w, "\nfile of trace %s, for %d x %d workers; %s B of kernels, %s B of data\n", tracebuf.Printable(f.Name), f.Grid.Width, f.Grid.Height, count(f.Kernels), count(f.Data))
		for _, b := range f.Buffers {
			note := ""
			if b.Output {
				note = ", output"
			}
			fmt.Fprintf(w, "  buffer %s: %s B in %s at %#x%s, %s B in the file\n", tracebuf.Printable(b.Name), count(b.Bytes), b.Memory, b.Addr, note, count(b.Data))
		}
		for _, p := range f.Params {
			fmt.Fprintf(w, "  patch point %s: %s in %d words, %#x\n", tracebuf.Printable(p.Name), p.Kind, p.Words, p.Value)
		}
	}
	return w.Flush()
}
