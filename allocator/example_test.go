package allocator_test

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/allocator"
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
