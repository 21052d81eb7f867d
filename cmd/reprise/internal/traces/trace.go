// Package traces has the commands about recorded traces.
package traces

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Cmd has the commands about recorded traces.
type Cmd struct {
	Dump   traceDumpCmd   `cmd:"" help:"Print the commands of a trace, under the names of their programs."`
	Stat   traceStatCmd   `cmd:"" help:"Show the size of a trace by program, kind of command and DRAM bank."`
	Diff   traceDiffCmd   `cmd:"" help:"Compare two traces program by program."`
	Import traceImportCmd `cmd:"" help:"Make a trace file of a trace that tt-metal recorded."`
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

// RevisionNames lists the revisions of the protocol.
func RevisionNames() string {
	var names []string
	for _, v := range cq.Revisions() {
		names = append(names, v.Name)
	}
	return strings.Join(names, ", ")
}

// source is a trace that was read.
type source struct {
	name   string
	files  []*tracebuf.File     // one for each device, nil for a device without parts; none for raw commands
	parts  []*tracebuf.Contents // one for each queue of each device
	banks  int                  // DRAM banks of a device, 0 for a file
	placed bool                 // the address is known
	addr   uint64               // in each bank
}

// partName names a part of a trace over several queues or devices, and is empty for a single part.
func (s *source) partName(device, queue int) string {
	switch {
	case len(s.files) > 1:
		return fmt.Sprintf("device %d, queue %d", device, queue)
	case len(s.parts) > 1:
		return fmt.Sprintf("queue %d", queue)
	}
	return ""
}

func (c *sourceFlags) Validate() error {
	if _, err := c.layout(); err != nil {
		return err
	}
	return checkPages(c.Revision, c.Pages, c.PageSize, 1024, 2048, 4096)
}

// checkPages checks the flags that describe a device's trace.
func checkPages(revision string, pages, pageSize int, sizes ...int) error {
	if revision != "" && cq.RevisionByName(revision) == nil {
		return cli.Wrong("--revision", revision, "there is no such revision", "use one of "+RevisionNames())
	}
	if !slices.Contains(sizes, pageSize) {
		list := strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes[:len(sizes)-1]), " ", ", "), "[]")
		return cli.Wrong("--page-size", pageSize, "traces have other pages", fmt.Sprintf("use %s or %d", list, sizes[len(sizes)-1]))
	}
	if pages < 0 || pages > maxRaw/pageSize {
		return cli.Wrong("--pages", pages, "no trace is that large", "give the pages that its EXEC_BUF names")
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

// read reads a trace from a file or a device's DRAM. A regular file is never taken for a device.
func (c *sourceFlags) read(ctx context.Context, name string) (*source, error) {
	if cli.IsFile(name) {
		return c.readFile(name)
	}
	_, err := os.Stat(name)
	d, wrong := cli.ParseDevice("DEVICE", name)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case wrong == nil && err != nil && missing && c.Pages == 0 && d.Kind == target.Silicon:
		return nil, fmt.Errorf("trace: %s: there is no such file or device", name)
	case wrong == nil && (err != nil || d.Kind == target.Silicon):
		return c.readDevice(ctx, name, d.Open())
	case err != nil && !missing:
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
		if s.files, err = tracebuf.DecodeAll(r); err == nil {
			s.parts, err = tracebuf.InspectAll(s.files)
		}
	} else if l, wrong := c.layout(); wrong != nil {
		return nil, wrong
	} else if l == 0 {
		err = fmt.Errorf("%w: if it holds raw commands, say of which chip: --arch blackhole or --arch wormhole", tracebuf.ErrNotTrace)
	} else {
		var b []byte
		if b, err = readRaw(r); err == nil {
			s.parts, err = c.inspect(l, b)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("trace: %s: %w", name, err)
	}
	return s, nil
}

// readRaw reads a file of raw commands.
func readRaw(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxRaw+1))
	if err == nil && len(b) > maxRaw {
		err = fmt.Errorf("it has more than %d B: no trace is that large", maxRaw)
	}
	return b, err
}

func (c *sourceFlags) inspect(l cq.Layout, b []byte) ([]*tracebuf.Contents, error) {
	t, err := tracebuf.InspectRaw(l, b, c.Revision)
	return []*tracebuf.Contents{t}, hintRevision(err)
}

// hintRevision names the flag that chooses among several revisions.
func hintRevision(err error) error {
	var e *cq.RevisionError
	if errors.As(err, &e) && len(e.Accepted) > 1 {
		return fmt.Errorf("%w; give --revision", err)
	}
	return err
}

// readDevice reads DRAM through the driver. It starts nothing on the device.
func (c *sourceFlags) readDevice(ctx context.Context, name string, t kmd.Target) (*source, error) {
	if c.Pages == 0 {
		return nil, fmt.Errorf("trace: %s is a device: say where in its DRAM the trace lies: --addr, --pages and --page-size, "+
			"as in the EXEC_BUF that replays it", name)
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
