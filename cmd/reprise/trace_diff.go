package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/tracebuf"
)

type traceDiffCmd struct {
	A string `arg:"" help:"${source_help}" placeholder:"FILE|DEVICE"`
	B string `arg:"" help:"The other one; flags count for both." placeholder:"FILE|DEVICE"`
	sourceFlags
	JSON bool `help:"Print one JSON object instead of text." name:"json"`
}

// Help is shown by --help.
func (traceDiffCmd) Help() string {
	return "For each program that differs, its first command that does. Where kernels lie in DRAM doesn't count between trace files. The exit code is 1 if the traces differ."
}

type diffJSON struct {
	A           string                `json:"a"`
	B           string                `json:"b"`
	Same        bool                  `json:"same"`
	Programs    int                   `json:"programs"` // of the longer one
	Differences []tracebuf.Difference `json:"differences"`
}

func (c *traceDiffCmd) Run(ctx context.Context, s streams) error {
	a, err := c.read(ctx, c.A)
	if err != nil {
		return err
	}
	b, err := c.read(ctx, c.B)
	if err != nil {
		return err
	}
	out := diffJSON{A: a.name, B: b.name, Programs: max(len(a.trace.Steps), len(b.trace.Steps)), Differences: tracebuf.Diff(a.trace, b.trace)}
	if a.trace.Layout != b.trace.Layout {
		return fmt.Errorf("trace diff: %s is for %v, %s for %v: they have nothing in common", a.name, a.trace.Layout, b.name, b.trace.Layout)
	}
	out.Same = len(out.Differences) == 0
	if !out.Same {
		err = fmt.Errorf("trace diff: %d of %d programs differ", len(out.Differences), out.Programs)
	}
	if c.JSON {
		if out.Same {
			out.Differences = []tracebuf.Difference{}
		}
		return errors.Join(printJSON(s.out, out), err)
	}
	w := bufio.NewWriter(s.out)
	if out.Same {
		fmt.Fprintf(w, "the traces are the same: %d programs\n", out.Programs)
	}
	for i := range out.Differences {
		d := &out.Differences[i]
		fmt.Fprintf(w, "program %d %s: ", d.Step, tracebuf.Printable(d.Name))
		if d.Command >= 0 {
			fmt.Fprintf(w, "command %d: ", d.Command)
		}
		fmt.Fprintln(w, d.What)
		if d.A != "" {
			fmt.Fprintf(w, "  - %08x  %s\n", d.OffsetA, d.A)
		}
		if d.B != "" {
			fmt.Fprintf(w, "  + %08x  %s\n", d.OffsetB, d.B)
		}
	}
	return errors.Join(w.Flush(), err)
}
