// Package riscv runs the GNU cross compiler for firmware and kernels, with one set of flags.
package riscv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

// The cores execute RV32IM. Jump tables are absolute addresses of text, which may be anywhere.
// Without relaxation the kernel loader can judge relocations. L1 begins at address 0, so small
// addresses are valid. There is no library for memcpy or memset. Both chips' cores take libgcc's
// code for these flags.
var commonFlags = strings.Fields(`-march=rv32im -mabi=ilp32 -mcmodel=medlow -mno-relax -O2
	-ffreestanding -nostdlib -fno-jump-tables -fno-common -fno-delete-null-pointer-checks
	-fno-tree-loop-distribute-patterns -fno-asynchronous-unwind-tables -fno-stack-protector -fno-ident
	-ffunction-sections -fdata-sections --param=min-pagesize=0 -Wall -Wextra`)

var (
	cFlags    = []string{"-std=c11"}
	cxxFlags  = strings.Fields("-std=c++17 -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit")
	linkFlags = strings.Fields(`-Wl,--build-id=none -Wl,--no-warn-rwx-segments -Wl,-z,max-page-size=16 -Wl,--gc-sections
	-Wl,--fatal-warnings`)
)

var languages = map[string]struct {
	program string
	flags   []string
}{
	".S": {"gcc", nil}, ".c": {"gcc", cFlags},
	".cc": {"g++", cxxFlags}, ".cpp": {"g++", cxxFlags}, ".cxx": {"g++", cxxFlags},
}

// In search order.
var prefixes = []string{"riscv64-unknown-elf-", "riscv32-unknown-elf-", "riscv64-elf-", "riscv-none-elf-"}

var hostVariables = []string{"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"}

// ErrNotFound is returned when the compiler is not installed.
var ErrNotFound = errors.New("no RISC-V cross compiler")

// ErrNoArithmetic is returned when a compiler comes without libgcc for the cores.
var ErrNoArithmetic = errors.New("the compiler has no libgcc for -march=rv32im -mabi=ilp32")

// A Compiler is an installed cross compiler.
type Compiler struct {
	// Prefix begins the names of the compiler's programs, such as "riscv64-unknown-elf-"; it may
	// have a directory.
	Prefix string
	Dir    string
}

// Find returns a C and C++ compiler in PATH with a prefix, or with any usual one if the prefix is
// empty. The error wraps [ErrNotFound].
func Find(prefix string) (*Compiler, error) {
	tried := prefixes
	if prefix != "" {
		tried = []string{prefix}
	}
	var half string
	for _, p := range tried {
		if _, err := exec.LookPath(p + "gcc"); err != nil {
			continue
		}
		if _, err := exec.LookPath(p + "g++"); err == nil {
			return &Compiler{Prefix: p}, nil
		}
		half = p
	}
	why := fmt.Sprintf("%sgcc is not in PATH", strings.Join(tried, "gcc, "))
	if half != "" {
		why = fmt.Sprintf("%sgcc is there without %sg++", half, half)
	}
	return nil, fmt.Errorf("%w: %s: install gcc-riscv64-unknown-elf (Debian, Ubuntu) or riscv64-elf-gcc (Arch Linux, Homebrew)",
		ErrNotFound, why)
}

// IsSource reports whether [Compiler.Compile] knows a file's extension.
func IsSource(name string) bool {
	_, ok := languages[filepath.Ext(name)]
	return ok
}

// A Unit is one source file to compile.
type Unit struct {
	Source, Object string
	Arch           chip.Arch
	Include        []string
	Defines        []string // NAME or NAME=VALUE
	FileNames      []string // OLD=NEW: names in the object
	TrimPaths      []string // directories whose names become "." in the object
	Flags          []string
}

// Compile makes an object file. The text is the compiler's output: warnings, or why it failed.
func (c *Compiler) Compile(ctx context.Context, u Unit) (text string, err error) {
	language, ok := languages[filepath.Ext(u.Source)]
	if !ok {
		return "", fmt.Errorf("%s is neither C nor C++ nor assembler by its name", u.Source)
	}
	args := slices.Concat(commonFlags, language.flags, u.Flags)
	trim := slices.Clone(u.TrimPaths) // of several that match the compiler takes the last
	slices.SortStableFunc(trim, func(a, b string) int { return len(a) - len(b) })
	for _, dir := range trim {
		args = append(args, "-ffile-prefix-map="+dir+"=.")
	}
	for _, names := range u.FileNames {
		args = append(args, "-ffile-prefix-map="+names)
	}
	args = append(args, "-frandom-seed="+filepath.Base(u.Source), "-DREPRISE_"+strings.ToUpper(u.Arch.String()))
	for _, dir := range u.Include {
		args = append(args, "-I"+dir)
	}
	for _, d := range u.Defines {
		args = append(args, "-D"+d)
	}
	return c.run(ctx, language.program, append(args, "-c", operand(u.Source), "-o", operand(u.Object)))
}

// Link links objects by a linker script, with those routines of libgcc that they call. The error
// wraps [ErrNoArithmetic] if libgcc isn't there.
func (c *Compiler) Link(ctx context.Context, script, output string, objects []string, flags ...string) (text string, err error) {
	args := slices.Concat(commonFlags, linkFlags, flags, []string{"-T", script, "-o", operand(output)})
	for _, o := range objects {
		args = append(args, operand(o))
	}
	text, err = c.run(ctx, "gcc", args)
	calls := undefined.FindString(text)
	if err == nil || calls == "" {
		return text, err
	}
	text, err = c.run(ctx, "gcc", append(args, "-lgcc"))
	if strings.Contains(text, "cannot find -lgcc") {
		return "", fmt.Errorf("%w: %s: install one that has it, such as Debian's gcc-riscv64-unknown-elf", ErrNoArithmetic, calls)
	}
	return text, err
}

// undefined matches calls of libgcc.
var undefined = regexp.MustCompile("undefined reference to `__.*")

// operand keeps a file's name from being read as an option or response file.
func operand(name string) string {
	if strings.HasPrefix(name, "-") || strings.HasPrefix(name, "@") {
		return "." + string(filepath.Separator) + name
	}
	return name
}

func (c *Compiler) run(ctx context.Context, program string, args []string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Prefix+program, args...)
	cmd.Dir = c.Dir
	cmd.WaitDelay = time.Second // the driver's children hold its output when it is killed
	cmd.Env = append(slices.DeleteFunc(cmd.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(hostVariables, name)
	}), "LC_ALL=C")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out.String(), err
}
