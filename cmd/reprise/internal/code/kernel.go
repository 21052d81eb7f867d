// Package code has the commands that build kernels and read those of tt-metal.
package code

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
	"github.com/reprise-tt/reprise/kernels"
)

// KernelCmd are the commands about kernels.
type KernelCmd struct {
	Build kernelBuildCmd `cmd:"" help:"Compile a kernel."`
}

type kernelBuildCmd struct {
	Source      string   `arg:"" help:"C or C++ source with a function kernel_main: .c, .cpp, .cc or .cxx." placeholder:"SOURCE"`
	Output      string   `short:"o" help:"ELF file to write; the source's name with .elf, in the working directory, if absent." placeholder:"FILE"`
	Arch        string   `help:"Architecture to compile for: blackhole (the default) or wormhole." default:"blackhole" placeholder:"ARCH"`
	Processor   []string `help:"Processors that will run the kernel, such as brisc,ncrisc. It is an error if the kernel's data don't fit into their local RAM." placeholder:"NAME"`
	Define      []string `short:"D" sep:"none" help:"Macro: NAME or NAME=VALUE." placeholder:"NAME"`
	Include     []string `short:"I" sep:"none" help:"Directory to search for headers before those of Reprise." placeholder:"DIR"`
	CompileArgs []uint32 `help:"Values of get_compile_time_arg_val by index, such as 1,2,3." placeholder:"N"`
	Compute     bool     `help:"Compile a kernel for the Tensix engines: three files, for TRISC0, TRISC1 and TRISC2, whose names end in .unpack.elf, .math.elf and .pack.elf."`
	Format      []string `help:"Format of a circular buffer of a compute kernel, such as 0=bfp8,16=fp32: fp32, fp16, bf16 (the default), bfp8, bfp4, bfp2, int32, uint16, int8." placeholder:"CB=FORMAT"`
	Fidelity    string   `help:"Math fidelity of a compute kernel: lofi, hifi2, hifi3 or hifi4 (the default)." default:"hifi4" placeholder:"NAME"`
	WideDst     bool     `help:"Use 32-bit Dst registers in a compute kernel."`
	UnpackToDst []int    `help:"Circular buffers of fp32 that copy_tile copies to a 32-bit Dst without rounding." placeholder:"CB"`
	Debug       bool     `short:"g" help:"Keep debug information in the file, for reprise stacks and debuggers."`
	Prints      bool     `help:"Compile in reprise_print and DPRINT, which otherwise generate no code."`
	Zones       bool     `help:"Compile in reprise_zone and DeviceZoneScopedN, which otherwise generate no code."`
	Watch       bool     `help:"Compile in assertions and checks of circular buffers, NoC requests and the stack. A failed check ends waits for the kernel with an error."`
	Compiler    string   `help:"Prefix of the compiler's programs, such as /opt/riscv/bin/riscv64-unknown-elf-; the usual ones in PATH if absent." placeholder:"PREFIX"`
	cli.AsJSON
}

func (kernelBuildCmd) Help() string {
	return "Compiles and links a kernel with the headers, start-up code and linker script that are part of this program, and checks what is checked when a program loads it. It needs the GNU cross compiler for RISC-V (Debian: gcc-riscv64-unknown-elf). The compiler's messages are on standard error."
}

type kernelJSON struct {
	File       string   `json:"file"`
	Arch       string   `json:"arch"`
	L1         int      `json:"l1_bytes"`
	Data       uint32   `json:"data_bytes"`
	BSS        uint32   `json:"bss_bytes"`
	Processors []string `json:"processors"`
}

var fidelities = map[string]kernels.Fidelity{"": kernels.HiFi4, "hifi4": kernels.HiFi4, "hifi3": kernels.HiFi3, "hifi2": kernels.HiFi2, "lofi": kernels.LoFi}

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

// Validate checks what needs no compiler.
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
	if !c.Compute {
		file, err := kernels.CompileELF(ctx, src)
		return c.finish(ctx, s, src.Arch, err, part{c.output(), file})
	}
	cs, err := c.compute(src)
	if err != nil {
		return err
	}
	files, err := kernels.CompileComputeELF(ctx, cs)
	stem := strings.TrimSuffix(c.output(), ".elf")
	return c.finish(ctx, s, src.Arch, err,
		part{stem + ".unpack.elf", files[0]}, part{stem + ".math.elf", files[1]}, part{stem + ".pack.elf", files[2]})
}

// part is a file to write.
type part struct {
	name string
	file []byte
}

// finish writes the compiler's output and describes it, or prints the compiler's messages.
func (c *kernelBuildCmd) finish(ctx context.Context, s cli.Streams, arch chip.Arch, err error, parts ...part) error {
	var refused *kernels.CompileError
	if errors.As(err, &refused) {
		fmt.Fprint(s.Err, refused.Output)
	}
	if err != nil {
		return err
	}
	for i, p := range parts {
		if err := c.write(ctx, s, arch, p, i); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file for all processors, or part i of a compute kernel for TRISC i.
func (c *kernelBuildCmd) write(ctx context.Context, s cli.Streams, arch chip.Arch, p part, i int) error {
	im, err := kernels.Load(p.file)
	if err != nil {
		return err
	}
	if err := cli.SaveBytes(ctx, "--output", p.name, p.file); err != nil {
		return err
	}
	out := kernelJSON{File: p.name, Arch: arch.String(), L1: len(im.Text), Data: im.DataSize, BSS: im.BSSSize}
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
