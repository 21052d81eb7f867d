package transformer

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/images"
	"github.com/reprise-tt/reprise/kernels"
)

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild words

//go:embed kernels/prebuilt
var archives embed.FS

var prebuilt = images.New(archives, "kernels/prebuilt")

var ErrNoKernels = errors.New("no kernels for this architecture")

// listPage is kListBytes in kernels/layout.h.
const listPage = 1024

// kernelRoom is the most L1 that the kernels use.
const kernelRoom = 1024

// kernelProgram returns a program of one of this package's kernels, on one core, with the addresses
// of buffers and more as arguments.
func kernelProgram(a chip.Arch, name string, buffers []*reprise.Buffer, others []uint32) (*reprise.Program, error) {
	file, err := prebuilt.ELF(a, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoKernels
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %s for %v: %w", name, a, err)
	}
	image, err := kernels.Load(file)
	if err != nil {
		return nil, err
	}
	on := []chip.Range{chip.Single(0, 0)}
	p := &reprise.Program{
		Name:            name,
		Kernels:         []reprise.Kernel{{Name: name, Image: image, Processor: chip.BRISC, Cores: on}},
		CircularBuffers: []reprise.CircularBuffer{{Cores: on, PageSize: kernelRoom, Pages: 1}},
		Buffers:         buffers,
	}
	for _, b := range buffers {
		p.Kernels[0].Common = append(p.Kernels[0].Common, b.Addr())
	}
	p.Kernels[0].Common = append(p.Kernels[0].Common, others...)
	return p, nil
}
