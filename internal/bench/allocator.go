package bench

import (
	"context"
	"math/rand/v2"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

// measureAllocator measures pairs of a free and an allocation among many live extents: sizes from 1
// KiB to 4 MiB, first fit, in twice the memory in use or the largest bank. Extents and sizes are
// drawn between rounds. Many extents are freed in the order of their table, which is reshuffled
// after each pass, so that the time is the allocator's.
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
		const per, burst = 64, 32
		p := &pairs{a: a, rnd: rand.New(rand.NewPCG(1, uint64(live))), extents: make([]allocator.Extent, live)}
		p.sizes, p.victims = make([]uint32, per*burst), make([]uint32, per*burst)
		for i := range p.sizes {
			p.sizes[i] = uint32(low + p.rnd.IntN(high-low))
		}
		for i := range p.extents {
			if err := p.allocate(i, i%len(p.sizes)); err != nil {
				return err
			}
		}
		draw := func(context.Context) error {
			for i := range p.sizes {
				p.sizes[i] = uint32(low + p.rnd.IntN(high-low))
			}
			p.draw()
			return nil
		}
		for n := 0; n < 4*live; n += len(p.sizes) { // until fragmentation is steady
			if err := draw(ctx); err != nil {
				return err
			}
			if err := p.run(ctx, len(p.sizes)); err != nil {
				return err
			}
		}
		if err := draw(ctx); err != nil {
			return err
		}
		job := &measure.Job{
			Name: "allocate_free", Params: report.Params("live", live), PerSample: per, Burst: burst, Settle: draw, Allocs: true,
			Against: []*measure.Baseline{measure.Memcpy(report.MemcpyHot, 4096, make([]byte, 4096))}, Peers: allocatorPeers(live),
			Do: p.run,
		}
		if err := s.measure(ctx, "allocator", job); err != nil {
			return err
		}
	}
	return nil
}

// pairs frees extents and allocates others in their place.
type pairs struct {
	a       *allocator.Allocator
	rnd     *rand.Rand
	extents []allocator.Extent
	next    int      // first extent not freed in this pass
	victims []uint32 // the extents to free next
	sizes   []uint32 // the sizes to allocate next
	done    int      // victims and sizes used so far
}

// draw chooses the extents to free next.
func (p *pairs) draw() {
	p.done = 0
	live := len(p.extents)
	if live > len(p.victims) && p.next+len(p.victims) > live {
		p.rnd.Shuffle(live, func(i, j int) { p.extents[i], p.extents[j] = p.extents[j], p.extents[i] })
		p.next = 0
	}
	for i := range p.victims {
		if live > len(p.victims) {
			p.victims[i] = uint32(p.next)
			p.next++
		} else {
			p.victims[i] = uint32(p.rnd.IntN(live))
		}
	}
}

func (p *pairs) run(_ context.Context, n int) error {
	for range n {
		k := p.done % len(p.victims)
		i := int(p.victims[k])
		p.done++
		if err := p.a.Free(p.extents[i]); err != nil {
			return err
		}
		if err := p.allocate(i, k); err != nil {
			return err
		}
	}
	return nil
}

func (p *pairs) allocate(i, k int) (err error) {
	p.extents[i], err = p.a.Allocate(allocator.Request{Kind: allocator.DRAM, Size: uint64(p.sizes[k])})
	return err
}
