package emu

import (
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
	"github.com/reprise-tt/reprise/sim/emu/tensix"
)

// Assumptions is a set of things that no document promises and programs rely on.
type Assumptions = check.Assumptions

const (
	// StoresInOrder: a store to L1 is there when a later store of the processor to a register, but
	// a stream's, takes effect (against tt-isa-documentation
	// WormholeB0/TensixTile/BabyRISCV/MemoryOrdering.md). tt-metal's base firmware writes a word to
	// wait for and then releases the other processors; its kernels write words that they then send.
	StoresInOrder = check.StoresInOrder
	// SentIsRead: a write counted as sent (NIU_MST_NONPOSTED_WR_REQ_SENT,
	// NIU_MST_POSTED_WR_REQ_SENT) has read its source, and writes are sent in order (against
	// WormholeB0/NoC/Counters.md). tt-metal's noc_async_writes_flushed waits for that count, and by
	// its documentation sources may change then; the dispatcher returns pages of its ring.
	SentIsRead = check.SentIsRead
	// CountedAtOnce: a request is in its id's counter (NIU_MST_REQS_OUTSTANDING_ID) when a load of
	// the counter follows its start, as tt-metal's noc_async_read_barrier_with_trid expects.
	CountedAtOnce = check.CountedAtOnce
	// PassedBytesUnused: a program doesn't use the byte that a load on Wormhole may read before an
	// earlier store to it (MemoryOrdering.md, Sub-word load not observing previous store).
	// tt-metal's BRISC firmware loads the go message so.
	PassedBytesUnused = check.PassedBytesUnused
	// ReadInOrder: a write has read its source when a later request of the processor on the same
	// NoC takes effect, though documents order only one virtual channel
	// (WormholeB0/NoC/Ordering.md). tt-metal's subordinate dispatcher multicasts from a page of its
	// ring and returns the page at once. The processor's own stores are not ordered.
	ReadInOrder = check.ReadInOrder
	// UnwrittenUnused: the program uses nothing never written of what it loads from L1. tt-metal's
	// base firmware copies whole tables of coordinates (tt_metal/hw/inc/internal/firmware_common.h,
	// noc_worker_logical_to_virtual_map_init).
	UnwrittenUnused = Assumptions(1 << 5)

	// PaddingUnused: the program doesn't use the end of a read from DRAM, of less than an aligned
	// page, that was never written. tt-metal's prefetcher reads pages with what pads them to 32 or
	// 64 bytes.
	PaddingUnused = Assumptions(1 << 6)
	// StoredBeforePush is StoresInOrder for streams' registers. tt-metal's readers fill pages
	// of circular buffers by stores, such as scalers and masks, and push them.
	StoredBeforePush = check.StoredBeforePush

	// The tensix.Assumptions of these names, for instructions that the program pushes.
	ContextIsRead = Assumptions(tensix.ContextIsRead) << engineAssumptions
	ZeroedAtOnce  = Assumptions(tensix.ZeroedAtOnce) << engineAssumptions
	BootIsOver    = Assumptions(tensix.BootIsOver) << engineAssumptions
	PartOfTile    = Assumptions(tensix.PartOfTile) << engineAssumptions

	// MetalMovement is what tt-metal's data movement kernels rely on.
	MetalMovement = CountedAtOnce | SentIsRead | StoredBeforePush

	// MetalCompute is what tt-metal's compute kernels rely on.
	MetalCompute = ContextIsRead | ZeroedAtOnce | PartOfTile

	// MetalFirmware is what tt-metal's base firmware of workers relies on, MetalQueue its
	// prefetcher, dispatcher and subordinate.
	MetalFirmware = StoresInOrder | StoredBeforePush | PassedBytesUnused | UnwrittenUnused | BootIsOver
	MetalQueue    = StoresInOrder | StoredBeforePush | SentIsRead | CountedAtOnce | ReadInOrder | PaddingUnused

	allAssumptions = StoresInOrder | SentIsRead | CountedAtOnce | PassedBytesUnused | ReadInOrder | UnwrittenUnused | PaddingUnused |
		StoredBeforePush | ContextIsRead | ZeroedAtOnce | BootIsOver | PartOfTile
)

// engineAssumptions is the shift of tensix.Assumptions.
const engineAssumptions = 8

// Waiver lets the instructions of one program rely on assumptions.
type Waiver struct {
	// Name is the program, for errors.
	Name string
	// Text is the program's instructions as in memory, at least 64 bytes. An instruction anywhere
	// in L1 or instruction RAM belongs to the program if the eight before and after it do, or as
	// many as Text has there.
	Text   []byte
	Assume Assumptions
}

const (
	waiverReach = 8 // instructions on either side
	waiverSpan  = 2*waiverReach + 1
	leastWaived = 16 // instructions
)

type waiver struct {
	text   []uint32
	assume Assumptions
}

func newWaivers(list []Waiver) ([]waiver, error) {
	var out []waiver
	for _, w := range list {
		if w.Assume == 0 || w.Assume&^allAssumptions != 0 {
			return nil, fmt.Errorf("waiver for %s: unknown assumptions %#x", w.Name, uint16(w.Assume))
		}
		if len(w.Text) < 4*leastWaived {
			return nil, fmt.Errorf("waiver for %s: %d bytes of text, want at least %d", w.Name, len(w.Text), 4*leastWaived)
		}
		words := make([]uint32, len(w.Text)/4)
		word.Pack(words, 0, w.Text[:4*len(words)])
		out = append(out, waiver{words, w.Assume})
	}
	return out, nil
}

func (w *waiver) covers(around *[waiverSpan]uint32) bool {
next:
	for i, v := range w.text {
		if v != around[waiverReach] {
			continue
		}
		for j := max(i-waiverReach, 0); j < min(i+waiverReach+1, len(w.text)); j++ {
			if w.text[j] != around[j-i+waiverReach] {
				continue next
			}
		}
		return true
	}
	return false
}

// waived is the result for one address, as long as memory around it stays.
type waived struct {
	around [waiverSpan]uint32
	assume Assumptions
}

// waiverCache shares results between tiles, which execute the same programs.
type waiverCache struct {
	mu    sync.Mutex
	known map[[waiverSpan]uint32]Assumptions
}

func (w *waiverCache) of(around *[waiverSpan]uint32, list []waiver) Assumptions {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.known[*around]
	if ok {
		return a
	}
	for i := range list {
		if list[i].covers(around) {
			a |= list[i].assume
		}
	}
	if w.known == nil {
		w.known = map[[waiverSpan]uint32]Assumptions{}
	}
	w.known[*around] = a
	return a
}
