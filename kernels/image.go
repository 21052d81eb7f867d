package kernels

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

// The addresses of a kernel's data: local RAM after the block shared with the firmware (struct
// rp_local in include/reprise/abi.h), up to the end of the largest local RAM.
const (
	localRAM    = 0xFFB00000
	localData   = localRAM + 0x480
	localRAMEnd = localRAM + 0x2000
)

// MinStack is the room, in bytes, that [Image.Fits] leaves for the stacks of firmware and kernel at
// the top of local RAM. A kernel may need more.
const MinStack = 256

// An Image is a kernel ready to be written to L1.
type Image struct {
	// Text goes to L1, at any multiple of 16: text, then initial data that the start-up code copies
	// to local RAM. The first byte is the entry point. The length is a multiple of 16.
	Text []byte
	// Arch is the architecture that lib/start.c was compiled for, 0 for a kernel linked without it.
	Arch chip.Arch
	// DataSize and BSSSize are the bytes of local RAM that the kernel initializes from Text and
	// clears.
	DataSize, BSSSize uint32
	// Formats are the formats of the kernel's prints, for package kernels/print: a section of the
	// file that isn't loaded. Nil if it doesn't print.
	Formats []byte
	// File is Text's ELF file, for call stacks. Nil if Text moves code of the file.
	File []byte
	// Metal describes a kernel that tt-metal built; nil for kernels of [Load].
	Metal *MetalKernel
}

// Fits reports whether a processor of an architecture can run the kernel: it was compiled for the
// architecture, and its data leaves [MinStack] bytes of local RAM, or as tt-metal's linker script
// says for kernels of [LoadMetal]. The error wraps [ErrMachine] or [ErrLocalRAM].
func (im *Image) Fits(arch chip.Arch, p chip.Processor) error {
	switch {
	case !arch.Valid():
		return misfit("%v doesn't exist", arch)
	case p >= chip.NumProcessors:
		return misfit("processor %d doesn't exist: use BRISC, NCRISC or TRISC0 to TRISC2", p)
	case im.Arch != 0 && im.Arch != arch:
		return misfit("compiled for %v, the device is a %v: load the image for that", im.Arch, arch)
	}
	if im.Metal != nil {
		return im.metalFits(arch, p)
	}
	room := arch.Params().LocalRAMSize[p] - (localData - localRAM) - MinStack
	if need := im.DataSize + im.BSSSize; need > room {
		return fmt.Errorf("kernels: %v of %v: %w: needs %d bytes, has %d beside %d for the stack", p, arch, ErrLocalRAM, need, room, MinStack)
	}
	return nil
}

// machineError is an [ErrMachine] with a text of its own.
type machineError string

func misfit(format string, a ...any) error {
	return machineError("kernels: " + fmt.Sprintf(format, a...))
}

func (e machineError) Error() string { return string(e) }

func (machineError) Unwrap() error { return ErrMachine }
