package allocator

import (
	"fmt"
	"math"
)

// Config describes the memory, in bytes of each bank unless a field says otherwise.
type Config struct {
	DRAMBanks int
	DRAMBase  uint64 // first usable address; rounded up to DRAMAlign
	DRAMEnd   uint64
	// DRAMAlign is a power of two that DRAM addresses and pages and L1 addresses are multiples of.
	DRAMAlign uint64

	// TraceRegion is the size of the trace region over the whole device; each bank gives
	// [TracePerBank] at its top. 0: traces take what they need, from the top down.
	TraceRegion uint64

	L1Banks int
	L1Base  uint64 // first usable address; rounded up to DRAMAlign
	L1End   uint64
	L1Align uint64 // a power of two that L1 pages are multiples of
	L1Small uint64 // size at the top of L1; rounded up to DRAMAlign

	Policy Policy
	Gauge  Gauge
}

const tracePage = 8192 // largest page of a trace; divides a bank's share of the trace region

// TracePerBank returns the bytes that each bank gives to a trace region of a size over all banks:
// an equal share, rounded up to the alignment and to the largest trace page (tt-metal pull request
// 47766).
func TracePerBank(size uint64, banks int, align uint64) uint64 {
	if size == 0 || banks <= 0 {
		return 0
	}
	n := uint64(banks)
	share := size / n
	if size%n != 0 {
		share++
	}
	return up(share, max(align, tracePage))
}

func up(v, align uint64) uint64 { return (v + align - 1) &^ (align - 1) }

func powerOfTwo(v uint64) bool { return v != 0 && v&(v-1) == 0 }

func (c *Config) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("allocator: new: %w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	const most = 1 << 62
	units := uint64(math.MaxUint32)
	switch {
	case c.DRAMBanks < 1:
		return bad("%d DRAM banks", c.DRAMBanks)
	case c.L1Banks < 0:
		return bad("%d L1 banks", c.L1Banks)
	case c.DRAMBanks > blockBanks || c.L1Banks > blockBanks:
		return bad("%d DRAM banks and %d L1 banks: at most %d can be counted", c.DRAMBanks, c.L1Banks, blockBanks)
	case c.Policy >= numPolicies:
		return bad("there is no %s", c.Policy)
	case !powerOfTwo(c.DRAMAlign) || c.DRAMAlign > 1<<20:
		return bad("DRAM alignment %d is not a power of two up to 1 MiB", c.DRAMAlign)
	case c.L1Banks > 0 && (!powerOfTwo(c.L1Align) || c.L1Align > c.DRAMAlign):
		return bad("L1 alignment %d is not a power of two up to the DRAM alignment %d", c.L1Align, c.DRAMAlign)
	case c.DRAMEnd > most || c.L1End > most || c.TraceRegion > most || c.L1Small > most || c.DRAMBase > most || c.L1Base > most:
		return bad("a size or address is beyond 2^62")
	case c.DRAMEnd/c.DRAMAlign > units || c.L1End/c.DRAMAlign > units:
		return bad("a bank of more than %d units of %d B", units, c.DRAMAlign)
	case up(c.DRAMBase, c.DRAMAlign) >= c.DRAMEnd:
		return bad("DRAM base %#x leaves nothing below the bank's end %#x", c.DRAMBase, c.DRAMEnd)
	case c.L1Banks > 0 && up(c.L1Base, c.DRAMAlign) >= c.L1End:
		return bad("L1 base %#x leaves nothing below the end of L1 %#x", c.L1Base, c.L1End)
	case up(c.L1Small, c.DRAMAlign) > c.L1End-min(c.L1End, up(c.L1Base, c.DRAMAlign)):
		return bad("an L1 small region of %d B does not fit the L1 from %#x to %#x", c.L1Small, c.L1Base, c.L1End)
	}
	if t := TracePerBank(c.TraceRegion, c.DRAMBanks, c.DRAMAlign); t > c.DRAMEnd-up(c.DRAMBase, c.DRAMAlign) {
		return bad("a trace region of %d B takes %d B of each bank, more than it has", c.TraceRegion, t)
	}
	return nil
}
