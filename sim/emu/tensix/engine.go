package tensix

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

const numThreads = 3

// Tile is the tile around an engine.
type Tile interface {
	// L1 returns little-endian words from address 0 to byte address end or beyond, all if end is
	// larger.
	L1(end uint32) []uint32
	// L1Size is in bytes.
	L1Size() uint32
	// Loaded is called for n bytes of L1 at addr that the engine uses, before it changes them.
	Loaded(addr uint32, n int)
	// Stored is called after the engine has changed n bytes of L1 at addr.
	Stored(addr uint32, n int)
	// Ordered is called after RefuseHazards, when an instruction of a thread has waited for an
	// object or changed it: semaphore i is number i, and banks of the sources and mutexes follow.
	// It learns what others told, or tells what its thread knows, or both.
	Ordered(thread int, object uint32, learns, tells bool)
	// UsedDst is called after RefuseHazards, when an instruction of a thread reads or writes n rows
	// of Dst, numbered as 16-bit data are.
	UsedDst(thread int, row, n uint32, writes bool)
	// StoreConfig stores a word of the configuration that acts on processors. It returns false if
	// it refuses, or suspends the engine; it is called again after Resume.
	StoreConfig(word, value uint32) bool
	// StoreRegister stores a register of the tile as StoreConfig does.
	StoreRegister(addr, value uint32) bool
}

// Engine models the Tensix engines of a tile. Its methods are not safe for concurrent use.
type Engine struct {
	arch chip.Arch
	decoder
	chip   arith.Arch
	tile   Tile
	places *[isa.NumConfig]isa.Field

	threads [numThreads]thread
	sync    syncUnit

	config  [2][numConfigWords]uint32 // by bank; words that both banks share are in both
	version uint32                    // of config: it changes with every store

	registers  *registers // nil until an instruction uses data
	srcA, srcB source
	dst        dst
	sfpu       sfpu
	plans      *plans // nil until an instruction of the vector unit is executed
	made       plan   // by the executor of a vector instruction
	packer     packer
	mathPlan   mathPlan
	buffers    *buffers // nil until an unpacker or packer needs them

	hazards *hazards
	// OnHazard, if not nil, gets hazards, and the engine goes on.
	OnHazard func(*Refusal)
	issued   uint32 // the newest instruction, with hazards
	issuer   uint8  // its thread
	fault    *Refusal

	suspended bool
	first     uint8 // the thread with which the next step begins

	*tableSet
}

// registers are allocated on first use: firmware initialises over a hundred engines of a chip.
type registers struct {
	dst        [dstRows]dstRow
	srcA, srcB [2][srcRows]srcRow
}

func (e *Engine) allocate() {
	e.registers = new(registers)
	e.dst.rows, e.srcA.rows, e.srcB.rows = &e.registers.dst, &e.registers.srcA, &e.registers.srcB
}

// thread is a T core's instruction stream.
type thread struct {
	e     *Engine
	index uint8
	queue queue
	front frontEnd
	waits bool   // its next instruction, for a change
	ended uint64 // instructions
	since uint32 // changes when it was last looked at

	gpr    [64]uint32
	config [numThreadWords]uint32
	bank   *[numConfigWords]uint32 // of the configuration, that its instructions use
	places *[isa.NumThread]isa.Field

	a, b, d  counter // rows of SrcA, SrcB and Dst
	fidelity uint32  // phase
	bias     uint32  // of address modes

	adc [numADC]adc

	modes      [numModes]addressMode
	modesKnown uint8 // which of them are decoded

	packModes      [numPackModes]packMode
	packModesKnown uint8
}

// New returns the engine of a tile in its state after reset.
func New(arch chip.Arch, tile Tile) *Engine {
	e := &Engine{decoder: decoder{arch == chip.Wormhole}, arch: arch, chip: arith.Wormhole, tile: tile}
	if arch == chip.Blackhole {
		e.chip = arith.Blackhole
	}
	e.tableSet = tableSets()[e.chip]
	var threadPlaces *[isa.NumThread]isa.Field
	e.places, threadPlaces = isa.Fields(arch)
	for n := range e.threads {
		e.threads[n] = thread{e: e, index: uint8(n), bank: &e.config[0], places: threadPlaces}
	}
	e.dst.reset()
	e.sfpu.reset()
	return e
}

// Issuer returns the thread of the newest instruction, after RefuseHazards.
func (e *Engine) Issuer() int { return int(e.issuer) }

// Fault returns why the engine stopped, or nil.
func (e *Engine) Fault() *Refusal { return e.fault }

// Skip drops the instruction that has stopped the engine.
func (e *Engine) Skip() {
	e.threads[e.fault.Thread].queue.pop()
	e.fault = nil
}

// The first refusal wins.
func (e *Engine) refuse(cat Category, format string, args ...any) bool {
	if e.fault == nil {
		e.fault = &Refusal{Category: cat, Detail: fmt.Sprintf(format, args...)}
	}
	return false
}

func (e *Engine) unsupported(format string, args ...any) bool {
	return e.refuse(UnsupportedFunctionality, format, args...)
}

func (e *Engine) unimplemented(format string, args ...any) bool {
	return e.refuse(UnimplementedFunctionality, format, args...)
}

func (e *Engine) undefined(format string, args ...any) bool {
	return e.refuse(UndefinedBehavior, format, args...)
}

func (e *Engine) nonContractual(format string, args ...any) bool {
	return e.refuse(NonContractualBehavior, format, args...)
}

// Suspend stops the engine before the current instruction until Resume. Methods of the Tile call it
// and return false.
func (e *Engine) Suspend() { e.suspended = true }

// Suspended reports whether the engine is suspended.
func (e *Engine) Suspended() bool { return e.suspended }

// Resume continues a suspended engine with the same instruction.
func (e *Engine) Resume() { e.suspended = false }

// changes counts events that may end a wait.
func (e *Engine) changes() uint32 { return e.sync.changes + e.srcA.changes + e.srcB.changes }

// source returns what unpacker unit fills.
func (e *Engine) source(unit uint32) (*source, string) {
	if unit == 0 {
		return &e.srcA, "SrcA"
	}
	return &e.srcB, "SrcB"
}

func (e *Engine) buffer() *buffers {
	if e.buffers == nil {
		e.buffers = new(buffers)
	}
	return e.buffers
}
