package cq

import "fmt"

// ReadArg makes a 32-bit word of memory an argument of the program that the next ForwardSubordinate with Args starts: the
// dispatcher reads it when all programs before are done, and writes it to the targets once everything else of the program has
// landed. It is this runtime's alone, as Sequence is.
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

// How many ReadArgs a program may have, how many bytes of them in the dispatcher's ring, and how many targets each. Source:
// firmware, cq_read_arg.h.
const (
	MaxReadArgs     = 32
	MaxReadArgBytes = 8192
	MaxArgTargets   = (4096 - 2*HeaderSize) / argTargetSize // in a page of the dispatcher, with a Sequence around it

	argTargetSize = 8
)

// Where fields lie in a READ_ARG, in bytes: where a BRANCH has them, so that the places of words in a trace are all alike.
const (
	atReadArgNOC  = AtBranchNOC
	atReadArgAddr = AtBranchAddr
)

func atArgTarget(i int) int { return HeaderSize + argTargetSize*i }

// Size is the bytes of the command in the dispatcher's ring.
func (c ReadArg) Size() int { return SlotStride(atArgTarget(len(c.Targets))) }

func (c ReadArg) words() (lo, hi uint64) {
	return uint64(DispatchReadArg) | uint64(c.OffsetIndex)<<8 | uint64(uint16(len(c.Targets)))<<16, uint64(c.NOC) | uint64(c.Addr)<<32
}

func (t ArgTarget) word() uint64 {
	return uint64(t.NOC) | uint64(t.Addr)<<32 | uint64(t.Dests)<<48
}

func (ReadArg) ID() DispatchID { return DispatchReadArg }
func (c ReadArg) Name() string { return c.ID().String() }

// Fields lists the fields.
func (c ReadArg) Fields(l Layout) []Field {
	f := []Field{deci("offset_index", 1, 1, c.OffsetIndex), deci("count", 2, 2, uint16(len(c.Targets))), l.tile("noc", atReadArgNOC, c.NOC),
		hexa("addr", atReadArgAddr, 4, c.Addr)}
	for i, t := range c.Targets {
		at := atArgTarget(i)
		noc := l.tile(index("noc", i), at, t.NOC)
		if t.Dests != 0 {
			noc = l.rect(index("noc", i), at, t.NOC)
		}
		f = append(f, noc, hexa(index("addr", i), at+4, 2, t.Addr), deci(index("dests", i), at+6, 1, t.Dests))
	}
	return f
}

// Validate tests the addresses, the number of targets and the offset index.
func (c ReadArg) Validate(Layout, Limits) error {
	if n := len(c.Targets); n == 0 || n > MaxArgTargets {
		return limit(c.Name(), "targets", n, fmt.Sprintf("1 to %d", MaxArgTargets), "use several commands")
	}
	if err := multiple(c.Name(), "addr", uint64(c.Addr), 4, "an argument is a 32-bit word"); err != nil {
		return err
	}
	for _, t := range c.Targets {
		if err := multiple(c.Name(), "addr of a target", uint64(t.Addr), 4, "an argument is a 32-bit word"); err != nil {
			return err
		}
	}
	return offsetIndex(c.Name(), int(c.OffsetIndex))
}

// ReadArg appends the command.
func (b *Builder) ReadArg(c ReadArg) int {
	if n := len(c.Targets); n == 0 || n > MaxArgTargets {
		return b.fail(limit(c.Name(), "targets", n, fmt.Sprintf("1 to %d", MaxArgTargets), "use several commands"))
	}
	p, at := b.relay(PrefetchRelayInline, Master, uint64(c.Size()))
	if p == nil {
		return 0
	}
	clear(p)
	lo, hi := c.words()
	le.PutUint64(p, lo)
	le.PutUint64(p[8:], hi)
	for i, t := range c.Targets {
		le.PutUint64(p[atArgTarget(i):], t.word())
	}
	return at
}

func decodeReadArg(p []byte, lo, hi uint64) (DispatchCommand, error) {
	c := ReadArg{OffsetIndex: uint8(lo >> 8), NOC: uint32(hi), Addr: uint32(hi >> 32)}
	n := int(uint16(lo >> 16))
	if n == 0 || n > MaxArgTargets {
		return nil, limit(c.Name(), "targets", n, fmt.Sprintf("1 to %d", MaxArgTargets), "the list must lie in a page")
	}
	end := atArgTarget(n)
	if len(p) != SlotStride(end) {
		return nil, bad(ErrFormat, HeaderSize, c.Name(), "%d bytes in the relay for %d targets, want %d", len(p), n, SlotStride(end))
	}
	c.Targets = make([]ArgTarget, n)
	for i := range c.Targets {
		w := le.Uint64(p[atArgTarget(i):])
		c.Targets[i] = ArgTarget{NOC: uint32(w), Addr: uint16(w >> 32), Dests: uint8(w >> 48)}
	}
	lo, hi = c.words()
	if err := same(p, c.Name(), lo, hi); err != nil {
		return c, err
	}
	for i := range c.Targets {
		if at := atArgTarget(i) + 7; p[at] != 0 {
			return c, bad(ErrPadding, at, c.Name(), "byte 7 of target %d is 0x%02x, not 0", i, p[at])
		}
	}
	return c, zeros(p, end, c.Name())
}
