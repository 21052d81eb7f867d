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
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/target"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

// Cmd has the commands about recorded traces.
type Cmd struct {
	Dump   traceDumpCmd   `cmd:""`
	Stat   traceStatCmd   `cmd:""`
	Diff   traceDiffCmd   `cmd:""`
	Import traceImportCmd `cmd:""`
	Verify traceVerifyCmd `cmd:""`
	Run    traceRunCmd    `cmd:""`
}

// maxRaw bounds raw commands in bytes.
const maxRaw = 1 << 30

type sourceFlags struct {
	Arch     string `placeholder:"ARCH"`
	Revision string `placeholder:"NAME"`
	Addr     uint64 `placeholder:"ADDRESS"`
	Pages    int    `placeholder:"N"`
	PageSize int    `default:"4096" placeholder:"BYTES"`
}

func RevisionNames() string {
	return cli.List(cq.Revisions(), func(v *cq.Revision) string { return v.Name })
}

type source struct {
	name   string
	files  []*tracebuf.File     // one for each device, nil for a device without parts; none for raw commands
	parts  []*tracebuf.Contents // one for each queue of each device
	banks  int                  // DRAM banks of a device, 0 for a file
	placed bool
	addr   uint64
}

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

func (c *sourceFlags) read(ctx context.Context, name string) (*source, error) {
	st, err := os.Stat(name)
	if cli.IsFile(name) || err == nil && st.IsDir() {
		return c.readFile(ctx, name)
	}
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

func (c *sourceFlags) readFile(ctx context.Context, name string) (*source, error) {
	f, err := cli.Open(ctx, name)
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

func hintRevision(err error) error {
	var e *cq.RevisionError
	if errors.As(err, &e) && len(e.Accepted) > 1 {
		return fmt.Errorf("%w; give --revision", err)
	}
	return err
}

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

// memory is the DRAM of a device, or a folder with copies of it.
type memory struct {
	ctx    context.Context
	ch     *chip.Chip
	dev    *kmd.Device
	folder string
	files  map[int]*os.File
	of     metaltrace.Memory // that a recording has, or nil
}

func openMemory(ctx context.Context, t kmd.Target) (*memory, error) {
	d, ch, err := cli.OpenChip(ctx, t, kmd.WithoutPower(), kmd.WithoutWaiting())
	return &memory{ctx: ctx, ch: ch, dev: d, files: map[int]*os.File{}}, err
}

func (m *memory) ReadDRAM(bank int, addr uint64, b []byte) error {
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	k := &m.ch.DRAMBanks()[bank]
	if addr > k.Size || uint64(len(b)) > k.Size-addr {
		return fmt.Errorf("%d B at %#x end beyond the bank's %#x B", len(b), addr, k.Size)
	}
	if m.of != nil {
		return m.of.ReadDRAM(bank, addr, b)
	}
	if m.dev != nil {
		return m.dev.Read(k.HostEndpoint, k.Offset+addr, b)
	}
	f := m.files[bank]
	if f == nil {
		var err error
		if f, err = os.Open(filepath.Join(m.folder, strconv.Itoa(bank)+".bin")); err != nil {
			return err
		}
		m.files[bank] = f
	}
	if _, err := f.ReadAt(b, int64(addr)); err != nil {
		return fmt.Errorf("%s: %d B at %#x: %w", f.Name(), len(b), addr, err)
	}
	return nil
}

func (m *memory) trace(addr uint64, pageSize, pages int) ([]byte, error) {
	banks := m.ch.DRAMBanks()
	rows := uint64((pages + len(banks) - 1) / len(banks))
	if size := banks[0].Size; addr > size || rows*uint64(pageSize) > size-addr {
		return nil, fmt.Errorf("%d pages of %d B over %d banks from %#x on end beyond a bank's %#x B", pages, pageSize, len(banks), addr, size)
	}
	b := make([]byte, pages*pageSize)
	return b, metaltrace.ReadInterleaved(m, len(banks), addr, pageSize, 0, b)
}

func (m *memory) scan(window uint64) ([]metaltrace.Candidate, *metaltrace.NearMiss, error) {
	banks := m.ch.DRAMBanks()
	return metaltrace.Scan(m.ctx, m, len(banks), cq.Layout(m.ch.Arch()), banks[0].Size, window)
}

func (m *memory) close() error {
	var err error
	if m.dev != nil {
		err = m.dev.Close()
	}
	for _, f := range m.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

func readDRAM(ctx context.Context, t kmd.Target, addr uint64, pageSize, pages int) (b []byte, ch *chip.Chip, err error) {
	m, err := openMemory(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	b, err = m.trace(addr, pageSize, pages)
	return b, m.ch, errors.Join(err, m.close())
}
