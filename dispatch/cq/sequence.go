package cq

// Commands of this runtime's own, made from a stock stream by Pack: small commands share a page,
// and go signals reach the subordinate without a relay.

// Sequence is several commands in one page of the dispatcher's ring.
type Sequence struct {
	Commands []DispatchCommand // no sequences
}

// ForwardSubordinate gives a SendGoSignal or a TerminateDispatch to the dispatcher's subordinate,
// in place of a relay and a NotifySubordinate.
type ForwardSubordinate struct {
	Wait    bool
	Args    bool // FORWARD_WITH_ARGS: a go signal after ReadArgs
	Command DispatchCommand
}

// ForwardSubordinateSize is the bytes of a FORWARD_SUBORDINATE with its command.
const ForwardSubordinateSize = 2 * HeaderSize

// 16 bits
const AtSequenceCount = 2

// AtForwarded is the offset of the command in a FORWARD_SUBORDINATE.
const AtForwarded = HeaderSize

// ReadArg makes a 32-bit word of memory an argument of the program that the next ForwardSubordinate
// with Args starts. The dispatcher reads the word when all earlier programs are done, and writes it
// to the targets once the rest of the program has landed.
type ReadArg struct {
	OffsetIndex uint8  // of the next program: see SetWriteOffset
	NOC         uint32 // Layout.NOCXY of the word's tile
	Addr        uint32 // a multiple of 4
	Targets     []ArgTarget
}

// ArgTarget is where a ReadArg writes its word.
type ArgTarget struct {
	NOC   uint32 // Layout.NOCXY, or NOCRect with Dests
	Addr  uint16 // plus the write offset; a multiple of 4
	Dests uint8
}

// Limits of a program's ReadArgs.
const (
	MaxReadArgs     = 32
	MaxReadArgBytes = 8192
	MaxArgTargets   = (4096 - 2*HeaderSize) / argTargetSize // in a page with a Sequence around it

	argTargetSize = 8
)

func atArgTarget(i int) int { return HeaderSize + argTargetSize*i }

// Size is the command's bytes in the dispatcher's ring.
func (c ReadArg) Size() int { return SlotStride(atArgTarget(len(c.Targets))) }

func readReadArg(it *item, _ []item) DispatchCommand {
	c := ReadArg{it.u8(1), it.u32(AtBranchNOC), it.u32(AtBranchAddr), make([]ArgTarget, it.count)}
	for i := range c.Targets {
		q := it.entry(i)
		c.Targets[i] = ArgTarget{le.Uint32(q), le.Uint16(q[4:]), q[6]}
	}
	return c
}

func (c ForwardSubordinate) words() head {
	return head{uint64(c.ID()) | bit(c.Wait)<<8, 0}
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
