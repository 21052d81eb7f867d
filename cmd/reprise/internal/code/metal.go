package code

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/metal"
)

func (*metalLsCmd) OnlyReads() bool { return true }

func (*metalCheckCmd) OnlyReads() bool { return true }

// MetalCmd has the commands about what tt-metal built.
type MetalCmd struct {
	Ls    metalLsCmd    `cmd:"" help:"List kernels and base firmware in tt-metal's kernel cache."`
	Check metalCheckCmd `cmd:"" help:"Say what a kernel that tt-metal built needs to run."`
}

type metalLsCmd struct {
	Dir []string `arg:"" help:"tt-metal's kernel cache (the folder in TT_METAL_CACHE, or ~/.cache/tt-metal-cache), a folder of pre-compiled firmware, or a part of them." placeholder:"DIR"`
	cli.AsJSON
}

func (metalLsCmd) Help() string {
	return "A kernel runs only on the base firmware that it was linked with; the list says which one that is. Files for Ethernet cores are listed with their processor; nothing runs them. Nothing is written."
}

type metalCheckCmd struct {
	File     string `arg:"" help:"ELF file of a kernel, such as <cache>/.../kernels/<name>/<hash>/brisc/brisc.elf." placeholder:"ELF"`
	Firmware string `help:"Folder with the base firmware to compare with: brisc.elf, ncrisc.elf, trisc0.elf, trisc1.elf and trisc2.elf; that of the kernel's build in the cache if absent." placeholder:"DIR"`
	cli.AsJSON
}

func (metalCheckCmd) Help() string {
	return "Prints what the kernel is, and which base firmware it was linked with. It fails, and says what to do, if the kernel can't run."
}

type metalFirmwareJSON struct {
	Dir       string `json:"dir"`
	Arch      string `json:"arch"`
	Revision  string `json:"revision"` // date of the commit
	Commit    string `json:"commit"`
	DRAMBanks int    `json:"dram_banks"`
	L1Banks   int    `json:"l1_banks"`
}

type metalKernelJSON struct {
	File      string              `json:"file"`
	Name      string              `json:"name"`
	Hash      string              `json:"hash,omitempty"`
	Build     string              `json:"build,omitempty"`
	Commit    string              `json:"commit,omitempty"` // of the cache's folder
	Processor string              `json:"processor,omitempty"`
	Arch      string              `json:"arch,omitempty"`
	Revision  string              `json:"revision,omitempty"`
	L1        int                 `json:"l1_bytes"`
	Data      uint32              `json:"data_bytes"`
	BSS       uint32              `json:"bss_bytes"`
	DRAMBanks int                 `json:"dram_banks"`
	L1Banks   int                 `json:"l1_banks"`
	IRAM      bool                `json:"iram"`                       // runs in the instruction RAM of Wormhole's NCRISC
	Stored    int                 `json:"stored_addresses,omitempty"` // words with an address of text
	Variables int                 `json:"variables"`
	Firmware  string              `json:"firmware,omitempty"` // folder
	Problem   string              `json:"problem,omitempty"`  // why it can't run
	Symbols   []metalVariableJSON `json:"symbols,omitempty"`
}

type metalVariableJSON struct {
	Name    string `json:"name"`
	Address uint32 `json:"address"`
	Size    uint32 `json:"size"`
}

// metalEthernetJSON is a kernel or base firmware for a processor of an Ethernet core.
type metalEthernetJSON struct {
	File      string `json:"file"`
	Name      string `json:"name,omitempty"` // of a kernel
	Hash      string `json:"hash,omitempty"`
	Build     string `json:"build,omitempty"`
	Commit    string `json:"commit,omitempty"` // of the cache's folder
	Processor string `json:"processor"`
	Firmware  bool   `json:"firmware"`
}

type metalJSON struct {
	Roots    []string            `json:"roots"`
	Firmware []metalFirmwareJSON `json:"firmware"`
	Kernels  []metalKernelJSON   `json:"kernels"`
	Ethernet []metalEthernetJSON `json:"ethernet"`
	Problems []string            `json:"problems"`
}

func (c *metalLsCmd) Run(ctx context.Context, s cli.Streams) error {
	cache, err := metal.OpenCache(ctx, c.Dir...)
	if err != nil {
		return err
	}
	out := metalJSON{Roots: c.Dir, Firmware: []metalFirmwareJSON{}, Kernels: []metalKernelJSON{}, Ethernet: []metalEthernetJSON{},
		Problems: []string{}}
	for _, f := range cache.Firmware {
		out.Firmware = append(out.Firmware, metalFirmware(f))
	}
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
	for i := range cache.Ethernet {
		e := &cache.Ethernet[i]
		out.Ethernet = append(out.Ethernet, metalEthernetJSON{File: e.Path, Name: e.Name, Hash: e.Hash, Build: e.Build, Commit: e.Commit,
			Processor: e.Processor, Firmware: e.Firmware})
	}
	for _, p := range cache.Problems {
		out.Problems = append(out.Problems, p.Error())
	}
	return s.Print(c.JSON, out, out.print)
}

func metalFirmware(f *metal.Firmware) metalFirmwareJSON {
	return metalFirmwareJSON{Dir: f.Dir, Arch: f.Layout.Arch.String(), Revision: f.Layout.Revision.Date, Commit: f.Layout.Revision.Commit,
		DRAMBanks: f.DRAMBanks, L1Banks: f.L1Banks}
}

// describe reads a kernel and finds its firmware. The error says why the kernel can't run; the
// image is nil if unreadable.
func describe(cache *metal.Cache, k *metal.Kernel) (metalKernelJSON, *kernels.Image, error) {
	out := metalKernelJSON{File: k.Path, Name: k.Name, Hash: k.Hash, Build: k.Build, Commit: k.Commit, Processor: k.Processor.String()}
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
	out.Processor, out.Arch, out.Revision, out.Firmware = p.String(), f.Layout.Arch.String(), f.Layout.Revision.Date, f.Dir
	return out, im, im.Fits(f.Layout.Arch, p)
}

// print prints tables, followed by unusable files.
func (j *metalJSON) print(w cli.Text) {
	t := w.Table(0)
	if len(j.Firmware) > 0 {
		t.Row("BASE FIRMWARE", "CHIP", "REVISION", "COMMIT", "DRAM BANKS", "L1 BANKS")
		for _, f := range j.Firmware {
			t.Row(j.below(f.Dir), f.Arch, f.Revision, f.Commit, f.DRAMBanks, f.L1Banks)
		}
	}
	if len(j.Kernels) > 0 {
		if len(j.Firmware) > 0 {
			t.Row()
		}
		t.Row("KERNEL", "HASH", "PROCESSOR", "CHIP", "REVISION", "L1", "LOCAL RAM", "BANKS", "VARIABLES", "FIRMWARE")
	}
	var problems []string
	with := map[string][]string{} // kernels with a problem
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
			with[k.Problem] = append(with[k.Problem], j.below(k.File))
		}
	}
	if len(j.Ethernet) > 0 {
		if len(j.Firmware)+len(j.Kernels) > 0 {
			t.Row()
		}
		t.Row("ETHERNET", "HASH", "PROCESSOR", "FILE")
		for _, e := range j.Ethernet {
			t.Row(map[bool]string{true: "base firmware", false: e.Name}[e.Firmware], cli.Dash(e.Hash), e.Processor, j.below(e.File))
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

// below returns a path relative to the listed folder, unchanged if several were listed; a dash for
// an empty path.
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
	for _, v := range im.Metal.Variables {
		out.Symbols = append(out.Symbols, metalVariableJSON{Name: v.Name, Address: v.Addr, Size: v.Size})
	}
	err = cmp.Or(s.Print(c.JSON, out, out.print), err)
	var missing *metal.NoFirmwareError
	if errors.As(err, &missing) && missing.Err == nil {
		err = fmt.Errorf("%s: %w; give the folder with --firmware", c.File, err)
	}
	return err
}

// print prints a kernel line by line.
func (k *metalKernelJSON) print(w cli.Text) {
	t := w.Table(0)
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
