package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/riscv"
)

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

// Error implements error.
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

// Unwrap returns Err.
func (e *CompileError) Unwrap() error { return e.Err }

func refuse(err error, format string, args ...any) error {
	return fmt.Errorf("kernels: load: %w: %s", err, fmt.Sprintf(format, args...))
}
