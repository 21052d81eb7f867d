package devtest

import (
	"context"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

// Adder adds a number to every word of a buffer of pages of 64 B, by three kernels on one core.
func Adder(dev *reprise.Device, name string, at chip.Core, in, out *reprise.Buffer, addend uint32) (*reprise.Program, error) {
	const from, to = 0, 16
	cores := []chip.Range{chip.Single(at.X, at.Y)}
	n := uint32(in.Pages())
	p := &reprise.Program{
		Name: name,
		CircularBuffers: []reprise.CircularBuffer{{Index: from, Cores: cores, PageSize: 64, Pages: 2},
			{Index: to, Cores: cores, PageSize: 64, Pages: 2}},
		Buffers: []*reprise.Buffer{in, out},
	}
	for _, k := range []struct {
		name, image string
		processor   chip.Processor
		args        []uint32
	}{
		{"reader", kernels.CopyReader, chip.BRISC, []uint32{in.Addr(), 0, n, 64, from}},
		{"add", kernels.Add, chip.TRISC0, []uint32{from, to, n, addend}},
		{"writer", kernels.CopyWriter, chip.NCRISC, []uint32{out.Addr(), 0, n, 64, to}},
	} {
		image, err := kernels.Prebuilt(dev.Arch(), k.image)
		if err != nil {
			return nil, err
		}
		p.Kernels = append(p.Kernels, reprise.Kernel{
			Name: k.name, Image: image, Processor: k.processor, Cores: cores, Args: func(chip.Core) []uint32 { return k.args },
		})
	}
	return p, nil
}

// Mover copies all pages of a buffer to another, each in DRAM or L1.
func Mover(dev *reprise.Device, name string, at chip.Core, from, to *reprise.Buffer) (*reprise.Program, error) {
	const cb = 2
	image, err := kernels.Prebuilt(dev.Arch(), kernels.Move)
	if err != nil {
		return nil, err
	}
	cores := []chip.Range{chip.Single(at.X, at.Y)}
	inL1 := uint32(0)
	for i, buf := range []*reprise.Buffer{from, to} {
		if buf.Kind() == allocator.L1 {
			inL1 |= 1 << i
		}
	}
	return &reprise.Program{
		Name: name,
		Kernels: []reprise.Kernel{{
			Name: "move", Image: image, Processor: chip.BRISC, Cores: cores,
			Args: func(chip.Core) []uint32 {
				return []uint32{from.Addr(), to.Addr(), 0, uint32(from.Pages()), uint32(from.PageSize()), cb, inL1}
			},
		}},
		CircularBuffers: []reprise.CircularBuffer{{Index: cb, Cores: cores, PageSize: from.PageSize(), Pages: 1}},
		Buffers:         []*reprise.Buffer{from, to},
	}, nil
}

// SemaphoreWait makes a core's engines wait for a semaphore, forever (0) or until the core has
// counted. The error is [kernels.ErrNoCompiler] without a compiler.
func SemaphoreWait(ctx context.Context, dev *reprise.Device, at chip.Core, count uint32) (*reprise.Program, error) {
	const source = `
#include "reprise/kernel.h"
#include "reprise/tensix.h"

void kernel_main(void) {
    RP_SEM_INIT(0, 0, 1);
    RP_SEM_WAIT(0, RP_SEM_WHILE_ZERO, 0x1FF);
    const uint32_t count = rp_arg(0);
    for (volatile uint32_t i = 0; i < count; ++i) {
    }
    if (count != 0) {
        rp_sem_post(0);
    }
    rp_tensix_sync();
}
`
	image, err := kernels.Compile(ctx, kernels.Source{Path: "wait.c", Text: source, Arch: dev.Arch(),
		Processors: []chip.Processor{chip.TRISC1}})
	if err != nil {
		return nil, err
	}
	return &reprise.Program{Name: "engines", Kernels: []reprise.Kernel{{
		Name: "wait", Image: image, Processor: chip.TRISC1, Cores: []chip.Range{chip.Single(at.X, at.Y)},
		Args: func(chip.Core) []uint32 { return []uint32{count} },
	}}}, nil
}
