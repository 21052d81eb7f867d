package transformer

import (
	"embed"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/images"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/stream"
)

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild words

//go:embed kernels/prebuilt
var archives embed.FS

var prebuilt = images.New(archives, "kernels/prebuilt")

const (
	listPage   = 1024 // kListBytes in kernels/layout.h
	kernelRoom = 1024 // the most L1 that the kernels use
)

// program loads a program of one of this package's kernels, on one core, for buffers, and for a
// stream unless it is nil.
func (l *loader) program(name string, to *stream.Stream, buffers ...*reprise.Buffer) *reprise.Executable {
	x, err := l.load(name, to, buffers)
	if err != nil {
		l.err = fmt.Errorf("kernel %s: %w", name, err)
		return nil
	}
	return x
}

func (l *loader) load(name string, to *stream.Stream, buffers []*reprise.Buffer) (*reprise.Executable, error) {
	dev := l.m.dev.Device()
	file, err := prebuilt.ELF(dev.Arch(), name)
	if err != nil {
		return nil, err
	}
	image, err := kernels.Load(file)
	if err != nil {
		return nil, err
	}
	var args []uint32
	for _, b := range buffers {
		args = append(args, b.Addr())
	}
	on := []chip.Range{chip.Single(0, 0)}
	p := &reprise.Program{
		Name: name, CircularBuffers: []reprise.CircularBuffer{{Cores: on, PageSize: kernelRoom, Pages: 1}}, Buffers: buffers,
	}
	if args = append(args, 0); to != nil {
		args[len(args)-1] = 1
		args = append(args, to.Args()...)
		to.AddTo(p)
	}
	p.Kernels = []reprise.Kernel{{Name: name, Image: image, Processor: chip.BRISC, Cores: on, Common: args}}
	return dev.Load(l.ctx, p)
}
