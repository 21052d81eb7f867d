// Package traces has the commands about recorded traces.
package traces

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Cmd has the commands about recorded traces.
type Cmd struct {
	Dump traceDumpCmd `cmd:"" help:"Print the commands of a trace, under the names of their programs."`
	Stat traceStatCmd `cmd:"" help:"Show the size of a trace by program, kind of command and DRAM bank."`
	Diff traceDiffCmd `cmd:"" help:"Compare two traces program by program."`
	// Import reads a trace that tt-metal recorded.
	Import traceImportCmd `cmd:"" help:"Make a trace file of a trace that tt-metal recorded."`
	// Verify and Run put the trace on a device.
	Verify traceVerifyCmd `cmd:"" help:"Compare a trace in a device's DRAM with its file."`
	Run    traceRunCmd    `cmd:"" help:"Load a trace from a file and run it."`
}

// maxRaw bounds files of raw commands, in bytes.
const maxRaw = 1 << 30

// sourceFlags describe a trace that isn't a trace file.
type sourceFlags struct {
	Arch     string `help:"Architecture of raw commands in a file: blackhole or wormhole." placeholder:"ARCH"`
	Revision string `help:"Protocol revision of raw commands, if they fit several: one of ${revisions}." placeholder:"NAME"`
	Addr     uint64 `help:"Address of the trace in every DRAM bank, for a device." placeholder:"ADDRESS"`
	Pages    int    `help:"Pages of the trace, for a device." placeholder:"N"`
	PageSize int    `help:"Bytes of a page: 1024, 2048 or 4096." default:"4096" placeholder:"BYTES"`
}

func RevisionNames() string {
	var b bytes.Buffer
	for i, v := range cq.Revisions() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(v.Name)
	}
	return b.String()
}

// source is a trace that was read.
type source struct {
	name  string
	files []*tracebuf.File     // one for each device, nil for a device without parts; none for raw commands
	parts []*tracebuf.Contents // one for each queue of each device
	banks int                  // DRAM banks of a device, 0 for a file
	addr  uint64               // in each, with placed
	// placed is set if the address is known.
	placed bool
}

// partName names a part of a trace over several queues or devices; "" for a single part.
func (s *source) partName(device, queue int) string {
	switch {
	case len(s.files) > 1:
		return fmt.Sprintf("device %d, queue %d", device, queue)
	case len(s.parts) > 1:
		return fmt.Sprintf("queue %d", queue)
	}
	return ""
}

// Validate checks what can be checked without opening anything. Package kong calls it.
func (c *sourceFlags) Validate() error {
	if _, err := c.layout(); err != nil {
		return err
	}
	if c.Revision != "" && cq.RevisionByName(c.Revision) == nil {
		return cli.Wrong("--revision", c.Revision, "there is no such revision", "use one of "+RevisionNames())
	}
	if c.PageSize != 1024 && c.PageSize != 2048 && c.PageSize != 4096 {
		return cli.Wrong("--page-size", c.PageSize, "traces have other pages", "use 1024, 2048 or 4096")
	}
	if c.Pages < 0 || c.Pages > maxRaw/c.PageSize {
		return cli.Wrong("--pages", c.Pages, "no trace is that large", "give the pages that its EXEC_BUF names")
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

// read reads a trace from a file or a device's DRAM. The name of a regular file is always a file.
func (c *sourceFlags) read(ctx context.Context, name string) (*source, error) {
	if cli.IsFile(name) {
		return c.readFile(name)
	}
	_, err := os.Stat(name)
	if d, derr := cli.ParseDevice("DEVICE", name); derr == nil && (err != nil || d.Kind == target.Silicon) {
		if c.Pages == 0 && errors.Is(err, fs.ErrNotExist) && d.Kind == target.Silicon {
			return nil, fmt.Errorf("trace: %s: there is no such file or device", name)
		}
		return c.readDevice(ctx, name, d.Open())
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("trace: %w", err)
	}
	return nil, fmt.Errorf("trace: %s: there is no such file, and no device is called so; devices are %s", name, cli.DeviceHelp)
}

func (c *sourceFlags) readFile(name string) (*source, error) {
	f, err := os.Open(name)
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
		if s.files, err = tracebuf.DecodeAll(r); err != nil {
			return nil, fmt.Errorf("trace: %s: %w", name, err)
		}
		if s.parts, err = tracebuf.InspectAll(s.files); err != nil {
			return nil, fmt.Errorf("trace: %s: %w", name, err)
		}
		return s, nil
	}
	l, err := c.layout()
	if err != nil {
		return nil, err
	}
	if l == 0 {
		return nil, fmt.Errorf("trace: %s: %w: if it holds raw commands, say of which chip: --arch blackhole or --arch wormhole", name,
			tracebuf.ErrNotTrace)
	}
	b, err := io.ReadAll(io.LimitReader(r, maxRaw+1))
	if err == nil && len(b) > maxRaw {
		err = fmt.Errorf("it has more than %d B: no trace is that large", maxRaw)
	}
	if err == nil {
		s.parts, err = c.inspect(l, b)
	}
	if err != nil {
		return nil, fmt.Errorf("trace: %s: %w", name, err)
	}
	return s, nil
}

func (c *sourceFlags) inspect(l cq.Layout, b []byte) ([]*tracebuf.Contents, error) {
	t, err := tracebuf.InspectRaw(l, b, c.Revision)
	var e *cq.RevisionError
	if errors.As(err, &e) && len(e.Accepted) > 1 {
		err = fmt.Errorf("%w; give --revision", err)
	}
	return []*tracebuf.Contents{t}, err
}

// readDevice reads DRAM through the driver. It starts nothing on the device, so other users aren't
// disturbed.
func (c *sourceFlags) readDevice(ctx context.Context, name string, t kmd.Target) (*source, error) {
	if c.Pages == 0 {
		return nil, fmt.Errorf(
			"trace: %s is a device: say where in its DRAM the trace lies: --addr, --pages and --page-size, as in the EXEC_BUF that replays it",
			name,
		)
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

// readDRAM reads an interleaved buffer: page p is in bank p mod banks, in row p div banks.
func readDRAM(ctx context.Context, t kmd.Target, addr uint64, pageSize, pages int) (b []byte, ch *chip.Chip, err error) {
	d, ch, err := openChip(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	banks := ch.DRAMBanks()
	rows := uint64((pages + len(banks) - 1) / len(banks))
	if size := banks[0].Size; addr > size || rows*uint64(pageSize) > size-addr {
		return nil, nil, fmt.Errorf("%d pages of %d B over %d banks from %#x on end beyond a bank's %#x B", pages, pageSize, len(banks),
			addr, size)
	}
	b = make([]byte, pages*pageSize)
	for p := range pages {
		bank := &banks[p%len(banks)]
		page := b[p*pageSize : (p+1)*pageSize]
		if err := d.Read(bank.HostEndpoint, bank.Offset+addr+uint64(p/len(banks)*pageSize), page); err != nil {
			return nil, nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
	}
	return b, ch, nil
}
