package bench

import (
	"context"
	"math/rand/v2"

	"github.com/reprise-tt/reprise/allocator"
)

// measureAllocator measures pairs of an allocation and a free of a random extent, with many extents alive: sizes from
// 1 KiB to 4 MiB, first fit, in twice as much memory as is in use, or the most that a bank may have.
func measureAllocator(ctx context.Context, s *session) error {
	for _, live := range []int{10, 1_000, 100_000} {
		const align, low, high, largest = 64, 1 << 10, 4 << 20, 255 << 30
		a, err := allocator.New(allocator.Config{
			DRAMBanks: 1, DRAMBase: align, DRAMAlign: align,
			DRAMEnd: align + min(uint64(live)*(low+high)+8*high, largest),
		})
		if err != nil {
			return err
		}
		rnd := rand.New(rand.NewPCG(1, uint64(live)))
		request := func() (allocator.Extent, error) {
			size := uint64(low+rnd.IntN(high-low)) &^ (align - 1)
			return a.Allocate(allocator.Request{Kind: allocator.DRAM, Size: size})
		}
		extents := make([]allocator.Extent, live)
		for i := range extents {
			if extents[i], err = request(); err != nil {
				return err
			}
		}
		job := &job{
			name: "allocate_free", params: []Param{param("live", live)}, per: 64, burst: 32, allocs: true,
			against: []*baseline{memcpy(MemcpyHot, 4096, make([]byte, 4096))}, peers: allocatorPeers(live),
			op: func(_ context.Context, n int) error {
				for range n {
					i := rnd.IntN(live)
					if err := a.Free(extents[i]); err != nil {
						return err
					}
					if extents[i], err = request(); err != nil {
						return err
					}
				}
				return nil
			},
		}
		if err := s.measure(ctx, "allocator", job); err != nil {
			return err
		}
	}
	return nil
}
