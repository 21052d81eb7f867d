package reprise_test

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/sim"
)

// One queue writes, the other reads; two events keep each from overtaking the other.
func ExampleQueue_Wait() {
	ctx := context.Background()
	dev, err := reprise.Open(ctx, sim.Blackhole(), reprise.WithQueues(2))
	check(err)
	defer dev.Close(ctx)
	reader, writer := dev.Queue(0), dev.Queue(1)
	buf, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Name: "mailbox"})
	check(err)
	written, read := dev.NewEvent("written"), dev.NewEvent("read")
	got := make([]byte, 64)
	for i := range 3 {
		if i > 0 {
			check(writer.WaitEvent(ctx, read)) // the recording of the round before
		}
		check(writer.Write(ctx, buf, 0, fmt.Appendf(nil, "%-64s", fmt.Sprint("message ", i))))
		check(writer.Record(ctx, written))
		check(reader.WaitEvent(ctx, written))
		check(reader.Read(ctx, buf, 0, got))
		check(reader.Record(ctx, read))
		fmt.Println(string(got[:9]))
	}
	// Nobody has recorded this one, so nothing would end a wait for it.
	if err := reader.WaitEvent(ctx, dev.NewEvent("forgotten")); err != nil {
		fmt.Println("refused")
	}
	// Output:
	// message 0
	// message 1
	// message 2
	// refused
}
