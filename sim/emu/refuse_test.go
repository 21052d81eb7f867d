package emu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/ttsim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

type refusal struct {
	name string
	arch chip.Arch // zero: both
	do   func(r *rig, v chip.XY)
	want Category
	// ttsim is the vendor's simulator's category if another one, "-" if it accepts.
	ttsim string
	// strict: only with RefuseUnmapped.
	strict bool
	// core: the refusal must name the processor.
	core bool
}

func program(f func(a *asm)) func(*rig, chip.XY) {
	return func(r *rig, v chip.XY) {
		a := onB()
		f(a)
		r.run(v, a.halt())
	}
}

func inst(w uint32) func(*asm) {
	return func(a *asm) { a.li(a0, 0x40000).li(a1, 1).emit(w) }
}

// call is a request of worker v: first a correct write of 64 bytes to another worker.
type call struct {
	nocRequest
	r            *rig
	v, far, dram chip.XY
}

func (q *call) read(from chip.XY, targ, ret uint64, n uint32) {
	q.nocRequest = nocRequest{targ: targ, targXY: from, ret: ret, retXY: q.v, ctrl: ctrlRead, len: n}
}

func (q *call) inline(to chip.XY, targ uint64, be uint32) {
	q.nocRequest = nocRequest{targ: targ, targXY: to, retXY: q.v, ctrl: ctrlWriteNP | ctrlInline, len: be}
}

func (q *call) atomic(to chip.XY, targ, ret uint64, op uint32) {
	q.nocRequest = nocRequest{targ: targ, targXY: to, ret: ret, retXY: q.v, ctrl: ctrlAtomic | ctrlMarked, len: op}
}

func nocCall(f func(q *call)) func(*rig, chip.XY) {
	return func(r *rig, v chip.XY) {
		q := &call{nocRequest{targ: 0x40000, targXY: v, ret: 0x50000, retXY: r.worker(2, 2), ctrl: ctrlWriteNP, len: 64},
			r, v, r.worker(3, 3), r.topo.DRAMBanks()[0].Endpoint[0]}
		f(q)
		r.issue(v, q.nocRequest)
	}
}

// sets adds bits to the control word.
func sets(ctrl uint32) func(q *call) { return func(q *call) { q.ctrl |= ctrl } }

// registerRead reads n bytes of a register of another tile, from byte low on.
func registerRead(low uint64, n uint32) func(q *call) {
	return func(q *call) { q.read(q.far, niu0Base+0x200+low, 0x50000+low, n) }
}

func remoteLook(addr uint64) func(q *call) {
	return func(q *call) { q.read(q.far, addr, 0x50000, 4) }
}

func reg(addr, v uint32) func(*rig, chip.XY) {
	return func(r *rig, w chip.XY) { r.st(w, uint64(addr), v) }
}

func look(addr uint32) func(*rig, chip.XY) {
	return func(r *rig, w chip.XY) { r.ld(w, uint64(addr)) }
}

func refusals() (list []*refusal) {
	const (
		ub, nc, un, us, ut, ce = undefined, nonContractual, unimplemented, unsupported, untested, misconfigured
		wh, bh                 = chip.Wormhole, chip.Blackhole
	)
	add := func(f refusal) *refusal {
		list = append(list, &f)
		return &f
	}
	host := func(name string, arch chip.Arch, want Category, do func(*rig, chip.XY)) *refusal {
		return add(refusal{name: name, arch: arch, want: want, do: do})
	}
	core := func(name string, arch chip.Arch, want Category, f func(a *asm)) *refusal {
		return host(name, arch, want, program(f)).blames()
	}
	noc := func(name string, arch chip.Arch, want Category, f func(q *call)) *refusal {
		return host(name, arch, want, nocCall(f))
	}
	cast := func(name string, arch chip.Arch, want Category, f func(q *call)) {
		noc(name, arch, want, func(q *call) {
			start := q.r.worker(1, 1)
			q.start, q.retXY, q.ctrl = &start, q.far, ctrlMulticast
			f(q)
		})
	}
	// Processors.
	core("load of a word at an odd address", 0, nc, func(a *asm) { a.li(a0, 0x40002).lw(a1, a0, 0) })
	core("store of a half word at an odd address", 0, nc, func(a *asm) { a.li(a0, 0x40001).sh(a1, a0, 0) })
	core("load of a byte from a register", 0, ut, func(a *asm) { a.li(a0, niu0Base).lbu(a1, a0, 0) })
	core("store of a byte to a register", 0, us, func(a *asm) { a.li(a0, niu0Base).sb(a1, a0, 0) })
	core("load from beyond L1", 0, un, func(a *asm) { a.li(a0, 0x180000).lw(a1, a0, 0) })
	core("store to beyond L1", 0, un, func(a *asm) { a.li(a0, 0x180000).sw(a1, a0, 0) })
	core("store to nowhere", 0, un, func(a *asm) { a.li(a0, 0x80000000).sw(a1, a0, 0) })
	core("load beyond local RAM", 0, un, func(a *asm) { a.li(a0, localBase+0x2000).lw(a1, a0, 0) })
	core("jump out of L1", 0, ub, func(a *asm) { a.li(a0, 0x80000000).emit(itype(0x67, 0, x0, a0, 0)) })
	core("jump to half a word", 0, ub, func(a *asm) { a.li(a0, 0x1002).emit(itype(0x67, 0, x0, a0, 0)) })
	core("branch to half a word", 0, ub, func(a *asm) { a.emit(btype(0, x0, x0, 10)) })
	core("run into zeroed memory", 0, ub, func(a *asm) { a.emit(0) })
	core("ecall", 0, ce, inst(0x73))
	core("ebreak", 0, us, inst(0x100073))
	core("fence.i", 0, us, inst(0x100F))
	core("fence", wh, us, inst(0x0FF0000F))
	core("fence rw,w", bh, us, inst(0x0310000F&^0x03000000|0x01000000))
	core("CSR", wh, ub, inst(itype(0x73, 2, a0, x0, 0x7C0)))
	core("another CSR", bh, us, inst(itype(0x73, 2, a0, x0, 0xB00-0x1000)))
	core("reserved bit of cfg0", bh, us, inst(itype(0x73, 2, x0, a1, 0x7C0)))
	core("csrrw with a destination", bh, ut, inst(itype(0x73, 1, a2, x0, 0x7C0)))
	core("csrrsi", bh, ut, inst(itype(0x73, 6, x0, 2, 0x7C0)))
	core("amoadd", wh, ub, inst(rtype(0x2F, 2, 0, a2, a0, a1)))
	core("lr", bh, ub, inst(rtype(0x2F, 2, 2<<2, a2, a0, 0)))
	core("amoadd beyond L1", bh, ub, func(a *asm) { a.li(a0, localBase).emit(rtype(0x2F, 2, 0, a2, a0, a1)) })
	core("sh1add", wh, ub, inst(rtype(0x33, 2, 16, a2, a0, a1)))
	core("clz", wh, ub, inst(itype(0x13, 1, a2, a0, 0x600)))
	core("floating point", wh, ub, inst(itype(0x07, 2, 1, a0, 0)))
	core("floating point", bh, un, inst(itype(0x07, 2, 1, a0, 0))).unlike("-")
	core("a reserved opcode", 0, ub, inst(0x0000006B))
	core("a reserved branch", 0, ub, inst(btype(2, 0, 0, 8)))
	core("Tensix instruction of BRISC's stream that does not exist", 0, ub, inst(0xF<<2))
	core("mailbox store of BRISC beyond the value", 0, un, func(a *asm) { a.li(a0, mailboxBase+0x1010).sw(a1, a0, 0) })
	core("load of BRISC beyond its PCBufs", 0, un, func(a *asm) { a.li(a0, pcBufEnd).lw(a1, a0, 0) })
	core("GPR load of BRISC", 0, ub, func(a *asm) { a.li(a0, gprBase+0x300).lw(a1, a0, 0) }).unlike("UnimplementedFunctionality")
	core("icache invalidate of no processor", wh, us, func(a *asm) { a.stw(configBase+4*157, 0) })
	core("icache invalidate of no processor", bh, us, func(a *asm) { a.stw(configBase+4*185, 0) })
	core("mover to elsewhere", wh, us, func(a *asm) { a.stw(tdmaBase+4, 0x1234) })
	core("mover", bh, us, func(a *asm) { a.stw(tdmaBase, 0) })
	host("mover while NCRISC executes the instruction RAM", wh, ub, func(r *rig, v chip.XY) {
		r.write(v, atKernels, newAsm(iramBase).halt().halt().halt().halt().bytes())
		r.write(v, atNCRISC, newAsm(atNCRISC).fill(atKernels, 16).halted(1).bytes())
		r.load(v, onB().stw(0xFFB121B0, 0x7000).restart(1).spend(200, "there").fill(atKernels, 16).halt())
		r.st(v, 0xFFB121B0, 0x47000)
	}).blames().unlike("-")
	core("mover of too much", wh, ub, func(a *asm) { a.stw(tdmaBase+8, 0x401).stw(tdmaBase+16, 0x40) })

	// Registers, from outside.
	host("soft reset of the coprocessor", 0, un, reg(0xFFB121B0, 0x47801))
	host("watchdog", 0, us, reg(debugBase+0x1E0, 1))
	core("debug bus to L1", 0, us, func(a *asm) { a.li(a0, debugBase+0x48).lw(a1, a0, 0) })
	host("no such debug register", 0, ub, look(debugBase+0x300))
	noc("interrupt controller", 0, un, remoteLook(0xFFB13000))
	host("local RAM from outside", 0, un, look(localBase))
	host("configuration from outside", 0, un, look(configBase))
	host("mailbox from outside", 0, ub, look(mailboxBase))
	host("feature disable", 0, us, reg(debugBase+0x68, 1))
	noc("stream that does not exist", wh, un, remoteLook(streamBase+0x40))
	noc("stream register that does not exist", 0, un, remoteLook(streamBase+0x08))
	host("stream update with a destination", wh, us, reg(streamBase+48*0x1000+0x088, 1<<6|1))
	host("stream update with a destination", bh, us, reg(streamBase+48*0x1000+0x438, 1<<6|1))
	host("remote source of 25 bits", wh, us, reg(streamBase, 1<<24))
	host("NIU register", 0, un, look(niu0Base+0xF0))
	host("NIU register store", 0, un, reg(niu1Base+0x200, 1))
	host("packet tag beyond the transaction id", 0, un, reg(niu0Base+0x18, 1))
	host("CMD_CTRL of 0", wh, un, reg(niu0Base+0x28, 0))
	host("CMD_CTRL of 2", bh, un, reg(niu0Base+0x40, 2))
	host("broadcast exclude", bh, un, reg(niu0Base+0x2C, 1))
	host("clear of nothing", wh, us, reg(niu0Base+0x50, 0))
	host("clear of nothing", bh, us, reg(niu0Base+0x60, 0))
	host("columns opened for multicast", 0, ub, reg(niu0Base+0x108, 0))
	host("rows opened for multicast", 0, ub, reg(niu0Base+0x110, 0))
	host("half a register", 0, us, func(r *rig, v chip.XY) { r.dev.BARLoad(0, r.point(v, 0xFFB121B0), 2) }).strictly()
	host("store to half a register", 0, us, func(r *rig, v chip.XY) { r.dev.BARStore(0, r.point(v, niu0Base), 2, 1) })
	host("two registers at once", 0, us, func(r *rig, v chip.XY) {
		r.dev.BARLoad(0, r.point(v, niu0Base+0x200), 8)
	}).strictly().unlike("UnimplementedFunctionality")
	host("store to two registers at once", 0, us, func(r *rig, v chip.XY) {
		r.dev.BARStore(0, r.point(v, niu0Base), 8, 1)
	}).unlike("UnimplementedFunctionality")
	host("block of registers", 0, us, func(r *rig, v chip.XY) { r.read(v, niu0Base+0x200, 16) }).strictly()
	host("store to a block of registers", 0, us, func(r *rig, v chip.XY) { r.write(v, niu0Base, make([]byte, 16)) })
	host("register at an odd address", 0, un, func(r *rig, v chip.XY) {
		r.write(v, 0x40000, pattern(64, 3)) // so that the host's last bytes aren't zero
		r.dev.BARLoad(0, r.point(v, niu0Base+0x201), 4)
	}).strictly()
	host("store to a register at an odd address", 0, un, func(r *rig, v chip.XY) { r.dev.BARStore(0, r.point(v, niu0Base+1), 4, 1) })
	host("access across the end of L1", 0, ub, func(r *rig, v chip.XY) {
		r.read(v, uint64(r.params.L1Size)-4, 8)
	})

	// NoC.
	noc("length 0", 0, us, func(q *call) { q.len = 0 })
	noc("length beyond a packet", 0, us, func(q *call) { q.len = q.r.params.MaxBurst + 1 })
	noc("source and destination differ", 0, ub, func(q *call) { q.ret += 4 })
	noc("read, source and destination differ", 0, ub, func(q *call) { q.read(q.r.worker(1, 1), 0x40004, 0x50000, 4) })
	noc("DRAM read, source and destination differ", 0, ub, func(q *call) { q.read(q.dram, 0x40000, 0x50010, 4) })
	noc("host read, source and destination differ", 0, ub, func(q *call) {
		q.read(q.r.topo.PCIe(0), q.r.params.PCI.NOCBase, 0x50010, 4)
	}).unlike("ConfigurationError|HostDMA")
	noc("source beyond L1", 0, us, func(q *call) { q.targ, q.ret = uint64(q.r.params.L1Size)-32, uint64(q.r.params.L1Size)-96 })
	noc("destination beyond L1", 0, ub, func(q *call) { q.targ, q.ret = 0x40000, uint64(q.r.params.L1Size)-32 })
	noc("destination in registers, 64 bytes", 0, us, func(q *call) { q.ret = 0xFFB40000 }).unlike("UnsupportedFunctionality")
	noc("destination in registers, 2 bytes", 0, us, func(q *call) { q.ret, q.len = 0xFFB40000, 2 })
	noc("destination in registers, not a multiple of 4", 0, un, func(q *call) { q.targ, q.ret, q.len = 0x40002, 0xFFB40002, 4 })
	noc("read of a byte of a register", 0, us, registerRead(0, 1))
	noc("read of half a register", 0, us, registerRead(2, 2))
	noc("read of three bytes of a register", 0, us, registerRead(1, 3))
	noc("read of two registers", 0, un, registerRead(0, 8))
	noc("read of a register at an odd address", 0, un, registerRead(1, 4))
	host("kernel's read of a byte of a register", 0, us, func(r *rig, v chip.XY) {
		a := onB()
		for _, w := range (nocRequest{targ: niu0Base + 0x200, targXY: r.worker(2, 2), ret: 0x40000, retXY: v, ctrl: ctrlRead,
			len: 1}).stores(r.arch) {
			a.stw(w[0], w[1])
		}
		r.run(v, a.halt())
	}).blames()
	noc("write from another tile", 0, un, func(q *call) { q.targXY = q.far })
	noc("read into another tile", 0, un, func(q *call) {
		q.read(q.far, 0x40000, 0x50000, 4)
		q.retXY = q.r.worker(4, 4)
	})
	noc("no such tile", 0, un, func(q *call) { q.retXY = chip.XY{X: 30, Y: 30} })
	noc("router", wh, un, func(q *call) { q.retXY = chip.XY{X: 0, Y: 2} })
	noc("posted read", 0, un, func(q *call) {
		q.read(q.far, 0x40000, 0x50000, 4)
		q.ctrl = 0
	})
	noc("inline read", 0, un, func(q *call) {
		q.read(q.far, 0x40000, 0x50000, 4)
		q.ctrl |= ctrlInline
	})
	noc("byte enables", 0, un, sets(ctrlByteEnable))
	noc("drop ack", 0, un, sets(1<<9))
	noc("reserved control bit 10", 0, us, sets(1<<10))
	noc("reserved control bit 20", 0, us, sets(1<<20))
	noc("Y-major", 0, un, sets(1<<16))
	noc("priority", 0, un, sets(1<<27))
	noc("accumulate", 0, us, sets(1<<31))
	noc("path reserve of a unicast", 0, un, sets(ctrlPathReserve))
	noc("include of a unicast", 0, un, sets(ctrlSrcInclude))
	noc("type 3", 0, us, sets(ctrlAtomic))
	noc("DRAM beyond its end", wh, ub, func(q *call) { q.retXY, q.ret = q.dram, 1<<31-32 })
	noc("DRAM where registers are", bh, ub, func(q *call) { q.retXY, q.ret = q.dram, 0xFF000000-32 }).unlike("-")
	noc("non-posted write to the host with a transaction id", wh, ub, func(q *call) { q.retXY, q.ret, q.tag = q.r.topo.PCIe(0), q.r.params.PCI.NOCBase, 1<<10 }).unlike("ConfigurationError|HostDMA")
	noc("host memory outside the window", wh, un, func(q *call) { q.retXY, q.ret = q.r.topo.PCIe(0), 0x7_0000_0000 })
	noc("host memory outside the window", bh, un, func(q *call) { q.retXY, q.ret = q.r.topo.PCIe(0), 9<<58 })
	noc("ARC outside its bus", wh, un, func(q *call) { q.retXY = q.r.topo.ARC() })
	noc("inline write to L1", bh, ub, func(q *call) { q.inline(q.far, 0x40000, 0xF) })
	noc("inline write of two bytes", wh, un, func(q *call) { q.inline(q.far, 0x40000, 3) })
	noc("inline write whose mask is elsewhere", wh, un, func(q *call) { q.inline(q.far, 0x40000, 0xF0) })
	noc("inline write of nothing", wh, un, func(q *call) { q.inline(q.far, 0x40000, 0) })
	noc("inline write to DRAM", 0, un, func(q *call) { q.inline(q.dram, 0x40000, 0xF) })
	noc("inline write from another tile", 0, un, func(q *call) {
		q.inline(q.far, streamBase, 0xF)
		q.retXY = q.r.worker(4, 4)
	})
	noc("inline write to half a register", 0, un, func(q *call) { q.inline(q.far, 0xFFB40002, 0xF) })
	noc("atomic on DRAM", 0, un, func(q *call) { q.atomic(q.dram, 0x40000, 4, 0x107C) })
	noc("atomic on a register", 0, ub, func(q *call) { q.atomic(q.far, 0xFFB40010, 4, 0x107C) }).unlike("-")
	noc("atomic at an odd address", 0, un, func(q *call) { q.atomic(q.far, 0x40001, 4, 0x107C) })
	noc("atomic whose offset is elsewhere", 0, ub, func(q *call) {
		q.atomic(q.far, 0x40004, 4, 0x107C)
	}).unlike("UnimplementedFunctionality")
	noc("atomic of another opcode", 0, un, func(q *call) { q.atomic(q.far, 0x40000, 4, 0x9000) })
	noc("atomic that returns beyond L1", 0, us, func(q *call) { q.atomic(q.far, 0x40000, 0x200000, 0x107C) })
	noc("atomic that returns to the last word there is", bh, us, func(q *call) { q.atomic(q.far, 0x40000, 1<<64-4, 0x107C) }).unlike("-")
	cast("multicast without path reserve", 0, un, func(q *call) { q.ctrl &^= ctrlPathReserve })
	cast("multicast read", 0, us, func(q *call) { q.ctrl &^= ctrlWrite })
	cast("multicast atomic", 0, un, func(q *call) { q.ctrl = q.ctrl&^ctrlWrite | ctrlAtomic })
	cast("multicast inline", 0, un, sets(ctrlInline))
	cast("multicast from high to low", 0, un, func(q *call) { *q.start, q.retXY = q.retXY, *q.start })
	cast("multicast from low to high on NoC 1", 0, un, func(q *call) { q.noc = 1 })
	cast("multicast to registers of 64 bytes", 0, us, func(q *call) { q.ret = 0xFFB40000 })
	cast("multicast whose addresses differ", 0, un, func(q *call) { q.ret += 4 })
	cast("multicast beyond L1", 0, us, func(q *call) { q.ret = uint64(q.r.params.L1Size) - 32 })
	noc("linked request that is followed by one to another tile", 0, ub, func(q *call) {
		q.ctrl |= ctrlLinked
		q.r.issue(q.v, q.nocRequest)
		q.retXY = q.r.worker(1, 3)
		q.ctrl &^= ctrlLinked
	}).unlike("-")

	host("start at half an instruction", bh, ub, func(r *rig, v chip.XY) {
		r.write(v, 0x2000, newAsm(0x2000).halt().bytes())
		r.st(v, debugBase+regTRISC0ResetPC, 0x2002)
		r.st(v, debugBase+regTRISCOverride, 7)
		r.st(v, debugBase+regSoftReset, r.params.ResetAll&^chip.TRISC0.ResetBit())
	})

	// Host.
	host("BAR 2, two bytes", 0, us, func(r *rig, _ chip.XY) { r.dev.BARLoad(2, 0x1200, 2) }).strictly()
	host("BAR 2, store to nothing", 0, un, func(r *rig, _ chip.XY) { r.dev.BARStore(2, 0x8000, 4, 0) })
	host("BAR 0, nothing there", 0, un, func(r *rig, _ chip.XY) { r.dev.BARLoad(0, 0x1FB00000, 4) })
	host("BAR 0, store to nothing", 0, un, func(r *rig, _ chip.XY) { r.dev.BARStore(0, 0x1FD80000, 4, 0) })
	host("load of a window's configuration by two bytes", 0, us, func(r *rig, _ chip.XY) { r.dev.BARLoad(0, 0x1FC00000, 2) }).strictly().unlike("UnimplementedFunctionality")
	host("window configuration by two bytes", 0, us, func(r *rig, _ chip.XY) { r.dev.BARStore(0, 0x1FC00000, 2, 0) })
	host("window configuration by eight bytes", bh, us, func(r *rig, _ chip.XY) { r.dev.BARStore(0, 0x1FC00000, 8, 0) })
	host("access across the end of a window", wh, us, func(r *rig, v chip.XY) {
		r.point(v, 0)
		r.dev.BARRead(0, 0x0C000000-4, make([]byte, 8))
	})
	host("window with ordering 3", wh, ub, func(r *rig, v chip.XY) {
		r.dev.BARStore(0, 0x1FC00000+8*166, 8, uint64(v.X)<<12|uint64(v.Y)<<18|3<<38)
		r.dev.BARLoad(0, 0x0B000000, 4)
	})
	host("window on NoC 1 to several tiles", wh, un, func(r *rig, v chip.XY) {
		r.dev.BARStore(0, 0x1FC00000+8*166, 8, uint64(v.X)<<12|uint64(v.Y)<<18|uint64(v.X)<<24|uint64(v.Y)<<30|3<<36)
		r.dev.BARStore(0, 0x0B000000, 4, 0)
	})
	host("window with a start corner", wh, us, func(r *rig, v chip.XY) {
		r.dev.BARStore(0, 0x1FC00000+8*166, 8, uint64(v.X)<<12|uint64(v.Y)<<18|1<<24)
		r.dev.BARLoad(0, 0x0B000000, 4)
	})
	host("window with static VC", bh, un, func(r *rig, v chip.XY) {
		r.point(v, 0)
		r.dev.BARStore(0, 0x1FC00008, 4, 1<<9)
		r.dev.BARLoad(0, 0, 4)
	}).strictly()
	host("window to no tile", 0, un, func(r *rig, _ chip.XY) { r.ld(chip.XY{X: 30, Y: 30}, 0) })
	host("window to after the last Ethernet channel", bh, un, func(r *rig, _ chip.XY) { r.ld(chip.XY{X: 0, Y: 26}, 0) })
	host("inbound region 0", 0, un, func(r *rig, _ chip.XY) { r.dev.BARStore(2, uint64(r.params.PCI.IATUBase)+0x100, 4, 1) })
	host("outbound region upside down", 0, ub, func(r *rig, _ chip.XY) { r.region(0, 0x2000, 0x1000, 0) })
	host("control 2 of a region", bh, un, func(r *rig, _ chip.XY) { r.dev.BARStore(2, 0x1004, 4, 1) })
	host("ARC scratch 1", wh, un, func(r *rig, _ chip.XY) { r.dev.BARStore(0, 0x1FF30000+0x64, 4, 1) }).unlike("UndefinedBehavior")
	host("ARC register that isn't safe", wh, un, func(r *rig, _ chip.XY) { r.dev.BARLoad(0, 0x1FF30000+0x328, 4) })
	host("ARC, two bytes", bh, ub, func(r *rig, _ chip.XY) { r.dev.BARLoad(0, r.point(r.topo.ARC(), 0x80030060), 2) }).strictly()
	host("Ethernet register", 0, un, func(r *rig, _ chip.XY) { r.ld(r.ethernet(), 0xFFBC0000) })
	return list
}

func (r *rig) ethernet() chip.XY {
	if r.arch == chip.Wormhole {
		return chip.XY{X: 1, Y: 0}
	}
	return chip.XY{X: 20, Y: 25}
}

func (f *refusal) blames() *refusal             { f.core = true; return f }
func (f *refusal) strictly() *refusal           { f.strict = true; return f }
func (f *refusal) unlike(ttsim string) *refusal { f.ttsim = ttsim; return f }

func TestRefusals(t *testing.T) {
	for _, arch := range arches {
		for _, f := range refusals() {
			if f.arch != 0 && f.arch != arch {
				continue
			}
			t.Run(fmt.Sprintf("%v/%s", arch, f.name), func(t *testing.T) {
				r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: 1, RefuseUnmapped: f.strict})
				v := r.worker(0, 0)
				r.healthy()
				f.do(r, v)
				got := r.refused(f.want)
				if f.core && (!got.HasCore || got.Core != chip.BRISC || got.Tile != r.raw(v) || got.PC < 0x1000 && got.PC != 0x80000000) {
					t.Errorf("blames %+v", got)
				}
				if !f.core && !got.Host {
					t.Errorf("blames %+v: want the host", got)
				}
				if text := got.Error(); !strings.HasPrefix(text, "emu: "+f.want.String()) || strings.Contains(text, "%!") {
					t.Errorf("text %q", text)
				}
			})
		}
	}
}

func TestRefusalsLikeTTSim(t *testing.T) {
	withTTSim(t, func(t *testing.T, arch chip.Arch, path string) {
		for _, f := range refusals() {
			if f.arch != 0 && f.arch != arch {
				continue
			}
			t.Run(f.name, func(t *testing.T) {
				r := ttsimRig(t, arch, path)
				f.do(r, r.worker(0, 0))
				r.settle()
				err := r.dev.Fault()
				var e *ttsim.Error
				got := "-"
				if errors.As(err, &e) {
					got = e.Category
				}
				want := f.want.String()
				if f.ttsim != "" {
					want = f.ttsim
				}
				if !slices.Contains(strings.Split(want, "|"), got) {
					t.Errorf("ttsim: %v; want %s", err, want)
				}
			})
		}
	})
}

// withTTSim runs f on each architecture whose simulator there is.
func withTTSim(t *testing.T, f func(t *testing.T, arch chip.Arch, path string)) {
	for arch, variable := range map[chip.Arch]string{chip.Wormhole: ttsimtest.Wormhole, chip.Blackhole: ttsimtest.Blackhole} {
		t.Run(arch.String(), func(t *testing.T) { f(t, arch, ttsimtest.Path(t, variable)) })
	}
}

func ttsimRig(t testing.TB, arch chip.Arch, path string) *rig {
	t.Helper()
	s := value(ttsim.Start(path, ttsimtest.Server(), ttsim.ManualClock()))(t)
	t.Cleanup(func() { s.Close() })
	topo := value(chip.New(arch, chip.Harvesting{}))(t)
	return &rig{t, nil, s.Functions()[0], func() { s.Clock(2000) }, arch, topo, arch.Params()}
}
