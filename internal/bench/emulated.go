package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

type emulated struct {
	Emulated
	*reprise.Device
}

func (s *session) emulate(ctx context.Context, n int, do func([]emulated) error) error {
	return s.emulateOn(ctx, s.config.Emulated, n, do)
}

// emulateOn calls do with n open devices made by open.
func (s *session) emulateOn(ctx context.Context, open func() Emulated, n int, do func([]emulated) error) (err error) {
	var chips []emulated
	defer func() {
		for _, c := range chips {
			err = errors.Join(err, c.Close(ctx))
		}
	}()
	for range n {
		c := emulated{Emulated: open()}
		if c.Device, err = reprise.Open(ctx, c.Target, s.config.Options...); err != nil {
			return err
		}
		chips = append(chips, c)
	}
	runtime.GC()
	return do(chips)
}

// workload keeps workers busy: each copies pages in DRAM, and with add a third processor adds a
// number to each word in between.
type workload struct {
	workers, pages, page int // pages of each worker, and bytes of a page
	add                  bool
}

func (w workload) load(ctx context.Context, d *reprise.Device) (*reprise.Executable, error) {
	grid := d.Queue(0).Workers()
	columns := grid.End.X - grid.Start.X + 1
	cores := []chip.Range{grid}
	if w.workers < grid.Size() {
		if w.workers > columns {
			return nil, fmt.Errorf("%d workers of a grid of %v", w.workers, grid)
		}
		cores = []chip.Range{{Start: grid.Start, End: chip.Core{X: grid.Start.X + w.workers - 1, Y: grid.Start.Y}}}
	}
	var addresses [2]uint32
	for i := range addresses {
		b, err := d.NewBuffer(reprise.BufferConfig{Size: w.workers * w.pages * w.page, PageSize: w.page, Name: "emulator"})
		if err != nil {
			return nil, err
		}
		addresses[i] = b.Addr()
	}
	first := func(c chip.Core) uint32 {
		return uint32(((c.Y-grid.Start.Y)*columns + c.X - grid.Start.X) * w.pages)
	}
	args := func(list func(first, pages, page uint32) []uint32) func(chip.Core) []uint32 {
		return func(c chip.Core) []uint32 { return list(first(c), uint32(w.pages), uint32(w.page)) }
	}
	const in, out = 0, 1
	p := &reprise.Program{Name: "emulator"}
	var err error
	kernel := func(name string, on chip.Processor, list func(first, pages, page uint32) []uint32) {
		im, e := kernels.Prebuilt(d.Arch(), name)
		err = errors.Join(err, e)
		p.Kernels = append(p.Kernels, reprise.Kernel{Name: name, Image: im, Processor: on, Cores: cores, Args: args(list)})
	}
	buffer := func(index, pages int) {
		p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: index, Cores: cores, PageSize: w.page, Pages: pages})
	}
	if w.add {
		buffer(in, 2)
		buffer(out, 2)
		kernel(kernels.CopyReader, chip.BRISC,
			func(first, pages, page uint32) []uint32 { return []uint32{addresses[0], first, pages, page, in} })
		kernel(kernels.Add, chip.TRISC1, func(_, pages, _ uint32) []uint32 { return []uint32{in, out, pages, 1} })
		kernel(kernels.CopyWriter, chip.NCRISC, func(first, pages, page uint32) []uint32 {
			return []uint32{addresses[1], first, pages,
				page, out}
		})
	} else {
		buffer(in, 1)
		kernel(kernels.Move, chip.BRISC, func(first, pages, page uint32) []uint32 {
			return []uint32{addresses[0], addresses[1], first, pages, page, in, 0}
		})
	}
	if err != nil {
		return nil, err
	}
	return d.Load(ctx, p)
}
