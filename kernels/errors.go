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
// that of [Prebuilt].
var (
	// ErrNotELF means that the bytes are not a well-formed ELF file.
	ErrNotELF = errors.New("not a well-formed ELF file")
	// ErrMachine means that the file is for another machine: it must be a linked executable, ELF32,
	// little-endian, RISC-V.
	ErrMachine = errors.New("not a linked executable for 32-bit little-endian RISC-V")
	// ErrFlags means that the code uses instructions or registers that the cores don't have:
	// compressed instructions, floating-point arguments, or the reduced register set. Compile with
	// -march=rv32im -mabi=ilp32.
	ErrFlags = errors.New("compiled for another kind of RISC-V core")
	// ErrEntry means that the entry point is not the first byte of the text. Link lib/start.c
	// first, by lib/kernel.ld.
	ErrEntry = errors.New("entry point is not the first byte")
	// ErrAddress means that a segment is linked at a wrong place: text in Wormhole's NCRISC
	// instruction RAM, data outside local RAM, overlaps. Link by lib/kernel.ld.
	ErrAddress = errors.New("linked at an address where a kernel can't be")
	// ErrNoRelocations means that the file doesn't mark addresses, so that nothing proves that its
	// text may run anywhere. Link with -Wl,--emit-relocs.
	ErrNoRelocations = errors.New("no relocations")
	// ErrRelocation means that text or data hold an address that depends on the kernel's place. A
	// [*RelocationError] says where.
	ErrRelocation = errors.New("depends on where its text is placed")
	// ErrTooLarge means that text and initial data are larger than the kernel configuration area of
	// L1.
	ErrTooLarge = errors.New("larger than the kernel configuration area")
	// ErrLocalRAM means that data and zeroed data don't fit a processor's local RAM.
	ErrLocalRAM = errors.New("data larger than local RAM")
	// ErrNotMetal means that the file is no kernel of tt-metal for a worker: base firmware, a
	// kernel of [Load], or a file without symbols.
	ErrNotMetal = errors.New("not a kernel that tt-metal linked for a worker")
	// ErrNotBase means that the file is no base firmware of tt-metal for a worker. Only
	// [LoadMetalBase] returns it.
	ErrNotBase = errors.New("not base firmware that tt-metal linked for a worker")
	// ErrNotFound means that no kernel of that name comes with Reprise for that architecture.
	ErrNotFound = errors.New("no such kernel")
)

// A RelocationError names a word with an invalid address in a kernel. It matches [ErrRelocation].
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

// ErrNoCompiler is the error of [Compile] without a cross compiler. The wrapping error says which
// names were tried and which package to install.
var ErrNoCompiler = riscv.ErrNotFound

// A CompileError is the error of [Compile] for a source that the compiler or the linker refuses.
type CompileError struct {
	Path   string
	Arch   chip.Arch
	Output string // all of the compiler's output, warnings too; lines end in a newline
	Err    error  // how its process ended
}

// Error returns the first of the compiler's errors, and how many more there are in Output.
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

// isError reports whether a line of the compiler or the linker is an error; the linker's have no
// mark.
func isError(line string) bool {
	return strings.Contains(line, "error: ") && !strings.HasPrefix(line, "collect2: ") ||
		strings.Contains(line, ": undefined reference to ") || strings.Contains(line, ": multiple definition of ")
}

// Unwrap returns Err.
func (e *CompileError) Unwrap() error { return e.Err }

func refuse(err error, format string, args ...any) error {
	return fmt.Errorf("kernels: load: %w: %s", err, fmt.Sprintf(format, args...))
}
