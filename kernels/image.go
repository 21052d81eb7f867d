package kernels

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

// A kernel's data: local RAM after the block shared with the firmware (struct rp_local in
// include/reprise/abi.h), up to the end of the largest local RAM.
const (
	localRAM    = 0xFFB00000
	localData   = localRAM + 0x480
	localRAMEnd = localRAM + 0x2000
)

// MinStack is the bytes that [Image.Fits] leaves for the stacks of firmware and kernel in local
// RAM. A kernel may need more.
const MinStack = 256

// An Image is a kernel ready to be written to L1.
type Image struct {
	// Text goes to L1, at any multiple of 16, which its length is too: text, then initial data that
	// start-up code copies to local RAM. The first byte is the entry point.
	Text []byte
	// Arch is what lib/start.c was compiled for, 0 for a kernel linked without it.
	Arch chip.Arch
	// DataSize and BSSSize are the bytes of local RAM initialized from Text and cleared.
	DataSize, BSSSize uint32
	// Formats are those of the kernel's prints, for package kernels/print; nil if it doesn't print.
	Formats []byte
	// File is Text's ELF file, for call stacks; nil if Text moves code of the file.
	File []byte
	// Metal describes a kernel that tt-metal built; nil for kernels of [Load].
	Metal *MetalKernel
}

// Fits returns an error unless the kernel was compiled for the architecture and its data leaves
// [MinStack] bytes of a processor's local RAM, or as much as tt-metal's linker script says for
// kernels of [LoadMetal]. The error wraps [ErrMachine] or [ErrLocalRAM].
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

type machineError string

func misfit(format string, a ...any) error {
	return machineError("kernels: " + fmt.Sprintf(format, a...))
}

func (e machineError) Error() string { return string(e) }

func (machineError) Unwrap() error { return ErrMachine }
