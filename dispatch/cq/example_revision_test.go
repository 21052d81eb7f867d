package cq_test

import (
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// A stream of a newer revision is told from one that this package writes by what it waits for.
func ExampleDetect() {
	b := cq.NewBuilder(cq.Blackhole, nil)
	b.SetWriteOffset(cq.SetWriteOffset{HostID: 7, Count: 1})
	b.WritePackedLarge(cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16,
		Subs: []cq.LargeSub{{NOC: cq.Blackhole.NOCRect(1, 2, 2, 3), Length: 32, Dests: 4, Unlink: true}}})
	b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream, Stream: 48, Count: 130})
	stream, err := b.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}
	v, readings, err := cq.Detect(cq.Blackhole, stream)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(v.Name)
	for i := range readings {
		fmt.Println(readings[i].Name, readings[i].Size)
	}
	// Output:
	// 2026-03
	// SET_WRITE_OFFSET 64
	// WRITE_PACKED_LARGE 128
	// WAIT 64
}
