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

func inst1(w ...uint32) func(*rig, chip.XY) {
	return program(func(a *asm) {
		a.li(a0, 0x40000).li(a1, 1)
		for _, i := range w {
			a.emit(i)
		}
	})
}

// nocCall issues a request from v; f changes a correct write of 64 bytes to a neighbour.
func nocCall(f func(r *rig, v chip.XY, q *nocRequest)) func(*rig, chip.XY) {
	return func(r *rig, v chip.XY) {
		q := nocRequest{targ: 0x40000, targXY: v, ret: 0x50000, retXY: r.worker(2, 2), ctrl: ctrlWriteNP, len: 64}
		f(r, v, &q)
		r.issue(v, q)
	}
}

// registerRead reads n bytes of a register of another tile, from byte low on.
func registerRead(low uint64, n uint32) func(*rig, chip.XY) {
	return nocCall(func(r *rig, v chip.XY, q *nocRequest) {
		*q = nocRequest{targ: niu0Base + 0x200 + low, targXY: r.worker(3, 3), ret: 0x50000 + low, retXY: v, ctrl: ctrlRead, len: n}
	})
}

func reg(addr, v uint32) func(*rig, chip.XY) {
	return func(r *rig, w chip.XY) { r.st(w, uint64(addr), v) }
}

func look(addr uint32) func(*rig, chip.XY) {
	return func(r *rig, w chip.XY) { r.ld(w, uint64(addr)) }
}

func remoteLook(addr uint64) func(*rig, chip.XY) {
	return nocCall(func(r *rig, v chip.XY, q *nocRequest) {
		*q = nocRequest{targ: addr, targXY: r.worker(3, 3), ret: 0x50000, retXY: v, ctrl: ctrlRead, len: 4}
	})
}

func refusals() []refusal {
	const (
		ub, nc, un, us, ut, ce = undefined, nonContractual, unimplemented, unsupported,
			untested, misconfigured
		wh, bh = chip.Wormhole, chip.Blackhole
	)
	return []refusal{
		// Processors.
		{name: "load of a word at an odd address", do: program(func(a *asm) { a.li(a0, 0x40002).lw(a1, a0, 0) }), want: nc, core: true},
		{name: "store of a half word at an odd address", do: program(func(a *asm) { a.li(a0, 0x40001).sh(a1, a0, 0) }), want: nc, core: true},
		{name: "load of a byte from a register", do: program(func(a *asm) { a.li(a0, niu0Base).lbu(a1, a0, 0) }), want: ut, core: true},
		{name: "store of a byte to a register", do: program(func(a *asm) { a.li(a0, niu0Base).sb(a1, a0, 0) }), want: us, core: true},
		{name: "load from beyond L1", do: program(func(a *asm) { a.li(a0, 0x180000).lw(a1, a0, 0) }), want: un, core: true},
		{name: "store to beyond L1", do: program(func(a *asm) { a.li(a0, 0x180000).sw(a1, a0, 0) }), want: un, core: true},
		{name: "store to nowhere", do: program(func(a *asm) { a.li(a0, 0x80000000).sw(a1, a0, 0) }), want: un, core: true},
		{name: "load beyond local RAM", do: program(func(a *asm) { a.li(a0, localBase+0x2000).lw(a1, a0, 0) }), want: un, core: true},
		{name: "jump out of L1", do: program(func(a *asm) { a.li(a0, 0x80000000).emit(itype(0x67, 0, x0, a0, 0)) }), want: ub, core: true},
		{name: "jump to half a word", do: program(func(a *asm) { a.li(a0, 0x1002).emit(itype(0x67, 0, x0, a0, 0)) }), want: ub, core: true},
		{name: "branch to half a word", do: program(func(a *asm) { a.emit(btype(0, x0, x0, 10)) }), want: ub, core: true},
		{name: "run into zeroed memory", do: program(func(a *asm) { a.emit(0) }), want: ub, core: true},
		{name: "ecall", do: inst1(0x73), want: ce, core: true},
		{name: "ebreak", do: inst1(0x100073), want: us, core: true},
		{name: "fence.i", do: inst1(0x100F), want: us, core: true},
		{name: "fence", arch: wh, do: inst1(0x0FF0000F), want: us, core: true},
		{name: "fence rw,w", arch: bh, do: inst1(0x0310000F&^0x03000000 | 0x01000000), want: us, core: true},
		{name: "CSR", arch: wh, do: inst1(itype(0x73, 2, a0, x0, 0x7C0)), want: ub, core: true},
		{name: "another CSR", arch: bh, do: inst1(itype(0x73, 2, a0, x0, 0xB00-0x1000)), want: us, core: true},
		{name: "reserved bit of cfg0", arch: bh, do: inst1(itype(0x73, 2, x0, a1, 0x7C0)), want: us, core: true},
		{name: "csrrw with a destination", arch: bh, do: inst1(itype(0x73, 1, a2, x0, 0x7C0)), want: ut, core: true},
		{name: "csrrsi", arch: bh, do: inst1(itype(0x73, 6, x0, 2, 0x7C0)), want: ut, core: true},
		{name: "amoadd", arch: wh, do: inst1(rtype(0x2F, 2, 0, a2, a0, a1)), want: ub, core: true},
		{name: "lr", arch: bh, do: inst1(rtype(0x2F, 2, 2<<2, a2, a0, 0)), want: ub, core: true},
		{name: "amoadd beyond L1", arch: bh, do: program(func(a *asm) { a.li(a0, localBase).emit(rtype(0x2F, 2, 0, a2, a0, a1)) }), want: ub, core: true},
		{name: "sh1add", arch: wh, do: inst1(rtype(0x33, 2, 16, a2, a0, a1)), want: ub, core: true},
		{name: "clz", arch: wh, do: inst1(itype(0x13, 1, a2, a0, 0x600)), want: ub, core: true},
		{name: "floating point", arch: wh, do: inst1(itype(0x07, 2, 1, a0, 0)), want: ub, core: true},
		{name: "floating point", arch: bh, do: inst1(itype(0x07, 2, 1, a0, 0)), want: un, core: true, ttsim: "-"},
		{name: "a reserved opcode", do: inst1(0x0000006B), want: ub, core: true},
		{name: "a reserved branch", do: inst1(btype(2, 0, 0, 8)), want: ub, core: true},
		{name: "Tensix instruction of BRISC's stream that does not exist", do: inst1(0xF << 2), want: ub, core: true},
		{name: "mailbox store of BRISC beyond the value", do: program(func(a *asm) { a.li(a0, mailboxBase+0x1010).sw(a1, a0, 0) }), want: un, core: true},
		{name: "PCBuf load of BRISC", do: program(func(a *asm) { a.li(a0, pcBufBase+4).lw(a1, a0, 0) }), want: un, core: true},
		{name: "GPR load of BRISC", do: program(func(a *asm) { a.li(a0, gprBase).lw(a1, a0, 0) }), want: un, core: true},
		{name: "icache invalidate of no processor", arch: wh, do: program(func(a *asm) { a.stw(configBase+4*157, 0) }), want: us, core: true},
		{name: "icache invalidate of no processor", arch: bh, do: program(func(a *asm) { a.stw(configBase+4*185, 0) }), want: us, core: true},
		{name: "mover to elsewhere", arch: wh, do: program(func(a *asm) { a.stw(tdmaBase+4, 0x1234) }), want: us, core: true},
		{name: "mover", arch: bh, do: program(func(a *asm) { a.stw(tdmaBase, 0) }), want: us, core: true},
		{name: "mover while NCRISC executes the instruction RAM", arch: wh, do: func(r *rig, v chip.XY) {
			r.write(v, atKernels, newAsm(iramBase).halt().halt().halt().halt().bytes())
			r.write(v, atNCRISC, newAsm(atNCRISC).fill(atKernels, 16).halted(1).bytes())
			r.load(v, onB().stw(0xFFB121B0, 0x7000).restart(1).spend(200, "there").fill(atKernels, 16).halt())
			r.st(v, 0xFFB121B0, 0x47000)
		}, want: ub, core: true, ttsim: "-"},
		{name: "mover of too much", arch: wh, do: program(func(a *asm) { a.stw(tdmaBase+8, 0x401).stw(tdmaBase+16, 0x40) }), want: ub, core: true},

		// Registers, from outside.
		{name: "soft reset of the coprocessor", do: reg(0xFFB121B0, 0x47801), want: un},
		{name: "watchdog", do: reg(debugBase+0x1E0, 1), want: us},
		{name: "performance counter", do: program(func(a *asm) { a.li(a0, debugBase+0x100).lw(a1, a0, 0) }), want: us, core: true},
		{name: "no such debug register", do: look(debugBase + 0x300), want: ub},
		{name: "interrupt controller", do: remoteLook(0xFFB13000), want: un},
		{name: "local RAM from outside", do: look(localBase), want: un},
		{name: "configuration from outside", do: look(configBase), want: un},
		{name: "mailbox from outside", do: look(mailboxBase), want: ub},
		{name: "feature disable", do: reg(debugBase+0x68, 1), want: us},
		{name: "stream that does not exist", arch: wh, do: remoteLook(streamBase + 0x40), want: un},
		{name: "stream register that does not exist", do: remoteLook(streamBase + 0x08), want: un},
		{name: "stream update with a destination", arch: wh, do: reg(streamBase+48*0x1000+0x088, 1<<6|1), want: us},
		{name: "stream update with a destination", arch: bh, do: reg(streamBase+48*0x1000+0x438, 1<<6|1), want: us},
		{name: "remote source of 25 bits", arch: wh, do: reg(streamBase, 1<<24), want: us},
		{name: "NIU register", do: look(niu0Base + 0xF0), want: un},
		{name: "NIU register store", do: reg(niu1Base+0x200, 1), want: un},
		{name: "packet tag beyond the transaction id", do: reg(niu0Base+0x18, 1), want: un},
		{name: "CMD_CTRL of 0", arch: wh, do: reg(niu0Base+0x28, 0), want: un},
		{name: "CMD_CTRL of 2", arch: bh, do: reg(niu0Base+0x40, 2), want: un},
		{name: "broadcast exclude", arch: bh, do: reg(niu0Base+0x2C, 1), want: un},
		{name: "clear of nothing", arch: wh, do: reg(niu0Base+0x50, 0), want: us},
		{name: "clear of nothing", arch: bh, do: reg(niu0Base+0x60, 0), want: us},
		{name: "columns opened for multicast", do: reg(niu0Base+0x108, 0), want: ub},
		{name: "rows opened for multicast", do: reg(niu0Base+0x110, 0), want: ub},
		{name: "half a register", do: func(r *rig, v chip.XY) { r.dev.BARLoad(0, r.point(v, 0xFFB121B0), 2) }, want: us, strict: true},
		{name: "store to half a register", do: func(r *rig, v chip.XY) { r.dev.BARStore(0, r.point(v, niu0Base), 2, 1) }, want: us},
		{name: "two registers at once", do: func(r *rig, v chip.XY) { r.dev.BARLoad(0, r.point(v, niu0Base+0x200), 8) }, want: us, strict: true, ttsim: "UnimplementedFunctionality"},
		{name: "store to two registers at once", do: func(r *rig, v chip.XY) { r.dev.BARStore(0, r.point(v, niu0Base), 8, 1) }, want: us, ttsim: "UnimplementedFunctionality"},
		{name: "block of registers", do: func(r *rig, v chip.XY) { r.read(v, niu0Base+0x200, 16) }, want: us, strict: true},
		{name: "store to a block of registers", do: func(r *rig, v chip.XY) { r.write(v, niu0Base, make([]byte, 16)) }, want: us},
		{name: "register at an odd address", do: func(r *rig, v chip.XY) {
			r.write(v, 0x40000, pattern(64, 3)) // so that the host's last bytes aren't zero
			r.dev.BARLoad(0, r.point(v, niu0Base+0x201), 4)
		}, want: un, strict: true},
		{name: "store to a register at an odd address", do: func(r *rig, v chip.XY) { r.dev.BARStore(0, r.point(v, niu0Base+1), 4, 1) }, want: un},
		{name: "access across the end of L1", do: func(r *rig, v chip.XY) {
			r.read(v, uint64(r.params.L1Size)-4, 8)
		}, want: ub},

		// NoC.
		{name: "length 0", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.len = 0 }), want: us},
		{name: "length beyond a packet", do: nocCall(func(r *rig, _ chip.XY, q *nocRequest) { q.len = r.params.MaxBurst + 1 }), want: us},
		{name: "source and destination differ", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ret += 4 }), want: ub},
		{name: "read, source and destination differ", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40004, targXY: r.worker(1, 1), ret: 0x50000, retXY: v, ctrl: ctrlRead, len: 4}
		}), want: ub},
		{name: "DRAM read, source and destination differ", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.topo.DRAMBanks()[0].Endpoint[0], ret: 0x50010, retXY: v, ctrl: ctrlRead, len: 4}
		}), want: ub},
		{name: "host read, source and destination differ", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: r.params.PCI.NOCBase, targXY: r.topo.PCIe(0), ret: 0x50010, retXY: v, ctrl: ctrlRead, len: 4}
		}), want: ub, ttsim: "ConfigurationError|HostDMA"},
		{name: "source beyond L1", do: nocCall(func(r *rig, _ chip.XY, q *nocRequest) {
			q.targ, q.ret = uint64(r.params.L1Size)-32, uint64(r.params.L1Size)-96
		}), want: us},
		{name: "destination beyond L1", do: nocCall(func(r *rig, _ chip.XY, q *nocRequest) {
			q.targ, q.ret = 0x40000, uint64(r.params.L1Size)-32
		}), want: ub},
		{name: "destination in registers, 64 bytes", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ret = 0xFFB40000 }), want: us, ttsim: "UnsupportedFunctionality"},
		{name: "destination in registers, 2 bytes", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ret, q.len = 0xFFB40000, 2 }), want: us},
		{name: "destination in registers, not a multiple of 4", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) {
			q.targ, q.ret, q.len = 0x40002, 0xFFB40002, 4
		}), want: un},
		{name: "read of a byte of a register", do: registerRead(0, 1), want: us},
		{name: "read of half a register", do: registerRead(2, 2), want: us},
		{name: "read of three bytes of a register", do: registerRead(1, 3), want: us},
		{name: "read of two registers", do: registerRead(0, 8), want: un},
		{name: "read of a register at an odd address", do: registerRead(1, 4), want: un},
		{name: "kernel's read of a byte of a register", do: func(r *rig, v chip.XY) {
			a := onB()
			for _, w := range (nocRequest{targ: niu0Base + 0x200, targXY: r.worker(2, 2), ret: 0x40000, retXY: v, ctrl: ctrlRead,
				len: 1}).stores(r.arch) {
				a.stw(w[0], w[1])
			}
			r.run(v, a.halt())
		}, want: us, core: true},
		{name: "write from another tile", do: nocCall(func(r *rig, _ chip.XY, q *nocRequest) { q.targXY = r.worker(3, 3) }), want: un},
		{name: "read into another tile", do: nocCall(func(r *rig, _ chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.worker(3, 3), ret: 0x50000, retXY: r.worker(4, 4), ctrl: ctrlRead, len: 4}
		}), want: un},
		{name: "no such tile", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.retXY = chip.XY{X: 30, Y: 30} }), want: un},
		{name: "router", arch: wh, do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.retXY = chip.XY{X: 0, Y: 2} }), want: un},
		{name: "posted read", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.worker(3, 3), ret: 0x50000, retXY: v, ctrl: 0, len: 4}
		}), want: un},
		{name: "inline read", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.worker(3, 3), ret: 0x50000, retXY: v, ctrl: ctrlRead | ctrlInline, len: 4}
		}), want: un},
		{name: "byte enables", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ctrl |= ctrlByteEnable }), want: un},
		{name: "drop ack", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ctrl |= 1 << 9 }), want: un},
		{name: "reserved control bit 10", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ctrl |= 1 << 10 }), want: us},
		{name: "reserved control bit 20", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ctrl |= 1 << 20 }), want: us},
		{name: "Y-major", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ctrl |= 1 << 16 }), want: un},
		{name: "priority", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ctrl |= 1 << 27 }), want: un},
		{name: "accumulate", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ctrl |= 1 << 31 }), want: us},
		{name: "path reserve of a unicast", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ctrl |= ctrlPathReserve }), want: un},
		{name: "include of a unicast", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ctrl |= ctrlSrcInclude }), want: un},
		{name: "type 3", do: nocCall(func(_ *rig, _ chip.XY, q *nocRequest) { q.ctrl |= ctrlAtomic }), want: us},
		{name: "DRAM beyond its end", arch: wh, do: nocCall(func(r *rig, _ chip.XY, q *nocRequest) {
			q.retXY, q.ret = r.topo.DRAMBanks()[0].Endpoint[0], 1<<31-32
		}), want: ub},
		{name: "DRAM where registers are", arch: bh, do: nocCall(func(r *rig, _ chip.XY, q *nocRequest) {
			q.retXY, q.ret = r.topo.DRAMBanks()[0].Endpoint[0], 0xFF000000-32
		}), want: ub, ttsim: "-"},
		{name: "non-posted write to the host with a transaction id", arch: wh, do: nocCall(func(r *rig, _ chip.XY, q *nocRequest) {
			q.retXY, q.ret, q.tag = r.topo.PCIe(0), r.params.PCI.NOCBase, 1<<10
		}), want: ub, ttsim: "ConfigurationError|HostDMA"},
		{name: "host memory outside the window", arch: wh, do: nocCall(func(r *rig, _ chip.XY, q *nocRequest) {
			q.retXY, q.ret = r.topo.PCIe(0), 0x7_0000_0000
		}), want: un},
		{name: "host memory outside the window", arch: bh, do: nocCall(func(r *rig, _ chip.XY, q *nocRequest) {
			q.retXY, q.ret = r.topo.PCIe(0), 9<<58
		}), want: un},
		{name: "ARC outside its bus", arch: wh, do: nocCall(func(r *rig, _ chip.XY, q *nocRequest) { q.retXY = r.topo.ARC() }), want: un},
		{name: "inline write to L1", arch: bh, do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.worker(3, 3), retXY: v, ctrl: ctrlWriteNP | ctrlInline, len: 0xF}
		}), want: ub},
		{name: "inline write of two bytes", arch: wh, do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.worker(3, 3), retXY: v, ctrl: ctrlWriteNP | ctrlInline, len: 3}
		}), want: un},
		{name: "inline write whose mask is elsewhere", arch: wh, do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.worker(3, 3), retXY: v, ctrl: ctrlWriteNP | ctrlInline, len: 0xF0}
		}), want: un},
		{name: "inline write of nothing", arch: wh, do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.worker(3, 3), retXY: v, ctrl: ctrlWriteNP | ctrlInline, len: 0}
		}), want: un},
		{name: "inline write to DRAM", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.topo.DRAMBanks()[0].Endpoint[0], retXY: v, ctrl: ctrlWriteNP | ctrlInline, len: 0xF}
		}), want: un},
		{name: "inline write from another tile", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: streamBase, targXY: r.worker(3, 3), retXY: r.worker(4, 4), ctrl: ctrlWriteNP | ctrlInline, len: 0xF}
		}), want: un},
		{name: "inline write to half a register", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0xFFB40002, targXY: r.worker(3, 3), retXY: v, ctrl: ctrlWriteNP | ctrlInline, len: 0xF}
		}), want: un},
		{name: "atomic on DRAM", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.topo.DRAMBanks()[0].Endpoint[0], ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked, len: 0x107C}
		}), want: un},
		{name: "atomic on a register", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0xFFB40010, targXY: r.worker(3, 3), ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked, len: 0x107C}
		}), want: ub, ttsim: "-"},
		{name: "atomic at an odd address", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40001, targXY: r.worker(3, 3), ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked, len: 0x107C}
		}), want: un},
		{name: "atomic whose offset is elsewhere", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40004, targXY: r.worker(3, 3), ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked, len: 0x107C}
		}), want: ub, ttsim: "UnimplementedFunctionality"},
		{name: "atomic of another opcode", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.worker(3, 3), ret: 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked, len: 0x9000}
		}), want: un},
		{name: "atomic that returns beyond L1", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.worker(3, 3), ret: 0x200000, retXY: v, ctrl: ctrlAtomic | ctrlMarked, len: 0x107C}
		}), want: us},
		{name: "atomic that returns to the last word there is", arch: bh, do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			*q = nocRequest{targ: 0x40000, targXY: r.worker(3, 3), ret: 1<<64 - 4, retXY: v, ctrl: ctrlAtomic | ctrlMarked, len: 0x107C}
		}), want: us, ttsim: "-"},
		{name: "multicast without path reserve", do: multicast(func(_ *rig, q *nocRequest) { q.ctrl &^= ctrlPathReserve }), want: un},
		{name: "multicast read", do: multicast(func(_ *rig, q *nocRequest) { q.ctrl &^= ctrlWrite }), want: us},
		{name: "multicast atomic", do: multicast(func(_ *rig, q *nocRequest) { q.ctrl = q.ctrl&^ctrlWrite | ctrlAtomic }), want: un},
		{name: "multicast inline", do: multicast(func(_ *rig, q *nocRequest) { q.ctrl |= ctrlInline }), want: un},
		{name: "multicast from high to low", do: multicast(func(_ *rig, q *nocRequest) { *q.start, q.retXY = q.retXY, *q.start }), want: un},
		{name: "multicast from low to high on NoC 1", do: multicast(func(_ *rig, q *nocRequest) { q.noc = 1 }), want: un},
		{name: "multicast to registers of 64 bytes", do: multicast(func(_ *rig, q *nocRequest) { q.ret = 0xFFB40000 }), want: us},
		{name: "multicast whose addresses differ", do: multicast(func(_ *rig, q *nocRequest) { q.ret += 4 }), want: un},
		{name: "multicast beyond L1", do: multicast(func(r *rig, q *nocRequest) { q.ret = uint64(r.params.L1Size) - 32 }), want: us},
		{name: "linked request that is followed by one to another tile", do: nocCall(func(r *rig, v chip.XY, q *nocRequest) {
			q.ctrl |= ctrlLinked
			r.issue(v, *q)
			q.retXY = r.worker(1, 3)
			q.ctrl &^= ctrlLinked
		}), want: ub, ttsim: "-"},

		{name: "start at half an instruction", arch: bh, do: func(r *rig, v chip.XY) {
			r.write(v, 0x2000, newAsm(0x2000).halt().bytes())
			r.st(v, debugBase+regTRISC0ResetPC, 0x2002)
			r.st(v, debugBase+regTRISCOverride, 7)
			r.st(v, debugBase+regSoftReset, r.params.ResetAll&^chip.TRISC0.ResetBit())
		}, want: ub},

		// Host.
		{name: "BAR 2, two bytes", do: func(r *rig, _ chip.XY) { r.dev.BARLoad(2, 0x1200, 2) }, want: us, strict: true},
		{name: "BAR 2, store to nothing", do: func(r *rig, _ chip.XY) { r.dev.BARStore(2, 0x8000, 4, 0) }, want: un},
		{name: "BAR 0, nothing there", do: func(r *rig, _ chip.XY) { r.dev.BARLoad(0, 0x1FB00000, 4) }, want: un},
		{name: "BAR 0, store to nothing", do: func(r *rig, _ chip.XY) { r.dev.BARStore(0, 0x1FD80000, 4, 0) }, want: un},
		{name: "load of a window's configuration by two bytes", do: func(r *rig, _ chip.XY) { r.dev.BARLoad(0, 0x1FC00000, 2) }, want: us, strict: true, ttsim: "UnimplementedFunctionality"},
		{name: "window configuration by two bytes", do: func(r *rig, _ chip.XY) { r.dev.BARStore(0, 0x1FC00000, 2, 0) }, want: us},
		{name: "window configuration by eight bytes", arch: bh, do: func(r *rig, _ chip.XY) { r.dev.BARStore(0, 0x1FC00000, 8, 0) }, want: us},
		{name: "access across the end of a window", arch: wh, do: func(r *rig, v chip.XY) {
			r.point(v, 0)
			r.dev.BARRead(0, 0x0C000000-4, make([]byte, 8))
		}, want: us},
		{name: "window with ordering 3", arch: wh, do: func(r *rig, v chip.XY) {
			r.dev.BARStore(0, 0x1FC00000+8*166, 8, uint64(v.X)<<12|uint64(v.Y)<<18|3<<38)
			r.dev.BARLoad(0, 0x0B000000, 4)
		}, want: ub},
		{name: "window on NoC 1 to several tiles", arch: wh, do: func(r *rig, v chip.XY) {
			r.dev.BARStore(0, 0x1FC00000+8*166, 8, uint64(v.X)<<12|uint64(v.Y)<<18|uint64(v.X)<<24|uint64(v.Y)<<30|3<<36)
			r.dev.BARStore(0, 0x0B000000, 4, 0)
		}, want: un},
		{name: "window with a start corner", arch: wh, do: func(r *rig, v chip.XY) {
			r.dev.BARStore(0, 0x1FC00000+8*166, 8, uint64(v.X)<<12|uint64(v.Y)<<18|1<<24)
			r.dev.BARLoad(0, 0x0B000000, 4)
		}, want: us},
		{name: "window with static VC", arch: bh, do: func(r *rig, v chip.XY) {
			r.point(v, 0)
			r.dev.BARStore(0, 0x1FC00008, 4, 1<<9)
			r.dev.BARLoad(0, 0, 4)
		}, want: un, strict: true},
		{name: "window to no tile", do: func(r *rig, _ chip.XY) { r.ld(chip.XY{X: 30, Y: 30}, 0) }, want: un},
		{name: "window to after the last Ethernet channel", arch: bh, do: func(r *rig, _ chip.XY) { r.ld(chip.XY{X: 0, Y: 26}, 0) }, want: un},
		{name: "inbound region 0", do: func(r *rig, _ chip.XY) { r.dev.BARStore(2, uint64(r.params.PCI.IATUBase)+0x100, 4, 1) }, want: un},
		{name: "outbound region upside down", do: func(r *rig, _ chip.XY) { r.region(0, 0x2000, 0x1000, 0) }, want: ub},
		{name: "control 2 of a region", arch: bh, do: func(r *rig, _ chip.XY) { r.dev.BARStore(2, 0x1004, 4, 1) }, want: un},
		{name: "ARC scratch 1", arch: wh, do: func(r *rig, _ chip.XY) { r.dev.BARStore(0, 0x1FF30000+0x64, 4, 1) }, want: un, ttsim: "UndefinedBehavior"},
		{name: "ARC register that isn't safe", arch: wh, do: func(r *rig, _ chip.XY) { r.dev.BARLoad(0, 0x1FF30000+0x328, 4) }, want: un},
		{name: "ARC, two bytes", arch: bh, do: func(r *rig, _ chip.XY) { r.dev.BARLoad(0, r.point(r.topo.ARC(), 0x80030060), 2) }, want: ub, strict: true},
		{name: "Ethernet register", do: func(r *rig, _ chip.XY) { r.ld(r.ethernet(), 0xFFBC0000) }, want: un},
	}
}

func (r *rig) ethernet() chip.XY {
	if r.arch == chip.Wormhole {
		return chip.XY{X: 1, Y: 0}
	}
	return chip.XY{X: 20, Y: 25}
}

func multicast(f func(r *rig, q *nocRequest)) func(*rig, chip.XY) {
	return func(r *rig, v chip.XY) {
		start := r.worker(1, 1)
		q := nocRequest{targ: 0x40000, targXY: v, ret: 0x50000, start: &start, retXY: r.worker(3, 3), ctrl: ctrlMulticast, len: 64}
		f(r, &q)
		r.issue(v, q)
	}
}

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
	variables := map[chip.Arch]string{chip.Wormhole: ttsimtest.Wormhole, chip.Blackhole: ttsimtest.Blackhole}
	for _, arch := range arches {
		t.Run(arch.String(), func(t *testing.T) {
			path := ttsimtest.Path(t, variables[arch])
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
}

func ttsimRig(t testing.TB, arch chip.Arch, path string) *rig {
	t.Helper()
	s, err := ttsim.Start(path, ttsimtest.Server(), ttsim.ManualClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	topo, err := chip.New(arch, chip.Harvesting{})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, nil, s.Functions()[0], func() { s.Clock(2000) }, arch, topo, arch.Params()}
}
