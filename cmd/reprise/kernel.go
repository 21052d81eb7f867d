package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

// kernelCmd are the commands about kernels.
type kernelCmd struct {
	Build kernelBuildCmd `cmd:"" help:"Compile a kernel."`
}

type kernelBuildCmd struct {
	Source      string   `arg:"" help:"C or C++ source with a function kernel_main: .c, .cpp, .cc or .cxx." placeholder:"SOURCE"`
	Output      string   `short:"o" help:"ELF file to write; the source's name with .elf, in the working directory, if absent." placeholder:"FILE"`
	Arch        string   `help:"Architecture to compile for: blackhole (the default) or wormhole." default:"blackhole" placeholder:"ARCH"`
	Processor   []string `help:"Processors that will run the kernel, such as brisc,ncrisc: one whose local RAM is too small for its data is an error." placeholder:"NAME"`
	Define      []string `short:"D" sep:"none" help:"Macro: NAME or NAME=VALUE." placeholder:"NAME"`
	Include     []string `short:"I" sep:"none" help:"Directory that is searched for headers before those of Reprise." placeholder:"DIR"`
	CompileArgs []uint32 `help:"What get_compile_time_arg_val returns, by index: 1,2,3." placeholder:"N"`
	Compiler    string   `help:"What the names of the compiler's programs begin with, such as /opt/riscv/bin/riscv64-unknown-elf-; the usual ones in PATH if absent." placeholder:"PREFIX"`
	JSON        bool     `help:"Print one JSON object instead of text." name:"json"`
}

// Help is shown by --help.
func (kernelBuildCmd) Help() string {
	return "Compiles and links a kernel with the headers, start-up code and linker script that are part of this program, and checks what is checked when a program loads it. It needs the GNU cross compiler for RISC-V (Debian: gcc-riscv64-unknown-elf). The compiler's messages are on standard error. " + exitHelp
}

type kernelJSON struct {
	File       string   `json:"file"`
	Arch       string   `json:"arch"`
	L1         int      `json:"l1_bytes"`
	Data       uint32   `json:"data_bytes"`
	BSS        uint32   `json:"bss_bytes"`
	Processors []string `json:"processors"`
}

// Validate refuses what no compiler has to be started for. Package kong calls it.
func (c *kernelBuildCmd) Validate() error {
	_, err := c.source()
	return err
}

// source is what the flags ask for.
func (c *kernelBuildCmd) source() (src kernels.Source, err error) {
	src = kernels.Source{Path: c.Source, Defines: c.Define, Include: c.Include, CompileArgs: c.CompileArgs, Compiler: c.Compiler}
	if src.Arch, err = chip.ParseArch(c.Arch); err != nil {
		return src, &flagError{flag: "--arch", value: c.Arch, why: "unknown architecture", hint: "use blackhole or wormhole", err: err}
	}
	for _, name := range c.Processor {
		p := processors(func(p chip.Processor) bool { return strings.EqualFold(name, p.String()) })
		if len(p) == 0 {
			return src, &flagError{flag: "--processor", value: name, why: "there is no such processor", hint: "use brisc, ncrisc, trisc0, trisc1 or trisc2"}
		}
		src.Processors = append(src.Processors, p...)
	}
	if filepath.Clean(c.output()) == filepath.Clean(c.Source) {
		return src, &flagError{flag: "--output", value: c.output(), why: "it is the source", hint: "give another name"}
	}
	return src, nil
}

// output is the file to write.
func (c *kernelBuildCmd) output() string {
	if c.Output != "" {
		return c.Output
	}
	name := filepath.Base(c.Source)
	return strings.TrimSuffix(name, filepath.Ext(name)) + ".elf"
}

// processors are those of a Tensix tile for which ok returns true.
func processors(ok func(chip.Processor) bool) (ps []chip.Processor) {
	for p := range chip.Processor(chip.NumProcessors) {
		if ok(p) {
			ps = append(ps, p)
		}
	}
	return ps
}

// Run compiles the kernel.
func (c *kernelBuildCmd) Run(ctx context.Context, s streams) error {
	src, err := c.source()
	if err != nil {
		return err
	}
	src.Warnings = s.err
	file, err := kernels.CompileELF(ctx, src)
	var refused *kernels.CompileError
	if errors.As(err, &refused) {
		fmt.Fprint(s.err, refused.Output)
	}
	if err != nil {
		return err
	}
	im, err := kernels.Load(file)
	if err != nil {
		return err
	}
	if err := save(ctx, "--output", c.output(), func(w io.Writer) error {
		_, err := w.Write(file)
		return err
	}); err != nil {
		return err
	}
	out := kernelJSON{File: c.output(), Arch: src.Arch.String(), L1: len(im.Text), Data: im.DataSize, BSS: im.BSSSize}
	for _, p := range processors(func(p chip.Processor) bool { return im.Fits(src.Arch, p) == nil }) {
		out.Processors = append(out.Processors, p.String())
	}
	if c.JSON {
		return printJSON(s.out, out)
	}
	_, err = fmt.Fprintf(s.out, "%s: %s kernel for %s: %s B of L1, %s B of local RAM\n", out.File, out.Arch, strings.Join(out.Processors, ", "),
		humanize.Comma(int64(out.L1)), humanize.Comma(int64(out.Data)+int64(out.BSS)))
	return err
}
