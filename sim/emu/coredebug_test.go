package emu

import (
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

// debugProbe drives a processor's debug interface as tt-isa-documentation says.
type debugProbe struct {
	r  *rig
	v  chip.XY
	hw uint32
}

func (p debugProbe) get(dr uint32) uint32 {
	p.r.st(p.v, debugBase+regRISCControl0, 0)
	p.r.st(p.v, debugBase+regRISCControl0, portTrigger|p.hw<<17|dr)
	p.r.eventually("answer of the debug interface", func() bool {
		return p.r.ld(p.v, debugBase+regRISCStatus0)>>30 == 3
	})
	return p.r.ld(p.v, debugBase+regRISCStatus1)
}

func (p debugProbe) set(dr, v uint32) {
	p.r.st(p.v, debugBase+regRISCControl1, v)
	p.r.st(p.v, debugBase+regRISCControl0, 0)
	p.r.st(p.v, debugBase+regRISCControl0, portTrigger|portWrite|p.hw<<17|dr)
}

func (p debugProbe) pause() {
	p.set(drCommand, cmdSlow)
	p.set(drCommand, cmdSlow|cmdPause)
	p.paused(0)
}

func (p debugProbe) paused(why uint32) {
	p.r.t.Helper()
	p.r.eventually("pause", func() bool { return p.get(drStatus)&pausedBit != 0 })
	if got := p.get(drStatus); got != pausedBit|why {
		p.r.t.Fatalf("status %#x, want %#x", got, pausedBit|why)
	}
}

func (p debugProbe) reg(i uint32) uint32 {
	p.set(drArg0, i)
	p.set(drCommand, cmdSlow|cmdReadRegister)
	return p.get(drResult)
}

func (p debugProbe) setReg(i, v uint32) {
	p.set(drArg0, i)
	p.set(drArg1, v)
	p.set(drCommand, cmdSlow|cmdWriteRegister)
}

func (p debugProbe) load(addr uint32) uint32 {
	p.set(drArg0, addr)
	p.set(drCommand, cmdSlow|cmdReadMemory)
	p.r.eventually("load", func() bool { return p.get(drStatus)&pausedBit != 0 })
	return p.get(drResult)
}

func (p debugProbe) store(addr, v uint32) {
	p.set(drArg0, addr)
	p.set(drArg1, v)
	p.set(drCommand, cmdSlow|cmdWriteMemory)
	p.r.eventually("store", func() bool { return p.get(drStatus)&pausedBit != 0 })
}

func (p debugProbe) step() {
	p.set(drCommand, cmdSlow|cmdStep)
	if p.r.arch == chip.Blackhole {
		p.set(drCommand, cmdSlow|cmdStep)
	}
	p.paused(0)
}

func counting() *asm {
	return onB().li(a1, 0x20000).li(a0, 0).
		label("loop").addi(a0, a0, 1).sw(a0, a1, 0).lw(a2, a1, 4).j("loop")
}

func TestDebugInterface(t *testing.T) {
	for _, arch := range arches {
		for _, synchronous := range []bool{true, false} {
			r := newRig(t, Config{Arch: arch, Synchronous: synchronous, MaxRun: 1000})
			v := r.worker(1, 1)
			p := debugProbe{r, v, 0}
			r.run(v, counting())
			r.eventually("counting", func() bool { return r.ld(v, 0x20000) > 2 })
			p.pause()
			count := r.ld(v, 0x20000)
			for range 100 {
				if got := r.ld(v, 0x20000); got != count {
					t.Fatalf("%v: a paused processor counts from %d to %d", arch, count, got)
				}
			}
			pc := p.reg(regPC)
			if pc < 0x1000 || pc > 0x1018 || p.reg(a1) != 0x20000 || p.reg(0) != 0 {
				t.Errorf("%v: pc %#x, a1 %#x", arch, pc, p.reg(a1))
			}
			p.store(localBase+8, 77)
			equal(t, p.load(localBase+8), 77, "%v: local RAM", arch)
			if arch == chip.Blackhole {
				equal(t, r.ld(v, 0xFFB14008), 77, "local RAM over the NoC")
			}
			if arch == chip.Wormhole {
				p.store(configBase+4*cfgDisablePredictors, 1<<cfgDisablePredictorBit)
			}
			p.setReg(a0, 1000)
			loop := uint32(0x1008)
			for p.reg(regPC) != loop {
				p.step()
			}
			at := p.reg(a0)
			p.step()
			if got, pc := p.reg(a0), p.reg(regPC); got != at+1 || pc != loop+4 {
				t.Errorf("%v: after a step a0 %d, pc %#x: want %d, %#x", arch, got, pc, at+1, loop+4)
			}
			// A breakpoint stops after its instruction.
			p.set(drAddress+3, loop)
			p.set(drModes, watchBreak<<12)
			p.set(drCommand, cmdSlow|cmdResume)
			p.paused(hitBreak | hitFirst<<3)
			equal(t, p.reg(regPC), loop+4, "%v: breakpoint at %#x stops at", arch, loop)
			// A store ends; a watched load has not ended.
			p.set(drAddress+1, 0x20000)
			p.set(drModes, watchStore<<4)
			p.set(drCommand, cmdSlow|cmdResume)
			p.paused(hitWatch | hitFirst<<1)
			if got := p.reg(regPC); got != loop+8 || r.ld(v, 0x20000) != p.reg(a0) {
				t.Errorf("%v: watched store stops at %#x", arch, got)
			}
			p.set(drAddress+1, 0x20004)
			p.set(drModes, watchAccess<<4)
			for range 2 {
				p.set(drCommand, cmdSlow|cmdResume)
				p.paused(hitWatch | hitFirst<<1)
				equal(t, p.reg(regPC), loop+8, "%v: watched load stops at", arch)
			}
			p.set(drModes, 0)
			p.set(drCommand, cmdSlow|cmdResume)
			p.set(drCommand, 0)
			count = r.ld(v, 0x20000)
			r.eventually("counting", func() bool { return r.ld(v, 0x20000) != count })
			if r.c.tileAt(r.raw(v)).core(chip.BRISC).checked {
				t.Error("a processor without a debugger runs one instruction at a time")
			}
			r.healthy()
		}
	}
}

// On Blackhole a debugger has to write pc, otherwise the ebreak comes again.
func TestDebugEBREAK(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, MaxRun: 1000})
		v := r.worker(0, 0)
		p := debugProbe{r, v, 0}
		p.set(drCommand, cmdSlow)
		r.run(v, onB().li(a0, 0x20000).emit(0x00100073).sw(a0, a0, 0).halt())
		p.paused(hitEBREAK)
		equal(t, p.reg(regPC), 0x1008, "%v: pc", arch)
		if arch == chip.Wormhole {
			p.store(configBase+4*cfgDisablePredictors, 1<<cfgDisablePredictorBit)
		} else {
			p.set(drCommand, cmdSlow|cmdResume)
			p.paused(hitEBREAK)
			p.set(drArg1, 0x1008)
			p.set(drCommand, cmdSlow|cmdWritePC|cmdStep)
		}
		p.set(drCommand, cmdSlow|cmdResume)
		r.eventually("store", func() bool { return r.ld(v, 0x20000) == 0x20000 })
		r.healthy()
	}
}

func TestDebugBusPC(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, MaxRun: 1000})
		v := r.worker(0, 0)
		r.write(v, 0x12000, newAsm(0x12000).halt().bytes())
		r.load(v, onB().halt())
		r.st(v, 0xFFB121B0, 0x7000)
		for _, want := range []struct{ signal, pc uint32 }{{10, 0x1000}, {24, 0x12000}} {
			if arch == chip.Wormhole && want.signal == 24 {
				continue // it starts elsewhere
			}
			r.st(v, debugBase+regDebugBusControl, 1<<29|7<<16|want.signal)
			if got := r.ld(v, debugBase+regDebugBusData); got != 1<<31|want.pc {
				t.Errorf("%v: signal %d: %#x, want pc %#x", arch, want.signal, got, want.pc)
			}
		}
		r.healthy()
	}
}

func TestDebugRefused(t *testing.T) {
	for name, do := range map[string]func(p debugProbe){
		"register of a running processor": func(p debugProbe) { p.set(drCommand, cmdSlow|cmdReadRegister) },
		"no such register":                func(p debugProbe) { p.set(7, 1) },
		"resume outside of slow mode": func(p debugProbe) {
			p.set(drCommand, cmdPause)
			p.set(drCommand, cmdResume)
		},
		"step of Wormhole that predicts": func(p debugProbe) {
			p.pause()
			p.set(drCommand, cmdSlow|cmdStep)
		},
	} {
		for _, strict := range []bool{true, false} {
			r := newRig(t, Config{Arch: chip.Wormhole, Synchronous: true, MaxRun: 1000, RefuseUnmapped: strict})
			v := r.worker(0, 0)
			r.run(v, counting())
			p := debugProbe{r, v, 0}
			do(p)
			var refused *Refusal
			err := r.c.Fault()
			if bad := strict || name == "no such register"; bad && (!errors.As(err, &refused) || refused.Category != undefined) {
				t.Errorf("%s: %v", name, err)
			} else if !bad {
				count := r.ld(v, 0x20000)
				p.set(drCommand, cmdResume)
				r.eventually("counting: "+name, func() bool { return r.ld(v, 0x20000) != count })
			}
		}
	}
}

// A processor that waits shows the pcs of its loop, in order, and isn't disturbed.
func TestDebugBusWait(t *testing.T) {
	for _, arch := range arches {
		for _, cfg := range []Config{{}, {RefuseRaces: true, RefuseUnwritten: true, RefuseUnmapped: true}} {
			cfg.Arch, cfg.Synchronous, cfg.MaxRun = arch, true, 1000
			r := newRig(t, cfg)
			v := r.worker(0, 0)
			k := r.c.tileAt(r.raw(v)).core(chip.BRISC)
			r.write(v, 0x20000, make([]byte, 8))
			r.run(v, onB().li(a0, 0x20000).li(a2, niu0Base+0x200).
				label("loop").lw(a3, a2, 0).addi(a3, a3, -1).lbu(a1, a0, 4).addi(a1, a1, 1).
				lw(a3, a0, 0).beq(a3, x0, "loop").sw(a3, a0, 4).halt())
			r.eventually("wait", func() bool { return r.ld(v, 0x20000) == 0 && k.state == parked })
			before, pcs := k.X, []uint32{}
			for range 20 {
				r.st(v, debugBase+regDebugBusControl, 1<<29|7<<16|10)
				pcs = append(pcs, r.ld(v, debugBase+regDebugBusData)&^(1<<31))
			}
			for i, pc := range pcs[1:] {
				if want := pcs[i] + 4; pc != want && (pc != 0x100C || want != 0x1024) {
					t.Fatalf("%v: pcs %#x", arch, pcs)
				}
			}
			if k.X != before || k.state != parked {
				t.Errorf("%v: pcs %#x, core %v", arch, pcs, k.state)
			}
			if cfg.RefuseUnmapped {
				continue
			}
			for _, w := range [][2]uint32{{2, 0xF}, {0, 0x3000}, {1, 0x3003}, {2, 4}, {2, 0x1004}, // three samples, then two
				{2, 0xF}, {0, 0x3004}, {2, 1}, {2, 0x1001}, {2, 1}, {2, 0x1001}} {
				r.st(v, debugBase+regSampleAt+4*uint64(w[0]), w[1])
			}
			for i, sampled := range []bool{true, true, true, false, true, true, false} {
				if pc := r.ld(v, 0x30000+16*uint64(i)) &^ (1 << 31); sampled != (pc >= 0x100C && pc <= 0x1020) {
					t.Errorf("%v: sample %d: pc %#x", arch, i, pc)
				}
			}
			p := debugProbe{r, v, 0} // a breakpoint in the loop is hit, each time
			p.set(drAddress, 0x1014)
			p.set(drModes, watchBreak)
			for range 3 {
				p.paused(hitBreak | hitFirst)
				equal(t, p.reg(regPC), 0x1018, "%v: breakpoint at 0x1014 stops at", arch)
				p.set(drArg1, 0x1018)
				p.set(drCommand, cmdSlow|cmdWritePC|cmdResume)
			}
			p.paused(hitBreak | hitFirst)
			p.set(drModes, 0)
			p.set(drCommand, cmdSlow|cmdResume)
			p.set(drCommand, 0)
			r.st(v, 0x20000, 5)
			r.eventually("end of the wait", func() bool { return r.ld(v, 0x20004) == 5 })
		}
	}
}

func TestDebugInstructions(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, MaxRun: 1000, RefuseUnmapped: true})
		v := r.worker(0, 0)
		tool, e := observing(r), r.c.tileAt(r.raw(v)).enginesOf()
		push := func(control, inst uint32) {
			tool.st(v, debugBase+regInsnWord, inst)
			tool.st(v, debugBase+regInsnControl, control)
			tool.st(v, debugBase+regInsnControl, control|0x20)
		}
		push(0, setGPR(2, 1234)) // without control
		equal(t, e.GPR(1, 2), 0, "%v: GPR 2", arch)
		push(2, 0x09000000) // not emulated
		push(2, setGPR(2, 1234))
		equal(t, e.GPR(1, 2), 1234, "%v: GPR 2", arch)
		equal(t, tool.ld(v, debugBase+regInsnStatus), 0x77, "%v: status", arch)
		push(2, semWait(2, 1))
		equal(t, tool.ld(v, debugBase+regInsnStatus), 0x57, "%v: status of a thread that waits", arch)
		r.healthy()
	}
}

func TestPerformanceCounters(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, MaxRun: 1000, RefuseUnmapped: true})
		v := r.worker(0, 0)
		r.run(v, counting())
		reg := func(off uint32) uint32 { return r.ld(v, debugBase+uint64(off)) }
		for n, first := range perfBlocks {
			out := regPerfOut + 8*uint32(n)
			r.st(v, debugBase+uint64(first)+4, 0x10300)
			equal(t, reg(first+4), 0x10300, "mode")
			equal(t, reg(out), 0, "clocks before the start")
			begun := reg(regWallClockLow)
			r.st(v, debugBase+uint64(first)+8, perfStart)
			a, b := reg(out), reg(out)
			r.st(v, debugBase+uint64(first)+8, perfStop)
			c, most := reg(out), reg(regWallClockLow)-begun
			if a >= b || b >= c || c > most || reg(out) != c || reg(out+4) != 0 {
				t.Errorf("%v: block %d: clocks %d, %d, %d of %d, events %d", arch, n, a, b, c, most, reg(out+4))
			}
		}
		r.st(v, debugBase+regPerfAll, perfStart)
		first, second := reg(0x100), reg(0x108)
		if first >= reg(0x100) || second != reg(0x108) {
			t.Errorf("%v: PERF_CNT_ALL has not started the first block, or the second one", arch)
		}
		r.st(v, debugBase+regPerfMux, 0x10)
		equal(t, reg(regPerfMux), 0x10, "multiplexer")
		r.healthy()

		for _, strict := range []bool{false, true} { // a program polls clocks, and loads events
			r := newRig(t, Config{Arch: arch, Synchronous: true, MaxRun: 1000, RefuseUnmapped: strict})
			r.run(v, onB().li(a0, debugBase).li(a1, perfStart).sw(a1, a0, 8).li(a2, 1000).
				label("loop").lw(a1, a0, 0x100).bltu(a1, a2, "loop").lw(a1, a0, 0x104).li(a0, 0x20000).sw(a2, a0, 0).halt())
			r.eventually("events", func() bool { return r.c.Fault() != nil || r.ld(v, 0x20000) == 1000 })
			if stopped := r.c.Fault() != nil; stopped != strict {
				t.Errorf("%v: strict %v: %v", arch, strict, r.c.Fault())
			}
		}
	}
}

func TestDebugPauseWaits(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, MaxRun: 1000})
		v := r.worker(0, 0)
		p := debugProbe{r, v, 0}
		p.set(drCommand, cmdSlow|cmdPause)
		equal(t, p.get(drStatus), 0, "%v: a processor in reset has status", arch)
		r.run(v, onB().li(a0, mailboxBase+0x1000).lw(a1, a0, 0).halt()) // from TRISC0
		p.set(drCommand, cmdSlow|cmdPause)
		equal(t, p.get(drStatus), 0, "%v: a processor that waits for a mailbox has status", arch)
		r.write(v, 0x6000, onT0().li(a0, mailboxBase).li(a1, 5).sw(a1, a0, 0).halt().bytes())
		r.st(v, 0xFFB121B0, 0x46000)
		p.paused(0)
		equal(t, p.reg(a1), 5, "%v: a1", arch)
		r.healthy()
	}
}
