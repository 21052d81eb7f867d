package emu

import (
	"fmt"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

const (
	atNCRISC  = 0x12000 // where NCRISC starts
	atKernels = 0x20000
	atResults = 0x48000
	atHalted  = 0x49000
)

func (a *asm) fill(from, n uint32) *asm {
	return a.startFill(from, n).li(t0, tdmaBase+tdmaStatus).lw(t1, t0, 0).addi(x0, t1, 0)
}

func (a *asm) startFill(from, n uint32) *asm {
	return a.stw(tdmaBase+tdmaSource, from/16).stw(tdmaBase+tdmaTarget, moverIRAM).stw(tdmaBase+tdmaSize, n/16).
		stw(tdmaBase+tdmaDirection, l1ToIRAM).stw(tdmaBase+tdmaCommand, tdmaMove)
}

// forget is n of the 54 instructions that make the branch predictor forget the instruction RAM.
func (a *asm) forget(n int) *asm {
	for i := range n {
		if i%4 < 2 {
			a.emit(btype(1, x0, x0, 0))
		} else {
			a.emit(itype(0x13, 0, x0, x0, 0))
		}
	}
	return a
}

func (a *asm) halted(turn uint32) *asm { return a.stw(atHalted, turn).commit(atHalted).halt() }

// restart resets NCRISC to the instruction RAM when it has halted.
func (a *asm) restart(turn uint32) *asm {
	return a.li(s0, turn).until(atHalted, s0, fmt.Sprint("halted ", turn)).
		stw(configBase+4*cfgNCRISCResetPC, iramBase).stw(configBase+4*cfgNCRISCOverride, 1).
		stw(0xFFB121B0, 0x47000).spend(20, fmt.Sprint("reset ", turn)).stw(0xFFB121B0, 0x7000)
}

// restartNCRISC lets NCRISC run twice: from L1, and then in the instruction RAM.
func (r *rig) restartNCRISC(v chip.XY) {
	r.st(v, atHalted, 0)
	r.load(v, onB().stw(0xFFB121B0, 0x7000).restart(1).halt())
	r.st(v, 0xFFB121B0, 0x47000)
}

// kernelsInIRAM lets NCRISC fill its instruction RAM with one kernel after another, as tt-metal's
// firmware does.
func kernelsInIRAM(r *rig, v chip.XY) []byte {
	kernel := func(n uint32, length int, back uint32) []byte {
		a := newAsm(iramBase).li(a0, atResults+n*16).li(a1, n).li(a2, 10).
			label("loop").add(a1, a1, a2).addi(a2, a2, -1).bne(a2, x0, "loop").
			sw(a1, a0, 0).sw(sp, a0, 4).li(a3, back).emit(itype(0x67, 0, x0, a3, 0))
		for len(a.w) < length-1 {
			a.addi(a4, a4, 1)
		}
		return a.halt().bytes()
	}
	r.write(v, atKernels, kernel(1, 64, atNCRISC+0x400))
	r.write(v, atKernels+0x1000, kernel(2, 20, atNCRISC+0x800))
	r.write(v, atKernels+0x2000, newAsm(iramBase).emit(jtype(x0, 30*4)).bytes())
	r.write(v, atNCRISC, newAsm(atNCRISC).fill(atKernels, 256).halted(1).bytes())
	r.write(v, atNCRISC+0x400, newAsm(atNCRISC+0x400).forget(54).fill(atKernels+0x1000, 80).halted(2).bytes())
	r.write(v, atNCRISC+0x800, newAsm(atNCRISC+0x800).forget(54).fill(atKernels+0x2000, 16).halted(3).bytes())
	r.write(v, atResults, make([]byte, 64))
	r.st(v, atHalted, 0)
	r.load(v, onB().stw(0xFFB121B0, 0x7000).restart(1).restart(2).restart(3).halt())
	r.st(v, 0xFFB121B0, 0x47000)
	for range 10 {
		r.settle()
	}
	r.healthy()
	return r.read(v, atResults, 64)
}

func TestKernelsInIRAM(t *testing.T) {
	strict := Config{Arch: chip.Wormhole, Synchronous: true, Delay: 30, RefuseUnwritten: true, RefuseStaleCode: true, RefuseRaces: true,
		RefuseCounters: true}
	plain := syncRig(t, chip.Wormhole)
	want := kernelsInIRAM(plain, plain.worker(1, 2))
	for i, n := range []uint32{1 + 55, 2 + 55} {
		equal(t, uint32(want[16+16*i]), n, "kernel %d left", i+1)
	}
	r := newRig(t, strict)
	noDiff(t, kernelsInIRAM(r, r.worker(1, 2)), want, "strict")
	if n := plain.c.Retired(plain.raw(plain.worker(1, 2)), chip.NCRISC); n < 300 || n > 1500 {
		t.Errorf("NCRISC retired %d instructions", n)
	}
	t.Run("ttsim", func(t *testing.T) {
		r := ttsimRig(t, chip.Wormhole, ttsimtest.Path(t, ttsimtest.Wormhole))
		noDiff(t, want, kernelsInIRAM(r, r.worker(1, 2)), "against ttsim")
	})
}

func moverChecks() (list checkList) {
	races := list.of(Config{RefuseRaces: true}, undefined)
	unwritten := list.of(Config{RefuseUnwritten: true}, unpredictable)
	// NCRISC fills the instruction RAM, runs there, and comes back to do more.
	twice := func(r *rig, back func(a *asm)) {
		v := r.worker(1, 2)
		r.write(v, atKernels, newAsm(iramBase).li(a3, atNCRISC+0x400).emit(itype(0x67, 0, x0, a3, 0)).bytes())
		r.write(v, atNCRISC, newAsm(atNCRISC).fill(atKernels, 16).halted(1).bytes())
		a := newAsm(atNCRISC + 0x400)
		back(a)
		r.write(v, atNCRISC+0x400, a.halt().bytes())
		r.restartNCRISC(v)
	}
	races("the instruction RAM is filled while the branch predictor knows it", func(r *rig, right bool) {
		twice(r, func(a *asm) { a.forget(53+int(word.Bool(right))).fill(atKernels, 16) })
	}).on(chip.Wormhole).says("NCRISC pc=0x125|branch predictor may still fetch")
	races("the sequence that makes the branch predictor forget is a loop", func(r *rig, right bool) {
		twice(r, func(a *asm) {
			if right {
				a.forget(54)
			} else {
				a.li(a2, 14).label("again").forget(4).addi(a2, a2, -1).bne(a2, x0, "again")
			}
			a.fill(atKernels, 16)
		})
	}).on(chip.Wormhole).says("branch predictor may still fetch")
	races("the instruction RAM is executed before the mover is known to be done", func(r *rig, right bool) {
		v := r.worker(1, 2)
		r.write(v, atKernels, newAsm(iramBase).halt().halt().halt().halt().bytes())
		a := newAsm(atNCRISC).startFill(atKernels, 16)
		if right {
			a.li(t0, tdmaBase+tdmaStatus).lw(t1, t0, 0).addi(x0, t1, 0)
		}
		r.write(v, atNCRISC, a.halted(1).bytes())
		r.restartNCRISC(v)
	}).on(chip.Wormhole).says("NCRISC pc=0xffc00000|RISCV_TDMA_REG_STATUS")
	races("the mover reads a kernel that need not be in L1", func(r *rig, right bool) {
		v := r.worker(1, 2)
		a := onB().stw(atKernels, 0x6F)
		if right {
			a.commit(atKernels)
		}
		r.run(v, a.fill(atKernels, 16).halt())
	}).on(chip.Wormhole).says("BRISC pc=|mover's read of 0x20000|must be read back first")
	unwritten("instruction RAM that was never filled is executed", func(r *rig, right bool) {
		v := r.worker(1, 2)
		a := newAsm(iramBase).addi(a0, a0, 1).addi(a0, a0, 1).addi(a0, a0, 1)
		if right {
			a.halt()
		} else {
			a.addi(a0, a0, 1)
		}
		r.write(v, atKernels, a.bytes())
		r.write(v, atNCRISC, newAsm(atNCRISC).fill(atKernels, 32).halted(1).bytes())
		r.restartNCRISC(v)
	}).on(chip.Wormhole).says("NCRISC pc=0xffc00010|never filled")
	return list
}
