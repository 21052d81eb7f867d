package kernels

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

var prebuilt = images.New(archives, "images")

//go:embed include lib
var sources embed.FS

// Kernels for [Prebuilt], with their unique runtime arguments in order. Addresses of buffers are
// the same in every bank; L1 addresses are of the kernel's core; x and y are virtual coordinates.
// Kernels run on BRISC or NCRISC unless they say "any processor".
const (
	// Blank does nothing. Any processor. No arguments.
	Blank = "blank"
	// Store stores words to L1. Any processor. Arguments: L1 address, number of words, the words.
	// Common arguments: a number added to each.
	Store = "store"
	// Spin waits until a word of L1 has a value. Any processor. Arguments: L1 address, value.
	Spin = "spin"
	// Copy copies pages of one interleaved DRAM buffer to another. Arguments: source, destination,
	// first page, number of pages, page size, L1 address of room for a page, aligned as DRAM is.
	Copy = "copy"
	// Move copies pages of one interleaved buffer to another, each in DRAM or in L1. Arguments:
	// source, destination, first page, number of pages, page size, circular buffer of at least one
	// page, and what lies in L1: 1 the source, 2 the destination, 3 both.
	Move = "move"
	// CopyReader reads pages of an interleaved DRAM buffer into a circular buffer. Arguments:
	// address, first page, number of pages, page size, circular buffer.
	CopyReader = "copy_reader"
	// CopyWriter is the reverse of [CopyReader], with its arguments.
	CopyWriter = "copy_writer"
	// Add passes pages from one circular buffer to another and adds a number to each of their
	// 32-bit words. Any processor. Arguments: input circular buffer, output circular buffer, number
	// of pages, number to add.
	Add = "add"
	// PingPong is one of two cores that take turns raising each other's semaphore. Arguments: the
	// other core's x and y, semaphore, number of turns, 1 if this core begins, L1 address where the
	// number of turns taken is left.
	PingPong = "ping_pong"
	// MulticastSend sends a piece of this core's L1 to all cores of a rectangle that this core is
	// in, then sets their semaphore to 1. Arguments: x and y of the upper left core, x and y of the
	// lower right core, number of cores, L1 address, bytes, semaphore.
	MulticastSend = "multicast_send"
	// MulticastWait waits for [MulticastSend] and adds up what arrived. Arguments: L1 address,
	// bytes, semaphore, L1 address for the sum of the 32-bit words.
	MulticastWait = "multicast_wait"
	// Exchange moves and combines pages over Ethernet links for package mesh. Arguments: see
	// kernels/src/exchange.cpp.
	Exchange = "exchange"
	// StreamEcho hands messages of one stream (package stream) on to another until the host closes
	// the first one, and closes the second in the same way. Arguments: the five of each stream, L1
	// address of room for a message, aligned as host memory is, its size.
	StreamEcho = "stream_echo"
	// StreamSource writes messages to a stream; the first word of each is its number, the others
	// are what is in L1. Arguments: the five of the stream, L1 address of a message, bytes of each,
	// number of messages, number of the first one, 1 to close the stream afterwards.
	StreamSource = "stream_source"
	// StreamSink reads messages of a stream. Arguments: the five of the stream, L1 address of room
	// for a message, aligned as host memory is, its size, L1 address of the result, how many
	// messages to read or 0 for all up to the end. The result: how the last read ended (enum
	// stream_result), its code, the number of messages, the sum of their first words.
	StreamSink = "stream_sink"
)

// Kernels for [PrebuiltCompute].
const (
	// SumBF16 adds tiles of BF16 from circular buffers 1 and 2 and leaves the sums, rounded once,
	// in 0. Argument: number of tiles.
	SumBF16 = "sum_bf16"
	// SumFP32 adds tiles of FP32 as [SumBF16] does, by the vector unit, which takes subnormal
	// numbers for zero.
	SumFP32 = "sum_fp32"
)

// Prebuilt's error wraps [ErrNotFound].
func Prebuilt(arch chip.Arch, name string) (*Image, error) {
	file, err := prebuilt.ELF(arch, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("kernels: %q for %v: %w", name, arch, err)
	}
	return load(file) // the file is part of the program
}

// PrebuiltCompute's error wraps [ErrNotFound].
func PrebuiltCompute(arch chip.Arch, name string) (*Compute, error) {
	var images [3]*Image
	for i, thread := range [3]string{"unpack", "math", "pack"} {
		var err error
		if images[i], err = Prebuilt(arch, name+"."+thread); err != nil {
			return nil, err
		}
	}
	return &Compute{Unpack: images[0], Math: images[1], Pack: images[2]}, nil
}

// Sources are the headers (include) and start-up code and linker script (lib) of kernels, for
// builds without [Compile]. Kernels that include compute_kernel_api/NAME.h, the old name of
// api/compute/NAME.h, need a symbolic link.
func Sources() fs.FS { return sources }

// PrebuiltFiles returns the ELF files of the kernels that come with Reprise, by name. Callers don't
// change them.
func PrebuiltFiles(arch chip.Arch) map[string][]byte {
	all := map[string][]byte{}
	files, _ := prebuilt.Files(arch) // none for an unknown chip
	for name, file := range files {
		all[strings.TrimSuffix(name, ".elf")] = file
	}
	return all
}
