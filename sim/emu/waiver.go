package emu

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise/sim/emu/internal/check"
	"github.com/reprise-tt/reprise/sim/emu/tensix"
)

// Assumptions is a set of things that no document promises and that programs rely on all the same.
type Assumptions = check.Assumptions

const (
	// StoresInOrder: a processor's store to L1 is there when a later one of its stores to a
	// register takes effect: it starts a NoC request that reads the word, or releases a processor
	// that loads it. Documents let the store to the register overtake (tt-isa-documentation
	// WormholeB0/TensixTile/BabyRISCV/MemoryOrdering.md). tt-metal's base firmware writes the word
	// with which it waits for the other processors, and releases them; its kernels write words that
	// they then send.
	StoresInOrder = check.StoresInOrder
	// SentIsRead: a write that is counted as sent (NIU_MST_NONPOSTED_WR_REQ_SENT,
	// NIU_MST_POSTED_WR_REQ_SENT) has read its source, and writes are sent in the order in which
	// they were started. Documents count a write before its data are read (tt-isa-documentation
	// WormholeB0/NoC/Counters.md). tt-metal's noc_async_writes_flushed waits for that count. By it
	// the dispatcher returns pages of its ring, and stores the next write pointer of the completion
	// queue to the word from which it has just sent one: if that write still were to read it, the
	// host would be told of data that are not there yet.
	SentIsRead = check.SentIsRead
	// CountedAtOnce: a request is in its id's counter of unanswered requests
	// (NIU_MST_REQS_OUTSTANDING_ID) when a load of the counter follows its start. Documents let the
	// load overtake the store that starts the request. tt-metal's noc_async_read_barrier_with_trid
	// polls the counter straight away.
	CountedAtOnce = check.CountedAtOnce
	// PassedBytesUnused: of a word that is loaded just after a store to one of its bytes, which the
	// load may pass on Wormhole, the program doesn't use that byte (MemoryOrdering.md, Sub-word
	// load not observing previous store). tt-metal's BRISC firmware stores the signal of the go
	// message, and then loads the message for the dispatcher's coordinates.
	PassedBytesUnused = check.PassedBytesUnused
	// ReadInOrder: a write has read its source when a request that the same processor starts later
	// on the same NoC takes effect. Documents order only requests on one virtual channel
	// (tt-isa-documentation WormholeB0/NoC/Ordering.md). tt-metal's subordinate dispatcher
	// multicasts a go signal from a page of its ring and returns the page to the prefetcher by an
	// atomic, without a wait in between: if the multicast still were to read the page, workers
	// would get a part of the next command for a go signal. It holds for agents that know of the
	// later request, not for the processor's own stores.
	ReadInOrder = check.ReadInOrder
	// UnwrittenUnused: of what the program loads from L1 it uses nothing that was never written.
	// tt-metal's base firmware copies tables of coordinates as a whole, of which the host writes as
	// many rows as there are (tt_metal/hw/inc/internal/firmware_common.h,
	// noc_worker_logical_to_virtual_map_init).
	UnwrittenUnused = Assumptions(1 << 5)

	// What tensix.Assumptions of the same names are, for the instructions that the program pushes.
	ContextIsRead = Assumptions(tensix.ContextIsRead) << engineAssumptions
	ZeroedAtOnce  = Assumptions(tensix.ZeroedAtOnce) << engineAssumptions
	BootIsOver    = Assumptions(tensix.BootIsOver) << engineAssumptions

	// MetalCompute is what tt-metal's compute kernels rely on.
	MetalCompute = ContextIsRead | ZeroedAtOnce

	// MetalFirmware is what tt-metal's base firmware of workers relies on, MetalQueue what its
	// command-queue firmware does: prefetcher, dispatcher and subordinate.
	MetalFirmware = StoresInOrder | PassedBytesUnused | UnwrittenUnused | BootIsOver
	MetalQueue    = StoresInOrder | SentIsRead | CountedAtOnce | ReadInOrder

	allAssumptions = StoresInOrder | SentIsRead | CountedAtOnce | PassedBytesUnused | ReadInOrder | UnwrittenUnused | ContextIsRead |
		ZeroedAtOnce | BootIsOver
)

// engineAssumptions is the place of the first assumption of the Tensix engines.
const engineAssumptions = 8

// Waiver lets the instructions of one program rely on assumptions that the checks by option refuse
// to all others.
type Waiver struct {
	// Name says which program it is, for errors.
	Name string
	// Text is the program's instructions as they lie in memory, at least 64 bytes. It applies
	// wherever they lie, in L1 or Wormhole's instruction RAM: an instruction belongs to the program
	// if it is there with the eight before and after it, or as many as there are to the ends of
	// Text.
	Text []byte
	// Assume is what the program relies on.
	Assume Assumptions
}

const (
	waiverReach = 8 // instructions on either side
	waiverSpan  = 2*waiverReach + 1
	leastWaived = 16 // instructions
)

// waiver is a Waiver in words.
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
		for i := range words {
			words[i] = binary.LittleEndian.Uint32(w.Text[4*i:])
		}
		out = append(out, waiver{words, w.Assume})
	}
	return out, nil
}

// covers reports whether the instruction in the middle of around belongs to the text.
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

// waived is what was found for the instruction at one address, as long as memory around it stays.
type waived struct {
	around [waiverSpan]uint32
	assume Assumptions
}

// waiverCache has what the waivers say of instructions, by what is around them: tiles execute the
// same programs, and a host's kernel cache has thousands.
type waiverCache struct {
	mu    sync.Mutex
	known map[[waiverSpan]uint32]Assumptions
}

// of returns what the waivers of a list let the instruction in the middle of around rely on.
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
