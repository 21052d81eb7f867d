package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

// Flags for every source. The cores execute RV32IM without compressed instructions.
//
//   - no jump tables: they are absolute addresses of text, which may be anywhere
//   - no relaxation: relocations then say what the text really contains, and the kernel loader can judge them
//   - L1 begins at address 0, so small addresses are as good as others (min-pagesize, no null-pointer deductions)
//   - no loops turned into calls of memcpy or memset: there is no library
var commonFlags = strings.Fields(`-march=rv32im -mabi=ilp32 -mcmodel=medlow -mno-relax -O2
	-ffreestanding -nostdlib -fno-jump-tables -fno-common -fno-delete-null-pointer-checks
	-fno-tree-loop-distribute-patterns -fno-asynchronous-unwind-tables -fno-stack-protector -fno-ident
	-ffunction-sections -fdata-sections --param=min-pagesize=0 -Wall -Wextra -Werror`)

var (
	cFlags   = []string{"-std=c11"}
	cxxFlags = strings.Fields("-std=c++17 -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit")
)

// toolchain runs the cross compiler.
type toolchain struct {
	ctx    context.Context
	prefix string // of the compiler's programs
	root   string // of the module; the compiler runs there and sees relative paths only
	work   string // for intermediate files
}

// make builds one image.
func (t toolchain) make(target target) ([]byte, error) {
	base := filepath.Join(t.work, strings.NewReplacer("/", "-", ".", "-").Replace(target.output))
	link := append([]string{}, commonFlags...)
	for i, source := range target.sources {
		object := fmt.Sprintf("%s-%d.o", base, i)
		if err := t.compile(target, source, object); err != nil {
			return nil, err
		}
		link = append(link, object)
	}
	linked := base + ".elf"
	link = append(link, "-T", target.script, "-o", linked,
		"-Wl,--build-id=none", "-Wl,--no-warn-rwx-segments", "-Wl,-z,max-page-size=16", "-Wl,--gc-sections", "-Wl,--fatal-warnings")
	if target.form != flat {
		link = append(link, "-Wl,--emit-relocs")
	}
	for _, s := range target.symbols {
		link = append(link, "-Wl,--defsym="+s)
	}
	if err := t.run("gcc", link...); err != nil {
		return nil, fmt.Errorf("fwbuild: link %s: %w", target.output, err)
	}
	elf, err := os.ReadFile(linked)
	if err != nil {
		return nil, fmt.Errorf("fwbuild: link %s: %w", target.output, err)
	}
	switch target.form {
	case flat:
		b, err := flatten(elf)
		if err != nil {
			return nil, fmt.Errorf("fwbuild: flatten %s: %w", target.output, err)
		}
		return b, nil
	case image:
		k, err := kernels.Load(elf)
		if err != nil {
			return nil, fmt.Errorf("fwbuild: load %s: %w", target.output, err)
		}
		return k.Text, nil
	}
	return elf, nil
}

func (t toolchain) compile(target target, source, object string) error {
	program, language := "gcc", cFlags
	switch filepath.Ext(source) {
	case ".cpp":
		program, language = "g++", cxxFlags
	case ".S":
		language = nil
	}
	args := append([]string{}, commonFlags...)
	args = append(args, language...)
	if target.form == flat {
		args = append(args, "-Os") // base firmware has a few hundred bytes of room
	}
	args = append(args, "-ffile-prefix-map="+t.root+"=.", "-frandom-seed="+target.output, "-DREPRISE_"+archMacro(target.arch), "-Ikernels/include")
	for _, dir := range target.include {
		args = append(args, "-I"+dir)
	}
	for _, d := range target.defines {
		args = append(args, "-D"+d)
	}
	if err := t.run(program, append(args, "-c", source, "-o", object)...); err != nil {
		return fmt.Errorf("fwbuild: compile %s for %s: %w", source, target.output, err)
	}
	return nil
}

// run runs one of the compiler's programs in the module's root. Its messages become part of the error.
func (t toolchain) run(program string, args ...string) error {
	cmd := exec.CommandContext(t.ctx, t.prefix+program, args...)
	cmd.Dir = t.root
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var messages bytes.Buffer
	cmd.Stderr = &messages
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: install the RISC-V cross compiler (Debian: gcc-riscv64-unknown-elf) or name another one with -compiler", err)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, messages.Bytes())
	}
	return nil
}

func archMacro(a chip.Arch) string { return strings.ToUpper(a.String()) }
