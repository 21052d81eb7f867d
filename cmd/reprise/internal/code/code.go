// Package code has the commands that build kernels and read those of tt-metal.
package code

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/metal"
)

// KernelCmd are the commands about kernels.
type KernelCmd struct {
	Build kernelBuildCmd `cmd:""`
}

type kernelBuildCmd struct {
	Source      string   `arg:"" placeholder:"SOURCE"`
	Output      string   `short:"o" placeholder:"FILE"`
	Arch        string   `default:"blackhole" placeholder:"ARCH"`
	Processor   []string `placeholder:"NAME"`
	Define      []string `short:"D" sep:"none" placeholder:"NAME"`
	Include     []string `short:"I" sep:"none" placeholder:"DIR"`
	CompileArgs []uint32 `placeholder:"N"`
	Compute     bool
	Format      []string `placeholder:"CB=FORMAT"`
	Fidelity    string   `default:"hifi4" placeholder:"NAME"`
	WideDst     bool
	UnpackToDst []int `placeholder:"CB"`
	Debug       bool  `short:"g"`
	Prints      bool
	Zones       bool
	Watch       bool
	Compiler    string `placeholder:"PREFIX"`
	cli.AsJSON
}

type kernelJSON struct {
	File       string   `json:"file"`
	Arch       string   `json:"arch"`
	L1         int      `json:"l1_bytes"`
	Data       uint32   `json:"data_bytes"`
	BSS        uint32   `json:"bss_bytes"`
	Processors []string `json:"processors"`
}

var fidelities = map[string]kernels.Fidelity{"": kernels.HiFi4, "hifi4": kernels.HiFi4, "hifi3": kernels.HiFi3,
	"hifi2": kernels.HiFi2, "lofi": kernels.LoFi}

func (c *kernelBuildCmd) compute(src kernels.Source) (kernels.ComputeSource, error) {
	cs := kernels.ComputeSource{Source: src, Formats: map[int]kernels.Format{}, WideDst: c.WideDst, UnpackToDst: c.UnpackToDst}
	var ok bool
	if cs.Fidelity, ok = fidelities[strings.ToLower(c.Fidelity)]; !ok {
		return cs, cli.Wrong("--fidelity", c.Fidelity, "unknown fidelity", "use lofi, hifi2, hifi3 or hifi4")
	}
	for _, given := range c.Format {
		cb, name, _ := strings.Cut(given, "=")
		i, err := strconv.Atoi(cb)
		if err != nil || i < 0 || i > 31 {
			return cs, cli.Wrong("--format", given, "no circular buffer", "give one and its format, such as 16=fp32").By(err)
		}
		if cs.Formats[i], err = kernels.ParseFormat(name); err != nil {
			return cs, cli.Wrong("--format", given, "unknown format", "use fp32, fp16, bf16, bfp8, bfp4, bfp2, int32, uint16 or int8").
				By(err)
		}
	}
	return cs, nil
}

func (c *kernelBuildCmd) Validate() error {
	src, err := c.source()
	if err != nil {
		return err
	}
	switch compute, err := c.compute(src); {
	case err != nil:
		return err
	case !c.Compute && (len(compute.Formats) > 0 || compute.Fidelity != kernels.HiFi4 || c.WideDst || len(c.UnpackToDst) > 0):
		return errors.New("--format, --fidelity, --wide-dst and --unpack-to-dst are for compute kernels: give --compute too")
	case c.Compute && len(c.Processor) > 0:
		return cli.Wrong("--processor", strings.Join(c.Processor, ","), "compute kernels run on TRISC0, TRISC1 and TRISC2", "leave it out")
	}
	return nil
}

func (c *kernelBuildCmd) source() (src kernels.Source, err error) {
	src = kernels.Source{Path: c.Source, Defines: c.Define, Include: c.Include, CompileArgs: c.CompileArgs, Debug: c.Debug,
		Prints: c.Prints, Zones: c.Zones, Watch: c.Watch, Compiler: c.Compiler}
	if src.Arch, err = chip.ParseArch(c.Arch); err != nil {
		return src, cli.Wrong("--arch", c.Arch, "unknown architecture", "use blackhole or wormhole").By(err)
	}
	if len(c.Processor) > 0 {
		if src.Processors, err = cli.ParseProcessors(c.Processor); err != nil {
			return src, err
		}
	}
	if filepath.Clean(c.output()) == filepath.Clean(c.Source) {
		return src, cli.Wrong("--output", c.output(), "it is the source", "give another name")
	}
	return src, nil
}

func (c *kernelBuildCmd) output() string {
	if c.Output != "" {
		return c.Output
	}
	name := filepath.Base(c.Source)
	return strings.TrimSuffix(name, filepath.Ext(name)) + ".elf"
}

func (c *kernelBuildCmd) Run(ctx context.Context, s cli.Streams) error {
	src, err := c.source()
	if err != nil {
		return err
	}
	src.Warnings = s.Err
	names, files := []string{c.output()}, make([][]byte, 1)
	if c.Compute {
		var cs kernels.ComputeSource
		if cs, err = c.compute(src); err != nil {
			return err
		}
		stem := strings.TrimSuffix(c.output(), ".elf")
		names = []string{stem + ".unpack.elf", stem + ".math.elf", stem + ".pack.elf"}
		var three [3][]byte
		three, err = kernels.CompileComputeELF(ctx, cs)
		files = three[:]
	} else {
		files[0], err = kernels.CompileELF(ctx, src)
	}
	if refused := (*kernels.CompileError)(nil); errors.As(err, &refused) {
		fmt.Fprint(s.Err, refused.Output)
	}
	if err != nil {
		return err
	}
	for i, file := range files {
		if err := c.write(ctx, s, src.Arch, names[i], file, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *kernelBuildCmd) write(ctx context.Context, s cli.Streams, arch chip.Arch, name string, file []byte, i int) error {
	im, err := kernels.Load(file)
	if err != nil {
		return err
	}
	if err := cli.SaveBytes(ctx, "--output", name, file); err != nil {
		return err
	}
	out := kernelJSON{File: name, Arch: arch.String(), L1: len(im.Text), Data: im.DataSize, BSS: im.BSSSize}
	for _, on := range cli.Processors(func(p chip.Processor) bool { return im.Fits(arch, p) == nil }) {
		if !c.Compute || on == chip.TRISC0+chip.Processor(i) {
			out.Processors = append(out.Processors, on.String())
		}
	}
	return s.Print(c.JSON, out, func(w cli.Text) {
		w.F("%s: %s kernel for %s: %s of L1, %s of local RAM\n", out.File, out.Arch, strings.Join(out.Processors, ", "), cli.Bytes(out.L1),
			cli.Bytes(out.Data+out.BSS))
	})
}

// MetalCmd are the commands about what tt-metal built.
type MetalCmd struct {
	Ls    metalLsCmd    `cmd:""`
	Check metalCheckCmd `cmd:""`
}

type metalLsCmd struct {
	cli.Reader
	Dir []string `arg:"" placeholder:"DIR"`
	cli.AsJSON
}

type metalCheckCmd struct {
	cli.Reader
	File     string `arg:"" placeholder:"ELF"`
	Firmware string `placeholder:"DIR"`
	cli.AsJSON
}

type metalFirmwareJSON struct {
	Dir       string `json:"dir"`
	Arch      string `json:"arch"`
	Revision  string `json:"revision"` // ttnn wheels with it
	DRAMBanks int    `json:"dram_banks"`
	L1Banks   int    `json:"l1_banks"`
}

type metalKernelJSON struct {
	metal.Kernel
	Processor string                  `json:"processor,omitempty"`
	Arch      string                  `json:"arch,omitempty"`
	Revision  string                  `json:"revision,omitempty"`
	L1        int                     `json:"l1_bytes"`
	Data      uint32                  `json:"data_bytes"`
	BSS       uint32                  `json:"bss_bytes"`
	DRAMBanks int                     `json:"dram_banks"`
	L1Banks   int                     `json:"l1_banks"`
	IRAM      bool                    `json:"iram"`                       // runs in the instruction RAM of Wormhole's NCRISC
	Stored    int                     `json:"stored_addresses,omitempty"` // words with an address of text
	Variables int                     `json:"variables"`
	Firmware  string                  `json:"firmware,omitempty"`
	Problem   string                  `json:"problem,omitempty"`
	Symbols   []kernels.MetalVariable `json:"symbols,omitempty"`
}

type metalJSON struct {
	Roots    []string             `json:"roots"`
	Firmware []metalFirmwareJSON  `json:"firmware"`
	Kernels  []metalKernelJSON    `json:"kernels"`
	Ethernet []metal.EthernetFile `json:"ethernet"`
	Problems []string             `json:"problems"`
}

func (c *metalLsCmd) Run(ctx context.Context, s cli.Streams) error {
	cache, err := metal.OpenCache(ctx, c.Dir...)
	if err != nil {
		return err
	}
	out := metalJSON{Roots: c.Dir, Firmware: cli.Map(cache.Firmware, metalFirmware), Kernels: []metalKernelJSON{},
		Ethernet: append([]metal.EthernetFile{}, cache.Ethernet...), Problems: cli.Map(cache.Problems, error.Error)}
	for i := range cache.Kernels {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		k, im, err := describe(cache, &cache.Kernels[i])
		if im != nil {
			k.Variables = len(im.Metal.Variables)
		}
		if err != nil {
			k.Problem = err.Error()
		}
		out.Kernels = append(out.Kernels, k)
	}
	return s.Print(c.JSON, out, out.print)
}

func metalFirmware(f *metal.Firmware) metalFirmwareJSON {
	return metalFirmwareJSON{Dir: f.Dir, Arch: f.Layout.Arch.String(), Revision: f.Revisions(),
		DRAMBanks: f.DRAMBanks, L1Banks: f.L1Banks}
}

// describe's error says why a kernel can't run; the image is nil if unreadable.
func describe(cache *metal.Cache, k *metal.Kernel) (metalKernelJSON, *kernels.Image, error) {
	out := metalKernelJSON{Kernel: *k, Processor: k.Processor.String()}
	if filepath.Base(k.Path) != metal.FileName(k.Processor) {
		out.Processor = "" // a copy: the firmware says it
	}
	im, err := k.Load()
	if err != nil {
		return out, nil, err
	}
	m := im.Metal
	out.L1, out.Data, out.BSS = len(im.Text), im.DataSize, im.BSSSize
	out.DRAMBanks, out.L1Banks, out.IRAM, out.Variables, out.Stored = m.DRAMBanks, m.L1Banks, m.IRAM, len(m.Variables), m.StoredAddresses
	f, p, err := cache.FirmwareOf(k, im)
	if err != nil {
		return out, im, err
	}
	out.Processor, out.Arch, out.Revision, out.Firmware = p.String(), f.Layout.Arch.String(), f.Revisions(), f.Dir
	return out, im, im.Fits(f.Layout.Arch, p)
}

func (j *metalJSON) print(w cli.Text) {
	t := w.Table()
	if len(j.Firmware) > 0 {
		t.Row("BASE FIRMWARE", "CHIP", "REVISION", "DRAM BANKS", "L1 BANKS")
		for _, f := range j.Firmware {
			t.Row(j.below(f.Dir), f.Arch, f.Revision, f.DRAMBanks, f.L1Banks)
		}
	}
	if len(j.Kernels) > 0 {
		if len(j.Firmware) > 0 {
			t.Row()
		}
		t.Row("KERNEL", "HASH", "PROCESSOR", "CHIP", "REVISION", "L1", "LOCAL RAM", "BANKS", "VARIABLES", "FIRMWARE")
	}
	var problems []string
	with := map[string][]string{}
	for _, k := range j.Kernels {
		if k.L1 == 0 {
			t.Row(k.Name, cli.Dash(k.Hash), k.Processor, "-", "-", "-", "-", "-", "-", "-")
		} else {
			t.Row(k.Name, cli.Dash(k.Hash), k.Processor, cli.Dash(k.Arch), cli.Dash(k.Revision), cli.Bytes(k.L1), cli.Bytes(k.Data+k.BSS),
				banks(k.DRAMBanks, k.L1Banks), k.Variables, j.below(k.Firmware))
		}
		if k.Problem != "" {
			if with[k.Problem] == nil {
				problems = append(problems, k.Problem)
			}
			with[k.Problem] = append(with[k.Problem], j.below(k.Path))
		}
	}
	if len(j.Ethernet) > 0 {
		if len(j.Firmware)+len(j.Kernels) > 0 {
			t.Row()
		}
		t.Row("ETHERNET", "HASH", "PROCESSOR", "FILE")
		for _, e := range j.Ethernet {
			t.Row(map[bool]string{true: "base firmware", false: e.Name}[e.Firmware], cli.Dash(e.Hash), e.Processor, j.below(e.Path))
		}
	}
	t.Flush()
	var notes []string
	for _, p := range problems {
		first := with[p][0]
		if n := len(with[p]); n > 1 {
			first += fmt.Sprintf(" and %d more", n-1)
		}
		notes = append(notes, first+": "+p)
	}
	if len(j.Ethernet) > 0 {
		notes = append(notes, "Files for Ethernet cores are listed only: Reprise runs nothing of tt-metal's there.")
	}
	if notes = append(notes, j.Problems...); len(notes) > 0 {
		w.F("\n%s\n", strings.Join(notes, "\n"))
	}
}

func banks(dram, l1 int) string {
	if dram == 0 && l1 == 0 {
		return "-"
	}
	return fmt.Sprintf("%d, %d", dram, l1)
}

// below is relative to the listed folder.
func (j *metalJSON) below(path string) string {
	if len(j.Roots) == 1 && path != "" {
		if rel, err := filepath.Rel(j.Roots[0], path); err == nil {
			return rel
		}
	}
	return cli.Dash(path)
}

func (c *metalCheckCmd) Run(ctx context.Context, s cli.Streams) error {
	k, cache, err := metal.OpenKernel(ctx, c.File)
	if err != nil {
		return err
	}
	if c.Firmware != "" {
		f, err := metal.OpenFirmware(c.Firmware)
		if err != nil {
			return err
		}
		cache = &metal.Cache{Firmware: []*metal.Firmware{f}}
	}
	out, im, err := describe(cache, k)
	switch {
	case im == nil:
		return fmt.Errorf("%s: %w", c.File, err)
	case err != nil:
		out.Problem = err.Error()
	}
	out.Symbols = im.Metal.Variables
	err = cmp.Or(s.Print(c.JSON, out, out.print), err)
	var missing *metal.NoFirmwareError
	if errors.As(err, &missing) && missing.Err == nil {
		err = fmt.Errorf("%s: %w; give the folder with --firmware", c.File, err)
	}
	return err
}

func (k *metalKernelJSON) print(w cli.Text) {
	t := w.Table()
	line := func(name, format string, args ...any) { t.Row(name, fmt.Sprintf(format, args...)) }
	t.Row("kernel", k.Name)
	if k.Hash != "" {
		t.Row("hash", k.Hash)
	}
	if k.Build != "" {
		t.Row("build", strings.TrimPrefix(k.Commit+"/"+k.Build, "/"))
	}
	if k.Firmware != "" {
		line("processor", "%s of %s", k.Processor, k.Arch)
		line("revision", "tt-metal of %s", k.Revision)
		t.Row("firmware", k.Firmware)
	} else {
		t.Row("processor", cmp.Or(k.Processor, "unknown without its firmware"))
	}
	place := "anywhere in L1"
	if k.IRAM {
		place = "in NCRISC's instruction RAM"
	}
	line("text and data", "%s, %s", cli.Bytes(k.L1), place)
	line("local RAM", "%s, of which %s have initial values", cli.Bytes(k.Data+k.BSS), cli.Bytes(k.Data))
	if k.DRAMBanks > 0 || k.L1Banks > 0 {
		line("banks", "compiled for %d of DRAM and %d of L1", k.DRAMBanks, k.L1Banks)
	}
	if k.Stored > 0 {
		line("stored addresses", "%d, stored before each run", k.Stored)
	}
	line("linked with", "%s of the firmware", cli.Count(k.Variables, "variable"))
	t.Flush()
}
