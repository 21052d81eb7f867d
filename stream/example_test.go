package stream_test

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/stream"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func sharedRoom(dev *reprise.Device, n int) *reprise.Buffer {
	b, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: n * dev.Grid().Size(), PageSize: n, Name: "room"})
	check(err)
	return b
}

// The host writes messages to a kernel that is running, and reads what it makes of them.
func Example() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	defer dev.Close(ctx)
	in, err := stream.New(dev, stream.Config{Name: "prompts", Direction: stream.ToDevice})
	check(err)
	out, err := stream.New(dev, stream.Config{Name: "answers", Direction: stream.ToHost})
	check(err)

	image, err := kernels.Prebuilt(dev.Arch(), kernels.StreamEcho)
	check(err)
	room := sharedRoom(dev, 1024)
	args := append(append(in.Args(), out.Args()...), room.Addr(), 1024)
	program := &reprise.Program{Name: "echo", Buffers: []*reprise.Buffer{room}, Kernels: []reprise.Kernel{{
		Name: "echo", Image: image, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)}, Args: func(chip.Core) []uint32 { return args },
	}}}
	in.AddTo(program)
	out.AddTo(program)
	echo, err := dev.Load(ctx, program)
	check(err)
	check(dev.Queue(0).Run(ctx, echo))

	p := make([]byte, 1024)
	for _, text := range []string{"a kernel", "that is running", "answers"} {
		check(in.Write(ctx, []byte(text)))
		n, err := out.Read(ctx, p)
		check(err)
		fmt.Println(string(p[:n]))
	}
	check(in.Close(ctx))
	_, err = out.Read(ctx, p)
	fmt.Println(err)
	// Output:
	// a kernel
	// that is running
	// answers
	// EOF
}

// A trace gives its results while it runs: one end of the stream for each replay.
func ExampleStream_Messages() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Wormhole())
	check(err)
	defer dev.Close(ctx)
	tokens, err := stream.New(dev, stream.Config{Name: "tokens"})
	check(err)

	image, err := kernels.Prebuilt(dev.Arch(), kernels.StreamSource)
	check(err)
	room := sharedRoom(dev, 64)
	args := append(tokens.Args(), room.Addr(), 4, 3, 100, 1) // three messages of 4 bytes, from 100 on, and an end
	program := &reprise.Program{Name: "source", Buffers: []*reprise.Buffer{room}, Kernels: []reprise.Kernel{{
		Name: "source", Image: image, Processor: chip.NCRISC, Cores: []chip.Range{chip.Single(2, 3)},
		Args: func(chip.Core) []uint32 { return args },
	}}}
	tokens.AddTo(program)
	source, err := dev.Load(ctx, program)
	check(err)
	trace, err := dev.Queue(0).Capture(ctx, "generate", func(_ context.Context, r *reprise.Recorder) error { return r.Run(source) })
	check(err)

	for range 2 {
		check(trace.Replay(ctx))
		for token, err := range tokens.Messages(ctx) {
			check(err)
			fmt.Print(binary.LittleEndian.Uint32(token), " ")
		}
		fmt.Println("end")
	}
	// Output:
	// 100 101 102 end
	// 100 101 102 end
}
