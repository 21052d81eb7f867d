package allocator_test

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
)

func Example() {
	a, err := allocator.New(allocator.Config{
		DRAMBanks: 12, DRAMBase: 32, DRAMEnd: 1 << 30, DRAMAlign: 32,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := a.Allocate(allocator.Request{Size: 100 * 2048, PageSize: 2048, Owner: "model", Tag: "weights"})
	if err != nil {
		fmt.Println(err)
		return
	}
	bank, addr := e.Page(99)
	fmt.Printf("%s takes %d B of each bank; page 99 is in bank %d at %d\n", e, e.PerBank, bank, addr)
	fmt.Println(a.Free(e))
	fmt.Println(errors.Is(a.Free(e), allocator.ErrDoubleFree))
	// Output:
	// DRAM [0x20,0x4820) takes 18432 B of each bank; page 99 is in bank 3 at 16416
	// <nil>
	// true
}

func ExampleTracePerBank() {
	// A device-wide budget is divided, and every bank's share holds at least one page of a trace.
	fmt.Println(allocator.TracePerBank(67_108_864, 8, 64), allocator.TracePerBank(3072, 12, 32))
	// Output: 8388608 8192
}

func ExampleAllocator_Fingerprint() {
	a, err := allocator.New(allocator.Config{DRAMBanks: 8, DRAMBase: 64, DRAMEnd: 1 << 20, DRAMAlign: 64})
	if err != nil {
		fmt.Println(err)
		return
	}
	before := a.Fingerprint(allocator.DRAM)
	input, err := a.Allocate(allocator.Request{Size: 4096})
	fmt.Println(a.Fingerprint(allocator.DRAM) == before, err)
	fmt.Println(a.Free(input))
	// The state is as it was, so the next input will be where this one was.
	again, err := a.Allocate(allocator.Request{Size: 4096})
	fmt.Println(again.Addr == input.Addr, err)
	// Output:
	// false <nil>
	// <nil>
	// true <nil>
}

func ExampleNewDistribution() {
	// Four rows of three tiles in blocks of two by two: four shards on a square of cores.
	d, err := allocator.NewDistribution(allocator.ShardSpec{
		Layout: allocator.BlockSharded, Tensor: []int{4, 3}, Shard: []int{2, 2},
		Cores: []chip.Range{{End: chip.Core{X: 7, Y: 7}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	core, place := d.Page(5)
	fmt.Println(d.Cores(), "page 5 is at place", place, "of", d.Cores()[core])
	// Output: [(0,0) (1,0) (0,1) (1,1)] page 5 is at place 2 of (1,0)
}
