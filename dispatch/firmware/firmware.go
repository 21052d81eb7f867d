// Package firmware holds what runs on a chip's RISC-V cores before any user's kernel: the base
// firmware of each Tensix processor, and the command-queue kernels (prefetcher, dispatcher,
// subordinate dispatcher).
//
// The sources are C, in src; the images are committed and embedded. go generate rebuilds them, and
// its -check mode proves that they match the sources. The interface between host, firmware and
// kernels is kernels/include/reprise/abi.h, and abi.L1Map on the host's side.
package firmware

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild firmware

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/images"
)

//go:embed images
var archives embed.FS

var committed = images.New(archives, "images")

// ErrNotFound: there is no firmware for the architecture, or no command-queue kernel of the name.
var ErrNotFound = errors.New("no such firmware image")

// The command-queue kernels.
const (
	Prefetch  = "prefetch"   // BRISC, NoC 0
	Dispatch  = "dispatch"   // BRISC, NoC 0
	DispatchS = "dispatch_s" // NCRISC of the same core, NoC 1
)

// Images are the base firmware of an architecture, by processor: bytes for abi.L1Map.Firmware,
// where execution starts, in multiples of 16.
type Images [chip.NumProcessors][]byte

// Base returns a copy of the base firmware of an architecture.
func Base(arch chip.Arch) (Images, error) {
	var all Images
	for p := range all {
		name := strings.ToLower(chip.Processor(p).String())
		image, err := read(arch, name+".bin")
		if err != nil {
			return Images{}, err
		}
		all[p] = image
	}
	return all, nil
}

// Lines returns the table of functions, files and lines of an image of Base, for
// internal/debug/stack.LoadTable.
func Lines(arch chip.Arch, p chip.Processor) ([]byte, error) {
	return read(arch, strings.ToLower(p.String())+".lines")
}

// CQLines is Lines for a command-queue kernel.
func CQLines(arch chip.Arch, name string) ([]byte, error) {
	return cqFile(arch, name, ".lines")
}

// CQ returns a copy of a command-queue kernel for any multiple of 16 in L1: text, then the initial
// data that its start-up code copies to local RAM; the first byte is the entry point.
func CQ(arch chip.Arch, name string) ([]byte, error) {
	return cqFile(arch, name, ".bin")
}

func cqFile(arch chip.Arch, name, suffix string) ([]byte, error) {
	switch name {
	case Prefetch, Dispatch, DispatchS:
		return read(arch, "cq/"+name+suffix)
	}
	return nil, fmt.Errorf("firmware: command-queue kernel %q for %v: %w: want %s, %s or %s", name, arch, ErrNotFound, Prefetch,
		Dispatch, DispatchS)
}

func read(arch chip.Arch, name string) ([]byte, error) {
	image, err := committed.File(arch, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("firmware: %s for %v: %w", name, arch, ErrNotFound)
	}
	return image, err
}
