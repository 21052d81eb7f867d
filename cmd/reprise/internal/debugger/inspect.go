// Package debugger has the commands that look into a device that runs or has stopped.
package debugger

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/kmd/session"
	"github.com/reprise-tt/reprise/tracebuf"
)

// InspectCmd prints hang dumps and recorded sessions.
type InspectCmd struct {
	File string `arg:"" help:"File to print: a dump of a hang or a recorded session." type:"path"`
	cli.AsJSON
	ELF    []string `help:"ELF file of a kernel, for functions, lines and arguments in a dump's call stacks (reprise kernel build -g)." name:"elf" placeholder:"FILE" type:"existingfile"`
	Region string   `help:"Write the bytes of a dump's region, named as in the JSON form, to standard output." placeholder:"NAME"`
}

func (c *InspectCmd) Run(s cli.Streams) error {
	f, err := os.Open(c.File)
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	head, err := r.Peek(len(postmortem.DumpMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("inspect: %w", err)
	}
	switch string(head) {
	case postmortem.DumpMagic:
		return c.dump(s, r)
	case session.Magic:
		return c.session(s, r)
	case tracebuf.FileMagic:
		return fmt.Errorf("inspect %s: it is a trace: reprise trace stat and reprise trace dump look into it", c.File)
	}
	return fmt.Errorf("inspect %s: it is no file that reprise writes: it begins with %q", c.File, head)
}

func (c *InspectCmd) session(s cli.Streams, r io.Reader) error {
	rec, err := session.Read(r)
	if err != nil {
		return fmt.Errorf("inspect %s: %w", c.File, err)
	}
	switch {
	case c.Region != "" || len(c.ELF) > 0:
		return fmt.Errorf("inspect %s: it is a recorded session, which has no regions and call stacks", c.File)
	case c.JSON:
		return cli.PrintJSON(s.Out, rec)
	}
	if err := rec.Print(s.Out); err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	return nil
}

func (c *InspectCmd) dump(s cli.Streams, r io.Reader) error {
	d, err := postmortem.ReadDump(r)
	if err != nil {
		return fmt.Errorf("inspect %s: %w", c.File, err)
	}
	if err := c.symbolize(d, s.Err); err != nil {
		return fmt.Errorf("inspect %s: %w", c.File, err)
	}
	switch {
	case c.Region != "":
		return c.region(s.Out, d)
	case c.JSON:
		return cli.PrintJSON(s.Out, d)
	}
	if err := d.Print(s.Out); err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	return cli.Print(s.Out, func(w cli.Text) {
		w.F("\nmemory in the file (--region NAME writes it out):\n")
		sizes := map[string]int{}
		var names []string
		for _, r := range d.Regions {
			if _, ok := sizes[r.Name]; !ok {
				names = append(names, r.Name)
			}
			sizes[r.Name] += r.Size
		}
		for _, n := range names {
			w.F("  %-16s %d B\n", n, sizes[n])
		}
	})
}

// symbolize makes a dump's call stacks again with given kernel files.
func (c *InspectCmd) symbolize(d *dispatch.Dump, warn io.Writer) error {
	if len(c.ELF) == 0 {
		return nil
	}
	known := &live.Catalogue{}
	if err := addFiles(known, c.ELF); err != nil {
		return err
	}
	n, err := d.Symbolize(known)
	if err == nil && n == 0 {
		fmt.Fprintln(warn, "no processor in the dump has a kernel of these files")
	}
	return err
}

func (c *InspectCmd) region(w io.Writer, d *dispatch.Dump) error {
	found := false
	for _, r := range d.Regions {
		if r.Name == c.Region {
			found = true
			if _, err := w.Write(r.Data); err != nil {
				return fmt.Errorf("inspect: %w", err)
			}
		}
	}
	if !found {
		return fmt.Errorf("inspect %s: it has no region %q: see the list that inspect prints", c.File, c.Region)
	}
	return nil
}

func (*InspectCmd) OnlyReads() bool { return true }
