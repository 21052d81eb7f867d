package mesh_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func page(m *mesh.Mesh, name string) *mesh.Buffer {
	b, err := m.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, PageSize: 64, Name: name}})
	check(err)
	return b
}

func add(in, out *mesh.Buffer, weight func(*mesh.Chip) uint32) mesh.Part {
	cores := []chip.Range{chip.Single(0, 0)}
	args := func(a ...uint32) func(chip.Core) []uint32 { return func(chip.Core) []uint32 { return a } }
	return mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
		p := &reprise.Program{
			Name: "layer",
			CircularBuffers: []reprise.CircularBuffer{{Index: 0, Cores: cores, PageSize: 64, Pages: 2},
				{Index: 16, Cores: cores, PageSize: 64, Pages: 2}},
			Buffers: []*reprise.Buffer{in.On(c), out.On(c)},
		}
		for _, k := range []reprise.Kernel{
			{Name: kernels.CopyReader, Processor: chip.BRISC, Args: args(in.Addr(), 0, 1, 64, 0)},
			{Name: kernels.Add, Processor: chip.TRISC0, Args: args(0, 16, 1, weight(c))},
			{Name: kernels.CopyWriter, Processor: chip.NCRISC, Args: args(out.Addr(), 0, 1, 64, 16)},
		} {
			var err error
			if k.Image, err = kernels.Prebuilt(c.Device.Arch(), k.Name); err != nil {
				return nil, err
			}
			k.Cores = cores
			p.Kernels = append(p.Kernels, k)
		}
		return p, nil
	}}
}

// Each of four chips computes a partial result, and a collective adds them up over the Ethernet
// links, in one trace.
func Example() {
	ctx := context.Background()
	machine := sim.QuietBox()
	defer machine.Close()
	m, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), mesh.Shape{2, 2}, mesh.WithDevice(reprise.WithTraceRegion(1<<20)))
	check(err)
	defer m.Close(ctx)
	links, err := m.NewLinks(ctx, chip.Core{X: 1, Y: 0})
	check(err)
	x, y := page(m, "x"), page(m, "y")
	layer, err1 := m.Load(ctx, "layer", add(x, y, func(c *mesh.Chip) uint32 { return uint32(100 * (1 + 2*c.Coord[0] + c.Coord[1])) }))
	sum, err2 := links.AllReduce(ctx, y, mesh.SumInt32)
	check(errors.Join(err1, err2))
	q := m.Queue(0)
	trace, err := q.Capture(ctx, "layer and sum", func(_ context.Context, r *mesh.Recorder) error {
		return errors.Join(r.Run(layer), r.Run(sum))
	})
	check(err)
	data := make([]byte, 64)
	for batch := range uint32(3) {
		binary.LittleEndian.PutUint32(data, batch)
		check(errors.Join(q.Write(ctx, x, data), trace.Replay(ctx), q.Read(ctx, y, data)))
		fmt.Println(batch, "->", binary.LittleEndian.Uint32(data))
		clear(data)
	}
	check(trace.Release(ctx))
	// Output:
	// 0 -> 1000
	// 1 -> 1004
	// 2 -> 1008
}

// Eight chips have the same trace at the same place, and the host keeps its commands once.
func ExampleTrace() {
	ctx := context.Background()
	machine := sim.GalaxyWormhole()
	defer machine.Close()
	m, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), mesh.Shape{2, 4})
	check(err)
	defer m.Close(ctx)
	x, y := page(m, "x"), page(m, "y")
	layer, err := m.Load(ctx, "layer", add(x, y, func(*mesh.Chip) uint32 { return 1 }))
	check(err)
	trace, err := m.Queue(0).Capture(ctx, "32 layers", func(_ context.Context, r *mesh.Recorder) error {
		for range 32 {
			if err := r.Run(layer); err != nil {
				return err
			}
		}
		return nil
	})
	check(err)
	parts := trace.Parts()
	for i, c := range m.Chips() {
		same := parts[i].Extents[0] == parts[0].Extents[0] && c.Device.Memory(allocator.Trace).Extents == 1
		fmt.Printf("%v: TRACE at the place of the first: %t\n", c.Coord, same)
	}
	streams, bytes := trace.Streams()
	fmt.Printf("%d chips, %d stream of commands on the host, as large as on each chip: %t\n", m.Size(), streams, bytes == parts[0].Size)
	check(errors.Join(trace.Replay(ctx), m.Queue(0).Wait(ctx), trace.Release(ctx)))
	// Output:
	// (0,0): TRACE at the place of the first: true
	// (0,1): TRACE at the place of the first: true
	// (0,2): TRACE at the place of the first: true
	// (0,3): TRACE at the place of the first: true
	// (1,0): TRACE at the place of the first: true
	// (1,1): TRACE at the place of the first: true
	// (1,2): TRACE at the place of the first: true
	// (1,3): TRACE at the place of the first: true
	// 8 chips, 1 stream of commands on the host, as large as on each chip: true
}

// A trace takes memory until it is released.
func ExampleMesh_MemoryStage() {
	ctx := context.Background()
	machine := sim.P300()
	defer machine.Close()
	m, err := mesh.Open(ctx, mesh.Cards(machine.Cards()...), mesh.Shape{1, 2})
	check(err)
	defer m.Close(ctx)
	in := page(m, "in")
	x, err := m.Load(ctx, "layer", add(in, in, func(*mesh.Chip) uint32 { return 1 }))
	check(err)
	opened := m.MemoryStage("loaded", nil)
	trace, err := m.Queue(0).Capture(ctx, "layer", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	check(err)
	captured := m.MemoryStage("captured", opened)
	check(trace.Release(ctx))
	for _, s := range []*mesh.MemoryStage{captured, m.MemoryStage("released", captured)} {
		check(s.Print(os.Stdout))
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
