package traces

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/tracebuf"
)

func (c *traceDiffCmd) OnlyReads() bool { return cli.IsFile(c.A) && cli.IsFile(c.B) }

type traceDiffCmd struct {
	A string `arg:"" help:"${source_help}" placeholder:"FILE|DEVICE"`
	B string `arg:"" help:"Trace to compare with. The flags apply to both." placeholder:"FILE|DEVICE"`
	sourceFlags
	cli.AsJSON
}

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

// haveSameParts checks that two traces are for chips of one architecture, and have parts on the same
// devices.
func haveSameParts(a, b *source) error {
	what := ""
	if la, lb := a.parts[0].Layout, b.parts[0].Layout; la != lb {
		what = fmt.Sprintf("%s is for %v, %s for %v", a.name, la, b.name, lb)
	} else if na, nb := len(a.parts), len(b.parts); na != nb {
		what = fmt.Sprintf("%s has parts on %d queues, %s on %d", a.name, na, b.name, nb)
	} else {
		for i, p := range a.parts {
			if o := b.parts[i]; o.Device != p.Device || o.Layout != p.Layout {
				what = fmt.Sprintf("part %d of %s is for %v on device %d, of %s for %v on device %d", i, a.name, p.Layout, p.Device, b.name,
					o.Layout, o.Device)
				break
			}
		}
	}
	if what != "" {
		return fmt.Errorf("trace diff: %s: they have nothing in common", what)
	}
	return nil
}
