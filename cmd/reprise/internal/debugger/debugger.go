// Package debugger has the commands that look into a device that runs or has stopped.
package debugger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/debug/gdb"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/kmd/session"
	"github.com/reprise-tt/reprise/tracebuf"
)

// InspectCmd prints hang dumps and recorded sessions.
type InspectCmd struct {
	File string `arg:"" type:"path"`
	cli.AsJSON
	ELF    []string `name:"elf" placeholder:"FILE" type:"existingfile"`
	Diff   string   `placeholder:"FILE"`
	Region string   `placeholder:"NAME"`
	Output string   `short:"o" placeholder:"FILE" type:"path"`
}

// Run prints the file.
func (c *InspectCmd) Run(s cli.Streams) error {
	if c.Diff != "" {
		return c.diff(s)
	}
	f, err := cli.Open(context.Background(), c.File) // readers end with their context
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

func (c *InspectCmd) diff(s cli.Streams) error {
	var both [2]*session.Session
	for i, name := range []string{c.File, c.Diff} {
		var err error
		if both[i], err = cli.Read(name, session.Read); err != nil {
			return fmt.Errorf("inspect %s: %w", name, err)
		}
	}
	all := append([]session.Difference{}, session.Diff(both[0], both[1])...)
	var err error
	if c.JSON {
		err = cli.PrintJSON(s.Out, map[string]any{"same": len(all) == 0, "differences": all})
	} else {
		err = session.PrintDiff(s.Out, all)
	}
	if err == nil && len(all) > 0 {
		err = fmt.Errorf("inspect: %s of %s and %s differ", cli.Count(len(all), "change"), c.File, c.Diff)
	}
	return err
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
	if err == nil {
		err = c.symbolize(d, s.Err)
	}
	if err != nil {
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
	var data []byte
	for _, r := range d.Regions {
		if r.Name == c.Region {
			data = append(data, r.Data...)
		}
	}
	switch {
	case data != nil && c.Output != "":
		return cli.SaveBytes(context.Background(), "--output", c.Output, data)
	case data != nil:
		_, err := w.Write(data)
		return err
	default:
		return fmt.Errorf("inspect %s: it has no region %q: reprise inspect %[1]s lists them", c.File, c.Region)
	}
}

func (c *InspectCmd) OnlyReads() bool { return c.Output == "" }

// StacksCmd prints the call stacks of the processors of a device that runs.
type StacksCmd struct {
	debugged `set:"cores="`
	cli.AsJSON
}

type coreStacks struct {
	Core   chip.Core    `json:"core"`
	Stacks []live.Stack `json:"stacks"`
}

func catalogue(arch chip.Arch, files []string) (*live.Catalogue, error) {
	c := &live.Catalogue{}
	for name, file := range kernels.PrebuiltFiles(arch) {
		if err := c.Add(name, file); err != nil {
			return nil, err
		}
	}
	if err := c.AddQueueKernels(arch); err != nil {
		return nil, err
	}
	return c, addFiles(c, files)
}

func addFiles(c *live.Catalogue, files []string) error {
	for _, name := range files {
		file, err := os.ReadFile(name)
		if err == nil {
			err = c.Add(filepath.Base(name), file)
		}
		if err != nil {
			return fmt.Errorf("--elf: %w", err)
		}
	}
	return nil
}

// debugged are the flags that name processors of a device.
type debugged struct {
	Device    string   `required:"" placeholder:"DEVICE"`
	Core      []string `default:"${cores}" placeholder:"X-Y"`
	Processor []string `placeholder:"NAME"`
	ELF       []string `name:"elf" placeholder:"FILE" type:"existingfile"`

	cores      []chip.Core
	processors []chip.Processor
}

// Validate refuses what no device has.
func (d *debugged) Validate() (err error) {
	d.cores = nil
	for _, s := range d.Core {
		var c chip.Core
		if n, err := fmt.Sscanf(s, "%d-%d", &c.X, &c.Y); n != 2 || err != nil || c.String() == "" {
			return cli.Wrong("--core", s, "no logical coordinate", "give two numbers, such as 0-0")
		}
		d.cores = append(d.cores, c)
	}
	d.processors, err = cli.ParseProcessors(d.Processor)
	return err
}

func (d *debugged) open(ctx context.Context) (*kmd.Device, *chip.Chip, error) {
	t, err := cli.ParseTarget(d.Device)
	if err != nil {
		return nil, nil, err
	}
	return cli.OpenChip(ctx, t, kmd.WithoutPower())
}

// Run prints the stacks.
func (c *StacksCmd) Run(ctx context.Context, s cli.Streams) error {
	dev, topo, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer dev.Close()
	known, err := catalogue(dev.Arch(), c.ELF)
	if err != nil {
		return err
	}
	out, err := c.collect(ctx, dev, topo, known)
	if err != nil {
		return err
	}
	return s.Print(c.JSON, out, func(w cli.Text) { printStacks(w, out) })
}

func (c *StacksCmd) collect(ctx context.Context, dev *kmd.Device, topo *chip.Chip, known *live.Catalogue) (out []coreStacks, err error) {
	cores := c.cores
	if len(cores) == 0 {
		cores = slices.Collect(topo.Workers())
	}
	l := abi.Own(dev.Arch())
	for _, at := range cores {
		xy, err := topo.Virtual(at)
		if err != nil {
			return nil, err
		}
		entry := coreStacks{Core: at}
		for _, p := range c.processors {
			st, err := known.Of(ctx, dev, l, xy, p)
			if errors.Is(err, core.ErrUnsupported) || err != nil && len(out) == 0 && len(entry.Stacks) == 0 {
				return nil, err
			}
			if err != nil {
				st.Note = err.Error()
			}
			if len(st.Frames) > 0 || len(c.Core) > 0 || err != nil {
				entry.Stacks = append(entry.Stacks, st)
			}
		}
		if len(entry.Stacks) > 0 {
			out = append(out, entry)
		}
	}
	return out, nil
}

func printStacks(w cli.Text, all []coreStacks) {
	if len(all) == 0 {
		w.F("all processors are in reset\n")
	}
	for _, c := range all {
		for _, st := range c.Stacks {
			note := ""
			if st.Note != "" {
				note = " (" + st.Note + ")"
			}
			w.F("core %v %v%s\n", c.Core, st.Processor, note)
			for i, f := range st.Frames {
				w.F("  #%d %v\n", i, f)
			}
		}
	}
}

// GdbCmd serves the processors of a running device to gdb.
type GdbCmd struct {
	debugged `set:"cores=0-0"`
	Listen   string `default:"localhost:1234" placeholder:"ADDRESS"`
	Record   bool
}

// Run serves one session.
func (c *GdbCmd) Run(ctx context.Context, s cli.Streams) (err error) {
	dev, topo, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer dev.Close()
	threads, err := c.threads(dev, topo)
	if err != nil {
		return err
	}
	text, err := c.text(dev, threads[0].Core, s)
	if err != nil {
		return err
	}
	server, err := gdb.New(threads, gdb.Options{Record: c.Record, Text: text, Tell: func(line string) { fmt.Fprintln(s.Err, line) }})
	if err != nil {
		return err
	}
	network := "tcp"
	if strings.Contains(c.Listen, string(os.PathSeparator)) {
		network = "unix"
	}
	l, err := new(net.ListenConfig).Listen(ctx, network, c.Listen)
	if err != nil {
		return fmt.Errorf("gdb: %w", err)
	}
	defer l.Close()
	fmt.Fprintf(s.Out, "waiting for gdb: target remote %v\n", l.Addr())
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	conn, err := l.Accept()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("gdb: %w", err)
	}
	defer conn.Close()
	return server.Serve(ctx, conn)
}

func (c *GdbCmd) threads(dev *kmd.Device, topo *chip.Chip) (all []gdb.Thread, err error) {
	for _, at := range c.cores {
		xy, err := topo.Virtual(at)
		if err != nil {
			return nil, err
		}
		tile, err := core.Open(dev, xy)
		if err != nil {
			return nil, err
		}
		for _, p := range c.processors {
			k, err := tile.Core(p)
			if err != nil {
				return nil, err
			}
			held, err := k.Reset()
			if err != nil {
				return nil, err
			}
			if !held && k.HasInterface() {
				all = append(all, gdb.Thread{Name: fmt.Sprintf("core %v %v", at, p), Core: k})
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("gdb: all of these processors are in reset, or NCRISC, which has no debug interface")
	}
	return all, nil
}

// text returns the first processor's load offset, and prints its kernel's place.
func (c *GdbCmd) text(dev *kmd.Device, k *core.Core, s cli.Streams) (uint32, error) {
	known, err := catalogue(dev.Arch(), c.ELF)
	if err != nil {
		return 0, err
	}
	xy := k.Tile().XY()
	space, err := known.Modules(abi.Own(dev.Arch()), func(a uint32, p []byte) error { return dev.Read(xy, uint64(a), p) }, k.Processor())
	if err != nil {
		return 0, err
	}
	if len(space) < 2 {
		return 0, nil
	}
	m := space[1]
	fmt.Fprintf(s.Out, "%v has %s at %#x\n", k.Processor(), m.Name, m.Start)
	return m.Start, nil // kernels are linked at 0
}
