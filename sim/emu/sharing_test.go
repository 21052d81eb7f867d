package emu

import (
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// together runs one program on BRISC and one on TRISC0.
func (r *rig) together(v chip.XY, b, t *asm) {
	r.write(v, uint64(t.base), t.bytes())
	r.load(v, b)
	r.st(v, 0xFFB121B0, 0x46000)
}

func onT0() *asm { return newAsm(0x6000) }
func onB() *asm  { return newAsm(0x1000) }

// commit loads the word at addr and uses the result: the store is in L1.
func (a *asm) commit(addr uint32) *asm { return a.li(t0, addr).lw(t2, t0, 0).addi(x0, t2, 0) }

// stream is a register of stream 8, a circular buffer's counter.
func (r *rig) stream(acked bool) uint32 {
	at := map[chip.Arch][2]uint32{chip.Wormhole: {0x010, 0x00C}, chip.Blackhole: {0x028, 0x020}}[r.arch]
	return streamBase + 8*0x1000 + at[word.Bool(acked)]
}

func (a *asm) until(addr uint32, want int, label string) *asm {
	return a.li(a0, addr).label(label).lw(a1, a0, 0).bltu(a1, want, label)
}

func (a *asm) copyWord(from, to uint32) *asm {
	return a.li(a0, from).lw(a1, a0, 0).li(a0, to).sw(a1, a0, 0)
}

func (a *asm) spend(n int, label string) *asm {
	return a.li(a2, uint32(n)).label(label).addi(a2, a2, -1).bne(a2, x0, label)
}

const (
	atPage, atFlag, atOut, atBack = 0x40000, 0x41000, 0x42000, 0x43000
)

func (r *rig) increment(v, to chip.XY, addr uint64) nocRequest {
	return nocRequest{buf: 3, targ: addr, targXY: to, ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked | staticVC1,
		len: 1<<12 | 31<<2 | uint32(addr>>2&3), dat: 1}
}

// page stores a word of a page, and reads it back if that is right.
func (a *asm) page(right bool) *asm {
	if a.stw(atPage, 7); right {
		a.commit(atPage)
	}
	return a
}

// consumer takes a page of a circular buffer.
func (r *rig) consumer() *asm {
	return onT0().li(s0, 1).until(r.stream(false), s0, "w").copyWord(atPage, atOut).halt()
}

// pass returns requests by which worker v sends a page to memory, and w fetches it from there.
func (r *rig) pass(memory chip.XY, at uint64) (v, w chip.XY, send, fetch nocRequest) {
	v, w = r.worker(1, 1), r.worker(2, 2)
	r.write(v, atPage, pattern(64, 1))
	send = nocRequest{targ: atPage, targXY: v, ret: at, retXY: memory, ctrl: ctrlWriteNP | staticVC1, len: 64}
	return v, w, send, nocRequest{buf: 1, targ: at, targXY: memory, ret: atPage, retXY: w, ctrl: ctrlRead | staticVC1, len: 64}
}

// sharings are programs that share memory without an edge, and the same with it.
func sharings() (list checkList) {
	refused := list.of(Config{RefuseRaces: true}, undefined)
	// passed tells w of a page only when it is in memory, and w waits for that if it is right.
	passed := func(r *rig, right bool, memory chip.XY, at uint64) {
		v, w, send, fetch := r.pass(memory, at)
		b := onB().li(s0, 1)
		if right {
			b.poll(r.arch, atFlag, "w")
		}
		r.run(w, b.request(r.arch, fetch).waitCounter(0, cntReadResp, s0, "read").halt())
		r.run(v, onB().li(s0, 1).request(r.arch, send).waitCounter(0, cntWriteAck, s0, "ack").
			request(r.arch, r.increment(v, w, atFlag)).halt())
	}
	refused("a page of a circular buffer is published before its store is in L1", func(r *rig, right bool) {
		b := onB().page(right)
		r.together(r.worker(1, 1), b.stw(r.stream(false), 1).halt(), r.consumer())
	}).says("TRISC0 pc=|race|BRISC|0x40000|read back first")
	refused("another word is read back than the one stored", func(r *rig, right bool) {
		b := onB().li(t0, atPage).li(t1, 7).sw(t1, t0, 0).lw(t2, t0, choose[int32](right, 0, 16))
		r.together(r.worker(1, 1), b.addi(x0, t2, 0).stw(r.stream(false), 1).halt(), r.consumer())
	}).says("TRISC0 pc=|race|BRISC|0x40000|read back first")
	refused("what was read back is not waited for", func(r *rig, right bool) {
		b := onB().li(a0, r.stream(false)).li(a1, 1).li(t0, atPage).li(t1, 7).sw(t1, t0, 0).lw(t2, t0, 0)
		if right { // seven instructions do as well
			for range 7 {
				b.addi(x0, x0, 0)
			}
		}
		r.together(r.worker(1, 1), b.sw(a1, a0, 0).halt(), r.consumer())
	}).says("TRISC0 pc=|race|read back first, and the result used")
	refused("a consumer doesn't wait for its page", func(r *rig, right bool) {
		t := onT0().li(s0, 1)
		if right {
			t.until(r.stream(false), s0, "w")
		}
		r.together(r.worker(1, 1), onB().stw(atPage, 7).commit(atPage).stw(r.stream(false), 1).halt(),
			t.copyWord(atPage, atOut).halt())
	}).says("race|0x40000|Nothing that one of the two did, and the other has seen since, orders them")
	refused("a byte is used while another processor stores there, and not beside it", func(r *rig, right bool) {
		at := choose[uint32](right, atPage+2, atPage+1)
		v := r.worker(1, 1)
		r.st(v, atPage, 5)
		r.together(v, onB().li(a0, atPage).lbu(a1, a0, 1).li(a0, atOut).sw(a1, a0, 0).halt(),
			onT0().spend(200, "w").li(a0, at).li(a1, 3).sb(a1, a0, 0).halt())
	}).says("race|0x4000")
	refused("a consumer waits for one page and takes two", func(r *rig, right bool) {
		t := onT0().li(s0, choose[uint32](right, 2, 1))
		r.together(r.worker(1, 1), onB().stw(atPage, 7).commit(atPage).stw(r.stream(false), 1).
			until(r.stream(true), x0, "r").spend(300, "s").stw(atPage+64, 8).commit(atPage+64).stw(r.stream(false), 2).halt(),
			t.until(r.stream(false), s0, "w").copyWord(atPage, atOut).copyWord(atPage+64, atOut+4).halt())
	}).says("race|0x40040")
	refused("a consumer returns its page before it has read it", func(r *rig, right bool) {
		t := onT0().li(s0, 1).until(r.stream(false), s0, "w")
		if right {
			t.copyWord(atPage, atOut).stw(r.stream(true), 1)
		} else {
			t.stw(r.stream(true), 1).copyWord(atPage, atOut)
		}
		r.together(r.worker(1, 1), onB().li(s0, 1).stw(atPage, 7).commit(atPage).stw(r.stream(false), 1).
			until(r.stream(true), s0, "r").stw(atPage, 8).halt(), t.halt())
	}).says("race|0x40000")
	refused("a flag in L1 is stored before what it tells of", func(r *rig, right bool) {
		b := onB()
		if right { // L1 keeps the order of one processor's stores: no read-back
			b.stw(atPage, 7).stw(atFlag, 1)
		} else {
			b.stw(atFlag, 1).stw(atPage, 7)
		}
		r.write(r.worker(1, 1), atFlag, make([]byte, 4))
		r.together(r.worker(1, 1), b.halt(), onT0().poll(r.arch, atFlag, "w").copyWord(atPage, atOut).halt())
	}).says("race|0x40000")
	refused("two processors store to one word", func(r *rig, right bool) {
		t := onT0()
		if right {
			t.poll(r.arch, atFlag, "w")
		}
		r.together(r.worker(1, 1), onB().stw(atPage, 7).stw(atFlag, 1).halt(), t.stw(atPage, 8).halt())
	}).says("race: store to 0x40000 of L1|wrote 0x40000 at pc=")
	// The example of tt-isa-documentation
	// WormholeB0/TensixTile/BabyRISCV/MemoryOrdering.md, with the consumer's part put
	// right.
	refused("a mailbox tells of a store that was not read back", func(r *rig, right bool) {
		b := onB().stw(atPage, 123)
		if right {
			b.commit(atPage)
		}
		r.together(r.worker(1, 1), b.stw(mailboxBase+0x1000, 0).halt(),
			onT0().li(t2, mailboxBase).lw(a5, t2, 0).addi(x0, a5, 0).copyWord(atPage, atOut).halt())
	}).says("TRISC0 pc=|race|BRISC|0x40000|read back first")
	refused("the source of a NoC write need not be in L1", func(r *rig, right bool) {
		v := r.worker(1, 1)
		r.write(v, atPage, pattern(64, 1))
		b := onB().page(right)
		r.run(v, b.request(r.arch, r.sendTo(v, r.worker(2, 2))).halt())
	}).says("BRISC pc=|race: NoC write from 0x40000 of L1|need not have reached L1")
	refused("an increment tells of a store that was not read back", func(r *rig, right bool) {
		v, w := r.worker(1, 1), r.worker(2, 2)
		fetch := r.fetchFrom(w, v)
		fetch.targ, fetch.ret = atPage, 0x50000
		r.write(v, atPage, pattern(64, 1))
		r.run(w, onB().poll(r.arch, atFlag, "w").request(r.arch, fetch).halt())
		b := onB().page(right)
		r.run(v, b.request(r.arch, r.increment(v, w, atFlag)).halt())
	}).says("race: NoC read of 0x40000 of L1|BRISC|wrote 0x40000|read back first")
	refused("DRAM is read before it is known to be written", func(r *rig, right bool) {
		passed(r, right, r.topo.DRAMBanks()[2].Endpoint[0], 0x10000)
	}).says("race|DRAM controller|BRISC of tile|Nothing that one of the two did")
	refused("others are told of a write to DRAM before it is acknowledged", func(r *rig, right bool) {
		v, w, send, fetch := r.pass(r.topo.DRAMBanks()[2].Endpoint[0], 0x10000)
		r.run(w, onB().li(s0, 1).poll(r.arch, atFlag, "w").spend(1000, "late").request(r.arch, fetch).waitCounter(0,
			cntReadResp, s0,
			"read").halt())
		b := onB().li(s0, 1).request(r.arch, send)
		if right {
			b.waitCounter(0, cntWriteAck, s0, "ack")
		}
		r.run(v, b.request(r.arch, r.increment(v, w, atFlag)).halt())
	}).says("race: NoC read of|DRAM controller|BRISC of tile|Its end is not known")
	// An example of tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/MemoryOrdering.md.
	refused("half of a word is loaded just after the word was stored", func(r *rig, right bool) {
		a := onB().li(t0, localBase).sw(x0, t0, 0)
		if right {
			a.lw(t1, t0, 0)
		} else {
			a.emit(itype(0x03, 5, t1, t0, 2))
		}
		r.run(r.worker(1, 1), a.halt())
	}).on(chip.Wormhole).says("BRISC pc=|race: load of 2 bytes|store of 4 bytes to 0xffb00000")
	refused("half of a word is loaded when three more stores have followed it", func(r *rig, right bool) {
		a := onB().li(t0, atPage).sw(x0, t0, 0).sw(x0, t0, 4).sw(x0, t0, 8)
		if right {
			a.sw(x0, t0, 12)
		}
		r.run(r.worker(1, 1), a.emit(itype(0x03, 5, t1, t0, 2)).halt())
	}).on(chip.Wormhole).says("BRISC pc=|race: load of 2 bytes|store of 4 bytes to 0x40000")
	refused("DRAM is overwritten before it is known to be read", func(r *rig, right bool) {
		v, w, send, fetch := r.pass(r.topo.DRAMBanks()[2].Endpoint[0], 0x10000)
		r.run(w, onB().li(s0, 1).request(r.arch, fetch).waitCounter(0, cntReadResp, s0, "read").request(r.arch,
			r.increment(w, v, atFlag)).halt())
		b := onB()
		if right {
			b.poll(r.arch, atFlag, "w")
		}
		r.run(v, b.request(r.arch, send).halt())
	}).says("race|DRAM controller|BRISC of tile|Nothing that one of the two did")
	refused("a source is reused before the NoC is known to have read it", func(r *rig, right bool) {
		v := r.worker(1, 1)
		r.write(v, atPage, pattern(64, 1))
		b := onB().request(r.arch, r.sendTo(v, r.worker(2, 2)))
		if right {
			b.waitCounter(0, cntOutgoing, x0, "read").stw(r.stream(true), 1)
		} else {
			b.stw(r.stream(true), 1).waitCounter(0, cntOutgoing, x0, "read")
		}
		r.together(v, b.halt(), onT0().li(s0, 1).until(r.stream(true), s0, "w").spend(400, "late").stw(atPage, 7).halt())
	}).says("race|0x40000")
	refused("a processor says that it has read another tile before the read is counted", func(r *rig, right bool) {
		v, w := r.worker(1, 1), r.worker(2, 2)
		r.write(w, 0x50000, pattern(64, 1))
		a := onB().li(s0, 1).request(r.arch, r.fetchFrom(v, w))
		if right {
			a.waitCounter(0, cntReadResp, s0, "read")
		}
		r.run(w, onB().poll(r.arch, atFlag, "w").spend(400, "late").stw(0x50000, 7).halt())
		r.run(v, a.request(r.arch, r.increment(v, w, atFlag)).halt())
	}).says("race|BRISC of tile|read 0x50000 at pc=|Its end is not known")
	refused("increments are lost", func(r *rig, right bool) {
		v, w := r.worker(1, 1), r.worker(2, 2)
		a := onB()
		if right {
			a.poll(r.arch, atFlag, "w")
		}
		r.run(w, a.stw(atFlag, 0).stw(atFlag, 5).halt())
		r.run(v, onB().request(r.arch, r.increment(v, w, atFlag)).halt())
	}).says("race|0x41000")
	refused("host memory is read before it is known to be written", func(r *rig, right bool) {
		r.c.AttachDMA(&hostMemory{base: 0x12_3456_0000, p: pattern(1<<16, 4)})
		r.region(2, 0x40000, 0x4FFFF, 0x12_3456_0000)
		passed(r, right, r.topo.PCIe(0), r.params.PCI.NOCBase+0x40000)
	}).says("race|host memory|BRISC of tile|Nothing that one of the two did")
	refused("code is stored where another processor jumps to", func(r *rig, right bool) {
		v := r.worker(1, 1)
		r.write(v, 0x8000, returns(1))
		t := onT0()
		if right {
			t.poll(r.arch, atFlag, "w")
		}
		r.together(v, onB().stw(0x8004, itype(0x13, 0, a3, x0, 5)).stw(0x8008, itype(0x67, 0, x0, ra, 0)).stw(atFlag, 1).halt(),
			t.call(0x8000).halt())
	}).says("race|0x8004|Nothing that one of the two did")
	refused("code is stored before its processor leaves reset", func(r *rig, right bool) {
		b := onB().stw(0x6000, jtype(x0, 0))
		if right {
			b.commit(0x6000)
		}
		r.run(r.worker(1, 1), b.stw(0xFFB121B0, 0x46000).halt())
	}).says("TRISC0 pc=0x6000|race: fetch of an instruction|BRISC|0x6000|read back first")
	refused("code is multicast over a loop that runs", func(r *rig, right bool) {
		v, w := r.worker(1, 1), r.worker(2, 2)
		r.write(v, 0x42000, append(newAsm(0).addi(a2, x0, 1).bytes(), make([]byte, 60)...))
		send := r.sendTo(v, w)
		send.targ, send.ret = 0x42000, 0x2000
		r.run(w, newAsm(0x2000).spend(60, "w").spend(60, "x").spend(60, "y").halt())
		b := onB()
		if right { // nothing runs there any more
			r.st(w, 0xFFB121B0, 0x47800)
		}
		r.run(v, b.request(r.arch, send).halt())
	}).says("race|0x2000")
	return list
}

// fine are programs that a coarser check would refuse.
func fine() (list checkList) {
	fine := list.of(Config{RefuseRaces: true}, 0)
	fine("halves of a word belong to different processors", func(r *rig, _ bool) {
		v := r.worker(1, 1)
		r.together(v,
			onB().li(s0, 1).li(a0, atFlag).label("w").lw(a1, a0, 0).andi(a1, a1, 1).beq(a1, x0, "w").
				stw(r.stream(true), 1).spend(500, "s").li(a0, atFlag).sh(x0, a0, 0).halt(),
			onT0().li(s0, 1).li(a0, atFlag).sh(s0, a0, 0).until(r.stream(true), s0, "w").li(a0, atFlag).sh(s0, a0, 2).halt())
		equal(r.t, r.ld(v, atFlag), 1<<16, "the word")
	})
	fine("bytes of a word belong to different processors", func(r *rig, _ bool) {
		v := r.worker(1, 1)
		r.together(v, onB().li(s0, 1).li(a0, atFlag).sb(s0, a0, 1).sb(s0, a0, 3).halt(),
			onT0().li(s0, 2).li(a0, atFlag).sb(s0, a0, 0).sb(s0, a0, 2).halt())
		equal(r.t, r.ld(v, atFlag), 0x01020102, "the word")
	})
	fine("one processor waits for what another one reads", func(r *rig, _ bool) {
		v, w := r.worker(1, 1), r.worker(2, 2)
		r.write(w, 0x50000, pattern(64, 1))
		r.together(v, onB().request(r.arch, r.fetchFrom(v, w)).halt(),
			onT0().li(s0, 1).waitCounter(0, cntReadResp, s0, "read").copyWord(atPage, atOut).halt())
	})
	fine("a poll goes by way of local RAM and arithmetic", func(r *rig, _ bool) {
		v := r.worker(1, 1)
		r.st(v, atFlag, 0)
		r.together(v, onB().stw(atPage, 7).stw(atFlag, 3).halt(),
			onT0().li(s0, 2).li(s1, localBase).li(a0, atFlag).label("w").lw(a1, a0, 0).sw(a1, s1, 8).lw(a2, s1, 8).sub(a2,
				a2, s0).bltu(s0, a2,
				"w").
				copyWord(atPage, atOut).halt())
		equal(r.t, r.ld(v, atOut), 7, "the consumer found")
	})
	return list
}

// Sharing without an edge is refused in whatever order the two sides come.
func TestSharing(t *testing.T) { testChecks(t, append(sharings(), fine()...)) }
