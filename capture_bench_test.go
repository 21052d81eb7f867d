package reprise_test

import (
	"context"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

// BenchmarkRecord is the cost of recording one program on all workers, without the write to DRAM.
func BenchmarkRecord(b *testing.B) {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close(ctx)
	im, err := kernels.Prebuilt(dev.Arch(), kernels.Store)
	if err != nil {
		b.Fatal(err)
	}
	x, err := dev.Load(ctx, &reprise.Program{Name: "x", Kernels: []reprise.Kernel{{
		Name: "store", Image: im, Processor: chip.BRISC, Cores: []chip.Range{dev.Grid()}, Common: []uint32{0},
		Args: func(chip.Core) []uint32 { return []uint32{0x20000, 1, 7} },
	}}})
	if err != nil {
		b.Fatal(err)
	}
	queue := dev.Queue(0)
	b.ReportAllocs()
	for b.Loop() {
		r, err := queue.Begin("trace")
		if err != nil {
			b.Fatal(err)
		}
		if err := queue.Run(ctx, x); err != nil {
			b.Fatal(err)
		}
		if err := r.Discard(); err != nil {
			b.Fatal(err)
		}
	}
}
