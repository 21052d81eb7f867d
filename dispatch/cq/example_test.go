package cq_test

import (
	"fmt"
	"os"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// The commands of a replay, and the prefetch queue entry that announces them.
func ExampleBuilder() {
	b := cq.NewBuilder(cq.Blackhole, make([]byte, 0, 256))
	b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
	b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{
		Go: cq.NewGoWord(0, 14, 3, cq.SignalReplayTrace), WaitCount: 236, WaitStream: 48})
	wait := b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream | cq.ClearStream, Stream: 48})
	b.ExecBuf(cq.ExecBuf{Base: 0x400000, LogPageSize: 12, Pages: 3})
	stream, err := b.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}
	cq.Put32(stream, wait+cq.AtWaitCount, 236+118)
	entry, err := cq.NewFetchEntry(len(stream), true)
	fmt.Println(entry, err)
	if err := cq.Print(os.Stdout, cq.Blackhole, stream); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 256 bytes, stall <nil>
	// 00000000     64  dispatch    NOTIFY_SUBORDINATE_GO_SIGNAL wait=false mask=0x1
	// 00000040     64  dispatch_s  SEND_GO_SIGNAL go="0xf0030e00 (REPLAY_TRACE stream +0 of (14,3))" multicast=0 unicasts=0 noc_start=0 wait_count=236 wait_stream=48
	// 00000080     64  dispatch    WAIT flags=stream|clear stream=48 addr=0x0 count=354
	// 000000c0     64  prefetch    EXEC_BUF base=0x400000 log2_page=12 pages=3
}

// Runtime arguments of different cores, filled in place.
func ExampleBuilder_WritePacked() {
	b := cq.NewBuilder(cq.Wormhole, nil)
	p := b.WritePacked(cq.WritePacked{Type: cq.PackedRuntimeArgs, OffsetIndex: 1, Size: 8,
		Cores: []uint32{cq.Wormhole.NOCXY(18, 18), cq.Wormhole.NOCXY(19, 18)}})
	for i := range p.Slots {
		cq.Put32(b.Bytes(), p.Slot(i), uint32(100+i))
	}
	stream, err := b.Finish()
	fmt.Println(len(stream), err)
	if err := cq.Print(os.Stdout, cq.Wormhole, stream); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 96 <nil>
	// 00000000     96  dispatch    WRITE_PACKED flags="runtime args" count=2 offset_index=1 size=8 addr=0x0 noc[0]=(18,18) noc[1]=(19,18) data=32
}

// A binary that the prefetcher reads from DRAM after a header.
func ExampleAll() {
	b := cq.NewBuilder(cq.Blackhole, nil)
	b.WritePackedLargeHeader(cq.WritePackedLarge{Type: cq.LargeBinaries, Alignment: 64, OffsetIndex: 2,
		Subs: []cq.LargeSub{{NOC: cq.Blackhole.NOCRect(1, 2, 7, 11), Length: 2048, Dests: 70, Unlink: true}}})
	b.RelayPagedPacked(cq.RelayPagedPacked{Subs: []cq.PagedSub{{LogPageSize: 11, Base: 0x20000, Length: 2048}}})
	for e, err := range cq.All(cq.Blackhole, b.Bytes()) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(e.Offset, cq.Line(cq.Blackhole, e.Command))
	}
	fmt.Println(cq.Check(cq.Blackhole, cq.DefaultLimits(118), b.Bytes()))
	// Output:
	// 0 dispatch    WRITE_PACKED_LARGE type=binaries count=1 alignment=64 offset_index=2 noc[0]=(1,2)-(7,11) addr[0]=0x0 length[0]=2048 dests[0]=70 unlink[0]=true data=relayed
	// 64 prefetch    RELAY_PAGED_PACKED count=1 total=2048 stride=64 start[0]=0 log2_page[0]=11 base[0]=0x20000 length[0]=2048
	// <nil>
}
