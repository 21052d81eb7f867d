package cq

// The commands of this file are this runtime's own. Stock commands each have a relay and a page for
// themselves. Here small commands share a page, and go signals reach the subordinate without a
// relay. Pack makes them from a stock stream.

// Sequence is several commands in one page of the dispatcher's ring. They run in order.
type Sequence struct {
	Commands []DispatchCommand // without sequences; in a NOFLUSH the last one is a header without its data
}

// ForwardSubordinate makes the dispatcher give a command to its subordinate: a SendGoSignal or a
// TerminateDispatch. It replaces a relay to the subordinate and the NotifySubordinate before it.
type ForwardSubordinate struct {
	Wait    bool // until all writes before have landed
	Args    bool // a go signal that carries out the ReadArgs before it first: FORWARD_WITH_ARGS
	Command DispatchCommand
}

// ForwardSubordinateSize is the bytes of a FORWARD_SUBORDINATE with its command.
const ForwardSubordinateSize = 2 * HeaderSize

// AtSequenceCount is the offset of the number of commands in a SEQUENCE: 16 bits.
const AtSequenceCount = 2

// AtForwarded is the offset of the command in a FORWARD_SUBORDINATE.
const AtForwarded = HeaderSize

// ReadArg makes a 32-bit word of memory an argument of the program that the next ForwardSubordinate
// with Args starts. The dispatcher reads the word when all earlier programs are done, and writes it
// to the targets once the rest of the program has landed.
type ReadArg struct {
	OffsetIndex uint8  // 0 to 3, see SetWriteOffset: the offset that the next program sets
	NOC         uint32 // Layout.NOCXY of the tile that has the word
	Addr        uint32 // of the word, a multiple of 4
	Targets     []ArgTarget
}

// ArgTarget is where a ReadArg writes its word: a tile, or all tiles of a rectangle.
type ArgTarget struct {
	NOC   uint32 // Layout.NOCXY, or NOCRect with Dests
	Addr  uint16 // plus the write offset; a multiple of 4
	Dests uint8  // tiles in the rectangle, 0 = one tile
}

// Limits of a program's ReadArgs: their number, their bytes in the dispatcher's ring, and the
// targets of each.
const (
	MaxReadArgs     = 32
	MaxReadArgBytes = 8192
	MaxArgTargets   = (4096 - 2*HeaderSize) / argTargetSize // in a page of the dispatcher, with a Sequence around it

	argTargetSize = 8
)

func atArgTarget(i int) int { return HeaderSize + argTargetSize*i }

// Size is the bytes of the command in the dispatcher's ring.
func (c ReadArg) Size() int { return SlotStride(atArgTarget(len(c.Targets))) }

func (c ReadArg) words() (lo, hi uint64) {
	return uint64(DispatchReadArg) | uint64(c.OffsetIndex)<<8 | uint64(uint16(len(c.Targets)))<<16, uint64(c.NOC) | uint64(c.Addr)<<32
}

func readReadArg(it *item, _ []item) DispatchCommand {
	c := ReadArg{it.u8(1), it.u32(AtBranchNOC), it.u32(AtBranchAddr), make([]ArgTarget, it.count)}
	for i := range c.Targets {
		q := it.entry(i)
		c.Targets[i] = ArgTarget{le.Uint32(q), le.Uint16(q[4:]), q[6]}
	}
	return c
}

func (t ArgTarget) word() uint64 {
	return uint64(t.NOC) | uint64(t.Addr)<<32 | uint64(t.Dests)<<48
}

func (c ForwardSubordinate) words() (lo, hi uint64) {
	return uint64(c.ID()) | bit(c.Wait)<<8, 0
}

func readForward(it *item, kids []item) DispatchCommand {
	return ForwardSubordinate{it.u8(1)&1 != 0, DispatchID(it.u8(0)) == DispatchForwardWithArgs, inside(it, kids)}
}

func readSequence(it *item, kids []item) DispatchCommand {
	c := Sequence{Commands: make([]DispatchCommand, 0, it.u16(AtSequenceCount))}
	for ; len(kids) > 0; kids = kids[1+kids[0].kids:] {
		c.Commands = append(c.Commands, inside(it, kids))
	}
	return c
}

func (Sequence) ID() DispatchID { return DispatchSequence }
func (ReadArg) ID() DispatchID  { return DispatchReadArg }
func (c ForwardSubordinate) ID() DispatchID {
	if c.Args {
		return DispatchForwardWithArgs
	}
	return DispatchForwardSubordinate
}

func (c Sequence) Name() string           { return c.ID().String() }
func (c ReadArg) Name() string            { return c.ID().String() }
func (c ForwardSubordinate) Name() string { return c.ID().String() }
