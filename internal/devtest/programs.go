package devtest

import (
	"context"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kernels"
)

// Adder adds a number to every word of a buffer, by three kernels on one core.
func Adder(dev *reprise.Device, name string, at chip.Core, in, out *reprise.Buffer, addend uint32) (*reprise.Program, error) {
	return rig.Adding(dev.Arch(), name, at, in, out, addend)
}

// Mover copies all pages of a buffer to another, each in DRAM or L1.
func Mover(dev *reprise.Device, name string, at chip.Core, from, to *reprise.Buffer) (*reprise.Program, error) {
	return rig.Moving(dev.Arch(), name, at, from, to)
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
