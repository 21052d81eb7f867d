package emu

// Performance counters of a Tensix tile: five blocks, each with a reference period, a mode and a
// control register, and two outputs: clocks since the start, and the event that the mode selects
// (tt-metal tools/profiler/perf_counters.hpp, tt-llk tests/helpers/include/counters.h). Only clocks
// are counted, of the wall clock. Events stay 0, and strict chips refuse to a program to load them.
const (
	regPerfAll = 0x03C // another control register of the first and the last block
	regPerfOut = 0x100 // to 0x127, by block
	regPerfMux = 0x218

	perfStart = 1 << 0 // rising, of control: clears as well
	perfStop  = 1 << 1
)

// perfBlocks are the first registers of INSTRN_THREAD, TDMA_UNPACK, TDMA_PACK, L1 and FPU.
var perfBlocks = [...]uint32{0x00, 0x0C, 0xF0, 0x30, 0x18}

type perfCounters struct {
	blocks   [len(perfBlocks)]perfBlock
	all, mux uint32
}

type perfBlock struct {
	words   [3]uint32
	running bool
	started uint64
	clocks  uint32 // once stopped
}

// at returns the block of a register, and which of the block's five registers it is.
func (p *perfCounters) at(off uint32) (*perfBlock, uint32) {
	for n, first := range perfBlocks {
		if i := (off - first) / 4; i < 3 {
			return &p.blocks[n], i
		}
		if i := (off - regPerfOut) / 4; i/2 == uint32(n) {
			return &p.blocks[n], 3 + i%2
		}
	}
	return nil, 0
}

// unknownEvents reports outputs of events, which aren't counted.
func unknownEvents(off uint32) bool { return off >= regPerfOut && off&4 != 0 }

func (p *perfCounters) load(off uint32, clock func() uint64) (uint32, bool) {
	switch off {
	case regPerfAll:
		return p.all, true
	case regPerfMux:
		return p.mux, true
	}
	switch b, i := p.at(off); {
	case b == nil:
		return 0, false
	case i < 3:
		return b.words[i], true
	case i == 4:
		return 0, true
	case b.running:
		return uint32(clock() - b.started), true
	default:
		return b.clocks, true
	}
}

// store reports whether the register can be written.
func (p *perfCounters) store(off, v uint32, clock func() uint64) bool {
	switch off {
	case regPerfMux:
		p.mux = v
		return true
	case regPerfAll:
		p.blocks[0].control(v&^p.all, clock)
		p.blocks[4].control(v&^p.all, clock)
		p.all = v
		return true
	}
	b, i := p.at(off)
	if b == nil || i > 2 {
		return false
	}
	if i == 2 {
		b.control(v&^b.words[2], clock)
	}
	b.words[i] = v
	return true
}

func (b *perfBlock) control(rising uint32, clock func() uint64) {
	if rising&perfStart != 0 {
		b.started, b.running = clock(), true
	}
	if rising&perfStop != 0 && b.running {
		b.clocks, b.running = uint32(clock()-b.started), false
	}
}
