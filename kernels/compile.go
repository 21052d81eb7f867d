package kernels

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

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/riscv"
)

// A Source is a kernel to compile: one file of C11 or C++17 that defines kernel_main. Its #include
// finds the headers of [Sources] ("reprise/kernel.h", "dataflow_api.h"). C++ has
// api/dataflow/dataflow_api.h without an #include, as in tt-metal.
type Source struct {
	// Path names the file; its extension is the language: .c, or .cpp, .cc or .cxx.
	Path string
	// Text is the source of embedded programs. Then Path only names it in messages.
	Text string
	Arch chip.Arch
	// Processors will run the kernel: Compile refuses data too large for one's local RAM. Without
	// them the data must fit the largest ([Image.Fits] checks one).
	Processors []chip.Processor
	// CompileArgs are what get_compile_time_arg_val returns by index.
	CompileArgs []uint32
	// Defines are NAME, which is 1, or NAME=VALUE.
	Defines []string
	// Prints compiles reprise_print and DPRINT in; otherwise they cost nothing.
	Prints bool
	// Zones compiles reprise_zone and DeviceZoneScopedN in; otherwise they cost nothing.
	Zones bool
	// Watch compiles in checks whose failures end waits with an error (package kernels/watch):
	// assertions (reprise/assert.h, ASSERT), circular buffers, NoC requests and the stack. It keeps
	// debug information as Debug does.
	Watch bool
	// Include are directories searched before the headers of this package.
	Include []string
	// Compiler is the prefix of the cross compiler's programs, such as
	// "/opt/riscv/bin/riscv64-unknown-elf-". By default the usual names are tried in PATH.
	Compiler string
	// Debug keeps debug information in the file, for call stacks and debuggers. It doesn't change
	// the code.
	Debug bool
	// Warnings gets the compiler's messages about a valid source, if not nil.
	Warnings io.Writer
}

// Compile compiles a kernel with the headers, start-up code and linker script of this package,
// links it, and loads the result. It needs the GNU cross compiler for RISC-V (Debian:
// gcc-riscv64-unknown-elf), which it stops when ctx ends.
//
// The error wraps [ErrNoCompiler] without a compiler; it is a [*CompileError] for a refused source,
// and what [Load] or [Image.Fits] return if the kernel could not run.
func Compile(ctx context.Context, src Source) (*Image, error) {
	_, im, err := compile(ctx, src)
	return im, err
}

// CompileELF is [Compile] with the ELF file as result, for [Load]. The bytes depend on the source
// and the compiler alone, not on directories or the time.
func CompileELF(ctx context.Context, src Source) ([]byte, error) {
	file, _, err := compile(ctx, src)
	return file, err
}

func compile(ctx context.Context, src Source) (file []byte, im *Image, err error) {
	err = src.build(func(b *build) error {
		if err := b.library(ctx); err != nil {
			return err
		}
		if filepath.Ext(src.Path) != ".c" {
			b.first = "api/dataflow/dataflow_api.h"
		}
		if file, err = b.link(ctx, "1", nil); err != nil {
			return err
		}
		im, err = b.load(file, src.Processors)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return file, im, nil
}

func (s *Source) build(f func(*build) error) (err error) {
	if err := s.check(); err != nil {
		return err
	}
	compiler, err := riscv.Find(s.Compiler)
	if err != nil {
		return s.errorf("%w", err)
	}
	work, err := os.MkdirTemp("", "reprise-kernel-")
	if err != nil {
		return s.errorf("make a directory for intermediate files: %w", err)
	}
	defer func() {
		if left := os.RemoveAll(work); left != nil {
			err = errors.Join(err, s.errorf("%w", left))
		}
	}()
	if err := errors.Join(
		os.CopyFS(work, sources),
		// Earlier releases of tt-metal's names.
		os.Symlink(filepath.Join("api", "compute"), filepath.Join(work, "include", "compute_kernel_api")),
		os.Symlink(filepath.Join("api", "compute", "compute_kernel_api.h"), filepath.Join(work, "include", "compute_kernel_api.h")),
	); err != nil {
		return s.errorf("write the headers: %w", err)
	}
	return f(&build{Source: *s, compiler: compiler, work: work})
}

func (b *build) load(file []byte, processors []chip.Processor) (*Image, error) {
	im, err := Load(file)
	if err != nil {
		return nil, b.errorf("%w", err)
	}
	for _, p := range processors {
		if err := im.Fits(b.Arch, p); err != nil {
			return nil, b.errorf("%w", err)
		}
	}
	return im, nil
}

func (s *Source) check() error {
	switch {
	case s.Path == "":
		return s.errorf("no file: Source.Path names it, and tells C from C++")
	case !riscv.IsSource(s.Path) || filepath.Ext(s.Path) == ".S":
		return s.errorf("neither C nor C++ by its name: want .c, .cpp, .cc or .cxx")
	case !s.Arch.Valid():
		return s.errorf("%w: %v", ErrMachine, s.Arch)
	}
	if s.Text != "" {
		return nil
	}
	f, err := os.Open(s.Path) // the compiler would say it in words of its own
	if err != nil {
		return s.errorf("%w", err)
	}
	return f.Close()
}

func (s *Source) errorf(format string, args ...any) error {
	return fmt.Errorf("kernels: compile %s for %v: %w", s.Path, s.Arch, fmt.Errorf(format, args...))
}

type build struct {
	Source
	compiler *riscv.Compiler
	work     string // directory with a copy of sources, and for intermediate files

	first         string // header that is included before the source, or empty
	start, memory string // objects of library
}

func (b *build) library(ctx context.Context) (err error) {
	lib := filepath.Join(b.work, "lib")
	start := riscv.Unit{Source: filepath.Join(lib, "start.c")}
	if b.Watch {
		start.Defines = []string{"REPRISE_WATCH"}
	}
	if b.start, err = b.compile(ctx, "0", start); err != nil {
		return err
	}
	b.memory, err = b.compile(ctx, "2", riscv.Unit{Source: filepath.Join(lib, "memory.c")})
	return err
}

// link compiles the source with more macros. name is that of intermediate files.
func (b *build) link(ctx context.Context, name string, defines []string) ([]byte, error) {
	kernel := riscv.Unit{
		Source: b.Path, Defines: slices.Concat(b.Defines, defines), Include: b.Include,
		TrimPaths: append([]string{filepath.Dir(b.Path)}, b.Include...),
	}
	if b.Debug || b.Watch {
		kernel.Flags = append(kernel.Flags, "-g")
	}
	if b.first != "" {
		kernel.Flags = append(kernel.Flags, "-include", b.first)
	}
	if b.Zones {
		kernel.Defines = append([]string{"REPRISE_ZONES"}, kernel.Defines...)
	}
	if b.Prints {
		kernel.Defines = append([]string{"REPRISE_PRINTS"}, kernel.Defines...)
	}
	if b.Watch {
		// Calls of the same check from several lines stay apart.
		kernel.Flags = append(kernel.Flags, "-fno-crossjumping", "-fno-tree-tail-merge", "-fno-code-hoisting")
		kernel.Defines = append([]string{"REPRISE_WATCH"}, kernel.Defines...)
	}
	if len(b.CompileArgs) > 0 {
		var args []string
		for _, a := range b.CompileArgs {
			args = append(args, strconv.FormatUint(uint64(a), 10)+"u")
		}
		kernel.Defines = append([]string{"KERNEL_COMPILE_TIME_ARGS=" + strings.Join(args, ",")}, kernel.Defines...)
	}
	if b.Text != "" {
		kernel.Source = filepath.Join(b.work, filepath.Base(b.Path))
		if err := os.WriteFile(kernel.Source, []byte(b.Text), 0o600); err != nil {
			return nil, b.errorf("write the source: %w", err)
		}
	}
	if name := plainName(filepath.Base(kernel.Source)); name != filepath.Base(kernel.Source) {
		kernel.FileNames = append(kernel.FileNames, kernel.Source+"=./"+name)
	}
	object, err := b.compile(ctx, name, kernel)
	if err != nil {
		return nil, err
	}
	linked := filepath.Join(b.work, name+".elf")
	script := filepath.Join(b.work, "lib", "kernel.ld")
	if text, err := b.compiler.Link(ctx, script, linked, []string{b.start, object, b.memory}, "-Wl,--emit-relocs"); err != nil {
		return nil, b.failed(ctx, text, err)
	}
	file, err := os.ReadFile(linked)
	if err != nil {
		return nil, b.errorf("%w", err)
	}
	return file, nil
}

// plainName has no characters with a meaning in assembler text, where reprise_print and assertions
// put __FILE__.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`%"\{|}`, r) {
			return '_'
		}
		return r
	}, name)
}

func (b *build) compile(ctx context.Context, name string, u riscv.Unit) (object string, err error) {
	u.Object = filepath.Join(b.work, name+".o")
	u.Arch = b.Arch
	u.Include = append(u.Include[:len(u.Include):len(u.Include)], filepath.Join(b.work, "include"))
	u.TrimPaths = append(u.TrimPaths, b.work)
	if dir, err := os.Getwd(); err == nil && (b.Debug || b.Watch) {
		u.TrimPaths = append(u.TrimPaths, dir) // debug information names it
	}
	text, err := b.compiler.Compile(ctx, u)
	if err != nil {
		return "", b.failed(ctx, text, err)
	}
	if b.Warnings != nil && text != "" {
		if _, err := io.WriteString(b.Warnings, b.readable(text)); err != nil {
			return "", b.errorf("tell the compiler's warnings: %w", err)
		}
	}
	return u.Object, nil
}

func (b *build) failed(ctx context.Context, text string, err error) error {
	if ctx.Err() != nil || text == "" {
		return b.errorf("%w", err)
	}
	return &CompileError{Path: b.Path, Arch: b.Arch, Output: b.readable(text), Err: err}
}

// readable replaces names below the work directory in messages by Path and the names in [Sources].
func (b *build) readable(text string) string {
	work := b.work + string(filepath.Separator)
	return strings.NewReplacer(work+filepath.Base(b.Path), b.Path, work, "").Replace(text)
}

// Every error of [Load], [LoadMetal] and [LoadMetalBase] wraps exactly one of these; ErrNotFound is
// [Prebuilt]'s.
var (
	ErrNotELF = errors.New("not a well-formed ELF file")
	// ErrMachine: the file must be a linked executable, ELF32, little-endian, RISC-V.
	ErrMachine = errors.New("not a linked executable for 32-bit little-endian RISC-V")
	// ErrFlags: the code uses compressed instructions, floating-point arguments, or the reduced
	// register set. Compile with -march=rv32im -mabi=ilp32.
	ErrFlags = errors.New("compiled for another kind of RISC-V core")
	// ErrEntry: link lib/start.c first, by lib/kernel.ld.
	ErrEntry = errors.New("entry point is not the first byte")
	// ErrAddress: text is in Wormhole's NCRISC instruction RAM, data outside local RAM, or they
	// overlap. Link by lib/kernel.ld.
	ErrAddress = errors.New("linked at an address where a kernel can't be")
	// ErrNoRelocations: nothing proves that the text may run anywhere. Link with -Wl,--emit-relocs.
	ErrNoRelocations = errors.New("no relocations")
	// ErrRelocation: text or data hold an address that depends on the kernel's place. A
	// [*RelocationError] says where.
	ErrRelocation = errors.New("depends on where its text is placed")
	// ErrConstructor: nothing calls static constructors or destructors. Initialize data with
	// constants (constexpr), or in kernel_main.
	ErrConstructor = errors.New("has static constructors or destructors, which nothing calls")
	ErrTooLarge    = errors.New("larger than the kernel configuration area")
	ErrLocalRAM    = errors.New("data larger than local RAM")
	// ErrNotMetal: base firmware, a kernel of [Load], or a file without symbols.
	ErrNotMetal = errors.New("not a kernel that tt-metal linked for a worker")
	// ErrNotBase is returned by [LoadMetalBase] only.
	ErrNotBase  = errors.New("not base firmware that tt-metal linked for a worker")
	ErrNotFound = errors.New("no such kernel")
)

// A RelocationError names a word with an invalid address. It matches [ErrRelocation].
type RelocationError struct {
	Offset uint32 // address of the place as linked
	Type   uint32 // R_RISCV_ number
	Symbol string // may be empty
	Why    string
}

func (e *RelocationError) Error() string {
	return fmt.Sprintf("kernels: load: relocation of type %d at %#x against %q: %s", e.Type, e.Offset, e.Symbol, e.Why)
}

// Is reports whether target is [ErrRelocation].
func (e *RelocationError) Is(target error) bool { return target == ErrRelocation }

// ErrNoCompiler is [Compile]'s without a cross compiler. The wrapping error says which names were
// tried and which package to install.
var ErrNoCompiler = riscv.ErrNotFound

// ErrNoArithmetic is [Compile]'s for a kernel with floating-point numbers or 64-bit division and a
// compiler without libgcc for the cores. The wrapping error says what the kernel calls.
var ErrNoArithmetic = riscv.ErrNoArithmetic

// A CompileError is [Compile]'s for a source that the compiler or the linker refuses.
type CompileError struct {
	Path   string
	Arch   chip.Arch
	Output string // all of the compiler's output, warnings too; lines end in a newline
	Err    error  // how its process ended
}

// Error returns the first error, and how many more there are in Output.
func (e *CompileError) Error() string {
	var first string
	more := -1
	for line := range strings.Lines(e.Output) {
		if isError(line) {
			if more++; more == 0 {
				first = strings.TrimSpace(line)
			}
		}
	}
	s := fmt.Sprintf("kernels: compile %s for %v: %s", e.Path, e.Arch, cmp.Or(first, strings.TrimSpace(e.Output)))
	if more > 0 {
		s += fmt.Sprintf(" (and %d more)", more)
	}
	return s
}

// isError knows the linker's errors too, which have no mark.
func isError(line string) bool {
	return strings.Contains(line, "error: ") && !strings.HasPrefix(line, "collect2: ") ||
		strings.Contains(line, ": undefined reference to ") || strings.Contains(line, ": multiple definition of ")
}

func (e *CompileError) Unwrap() error { return e.Err }

func refuse(err error, format string, args ...any) error {
	return fmt.Errorf("kernels: load: %w: %s", err, fmt.Sprintf(format, args...))
}
