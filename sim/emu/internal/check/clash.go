package check

import (
	"fmt"

	"github.com/reprise-tt/reprise/sim/emu/internal/word"
)

func (o *Chip) describe(c clash) string {
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
		how = " through a NoC or an engine"
	}
	return fmt.Sprintf("%v of tile %v %s %#x%s at pc=%#x", a.core.Name, a.core.tile.XY, what, c.addr, how, c.pc)
}

// missing says which edge is missing between an access and agent a.
func (o *Chip) missing(a *agent, e epoch) string {
	b := o.agents[e.agent()]
	switch {
	case e == 0:
		return "Who resets a word must first have loaded all that was added to it"
	case e.time() == unfinished:
		return "Its end is not known: wait for a counter of its NoC before others are told"
	case a == b:
		return "The store need not have reached L1 before the register: it must be read back first, and the result used"
	case e.component()%components == l1Stores && a.known.at(b.index*components) >= e.time():
		return "What tells of it is not in L1, and overtakes it: the store must be read back first, and the result used"
	}
	return "Nothing that one of the two did, and the other has seen since, orders them: no poll, mailbox, semaphore or reset"
}

// refuse is for an access of n bytes at addr of s.
func (o *Chip) refuse(from Origin, what string, s *shadow, by *stamp, addr uint64, n int, c clash) bool {
	if !o.refused(from, c.addr, o.other(c), "%s %#x of %s, and %s. %s", what, c.addr, s.name, o.describe(c), o.missing(by.agent, c.e)) {
		return false
	}
	for a := addr &^ 3; a < addr+uint64(n); a += 4 {
		s.share(o, a, s.at(a), by, programs)
		by.agent.learn(s.common[a]...)
	}
	return true
}

func (o *Chip) other(c clash) *Other {
	return &Other{Core: o.agents[c.e.agent()].core, PC: c.pc, Addr: c.addr, Wrote: c.wrote || c.atomic}
}

// codeWritten refuses a change of instructions that another processor of the tile is executing,
// unless by the host.
func (o *Chip) codeWritten(from Origin, by *stamp, t *Tile, addr uint32, n int) bool {
	if !t.IsCode(addr>>lineShift) && !t.IsCode((addr+uint32(n)-1)>>lineShift) && n <= 1<<lineShift ||
		by.agent.core == nil {
		return true
	}
	for _, k := range t.cores {
		s := k.share
		if s == nil || s.agent == by.agent || k.Held() || s.line == none || s.line < addr>>lineShift ||
			s.line > (addr+uint32(n)-1)>>lineShift {
			continue
		}
		for i := range uint32(1 << lineShift / 4) {
			if a := s.line<<lineShift + 4*i; a+4 > addr && a < addr+uint32(n) && s.seen>>i&1 != 0 {
				return o.refused(from, uint64(a), &Other{Core: k, PC: k.PC(), Addr: uint64(a)},
					"change of an instruction that %v of tile %v is executing (pc=%#x)", k.Name, t.XY, k.PC())
			}
		}
	}
	return true
}

// WroteL1 records a write of n bytes to a tile's L1 through a NoC, or by the host.
func (o *Chip) WroteL1(from Origin, t *Tile, addr uint32, n int, buf []uint32) bool {
	by, l1 := o.by(from), t.L1(addr+uint32(n))
	c, ok := t.shadow.wroteRange(o, by, uint64(addr), n, false, func(i int) bool { return l1[int(addr>>2)+i] == buf[i] })
	return (ok || o.refuse(from, "NoC write to", t.shadow, by, uint64(addr), n, c)) &&
		(!word.Differ(l1, addr, buf, n) || o.codeWritten(from, by, t, addr, n))
}

// ReadL1 records a read of n bytes of a tile's L1 through a NoC, or by the host.
func (o *Chip) ReadL1(from Origin, t *Tile, addr uint32, n int) bool {
	return o.read(from, "NoC read of", t.shadow, uint64(addr), n, o.carry != nil)
}

func (o *Chip) read(from Origin, what string, s *shadow, addr uint64, n int, open bool) bool {
	by := o.by(from)
	c, ok := s.readRange(o, by, addr, n, open, flit)
	return ok || o.refuse(from, what, s, by, addr, n, c)
}

// WroteDRAM and ReadDRAM do the same for a DRAM controller.
func (o *Chip) WroteDRAM(from Origin, bank int, addr uint64, n int) bool {
	by := o.by(from)
	c, ok := o.drams[bank].wroteRange(o, by, addr, n, o.open, nil)
	return ok || o.refuse(from, "NoC write to", o.drams[bank], by, addr, n, c)
}

func (o *Chip) ReadDRAM(from Origin, bank int, addr uint64, n int) bool {
	return o.read(from, "NoC read of", o.drams[bank], addr, n, o.carry != nil)
}

// WroteHost and ReadHost do the same for host memory, whose writes the host may see at once.
func (o *Chip) WroteHost(from Origin, bus uint64, n int) bool {
	by := o.by(from)
	c, ok := o.bus.wroteRange(o, by, bus, n, false, nil)
	o.host.learn(*by)
	return ok || o.refuse(from, "NoC write to", o.bus, by, bus, n, c)
}

func (o *Chip) ReadHost(from Origin, bus uint64, n int) bool {
	return o.read(from, "NoC read of", o.bus, bus, n, false)
}

// Moved records that the mover reads n bytes of L1 at addr for a processor.
func (o *Chip) Moved(from Origin, t *Tile, addr uint32, n int) bool {
	return o.read(from, "mover's read of", t.shadow, uint64(addr), n, false)
}

// Engine records that an unpacker reads n bytes of L1 at addr for a processor, or that a packer
// writes them.
func (o *Chip) Engine(from Origin, t *Tile, addr uint32, n int, store bool) bool {
	by, what := from.Core.agent.now(), "unpacker's read of"
	c, ok := clash{}, true
	if store {
		what = "packer's write to"
		c, ok = t.shadow.wroteRange(o, by, uint64(addr), n, false, nil)
	} else {
		c, ok = t.shadow.readRange(o, by, uint64(addr), n, false, 0)
	}
	return ok || o.refuse(from, what, t.shadow, by, uint64(addr), n, c)
}

// Dst records that an instruction of a processor's thread reads or writes n rows of the destination
// register. Sixteen rows, what a packer reads at once, are one word.
func (r *Tile) Dst(o Origin, row, n uint32, writes bool) {
	by, what := o.Core.agent.now(), "read of row"
	if writes {
		what = "write to row"
	}
	for at := uint64(row &^ 15); at < uint64(row+n); at += 16 {
		c, ok := clash{}, true
		if writes {
			c, ok = r.dst.wrote(r.chip, by, programs, at, wholeWord, false)
		} else {
			c, ok = r.dst.readRange(r.chip, by, at, 4, false, 0)
		}
		if !ok {
			r.chip.refuse(o, what, r.dst, by, at, 4, c)
		}
	}
}

// Start follows a request that has just been started, or refuses it. A write's source must be in
// L1.
func (o *Chip) Start(q *Transfer) (*Flight, bool) {
	f, ok := q.Tile.started(q)
	if !ok {
		return nil, false
	}
	f.by = o.by(q.By)
	q.Tile.pass(f)
	if q.Kind != Write {
		return f, true
	}
	c, ok := q.Tile.shadow.readRange(o, f.by, q.FromAddr, q.N, true, flit)
	return f, ok || o.refuse(q.By, "NoC write from", q.Tile.shadow, f.by, q.FromAddr, q.N, c)
}

// Arrive begins a request's effect: until Leave, accesses are those of whoever started the request.
func (o *Chip) Arrive(f *Flight) {
	f.arrived = true
	o.carry, o.open = f.by, f.storing
}

// Leave ends what Arrive began.
func (o *Chip) Leave() { o.carry, o.open = nil, false }

// Atomic records an atomic on a word of L1; learns says that it uses the old value.
func (o *Chip) Atomic(f *Flight, t *Tile, addr uint32, learns bool) bool {
	c, ok := t.shadow.atomic(o, f.by, uint64(addr), programs, learns)
	return ok || o.refuse(f.q.By, "NoC atomic on", t.shadow, f.by, uint64(addr), 4, c)
}

// Land records that a read's data are written to L1 of the tile that asked for them.
func (o *Chip) Land(f *Flight, data []uint32) bool {
	if f.found {
		return true
	}
	o.carry = f.by
	defer func() { o.carry = nil }()
	q := &f.q
	return o.WroteL1(q.By, q.Tile, uint32(q.ToAddr), q.N, data)
}

// finished and stored record that seer has seen the end of f's read, or write.
func (o *Chip) finished(f *Flight, seer *Core) {
	q := &f.q
	if f.by == nil || f.by.agent.core == nil {
		return
	}
	a, t := f.by.agent, f.known(seer)
	switch {
	case q.Kind != Read:
		q.Tile.shadow.finished(a, q.FromAddr, q.N, t)
	case q.From.Bank != NoBank:
		o.drams[q.From.Bank].finished(a, q.FromAddr, q.N, t)
	case q.From.Tile != nil && q.FromAddr < uint64(q.From.Tile.size):
		q.From.Tile.shadow.finished(a, q.FromAddr, q.N, t)
	}
}

func (o *Chip) stored(f *Flight, seer *Core) {
	if q := &f.q; f.by != nil {
		o.drams[q.To.Bank].stored(f.by.agent, q.ToAddr, q.N, f.known(seer))
	}
}

// known returns when the program that started f knows of its end, just seen by seer: now, or if
// seer is another processor, not later than its start.
func (f *Flight) known(seer *Core) uint64 {
	a := f.by.agent
	if seer != a.core {
		return f.by.time
	}
	a.time++
	return a.time
}
