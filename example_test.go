package reprise_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

// Records a program that adds 7 to every word of a buffer, and replays it on one batch of words
// after another.
func Example() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole()) // or kmd.Path("/dev/tenstorrent/0")
	check(err)
	defer dev.Close(ctx)
	queue := dev.Queue(0)

	// Two buffers of 1024 pages of 64 bytes, spread over all DRAM banks.
	in, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 1 << 16, PageSize: 64, Name: "in"})
	check(err)
	out, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 1 << 16, PageSize: 64, Name: "out"})
	check(err)

	// On each of 64 cores one processor fetches 16 pages, a second one adds, and a third one
	// stores.
	cores := chip.Grid(8, 8)
	first := func(c chip.Core) uint32 { return uint32(c.Y*8+c.X) * 16 }
	kernel := func(name string, p chip.Processor, args func(chip.Core) []uint32) reprise.Kernel {
		image, err := kernels.Prebuilt(dev.Arch(), name)
		check(err)
		return reprise.Kernel{Name: name, Image: image, Processor: p, Cores: []chip.Range{cores}, Args: args}
	}
	program := &reprise.Program{
		Name: "add 7",
		Kernels: []reprise.Kernel{
			kernel(kernels.CopyReader, chip.BRISC, func(c chip.Core) []uint32 { return []uint32{in.Addr(), first(c), 16, 64, 0} }),
			kernel(kernels.Add, chip.TRISC0, func(chip.Core) []uint32 { return []uint32{0, 1, 16, 7} }),
			kernel(kernels.CopyWriter, chip.NCRISC, func(c chip.Core) []uint32 { return []uint32{out.Addr(), first(c), 16, 64, 1} }),
		},
		CircularBuffers: []reprise.CircularBuffer{
			{Index: 0, Cores: []chip.Range{cores}, PageSize: 64, Pages: 2},
			{Index: 1, Cores: []chip.Range{cores}, PageSize: 64, Pages: 2},
		},
		Buffers: []*reprise.Buffer{in, out},
	}
	layer, err := dev.Load(ctx, program) // kernels, circular buffers, arguments
	check(err)

	// Run it once, command by command.
	err = queue.Write(ctx, in, 0, count(1000))
	check(err)
	err = queue.Run(ctx, layer)
	check(err)
	result := make([]byte, out.Size())
	err = queue.Read(ctx, out, 0, result)
	check(err)
	fmt.Println("run:     ", ends(result))

	// Record it, and play it again.
	trace, err := queue.Capture(ctx, "layer", func(_ context.Context, r *reprise.Recorder) error { return r.Run(layer) })
	check(err)
	batches := [][]byte{count(0), count(1 << 20), count(1 << 31)}
	for _, batch := range batches {
		err = queue.Write(ctx, in, 0, batch)
		check(err)
		err = trace.Replay(ctx) // a few words and a doorbell: no allocation
		check(err)
		err = queue.Read(ctx, out, 0, result)
		check(err)
		fmt.Println("replayed:", ends(result))
	}
	fmt.Printf("the host sends %d bytes to run it on %d cores\n", trace.Parts()[0].ReplayBytes, layer.Cores())
	err = trace.Release(ctx)
	check(err)
	// Output:
	// run:      1007 ... 17390
	// replayed: 7 ... 16390
	// replayed: 1048583 ... 1064966
	// replayed: 2147483655 ... 2147500038
	// the host sends 192 bytes to run it on 64 cores
}

func count(from uint32) []byte {
	var b []byte
	for i := range uint32(1 << 14) {
		b = binary.LittleEndian.AppendUint32(b, from+i)
	}
	return b
}

func ends(b []byte) string {
	return fmt.Sprint(binary.LittleEndian.Uint32(b), " ... ", binary.LittleEndian.Uint32(b[len(b)-4:]))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
