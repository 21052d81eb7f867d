package traces

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

func (c *traceDumpCmd) OnlyReads() bool { return cli.IsFile(c.Source) }

// SourceHelp describes what sourceFlags.read accepts.
const SourceHelp = "A trace file, a file of raw commands (with --arch), or a device (with --addr and --pages)."

type traceDumpCmd struct {
	Source string `arg:"" help:"${source_help}" placeholder:"FILE|DEVICE"`
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
	Device int         `json:"device,omitempty"`
	Queue  int         `json:"queue"`
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
			if p.Edge != tracebuf.EdgeNone {
				j.Edge = p.Edge.String()
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
		for i := range t.Commands {
			out.Commands = append(out.Commands, toCommand(t, &t.Commands[i]))
		}
	}
	return out
}

func toCommand(t *tracebuf.Contents, r *cq.Reading) commandJSON {
	c := commandJSON{Device: t.Device, Queue: t.Queue, Offset: r.Offset, Bytes: r.Size, Who: r.Who, Name: r.Name, Relay: r.Relay,
		Data: r.Data, Fields: []fieldJSON{}}
	for _, f := range r.Fields {
		c.Fields = append(c.Fields, fieldJSON{f.Name, f.Value, f.Text})
	}
	return c
}
