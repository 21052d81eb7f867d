// Package check finds what programs may only do because the NoC was quick or turns came by chance:
// races of requests with accesses, and accesses that nothing orders (Races and Shared memory in the
// documentation of package emu). It observes and judges, and changes nothing.
package check

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// Assumptions is a set of things that no document promises and a program may rely on.
type Assumptions uint16

// The assumptions that matter here, documented in package emu.
const (
	StoresInOrder Assumptions = 1 << iota
	SentIsRead
	CountedAtOnce
	PassedBytesUnused
	ReadInOrder
	_
	_
	StoredBeforePush
)

// Processor is what a check asks a processor.
type Processor interface {
	// PC is of the current instruction.
	PC() uint32
	Held() bool
	// Assumes reports whether the current instruction may rely on a.
	Assumes(a Assumptions) bool
}

// Core is a processor.
type Core struct {
	Processor
	Name       chip.Processor
	Arch       chip.Arch
	LocalBytes uint32 // of its own RAM

	tile  *Tile
	agent *agent
	share *sharing // once it has left reset
}

// Step checks an instruction before it is executed. addr and inL1 are of a load, store or atomic of
// n bytes; v is what a store stores.
func (k *Core) Step(o rv32.Inst, addr, n uint32, inL1 bool, v uint32) bool {
	return k == nil || k.share == nil || k.share.step(o, addr, n, inL1, v)
}

// Fetch checks the fetch of the next instruction, in L1.
func (k *Core) Fetch() bool { return k == nil || k.share == nil || k.share.fetch() }

// Origin is who makes an access: the host if neither a tile nor a processor.
type Origin struct {
	Tile   *Tile
	Core   *Core
	Remote bool // through a NoC
}

// Other is the earlier one of two accesses.
type Other struct {
	Core  *Core // nil: the host
	PC    uint32
	Addr  uint64
	Wrote bool
}

// mine returns the processor that accesses its own tile, or nil.
func (o Origin) mine() *Core {
	if o.Remote {
		return nil
	}
	return o.Core
}

// Kind is what a request does.
type Kind uint8

// The kinds of requests.
const (
	Read Kind = iota
	Write
	Inline
	Atomic
)

var kindNames = [...]string{Read: "read", Write: "write", Inline: "inline write", Atomic: "atomic"}

// Place is one end of a request.
type Place struct {
	XY   chip.XY
	Tile *Tile // with L1, or nil
	Bank int   // of a DRAM controller, or NoBank
}

// NoBank is the Bank outside DRAM.
const NoBank = -1

// Transfer is a request to a NoC as it is started.
type Transfer struct {
	By        Origin
	Tile      *Tile // that started it
	NoC       int
	ID        uint32
	Kind      Kind
	Marked    bool // it is answered
	Multicast bool
	Ordered   bool // it keeps its place among those of the same Path
	Completes bool // it tells a dispatcher of a program's end
	From, To  Place
	Targets   []*Tile // with L1, to which it writes
	FromAddr  uint64
	ToAddr    uint64
	N         int // bytes
	Path      any // comparable; requests with the same Path don't overtake each other
}

// Counters of an NIU by index (tt-isa-documentation WormholeB0/NoC/Counters.md).
const (
	CounterAtomics     = 0x0
	CounterAcks        = 0x1
	CounterReads       = 0x2
	CounterSent        = 0xA  // and the next one, of posted writes
	CounterOutstanding = 0x10 // and the next 15, by id
	CounterOutgoing    = 0x20 // and the next 15, by id
)

const (
	lineShift  = 6 // of a line of L1
	localBase  = 0xFFB00000
	streamBase = 0xFFB40000
	streamEnd  = 0xFFB80000
	none       = ^uint32(0)
)
