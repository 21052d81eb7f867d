package mesh_test

import (
	"context"
	"log"
	"os"

	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

// A trace takes memory until it is released.
func ExampleMesh_MemoryStage() {
	ctx := context.Background()
	machine := sim.P300()
	defer machine.Close()
	m, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), mesh.Shape{1, 2})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close(ctx)
	in, err := page(m, "in")
	if err != nil {
		log.Fatal(err)
	}
	x, err := m.Load(ctx, "layer", add(in, in, func(*mesh.Chip) uint32 { return 1 }))
	if err != nil {
		log.Fatal(err)
	}
	opened := m.MemoryStage("loaded", nil)
	trace, err := m.Queue(0).Capture(ctx, "layer", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	if err != nil {
		log.Fatal(err)
	}
	captured := m.MemoryStage("captured", opened)
	if err := trace.Release(ctx); err != nil {
		log.Fatal(err)
	}
	for _, s := range []*mesh.MemoryStage{captured, m.MemoryStage("released", captured)} {
		if err := s.Print(os.Stdout); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// captured
	//   chip (0,0)  DRAM     17 KiB (+0 B) in 8 banks, 2 allocated (+0)
	//   chip (0,0)  L1       28 KiB (+0 B) in 110 banks, 1 allocated (+0)
	//   chip (0,0)  TRACE    8.0 KiB (+8.0 KiB) in 8 banks, 1 allocated (+1)
	//   chip (0,1)  DRAM     17 KiB (+0 B) in 8 banks, 2 allocated (+0)
	//   chip (0,1)  L1       28 KiB (+0 B) in 110 banks, 1 allocated (+0)
	//   chip (0,1)  TRACE    8.0 KiB (+8.0 KiB) in 8 banks, 1 allocated (+1)
	// released
	//   chip (0,0)  DRAM     17 KiB (+0 B) in 8 banks, 2 allocated (+0)
	//   chip (0,0)  L1       28 KiB (+0 B) in 110 banks, 1 allocated (+0)
	//   chip (0,0)  TRACE    0 B (-8.0 KiB) in 8 banks, 0 allocated (-1)
	//   chip (0,1)  DRAM     17 KiB (+0 B) in 8 banks, 2 allocated (+0)
	//   chip (0,1)  L1       28 KiB (+0 B) in 110 banks, 1 allocated (+0)
	//   chip (0,1)  TRACE    0 B (-8.0 KiB) in 8 banks, 0 allocated (-1)
}
