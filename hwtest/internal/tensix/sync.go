package tensix

import (
	"math/rand/v2"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// Semaphores, mutexes, waits, registers and configuration: how threads of the engines and their cores keep in step.

// gprMark is a register that instructions set to show that they were executed.
const gprMark = 5

// mark sets the register by an instruction.
func (th *engineThread) mark(v uint32) { th.do(isa.SETDMAREG{Half: 2 * gprMark, Low: v}) }

// looks is how often a core looks at the register of a thread that has to wait.
const looks = 50

// held pushes an instruction that must wait and one that marks, looks whether the mark is made, lets a function end the wait,
// and waits for the mark.
func (th *engineThread) held(waits isa.Instruction, end func()) {
	th.r.Helper()
	th.mark(1)
	th.sync()
	th.do(waits)
	th.mark(2)
	for range looks {
		th.load(engineGPRs + 4*gprMark)
	}
	end()
	th.sync()
	th.load(engineGPRs + 4*gprMark)
}

// wantHeld compares what held has seen.
func (r *engineRun) wantHeld(thread int) {
	r.Helper()
	r.wantLog(thread, append(slices.Repeat([]uint32{1}, looks), 2)...)
}

func tensixSyncCases() rig.Table {
	var cs rig.Table
	add := func(name, protects string, fn func(*engines, *rand.Rand)) {
		cs.Add(name, protects, func(t *rig.T) { fn(newEngines(t), rig.Random(name)) })
	}
	const counts, waits, excludes, holds = "semaphores count what instructions and cores post and get",
		"what has to wait is executed when its condition holds, and not before",
		"a mutex has one owner", "registers and configuration hold what was stored last"
	add("semaphores count posts and gets of instructions", counts, func(e *engines, _ *rand.Rand) {
		r := e.newRun()
		m := r.math()
		var want []uint32
		look := func(v uint32) {
			m.sync()
			m.load(coreSemaphore(semFree))
			want = append(want, v)
		}
		mask := uint32(1 << semFree)
		m.do(isa.SEMINIT{Semaphores: mask, Value: 3, Max: 15})
		look(3)
		m.do(isa.SEMPOST{Semaphores: mask}, isa.SEMPOST{Semaphores: mask})
		look(5)
		m.do(isa.SEMGET{Semaphores: mask})
		look(4)
		for range 11 {
			m.do(isa.SEMPOST{Semaphores: mask})
		}
		look(15)
		m.do(isa.SEMINIT{Semaphores: mask, Max: 1})
		look(0)
		r.run()
		r.wantLog(threadMath, want...)
	})
	add("semaphores count posts and gets of cores", counts, func(e *engines, _ *rand.Rand) {
		r := e.newRun()
		k := r.pack()
		at := coreSemaphore(semFree)
		k.store(at, 0)
		k.load(at)
		k.store(at, 0)
		k.load(at)
		k.store(at, 1)
		k.load(at)
		k.do(isa.SEMGET{Semaphores: 1 << semFree})
		k.sync()
		k.load(at)
		r.run()
		r.wantLog(threadPack, 1, 2, 1, 0)
	})
	add("semaphores are apart", counts, func(e *engines, _ *rand.Rand) {
		r := e.newRun()
		m := r.math()
		var want []uint32
		for i := range uint32(semCleared) {
			m.do(isa.SEMINIT{Semaphores: 1 << i, Value: 8 - i, Max: 15})
		}
		m.sync()
		for i := range uint32(semCleared) {
			m.load(coreSemaphore(i))
			want = append(want, 8-i)
		}
		for i := range uint32(semCleared) {
			m.do(isa.SEMINIT{Semaphores: 1 << i, Max: 1})
		}
		r.run()
		r.wantLog(threadMath, want...)
	})
	add("SEMWAIT waits while a semaphore is zero", waits, func(e *engines, _ *rand.Rand) {
		r := e.newRun()
		m := r.math()
		m.held(isa.SEMWAIT{Condition: whileZero, Semaphores: 1 << semFree, Block: stallAll}, func() { m.store(coreSemaphore(semFree), 0) })
		m.store(coreSemaphore(semFree), 1)
		r.run()
		r.wantHeld(threadMath)
	})
	add("SEMWAIT waits while a semaphore is at its maximum", waits, func(e *engines, _ *rand.Rand) {
		r := e.newRun()
		m := r.math()
		m.do(isa.SEMINIT{Semaphores: 1 << semFree, Value: 2, Max: 2})
		m.held(isa.SEMWAIT{Condition: whileMax, Semaphores: 1 << semFree, Block: stallAll}, func() { m.store(coreSemaphore(semFree), 1) })
		m.do(isa.SEMINIT{Semaphores: 1 << semFree, Max: 1})
		r.run()
		r.wantHeld(threadMath)
	})
	add("SEMWAIT waits for another thread's post", waits, func(e *engines, _ *rand.Rand) {
		r := e.newRun()
		m, k := r.math(), r.pack()
		m.held(isa.SEMWAIT{Condition: whileZero, Semaphores: 1 << semFree, Block: stallAll}, func() { m.store(coreSemaphore(semUnpack), 0) })
		m.do(isa.SEMGET{Semaphores: 1 << semFree})
		k.take(semUnpack)
		k.do(isa.SEMPOST{Semaphores: 1 << semFree})
		r.run()
		r.wantHeld(threadMath)
	})
	for unit, name := range []string{"SrcA", "SrcB"} {
		add("STALLWAIT waits until "+name+" is there", waits, func(e *engines, rnd *rand.Rand) {
			r := e.sources(rnd)
			u, m := r.unpack(), r.math()
			u.take(semFree)
			r.unpackTile(1<<unit, arith.TileData)
			valid := by(e, []uint32{0x400, 0x800}, []uint32{0x80, 0x100})[unit]
			m.held(isa.STALLWAIT{Block: stallAll, Wait: valid}, func() { m.store(coreSemaphore(semFree), 0) })
			m.freeSources(1 << unit)
			r.run()
			r.wantHeld(threadMath)
		})
	}
	for unit, name := range []string{"SrcA", "SrcB"} {
		add("the unpacker waits for a free bank of "+name, waits, func(e *engines, rnd *rand.Rand) {
			r := e.sources(rnd)
			u, m := r.unpack(), r.math()
			for range 2 {
				r.unpackTile(1<<unit, arith.TileData)
			}
			third := isa.UNPACR{Last: 1, Valid: 1, Override: 1, Unit: uint32(unit)}
			u.held(third, func() { u.store(coreSemaphore(semFree), 0) })
			m.take(semFree)
			valid := by(e, []uint32{0x400, 0x800}, []uint32{0x80, 0x100})[unit]
			for range 3 {
				m.do(isa.STALLWAIT{Block: stallMath, Wait: valid})
				m.freeSources(1 << unit)
			}
			r.run()
			r.wantHeld(threadUnpack)
		})
	}
	add("the matrix unit waits for both sources", waits, func(e *engines, rnd *rand.Rand) {
		r := e.sources(rnd)
		u, m := r.unpack(), r.math()
		r.unpackTile(1, arith.TileData)
		u.take(semFree)
		r.unpackTile(2, arith.TileData)
		m.held(isa.ELWADD{}, func() { m.store(coreSemaphore(semFree), 0) })
		m.freeSources(3)
		r.run()
		r.wantHeld(threadMath)
	})
	add("ATGETM waits for the owner of a mutex", waits, func(e *engines, _ *rand.Rand) {
		r := e.newRun()
		m, k := r.math(), r.pack()
		k.do(isa.ATGETM{})
		k.sync()
		k.store(coreSemaphore(semFree), 0)
		k.take(semUnpack)
		k.do(isa.ATRELM{})
		m.take(semFree)
		m.held(isa.ATGETM{}, func() { m.store(coreSemaphore(semUnpack), 0) })
		m.do(isa.ATRELM{})
		r.run()
		r.wantHeld(threadMath)
	})
	add("three threads add under a mutex", excludes, func(e *engines, _ *rand.Rand) {
		r := e.newRun()
		word := e.freeWord()
		const rounds = 40
		for i := range r.threads {
			th := &r.threads[i]
			th.store(engineGPRs+4*gprOperand, uint32(1+i))
			th.load(engineGPRs + 4*gprOperand)
			for range rounds {
				th.do(isa.ATGETM{}, isa.RDCFG{Word: word, Gpr: 0})
				th.settleGPRs()
				th.do(isa.ADDDMAREG{Dst: 0, A: 0, B: gprOperand})
				th.settleGPRs()
				th.do(isa.WRCFG{Word: word, Gpr: 0}, isa.NOP{}, isa.DMANOP{}, isa.ATRELM{})
			}
			th.do(isa.SEMPOST{Semaphores: 1 << semFree})
		}
		r.math().poll(coreSemaphore(semFree), 3)
		r.math().load(configAperture + 4*word)
		r.run()
		r.wantLog(threadMath, 2, rounds*(1+2+3))
	})
	add("tiles go through three threads, two at a time", "unpacking, computing and packing of different tiles go on at once", pipelined)

	add("SETDMAREG sets half a register", holds, func(e *engines, _ *rand.Rand) {
		r := e.newRun()
		for i := range r.threads {
			th := &r.threads[i]
			th.do(isa.SETDMAREG{Half: 40, Low: 0x1234, High: 2}, isa.SETDMAREG{Half: 41, Low: 0x2BCD + uint32(i), High: 3},
				isa.SETDMAREG{Half: 126, Low: 7}, isa.SETDMAREG{Half: 127})
			th.sync()
			th.load(engineGPRs + 4*20)
			th.load(engineGPRs + 4*63)
		}
		r.run()
		for i := range r.threads {
			r.wantLog(i, (0xEBCD+uint32(i))<<16|0x9234, 7)
		}
	})
	add("ADDDMAREG and MULDMAREG compute with registers", holds, func(e *engines, rnd *rand.Rand) {
		r := e.newRun()
		var want [3][]uint32
		for i := range r.threads {
			th := &r.threads[i]
			for range 20 {
				a, b := rnd.Uint32(), rnd.Uint32()
				th.store(engineGPRs+4*10, a)
				th.store(engineGPRs+4*51, b)
				th.load(engineGPRs + 4*51)
				th.do(isa.ADDDMAREG{Dst: 60, A: 10, B: 51}, isa.MULDMAREG{Dst: 61, A: 51, B: 10})
				th.sync()
				th.load(engineGPRs + 4*60)
				th.load(engineGPRs + 4*61)
				want[i] = append(want[i], b, a+b, a&0xFFFF*(b&0xFFFF))
			}
		}
		r.run()
		for i, w := range want {
			r.wantLog(i, w...)
		}
	})
	add("STOREREG stores to a register of the tile", holds, func(e *engines, _ *rand.Rand) {
		r := e.newRun()
		// A register of a stream that no circular buffer of the program uses.
		addr := uint32(0xFFB40000) + 30*0x1000 + by[uint32](e, 0x00C, 0x020)
		th := r.pack()
		th.store(engineGPRs+4*7, 0x1357)
		th.load(engineGPRs + 4*7)
		th.do(isa.STOREREG{Addr: (addr - 0xFFB00000) >> 2, Gpr: 7})
		th.sync()
		th.poll(addr, 0x1357)
		th.load(addr)
		th.store(addr, 0)
		r.run()
		r.wantLog(threadPack, 0x1357, 0x1357)
	})

	add("configuration by stores of a core", holds, func(e *engines, rnd *rand.Rand) {
		r := e.newRun()
		var want [3][]uint32
		for i := range r.threads {
			word, v := e.freeWords()[i], rnd.Uint32()
			r.threads[i].store(configAperture+4*word, v)
			r.threads[i].load(configAperture + 4*word)
			want[i] = []uint32{v}
		}
		r.run()
		for i, w := range want {
			r.wantLog(i, w...)
		}
	})
	add("RMWCIB changes bits of one byte", holds, func(e *engines, rnd *rand.Rand) {
		r := e.newRun()
		th, word := r.math(), e.freeWord()
		v := uint32(0)
		for byteIndex := range 4 {
			for range 4 {
				data, mask := rnd.Uint32()&0xFF, rnd.Uint32()&0xFF
				th.do(rmwcib(byteIndex, word, data, mask))
				v = v&^(mask<<(8*byteIndex)) | (data&mask)<<(8*byteIndex)
			}
		}
		th.sync()
		th.load(configAperture + 4*word)
		r.run()
		r.wantLog(threadMath, v)
	})
	add("WRCFG and RDCFG move a word between registers and configuration", holds, func(e *engines, rnd *rand.Rand) {
		r := e.newRun()
		th, word, v := r.math(), e.freeWord(), rnd.Uint32()
		th.store(engineGPRs+4*9, v)
		th.load(engineGPRs + 4*9)
		th.do(isa.WRCFG{Word: word, Gpr: 9}, isa.NOP{}, isa.DMANOP{}, isa.RDCFG{Word: word, Gpr: 11})
		th.sync()
		th.load(configAperture + 4*word)
		th.load(engineGPRs + 4*11)
		r.run()
		r.wantLog(threadMath, v, v, v)
	})
	add("WRCFG moves 128 bits", holds, func(e *engines, rnd *rand.Rand) {
		r := e.newRun()
		th, word := r.math(), by[uint32](e, 84, 12)
		var want []uint32
		for i := range uint32(4) {
			v := rnd.Uint32() & 0x007FFFFF & by[uint32](e, 0xFF03FFFF, 0xFFFFFFFF)
			th.store(engineGPRs+4*(16+i), v)
			want = append(want, v)
		}
		th.load(engineGPRs + 4*19)
		th.do(isa.WRCFG{Word: word, Wide: 1, Gpr: 16}, isa.NOP{}, isa.DMANOP{})
		th.sync()
		for i := range uint32(4) {
			th.load(configAperture + 4*(word+i))
		}
		r.run()
		r.wantLog(threadMath, append([]uint32{want[3]}, want...)...)
	})
	add("each thread uses one of two banks of configuration", holds, func(e *engines, rnd *rand.Rand) {
		r := e.newRun()
		word := e.freeWord()
		v, w := rnd.Uint32(), rnd.Uint32()
		m, k := r.math(), r.pack()
		write := func(th *engineThread, bank, v uint32) {
			th.own(value{isa.ThreadStateID, bank})
			th.store(engineGPRs+4*9, v)
			th.load(engineGPRs + 4*9)
			th.do(isa.WRCFG{Word: word, Gpr: 9}, isa.NOP{}, isa.DMANOP{})
			th.sync()
		}
		read := func(th *engineThread) {
			th.do(isa.RDCFG{Word: word, Gpr: 11})
			th.sync()
			th.load(engineGPRs + 4*11)
		}
		write(m, 1, v)
		m.store(coreSemaphore(semFree), 0)
		k.take(semFree)
		write(k, 0, w)
		k.store(coreSemaphore(semUnpack), 0)
		m.take(semUnpack)
		read(m)
		m.own(value{isa.ThreadStateID, 0})
		read(m)
		read(k)
		k.load(configAperture + 4*word) // cores see the first bank
		r.run()
		r.wantLog(threadMath, v, v, w)
		r.wantLog(threadPack, w, w, w)
	})
	add("REG2FLOP moves a register to the configuration", holds, func(e *engines, rnd *rand.Rand) {
		e.only(chip.Wormhole)
		r := e.newRun()
		th, word, v := r.pack(), e.freeWord(), rnd.Uint32()
		th.store(engineGPRs+4*9, v)
		th.load(engineGPRs + 4*9)
		th.do(isa.REG2FLOP{Gpr: 9, Flop: word - 52, Size: 1})
		th.sync()
		th.load(configAperture + 4*word)
		r.run()
		r.wantLog(threadPack, v, v)
	})
	add("CFGSHIFTMASK adds a scratch word to the configuration", holds, func(e *engines, rnd *rand.Rand) {
		e.only(chip.Blackhole)
		r := e.newRun()
		word := e.freeWord()
		base := rnd.Uint32()
		var want []uint32
		th := r.math()
		for i := range uint32(3) {
			v := rnd.Uint32()
			r.set(isa.Scratch+isa.Config(i), v)
			th.store(configAperture+4*word, base)
			th.load(configAperture + 4*word)
			th.do(isa.CFGSHIFTMASK{Word: word, Scratch: i, Width: 31, Operation: 3, Keep: 1})
			th.sync()
			th.load(configAperture + 4*word)
			want = append(want, base, base+v)
		}
		r.run()
		r.wantLog(threadMath, want...)
	})
	return cs
}

// freeWords are words of the configuration that no instruction of these cases uses and all of whose bits exist: one for each
// thread.
func (e *engines) freeWords() []uint32 {
	return by(e, []uint32{105, 65, 93}, []uint32{125, 77, 113})
}

func (e *engines) freeWord() uint32 { return e.freeWords()[0] }

// settleGPRs lets instructions on registers and configuration wait until those before them are done.
func (th *engineThread) settleGPRs() {
	th.do(isa.STALLWAIT{Block: stallTDMA | stallConfig, Wait: waitThcon}, isa.DMANOP{}, isa.DMANOP{}, isa.DMANOP{}, isa.DMANOP{})
}

func rmwcib(i int, word, data, mask uint32) isa.Instruction {
	switch i {
	case 0:
		return isa.RMWCIB0{Word: word, Data: data, Mask: mask}
	case 1:
		return isa.RMWCIB1{Word: word, Data: data, Mask: mask}
	case 2:
		return isa.RMWCIB2{Word: word, Data: data, Mask: mask}
	}
	return isa.RMWCIB3{Word: word, Data: data, Mask: mask}
}

// sources begins a run whose unpackers are ready for tiles of bf16.
func (e *engines) sources(rnd *rand.Rand) *engineRun {
	e.Helper()
	r := e.newRun()
	for unit := range isa.Config(2) {
		r.unpacker(source{unit: unit, in: arith.BF16, out: arith.BF16, addr: r.place(randomTile(rnd, arith.BF16))})
	}
	return r
}

// pipelined adds pairs of tiles in the two halves of Dst in turns, with the packers one tile behind.
func pipelined(e *engines, rnd *rand.Rand) {
	const n = 8
	r := e.newRun()
	u, m, k := r.unpack(), r.math(), r.pack()
	p := paths()[0]
	pack := arith.Pack{Mid: p.mid, Out: p.out}
	at, addr := r.reserve(n * p.out.TileBytes())
	r.packer(packer{p.mid, p.out, false, addr})
	r.packModes()
	u.do(isa.SEMINIT{Semaphores: 1 << semPack, Max: 2}, isa.SETADCXX{Units: 3, End: arith.TileData - 1})
	u.sync()
	u.store(coreSemaphore(semFree), 0)
	m.take(semFree)
	m.mode(0, value{isa.ThreadModeSrcAIncrement, 8}, value{isa.ThreadModeSrcBIncrement, 8}, value{isa.ThreadModeDstIncrement, 8})
	base, _, err := isa.PackOut.Place(e.arch, 0)
	e.OK(err)
	var want []byte
	math := arith.Math{Arch: e.model, A: p.src, B: p.src}
	for i := range n {
		half := uint32(i % 2)
		tiles := [2]*arith.SrcTile{}
		for unit := range isa.Config(2) {
			data := randomTile(rnd, p.in)
			tiles[unit] = unpackFormat{in: p.in, out: p.src}.tile(e, data)
			l1 := r.place(data)
			if i == 0 {
				r.unpacker(source{unit: unit, in: p.in, out: p.src, addr: l1})
			} else {
				u.rebase(unit, l1)
			}
			u.do(isa.UNPACR{Last: 1, Valid: 1, Override: 1, Unit: uint32(unit)})
		}
		m.do(isa.SEMWAIT{Condition: whileMax, Semaphores: 1 << semPack, Block: stallMath | stallSync})
		m.own(value{isa.ThreadDstOffset, 512 * half})
		m.do(isa.ZEROACC{Clear: 2, Dst: half})
		for range 8 {
			m.do(isa.ELWADD{})
		}
		m.freeSources(3)
		m.do(isa.STALLWAIT{Block: stallSync, Wait: r.waitMath()}, isa.SEMPOST{Semaphores: 1 << semPack})

		k.do(isa.STALLWAIT{Block: stallSync, Wait: r.waitPack()})
		k.sync()
		k.store(configAperture+4*base, 1<<31|((addr+uint32(i*p.out.TileBytes()))>>4-1))
		for j := range isa.Config(by(e, 4, 1)) {
			word, row, err := (isa.PackDst + j).Place(e.arch, 512*half+16*uint32(j))
			e.OK(err)
			k.store(configAperture+4*word, row)
		}
		k.do(isa.SETADCXY{Units: 4, Mask: 11}, isa.SETADCZW{Units: 4, Mask: 15})
		k.do(isa.STALLWAIT{Block: stallTDMA, Wait: r.waitStores()}, isa.SEMWAIT{Condition: whileZero, Semaphores: 1 << semPack, Block: stallTDMA})
		k.do(r.pacrs()...)
		k.do(isa.STALLWAIT{Block: stallSync, Wait: r.waitPack()}, isa.SEMGET{Semaphores: 1 << semPack})

		var dst arith.DstTile
		math.AddTile(&dst, tiles[0], tiles[1], false)
		tile := make([]byte, p.out.TileBytes())
		pack.Tile(tile, &dst)
		want = append(want, tile...)
	}
	r.run()
	r.wantTile("tiles", at, want)
}
