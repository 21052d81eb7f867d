package reprise_test

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/sim"
)

// Data go to the device and come back without a copy by the host: the device reads and writes the
// host's memory itself.
func ExampleDevice_NewHostBuffer() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole())
	check(err)
	defer dev.Close(ctx)
	const size = 64 << 10
	buf, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: size, PageSize: 2 << 10, Name: "weights"})
	check(err)
	// Half of it for what is sent, half for what comes back.
	host, err := dev.NewHostBuffer(reprise.HostBufferConfig{Size: 2 * size, Strict: true, Name: "staging"})
	check(err)
	copy(host.Bytes(), "straight from here")
	q := dev.Queue(0)
	written, err := q.StartWriteFrom(ctx, buf, 0, host, 0, size)
	check(err)
	check(q.ReadTo(ctx, buf, 0, host, size, size))
	fmt.Printf("%s\n", host.Bytes()[size:size+18])
	// The queue is in order: the write is done, so its part of the host memory may be filled anew.
	fmt.Println(written.Done())
	// What can't do without a copy is refused, since the buffer is strict: the NoC moves units of
	// 16 bytes.
	fmt.Println(q.ReadTo(ctx, buf, 5, host, 0, 100))
	check(host.Release(ctx))
	// Output:
	// straight from here
	// true <nil>
	// reprise: read buffer "weights": read of 100 B at offset 5 to or from offset 0 of the host buffer without a copy: the place on the device and the place in host memory must be equal modulo 16, the NoC's unit: move one of them, or use a HostBuffer that isn't strict
}
