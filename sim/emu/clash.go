package emu

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

// describe names the agent that made the earlier access.
func (o *order) describe(c clash) string {
	if c.atomic {
		return fmt.Sprintf("atomics have changed %#x since this one last looked (the last from pc=%#x): what they did is lost", c.addr, c.pc)
	}
	what := "read"
	if c.wrote {
		what = "wrote"
	}
	a := o.agents[c.e.agent()]
	if a.core == nil {
		return fmt.Sprintf("the host %s %#x before", what, c.addr)
	}
	how := ""
	if c.wrote && c.e.component()%components == programs {
		how = " through a NoC"
	}
	return fmt.Sprintf("%v of tile %v %s %#x%s at pc=%#x", a.core.proc, a.core.tile.xy, what, c.addr, how, c.pc)
}

// missing says which edge is missing between an access and agent a.
func (o *order) missing(a *agent, e epoch) string {
	b := o.agents[e.agent()]
	switch {
	case e == 0:
		return "Who resets a word must first have loaded all that was added to it"
	case e.time() == unfinished:
		return "Nobody has seen the end of that: a counter of its NoC must be waited for before others are told"
	case a == b:
		return "The store need not have reached L1: registers and L1 are not ordered, so it must be read back first, and the result used"
	case e.component()%components == l1Stores && a.known.at(b.index*components) >= e.time():
		return "What tells of it is not in L1, and overtakes it: the store must be read back first, and the result used"
	}
	return "Nothing that one of the two did, and the other has seen since, orders them: no poll of a word in L1, stream, mailbox, semaphore or reset"
}

// refuse stops the chip for a clash. It returns false, as a failed check does.
func (o *order) refuse(from origin, what, where string, by *stamp, c clash) bool {
	o.chip.refuse(from, UndefinedBehavior, "race", c.addr, "%s %#x of %s, and %s. %s", what, c.addr, where, o.describe(c),
		o.missing(by.agent, c.e))
	return false
}

// codeWritten refuses a change of instructions that a processor of the tile, other than the one
// that changes them, is executing. What the host changes is its own affair.
func (o *order) codeWritten(from origin, by *stamp, t *tile, addr uint32, n int) bool {
	if t.flags[addr>>lineShift]&flagCode == 0 && t.flags[(addr+uint32(n)-1)>>lineShift]&flagCode == 0 && n <= 1<<lineShift ||
		by.agent.core == nil {
		return true
	}
	for _, k := range t.cores {
		s := k.share
		if s == nil || s.agent == by.agent || k.state == inReset || s.line == none || s.line < addr>>lineShift ||
			s.line > (addr+uint32(n)-1)>>lineShift {
			continue
		}
		for i := range uint32(1 << lineShift / 4) {
			if a := s.line<<lineShift + 4*i; a+4 > addr && a < addr+uint32(n) && s.seen>>i&1 != 0 {
				o.chip.refuse(from, UndefinedBehavior, "race", uint64(a), "change of an instruction that %v of tile %v is executing (pc=%#x)", k.proc,
					t.xy, k.pc)
				return false
			}
		}
	}
	return true
}

// wroteL1 records a write of n bytes to L1 of a tile through a NoC, or by the host.
func (o *order) wroteL1(from origin, t *tile, addr uint32, n int, buf []uint32) bool {
	by, l1 := o.by(from), t.memory(addr+uint32(n))
	c, ok := t.shadow.wroteRange(o, by, uint64(addr), n, false, func(i int) bool { return l1[int(addr>>2)+i] == buf[i] })
	return (ok || o.refuse(from, "NoC write to", fmt.Sprintf("L1 of tile %v", t.xy), by, c)) &&
		(!changedWords(l1, addr, buf, n) || o.codeWritten(from, by, t, addr, n))
}

// readL1 records a read of n bytes of L1 of a tile through a NoC, or by the host.
func (o *order) readL1(from origin, t *tile, addr uint32, n int) bool {
	by := o.by(from)
	c, ok := t.shadow.readRange(o, by, uint64(addr), n, o.carry != nil)
	return ok || o.refuse(from, "NoC read of", fmt.Sprintf("L1 of tile %v", t.xy), by, c)
}

// wroteDRAM and readDRAM do the same for a DRAM controller.
func (o *order) wroteDRAM(from origin, bank int, addr uint64, n int) bool {
	by := o.by(from)
	c, ok := o.drams[bank].wroteRange(o, by, addr, n, o.open, nil)
	return ok || o.refuse(from, "NoC write to", fmt.Sprintf("DRAM controller %d", bank), by, c)
}

func (o *order) readDRAM(from origin, bank int, addr uint64, n int) bool {
	by := o.by(from)
	c, ok := o.drams[bank].readRange(o, by, addr, n, o.carry != nil)
	return ok || o.refuse(from, "NoC read of", fmt.Sprintf("DRAM controller %d", bank), by, c)
}

// wroteHost and readHost do the same for host memory. The host may see at once what is written
// there.
func (o *order) wroteHost(from origin, bus uint64, n int) bool {
	by := o.by(from)
	c, ok := o.bus.wroteRange(o, by, bus, n, false, nil)
	o.host.learn(by.clock())
	return ok || o.refuse(from, "NoC write to", "host memory", by, c)
}

func (o *order) readHost(from origin, bus uint64, n int) bool {
	by := o.by(from)
	c, ok := o.bus.readRange(o, by, bus, n, false)
	return ok || o.refuse(from, "NoC read of", "host memory", by, c)
}

// starts records the start of a request, which knows what its processor knows. The source of a
// write must be in L1.
func (o *order) starts(q *request) bool {
	q.by = o.by(q.o)
	q.flight.q.by = q.by
	q.tile.races.pass(q)
	if q.kind != reqWrite {
		return true
	}
	c, ok := q.tile.shadow.readRange(o, q.by, q.fromAddr, q.n, true)
	return ok || o.refuse(q.o, "NoC write from", fmt.Sprintf("L1 of tile %v", q.tile.xy), q.by, c)
}

// landed records that the data of a read are written to L1 of the tile that asked for them.
func (o *order) landed(q *request) bool {
	o.carry = q.by
	defer func() { o.carry = nil }()
	return o.wroteL1(q.o, q.tile, uint32(q.toAddr), q.n, q.data)
}

// finished records that processor seer has seen that the NoC has read the source of f. If seer is
// not the processor that started f, that one may not know.
func (o *order) finished(f *flight, seer *core) {
	q := &f.q
	if q.by == nil || q.by.agent.core == nil {
		return
	}
	a, t := q.by.agent, f.known(seer)
	switch {
	case q.kind != reqRead:
		q.tile.shadow.finished(a, q.fromAddr, q.n, t)
	case q.from.kind == chip.DRAM && q.fromAddr < o.chip.drams[q.from.bank].size:
		o.drams[q.from.bank].finished(a, q.fromAddr, q.n, t)
	case q.from.tile != nil && q.from.tile.shadow != nil && q.fromAddr < q.from.tile.bytes():
		q.from.tile.shadow.finished(a, q.fromAddr, q.n, t)
	}
}

// stored records that processor seer has seen that DRAM has the data of f.
func (o *order) stored(f *flight, seer *core) {
	if q := &f.q; q.by != nil {
		o.drams[q.to.bank].stored(q.by.agent, q.toAddr, q.n, f.known(seer))
	}
}

// known returns the time at which the program that started f knows of its end, if seer has just
// seen it: now, or if seer is another processor, which has to tell it, not later than when it
// started f.
func (f *flight) known(seer *core) uint64 {
	a := f.q.by.agent
	if seer != a.core {
		return f.q.by.time
	}
	a.time++
	return a.time
}
