package digits

import (
	"embed"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/images"
)

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild digits

//go:embed kernels/prebuilt
var archives embed.FS

var prebuilt = images.New(archives, "kernels/prebuilt")

// Kernels are the ELF files of a program that runs one layer on any number of cores, from the
// directory kernels.
type Kernels struct {
	Reader []byte // BRISC: input pages and the packed layer from DRAM
	Dense  []byte // TRISC0, TRISC1 and TRISC2, the same file for each: the arithmetic
	Writer []byte // NCRISC: result pages to DRAM
}

// KernelsFor returns the kernels of an architecture.
func KernelsFor(a chip.Arch) (Kernels, error) {
	var k Kernels
	for _, f := range []struct {
		name string
		to   *[]byte
	}{{"reader", &k.Reader}, {"dense", &k.Dense}, {"writer", &k.Writer}} {
		b, err := prebuilt.ELF(a, f.name)
		if err != nil {
			return Kernels{}, fmt.Errorf("digits: kernel %s for %v: %w", f.name, a, err)
		}
		*f.to = b
	}
	return k, nil
}

// Circular buffers of the kernels (kernels/layout.h), by index.
const (
	lanes         = 3 // compute processors of a core, each with its own input and output buffer
	inputBuffer   = 0 // and the next two
	weightsBuffer = 3
	outputBuffer  = 16 // and the next two
	bufferPages   = 4  // one being processed, one ready, two in flight
)

// CircularBuffer is a circular buffer on every core of a layer, at a multiple of 64 in L1,
// Blackhole's alignment for transfers with DRAM.
type CircularBuffer struct{ Index, PageSize, Pages int }

// CircularBuffers returns the circular buffers of a program that runs the layer.
func (l *Layer) CircularBuffers() []CircularBuffer {
	var all []CircularBuffer
	for i := range lanes {
		all = append(all, CircularBuffer{inputBuffer + i, PageBytes, bufferPages})
	}
	all = append(all, CircularBuffer{weightsBuffer, len(l.packed), 1})
	for i := range lanes {
		all = append(all, CircularBuffer{outputBuffer + i, PageBytes, bufferPages})
	}
	return all
}

// Share is a core's part of the pages of a buffer.
type Share struct{ First, Pages uint32 }

// Shares divides pages among cores as evenly as possible, in order; some shares can be empty.
func Shares(pages, cores int) []Share {
	var all []Share
	first := 0
	for i := range cores {
		next := pages * (i + 1) / cores
		all = append(all, Share{First: uint32(first), Pages: uint32(next - first)})
		first = next
	}
	return all
}

// ReaderArgs returns the runtime arguments of the reader, with the addresses of the interleaved
// DRAM buffer of activation pages and the one-page DRAM buffer with the packed layer.
func (l *Layer) ReaderArgs(input, weights uint32, s Share) []uint32 {
	return []uint32{input, s.First, s.Pages, PageBytes, weights, uint32(len(l.packed))}
}

// WriterArgs returns the runtime arguments of the writer, with the address of the interleaved DRAM
// buffer of results.
func (l *Layer) WriterArgs(output uint32, s Share) []uint32 {
	return []uint32{output, s.First, s.Pages, PageBytes}
}
