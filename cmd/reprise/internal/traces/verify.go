package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

type traceVerifyCmd struct {
	loadFlags
	Addr *uint64 `help:"Address in every DRAM bank of the trace to compare; nothing is started on the device. Without it the trace is loaded and read back." placeholder:"ADDRESS"`
	cli.AsJSON
}

func (traceVerifyCmd) Help() string {
	return "The exit code is 1 if a byte differs. With --addr, the words that say where kernels lie don't count."
}

type verifyJSON struct {
	File   string `json:"file"`
	Device string `json:"device"`
	OK     bool   `json:"ok"`
	Bytes  int    `json:"bytes"` // that were compared

	// The first difference, if there is one. Program is its number.
	Differ  int    `json:"different_bytes"`
	What    string `json:"what,omitempty"`
	Offset  int    `json:"offset"`
	Program *int   `json:"program,omitempty"`
	Name    string `json:"program_name,omitempty"`
	Command string `json:"command,omitempty"`
}

func (c *traceVerifyCmd) Run(ctx context.Context, s cli.Streams) error {
	f, err := c.read(ctx)
	if err != nil {
		return err
	}
	out := &verifyJSON{File: c.File, Device: c.Device}
	switch {
	case c.Addr != nil && len(f.Others) > 0:
		return fmt.Errorf("trace verify: %s has parts on %d queues, which lie at different places: leave --addr out", c.File,
			len(f.Others)+1)
	case c.Addr != nil: // 0 is an address as well
		out.Bytes = len(f.Image.Bytes)
		err = c.inPlace(ctx, f, out)
	default:
		for _, p := range partsAndCallees(f) {
			out.Bytes += len(p.Image.Bytes)
			for i := range p.Image.Programs {
				out.Bytes += len(p.Image.Programs[i].Binary)
			}
		}
		err = c.loaded(ctx, out)
	}
	if err != nil {
		return err
	}
	out.OK = out.Differ == 0
	if !out.OK {
		err = fmt.Errorf("trace verify: %d of %d B differ: %s", out.Differ, out.Bytes, out.where())
	}
	if c.JSON {
		return errors.Join(cli.PrintJSON(s.Out, out), err)
	}
	if err == nil {
		_, err = fmt.Fprintf(s.Out, "%s on %s: all of %d B are as they should be\n", out.File, out.Device, out.Bytes)
	}
	return err
}

func (o *verifyJSON) where() string {
	if o.Program == nil {
		return fmt.Sprintf("the first is byte %#x of %s", o.Offset, o.What)
	}
	return fmt.Sprintf("the first is byte %#x of %s, in program %d %s: %s", o.Offset, o.What, *o.Program, tracebuf.Printable(o.Name),
		o.Command)
}

func (c *traceVerifyCmd) loaded(ctx context.Context, out *verifyJSON) (err error) {
	t, dev, err := c.load(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close(ctx)) }()
	err = t.Debug().Verify(ctx)
	var v *debug.VerifyError
	if errors.As(err, &v) {
		out.Differ, out.What, out.Offset, err = v.Differ, v.What, v.Offset, nil
	}
	return errors.Join(err, t.Release(ctx))
}

// inPlace compares with DRAM, through the driver.
func (c *traceVerifyCmd) inPlace(ctx context.Context, f *tracebuf.File, out *verifyJSON) error {
	target, err := cli.ParseTarget(c.Device)
	if err != nil {
		return err
	}
	got, ch, err := readDRAM(ctx, target, *c.Addr, f.Image.PageSize, f.Image.Pages())
	if err != nil {
		return cli.OpenError(c.Device, fmt.Errorf("trace verify: %s: %w", c.Device, err))
	}
	if ch.Arch() != f.Target.Arch {
		return fmt.Errorf("trace verify: %s is for %v, %s is %v", c.File, f.Target.Arch, c.Device, ch.Arch())
	}
	return out.compare(&f.Image, got)
}

// compare fills in the first difference of memory from a trace's commands.
func (o *verifyJSON) compare(im *tracebuf.Image, got []byte) error {
	c, err := tracebuf.Inspect(im)
	if err != nil {
		return err
	}
	want := bytes.Clone(im.Bytes)
	for _, r := range c.Relocated {
		copy(want[r.Start:r.End], got[r.Start:r.End])
	}
	for i := range want {
		if want[i] == got[i] {
			continue
		}
		if o.Differ++; o.Differ > 1 {
			continue
		}
		o.What, o.Offset = "the commands", i
		for n := range c.Steps {
			if s := &c.Steps[n]; i >= s.Offset && i < s.Offset+s.Size {
				o.Program, o.Name = &n, s.Name
			}
		}
		for n := range c.Commands {
			if r := &c.Commands[n]; i >= r.Offset && i < r.Offset+r.Size {
				o.Command = r.String()
			}
		}
	}
	return nil
}
