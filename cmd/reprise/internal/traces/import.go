package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/tables"
	"github.com/reprise-tt/reprise/internal/ttnn/recording"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/ops/safetensors"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

type traceImportCmd struct {
	Source   string `arg:"" placeholder:"DEVICE|FILE"`
	Scan     bool
	Window   uint64   `default:"134217728" placeholder:"BYTES"`
	Addr     uint64   `placeholder:"ADDRESS"`
	Pages    int      `placeholder:"N"`
	PageSize int      `default:"4096" placeholder:"BYTES"`
	Revision string   `placeholder:"NAME"`
	Memory   string   `placeholder:"DIR"`
	Like     string   `placeholder:"DEVICE"`
	Cache    []string `placeholder:"DIR"`
	Firmware string   `placeholder:"DIR"`
	Trust    bool
	Buffer   []string `placeholder:"BUFFER" sep:"none"`
	Param    []string `placeholder:"PARAM" sep:"none"`
	fileFlags
	Data   bool
	Name   string `default:"imported" placeholder:"NAME"`
	Output string `short:"o" placeholder:"FILE"`
	DryRun bool
	cli.AsJSON

	buffers []tracebuf.Buffer
	params  []importParam

	recorded  *recording.Trace // or nil
	recording *recording.Recording
	chip      int // of the recording
	weights   string
}

func (c *traceImportCmd) Validate() error {
	if err := checkPages(c.Revision, c.Pages, c.PageSize, 1024, 2048, 4096, 8192); err != nil {
		return err
	}
	if c.Scan && c.Pages != 0 {
		return cli.Wrong("--scan", "", "--pages says where the trace is", "give one of them")
	}
	if c.Scan {
		return nil
	}
	if c.Addr != 0 && c.Pages == 0 && !cli.IsFile(c.Source) {
		return cli.Wrong("--addr", fmt.Sprintf("%#x", c.Addr), "nothing says how long the trace is",
			"give --pages too, or neither to look for it")
	}
	if c.Output == "" && !c.DryRun {
		return cli.Wrong("--output", "", "there is no file to write to", "give one, or --dry-run")
	}
	if len(c.Cache) == 0 && !c.Trust {
		return cli.Wrong("--cache", "", "nothing says which kernels these are",
			"give tt-metal's kernel cache: the folder in TT_METAL_CACHE, or ~/.cache/tt-metal-cache")
	}
	var errs [2]error
	c.buffers, errs[0] = parseEach(c.Buffer, parseBuffer)
	c.params, errs[1] = parseEach(c.Param, parseImportParam)
	return cmp.Or(cmp.Or(errs[:]...), c.fileFlags.Validate())
}

// fileFlags say what the commands of a trace don't.
type fileFlags struct {
	Tensor   []string `placeholder:"TENSOR" sep:"none"`
	Division []string `name:"sub-device" placeholder:"CORES" sep:"none"`

	tensors []tensorFlag
	subs    [][]chip.Range
}

func (f *fileFlags) Validate() (err error) {
	if f.tensors, err = parseEach(f.Tensor, parseTensor); err == nil {
		f.subs, err = parseEach(f.Division, parseCores)
	}
	return err
}

func parseEach[T any](values []string, parse func(string) (T, error)) (out []T, err error) {
	for _, s := range values {
		v, err := parse(s)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func parseCores(s string) ([]chip.Range, error) {
	var out []chip.Range
	for r := range strings.SplitSeq(s, "+") {
		var v chip.Range
		if n, err := fmt.Sscanf(r+" end", "%dx%d-%dx%d end", &v.Start.X, &v.Start.Y, &v.End.X, &v.End.Y); n != 4 || err != nil {
			return nil, cli.Wrong("--sub-device", s, "its rectangles aren't two cores each", "give such as 0x0-7x3+0x4-1x5")
		}
		out = append(out, v)
	}
	return out, nil
}

func parseBuffer(s string) (tracebuf.Buffer, error) {
	bad := func(why string) error {
		return cli.Wrong("--buffer", s, why, "give name:dram:address:bytes:page size, such as in:dram:0x20000:65536:2048")
	}
	parts := strings.Split(s, ":")
	if len(parts) != 5 || parts[0] == "" {
		return tracebuf.Buffer{}, bad("it has other parts")
	}
	b := tracebuf.Buffer{Name: parts[0], Kind: tracebuf.KindDRAM}
	if parts[1] == "l1" {
		b.Kind = tracebuf.KindL1
	} else if parts[1] != "dram" {
		return b, bad("its memory is neither dram nor l1")
	}
	var n [3]uint64
	for i, p := range parts[2:] {
		v, err := strconv.ParseUint(p, 0, 40)
		if err != nil {
			return b, bad("an address and sizes are numbers")
		}
		n[i] = v
	}
	b.Addr, b.Size, b.PageSize = n[0], int(n[1]), int(n[2])
	if b.PageSize == 0 || b.Size == 0 || b.Size%b.PageSize != 0 {
		return b, bad("its bytes are no whole pages")
	}
	return b, nil
}

type importJSON struct {
	Source   string          `json:"source"`
	Arch     string          `json:"arch"`
	Revision string          `json:"revision"`
	Firmware string          `json:"firmware"`
	Workers  string          `json:"workers"` // revision of their base firmware
	Bytes    int             `json:"bytes"`
	Programs []importProgram `json:"programs"`
	File     string          `json:"file,omitempty"`
}

type importProgram struct {
	Name     string         `json:"name"`
	HostID   uint32         `json:"host_id"`
	Device   int            `json:"sub_device"`
	Offset   int            `json:"offset"`
	Bytes    int            `json:"bytes"`
	Kernels  int            `json:"kernel_bytes"`
	Launches []importLaunch `json:"launches"`
}

type importLaunch struct {
	Cores    string         `json:"cores"` // virtual coordinates
	Kernels  []importKernel `json:"kernels"`
	Circular int            `json:"circular_buffers"`
}

type importKernel struct {
	Name      string   `json:"name"` // empty if it isn't in the cache
	Processor string   `json:"processor"`
	Addr      uint32   `json:"addr"` // in L1
	Args      []uint32 `json:"args"` // on the first core, without zeros at the end
	Common    []uint32 `json:"common_args"`
}

func (c *traceImportCmd) Run(ctx context.Context, s cli.Streams) error {
	m, commands, err := c.open(ctx)
	if err != nil {
		return err
	}
	if c.Scan {
		err = c.list(s, m)
	} else {
		err = c.run(ctx, s, m, commands)
	}
	return errors.Join(err, m.close())
}

func (c *traceImportCmd) of(source string, err error) error {
	if err != nil {
		err = fmt.Errorf("trace import: %s: %w", source, err)
	}
	return err
}

func (c *traceImportCmd) run(ctx context.Context, s cli.Streams, m *memory, commands []byte) error {
	out, file, err := c.importFrom(ctx, m, commands)
	if err != nil {
		return err
	}
	if !c.DryRun {
		if err := c.write(ctx, file); err != nil {
			return err
		}
		out.File = c.Output
	}
	return s.Print(c.JSON, out, out.print)
}

func (c *traceImportCmd) write(ctx context.Context, files ...*tracebuf.File) error {
	b, err := metaltrace.Write(files...)
	if err != nil {
		return c.of(c.Source, err)
	}
	return cli.SaveBytes(ctx, "--output", c.Output, b)
}

// importFrom returns no file for a DryRun.
func (c *traceImportCmd) importFrom(ctx context.Context, m *memory, commands []byte) (*importJSON, *tracebuf.File, error) {
	t, err := metaltrace.Read(m, len(m.ch.DRAMBanks()), cq.Layout(m.ch.Arch()), commands, c.Revision)
	if err != nil {
		return nil, nil, c.of(c.Source, hintRevision(err))
	}
	f, err := c.identify(ctx, t, m.ch)
	if err != nil {
		return nil, nil, c.of(c.Source, err)
	}
	var file *tracebuf.File
	if !c.DryRun {
		file, err = c.file(t, f, m)
	}
	out := &importJSON{Source: c.Source, Arch: t.Layout.String(), Revision: t.Revision, Bytes: t.Size,
		Programs: cli.Map(t.Steps, toProgram)}
	if f != nil {
		out.Firmware, out.Workers = f.Dir, f.Layout.Revision.String()
	}
	return out, file, c.of(c.Source, err)
}

// identify returns the kernels' base firmware, nil for this runtime's own.
func (c *traceImportCmd) identify(ctx context.Context, t *metaltrace.Trace, ch *chip.Chip) (*metal.Firmware, error) {
	var given *metal.Firmware
	var err error
	if c.Firmware != "" {
		if given, err = metal.OpenFirmware(c.Firmware); err != nil {
			return nil, err
		}
		if given.Layout.Arch != ch.Arch() {
			return nil, fmt.Errorf("%s is base firmware for %v, the trace is of a %v", c.Firmware, given.Layout.Arch, ch.Arch())
		}
	}
	if len(c.Cache) == 0 {
		layout := abi.Own(ch.Arch())
		if given != nil {
			layout = given.Layout
		}
		return given, t.FindLaunches(layout)
	}
	cache, err := metal.OpenCache(ctx, c.Cache...)
	if err != nil {
		return nil, err
	}
	library, err := metaltrace.NewLibrary(ctx, cache)
	if err != nil {
		return nil, err
	}
	if given == nil {
		f, err := t.FindFirmware(library)
		if errors.Is(err, metaltrace.ErrSeveral) {
			err = fmt.Errorf("%w; give --firmware", err)
		}
		return f, err
	}
	err = t.Identify(library, given)
	if c.Trust && errors.Is(err, metaltrace.ErrUnknownKernel) {
		err = nil
	}
	return given, err
}

func (c *traceImportCmd) file(t *metaltrace.Trace, f *metal.Firmware, m *memory) (*tracebuf.File, error) {
	target, err := importTarget(m.ch, f)
	if err != nil {
		return nil, err
	}
	target.SubDevices = c.subs
	o := metaltrace.FileOptions{Name: c.Name, Target: target, Buffers: slices.Clone(c.buffers)}
	var setup *tracebuf.Setup
	if t := c.recorded; t != nil {
		o.Buffers, o.Data, o.Results, o.L1End = t.Buffers, t.Data, t.Results, t.L1End
		if f != nil {
			var taken []tracebuf.Buffer
			setup, taken = c.recording.Setup(c.chip, f.Layout, target.Workers)
			o.Buffers = slices.Concat(o.Buffers, taken)
		}
		if len(c.subs) == 0 {
			o.Target.SubDevices = t.SubDevices
		}
	}
	banks := len(m.ch.DRAMBanks())
	for i := range o.Buffers {
		b := &o.Buffers[i]
		align := int(m.ch.Params().Align.DRAM())
		if b.Kind == tracebuf.KindL1 {
			align = cq.L1Align
		}
		b.Stride = (b.PageSize + align - 1) / align * align
		if !c.Data || b.Kind != tracebuf.KindDRAM || c.recorded != nil {
			continue
		}
		data := make([]byte, b.Size)
		for p := range b.Pages() {
			if err := m.ReadDRAM(p%banks, b.Addr+uint64(p/banks*b.Stride), data[p*b.PageSize:(p+1)*b.PageSize]); err != nil {
				return nil, fmt.Errorf("read buffer %q: %w", b.Name, err)
			}
		}
		o.Data = append(o.Data, tracebuf.Data{Buffer: i, Bytes: data})
	}
	for _, f := range c.tensors {
		if err := f.describe(&o, int(m.ch.Params().Align.DRAM())); err != nil {
			return nil, err
		}
	}
	for i := range c.params {
		args, err := c.params[i].arguments(t)
		if err != nil {
			return nil, err
		}
		o.Arguments = append(o.Arguments, args...)
	}
	file, err := t.File(o)
	if err == nil && c.weights != "" {
		err = withWeights(c.weights, func(f *safetensors.File) error { f.Refer(file); return nil })
	}
	if err != nil {
		return nil, err
	}
	file.Setup = setup
	return file, nil
}

// importTarget is queue 0 of a device with base firmware f, or for nil this runtime's own.
func importTarget(ch *chip.Chip, f *metal.Firmware) (tracebuf.Target, error) {
	t := tracebuf.Target{Arch: ch.Arch(), Harvesting: ch.Harvesting(), Banks: len(ch.DRAMBanks()), Revision: cq.Pinned}
	var err error
	if t.Workers, t.Dispatch, err = dispatch.DefaultQueue(ch); err != nil {
		return t, err
	}
	if f == nil {
		t.Firmware, err = dispatch.HashFirmware(ch.Arch(), nil)
		return t, err
	}
	t.Layout = f.Layout.Revision.Name
	t.Firmware, err = dispatch.HashFirmware(ch.Arch(), f.Segments())
	return t, err
}

func toProgram(step metaltrace.Step) importProgram {
	return importProgram{Name: step.Name(), HostID: step.HostID, Device: step.SubDevice, Offset: step.Offset, Bytes: step.Size,
		Kernels: step.Binaries, Launches: cli.Map(step.Launches, toLaunch)}
}

func toLaunch(l metaltrace.Launch) importLaunch {
	cores := l.Start.String()
	if l.End != l.Start {
		cores += "-" + l.End.String()
	}
	return importLaunch{cores, cli.Map(l.Kernels, func(k metaltrace.Kernel) importKernel {
		return importKernel{k.Name, k.Processor.String(), k.Addr, append([]uint32{}, k.Args...), append([]uint32{}, k.Common...)}
	}), len(l.Circular)}
}

func (j *importJSON) print(w cli.Text) {
	w.F("%s: %s, protocol revision %s, %s of commands, %s\n", j.Source, j.Arch, j.Revision, cli.Bytes(j.Bytes),
		cli.Count(len(j.Programs), "program"))
	if j.Firmware != "" {
		w.F("base firmware of %s: %s\n", j.Workers, j.Firmware)
	}
	for i, p := range j.Programs {
		w.F("program %d, host id %d, sub-device %d: %s of commands at +%#x, %s of kernels sent\n", i, p.HostID, p.Device,
			cli.Bytes(p.Bytes), p.Offset, cli.Bytes(p.Kernels))
		for _, l := range p.Launches {
			names := cli.Map(l.Kernels, func(k importKernel) string {
				return cmp.Or(k.Name, "a kernel that isn't in the cache") + " on " + k.Processor
			})
			w.F("%s\n", strings.TrimSuffix(fmt.Sprintf("  %s, %s: %s", l.Cores, cli.Count(l.Circular, "circular buffer"),
				strings.Join(names, ", ")), " "))
			for _, k := range l.Kernels {
				if args := argumentText(k.Args, k.Common); args != "" {
					w.F("    %s:%s\n", k.Processor, args)
				}
			}
		}
	}
	if j.File != "" {
		w.F("written to %s\n", j.File)
	}
}

func (c *traceImportCmd) open(ctx context.Context) (*memory, []byte, error) {
	if cli.IsFile(c.Source) {
		return c.openFile(ctx)
	}
	d, err := cli.ParseDevice("DEVICE", c.Source)
	if err != nil {
		return nil, nil, err
	}
	m, err := openMemory(ctx, d.Open())
	if err != nil || c.Scan {
		return m, nil, c.of(c.Source, err)
	}
	commands, err := c.readCommands(m)
	if err != nil {
		return nil, nil, errors.Join(c.of(c.Source, err), m.close())
	}
	return m, commands, nil
}

func (c *traceImportCmd) readCommands(m *memory) ([]byte, error) {
	if c.Pages > 0 {
		return m.trace(c.Addr, c.PageSize, c.Pages)
	}
	found, nearest, err := m.scan(c.Window)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("no trace is in the upper %d B of its DRAM banks%s; give --addr, --pages and --page-size, "+
			"as in the EXEC_BUF that replays it, or a larger --window", c.Window, missText(nearest))
	case len(found) > 1:
		return nil, fmt.Errorf("%d traces may be in its DRAM, the first at %#x and %#x: --scan lists them; "+
			"give --addr, --pages and --page-size of one", len(found), found[0].Addr, found[1].Addr)
	}
	return m.trace(found[0].Addr, found[0].PageSize, found[0].Pages)
}

func (c *traceImportCmd) openFile(ctx context.Context) (*memory, []byte, error) {
	if c.Scan {
		return nil, nil, fmt.Errorf("trace import: %s is a file: --scan is for a device", c.Source)
	}
	if m, commands, err := c.openRecording(ctx); m != nil || err != nil {
		return m, commands, err
	}
	if c.Memory == "" || c.Like == "" {
		return nil, nil, fmt.Errorf("trace import: %s is a file: give --memory, a folder with the DRAM that has the kernels, "+
			"and --like, a device of its kind", c.Source)
	}
	target, err := cli.ParseTarget(c.Like)
	if err != nil {
		return nil, nil, err
	}
	m, err := openMemory(ctx, target)
	if err == nil {
		err = m.close()
	}
	if err != nil {
		return nil, nil, c.of(c.Like, err)
	}
	m.dev, m.folder = nil, c.Memory
	f, err := cli.Open(ctx, c.Source)
	if err != nil {
		return nil, nil, fmt.Errorf("trace import: %w", err)
	}
	defer f.Close()
	b, err := readRaw(f)
	return m, b, c.of(c.Source, err)
}

// importParam is an argument of a kernel, in one program or all.
type importParam struct {
	value     string
	name      string
	kernel    string // in the cache; empty if a processor is given
	processor chip.Processor
	index     int
	common    bool
	program   int     // -1 for all
	core      chip.XY // virtual coordinates; zero for all
	buffer    string
}

func parseImportParam(s string) (importParam, error) {
	bad := func(why string) (importParam, error) {
		return importParam{}, cli.Wrong("--param", s, why,
			"give name=kernel:argument, such as n=reader_unary:3, src=ncrisc:0,buffer=in or scale=trisc1:c0,program=2,core=18x20")
	}
	options := strings.Split(s, ",")
	p := importParam{value: s, program: -1}
	name, of, ok := strings.Cut(options[0], "=")
	if !ok || name == "" {
		return bad("it names no parameter")
	}
	i := strings.LastIndexByte(of, ':')
	if i <= 0 {
		return bad("it names no argument of a kernel")
	}
	p.name, p.kernel = name, of[:i]
	for q := range chip.Processor(chip.NumProcessors) {
		if strings.EqualFold(p.kernel, q.String()) {
			p.kernel, p.processor = "", q
		}
	}
	index, common := strings.CutPrefix(of[i+1:], "c")
	n, err := strconv.ParseUint(index, 10, 16)
	if err != nil {
		return bad("an argument is a number, or c and a number for a common one")
	}
	p.index, p.common = int(n), common
	for _, o := range options[1:] {
		key, value, _ := strings.Cut(o, "=")
		switch key {
		case "program":
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil {
				return bad("a program is a number")
			}
			p.program = int(n)
		case "core":
			x, y, _ := strings.Cut(value, "x")
			cx, errX := strconv.ParseUint(x, 10, 6)
			cy, errY := strconv.ParseUint(y, 10, 6)
			if errX != nil || errY != nil || cx == 0 && cy == 0 {
				return bad("a core is two virtual coordinates such as 18x20")
			}
			p.core = chip.XY{X: uint8(cx), Y: uint8(cy)}
		case "buffer":
			if p.buffer = value; value == "" {
				return bad("the buffer has no name")
			}
		default:
			return bad("its options are program, core and buffer")
		}
	}
	return p, nil
}

func (p *importParam) arguments(t *metaltrace.Trace) ([]metaltrace.Argument, error) {
	var out []metaltrace.Argument
	for i := range t.Steps {
		if p.program >= 0 && i != p.program {
			continue
		}
		seen := map[chip.Processor]bool{}
		for _, l := range t.Steps[i].Launches {
			if c := p.core; c != (chip.XY{}) && (c.X < l.Start.X || c.X > l.End.X || c.Y < l.Start.Y || c.Y > l.End.Y) {
				continue
			}
			for _, k := range l.Kernels {
				if p.kernel != "" && k.Name != p.kernel || p.kernel == "" && k.Processor != p.processor || seen[k.Processor] {
					continue
				}
				seen[k.Processor] = true
				out = append(out, metaltrace.Argument{Name: p.name, Step: i, Processor: k.Processor, Kernel: p.kernel, Index: p.index,
					Common: p.common, Core: p.core, Buffer: p.buffer})
			}
		}
	}
	if len(out) == 0 {
		return nil, cli.Wrong("--param", p.value, "no program starts such a kernel there", "--dry-run prints kernels and arguments")
	}
	return out, nil
}

func argumentText(args, common []uint32) string {
	var b strings.Builder
	for i, list := range [][]uint32{args, common} {
		if len(list) == 0 {
			continue
		}
		b.WriteString([]string{" arguments", " common"}[i])
		for k, v := range list {
			if k == 16 {
				fmt.Fprintf(&b, " and %d more", len(list)-k)
				break
			}
			fmt.Fprintf(&b, " %#x", v)
		}
	}
	return b.String()
}

type scanJSON struct {
	Source string                 `json:"source"`
	Arch   string                 `json:"arch"`
	Window uint64                 `json:"window"`
	Traces []metaltrace.Candidate `json:"traces"`
	// Nearest says what looked like a trace if there is none; empty if nothing did.
	Nearest string `json:"nearest,omitempty"`
}

func missText(n *metaltrace.NearMiss) string {
	if n == nil {
		return ", and nothing there begins like one"
	}
	return fmt.Sprintf(", the nearest begins at %#x: in pages of %d B, revision %s reads %d B of it, then: %v",
		n.Addr, n.PageSize, n.Revision, n.Size, n.Err)
}

func (c *traceImportCmd) list(s cli.Streams, m *memory) error {
	found, nearest, err := m.scan(c.Window)
	if err != nil {
		return c.of(c.Source, err)
	}
	out := scanJSON{Source: c.Source, Arch: m.ch.Arch().String(), Window: c.Window,
		Traces: append([]metaltrace.Candidate{}, found...)}
	if len(found) == 0 {
		out.Nearest = strings.TrimPrefix(missText(nearest), ", ")
	}
	return s.Print(c.JSON, out, func(w cli.Text) {
		w.F("%s: %s, %s at the top of each DRAM bank, %s\n", c.Source, out.Arch, cli.Bytes(c.Window), cli.Count(len(found), "trace"))
		if out.Nearest != "" {
			w.F("%s\n", out.Nearest)
		}
		for _, f := range out.Traces {
			w.F("--addr %#x --pages %d --page-size %d: %s, %s of commands up to EXEC_BUF_END, valid in %s\n",
				f.Addr, f.Pages, f.PageSize, cli.Count(f.Programs, "program"), cli.Bytes(f.Size), strings.Join(f.Revisions, ", "))
		}
	})
}

func readRecording(ctx context.Context, name string) (*recording.Recording, error) {
	f, err := cli.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var tensors io.Reader
	if t, err := os.Open(name + recording.TensorsSuffix); err == nil {
		defer t.Close()
		tensors = t
	}
	return cli.Until(ctx, func() (*recording.Recording, error) { return recording.Read(f, tensors) })
}

// openRecording returns nothing for a file that isn't a recording.
func (c *traceImportCmd) openRecording(ctx context.Context) (*memory, []byte, error) {
	r, err := readRecording(ctx, c.Source)
	if errors.Is(err, recording.ErrOther) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, c.of(c.Source, err)
	}
	var addresses []string
	for _, parts := range r.Traces {
		i, addr := first(parts)
		if addresses = append(addresses, fmt.Sprintf("%#x", addr)); addr == c.Addr || len(r.Traces) == 1 && c.Addr == 0 {
			if len(parts) > 1 {
				return nil, nil, fmt.Errorf("trace import: %s: the trace is over %d chips: reprise ttnn record makes its file",
					c.Source, len(parts))
			}
			c.recorded, c.recording, c.chip = parts[i], r, i
		}
	}
	if c.recorded == nil {
		return nil, nil, c.of(c.Source, noneOf(c.Addr, addresses))
	}
	return &memory{ctx: ctx, ch: r.Chips[c.chip], of: c.recorded.Memory}, c.recorded.Commands, nil
}

// first returns the first chip that has a part of a trace, and the trace's address.
func first(parts []*recording.Trace) (at int, addr uint64) {
	at = slices.IndexFunc(parts, func(t *recording.Trace) bool { return t != nil })
	return at, parts[at].Addr
}

func noneOf(addr uint64, addresses []string) error {
	return cli.Wrong("--addr", fmt.Sprintf("%#x", addr), "it is none of the replayed traces'", "give one of "+strings.Join(addresses, ", "))
}

// Recorded are the flags for a recording's traces.
type Recorded struct {
	Output  string `short:"o" required:"" placeholder:"FILE"`
	Addr    uint64 `placeholder:"ADDRESS"`
	Weights string `placeholder:"FILE" type:"existingfile"`
	fileFlags
}

// Save makes a file of each trace of a recording, or of the one at Addr if that isn't 0, and
// replays it: an error says that the results aren't TT-NN's. The second file has -2 before its
// extension.
func (f *Recorded) Save(ctx context.Context, s cli.Streams, recorded, cache string) error {
	r, err := readRecording(ctx, recorded)
	if err != nil {
		return err
	}
	n := 0
	var addresses []string
	for _, parts := range r.Traces {
		_, addr := first(parts)
		addresses = append(addresses, fmt.Sprintf("%#x", addr))
		if f.Addr != 0 && addr != f.Addr {
			continue
		}
		name := f.Output
		if n++; n > 1 {
			ext := filepath.Ext(name)
			name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext)
		}
		c := traceImportCmd{Source: recorded, Cache: []string{cache}, Output: name, Name: "recorded", weights: f.Weights, recording: r,
			fileFlags: f.fileFlags}
		if err := c.saveParts(ctx, s, parts); err != nil {
			return err
		}
	}
	if n == 0 {
		return noneOf(f.Addr, addresses)
	}
	return nil
}

// saveParts makes and replays the file of one trace.
func (c *traceImportCmd) saveParts(ctx context.Context, s cli.Streams, parts []*recording.Trace) error {
	files := make([]*tracebuf.File, len(parts))
	var made *importJSON
	programs := 0
	for i, t := range parts {
		if t == nil {
			continue
		}
		var err error
		c.chip, c.recorded = i, t
		if made, files[i], err = c.importFrom(ctx, &memory{ctx: ctx, ch: c.recording.Chips[i], of: t.Memory}, t.Commands); err != nil {
			return err
		}
		programs += len(made.Programs)
	}
	if err := c.write(ctx, files...); err != nil {
		return err
	}
	run := traceRunCmd{loadFlags: loadFlags{File: c.Output, Firmware: made.Firmware}, Replays: 1,
		tensorFlags: tensorFlags{Weights: c.weights}, recorded: true}
	r, wrong, err := run.run(ctx, s)
	if err != nil {
		return err
	}
	return errors.Join(s.Print(false, nil, func(w cli.Text) {
		w.F("%s: the trace at %#x, replayed %s, of %s", c.Output, c.recorded.Addr, cli.Count(c.recorded.Replays, "time"),
			cli.Count(programs, "program"))
		if len(files) > 1 {
			w.F(" on %d chips", len(files))
		}
		w.F("\nbase firmware of %s: %s\n", made.Workers, made.Firmware)
		c.printInterface(w, files)
		if r.Results == "same" {
			w.F("replayed it in %s: the results are TT-NN's\n", tables.Duration(1e9*r.Seconds))
		}
	}), wrong)
}

func (c *traceImportCmd) printInterface(w cli.Text, files []*tracebuf.File) {
	referred, contents := 0, 0
	for i, f := range files {
		if f == nil {
			continue
		}
		referred += printBuffers(w, f, func(name string) string { return nameOn(i, len(files), name) })
		for _, d := range f.Data {
			contents += len(d.Bytes)
		}
		if f.Setup != nil {
			w.F("  %s for the fabric's Ethernet tiles and tables\n", cli.Count(len(f.Setup.Ops), "store"))
		}
	}
	w.F("  %s of contents", cli.Bytes(contents))
	if c.weights != "" {
		w.F("; %s from %s", cli.Count(referred, "tensor"), c.weights)
	}
	w.F("\n")
}

// printBuffers prints inputs and outputs, and returns the number of weights in another file.
func printBuffers(w cli.Text, file *tracebuf.File, named func(string) string) (referred int) {
	for i := range file.Image.Buffers {
		b := &file.Image.Buffers[i]
		kind := ""
		switch t := b.Tensor; {
		case b.Output:
			kind = "output"
		case t != nil && t.Input, t == nil && strings.HasPrefix(b.Name, "in"):
			kind = "input"
		case t != nil && t.Weight != "":
			referred++
		}
		if kind != "" {
			t := toTensor(b.Tensor)
			if t != nil {
				t.Input = false // as said
			}
			w.F("  %-6s %s: %s in %v%v", kind, tracebuf.Printable(named(b.Name)), cli.Bytes(b.Size), allocator.Kind(b.Kind), t)
			if t == nil {
				w.F("; %s: --tensor says what they hold", pagesText(b.Size, b.PageSize))
			}
			w.F("\n")
		}
	}
	return referred
}
