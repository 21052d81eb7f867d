package tensix

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

var sourceNames = [2]string{"SrcA", "SrcB"}

const gprMark = 5

func (th *engineThread) mark(v uint32) { th.do(isa.SETDMAREG{Half: 2 * gprMark, Low: v}) }

const looks = 50

// held checks that a waiting instruction holds up the next one until its end.
func (th *engineThread) held(waits isa.Instruction, end func()) {
	th.mark(1)
	th.sync()
	th.do(waits)
	th.mark(2)
	for range looks {
		th.look(gpr(gprMark), 1)
	}
	end()
	th.sync()
	th.look(gpr(gprMark), 2)
}

func gpr(i uint32) uint32       { return engineGPRs + 4*i }
func config(word uint32) uint32 { return configAperture + 4*word }

func (th *engineThread) setGPR(i, v uint32) {
	th.store(gpr(i), v)
	th.look(gpr(i), v)
}

func (th *engineThread) writeConfig(word uint32) {
	th.do(isa.WRCFG{Word: word, Gpr: 9}, isa.NOP{}, isa.DMANOP{})
}

func syncCases() rig.Table {
	var cs rig.Table
	add := func(name, protects string, fn func(r *engineRun)) {
		cs.Add(name, protects, func(t *rig.T) {
			r := newEngines(t, name).newRun()
			fn(r)
			r.run()
			for i, th := range r.threads {
				r.wantLog(i, th.want...)
			}
		})
	}
	const counts, waits, excludes, holds = "semaphores count what instructions and cores post and get",
		"what has to wait is executed when its condition holds, and not before",
		"a mutex has one owner", "registers and configuration hold what was stored last"
	const free = 1 << semFree
	whileZeroFree := isa.SEMWAIT{Condition: whileZero, Semaphores: free, Block: stallAll}

	add("semaphores count posts and gets of instructions", counts, func(r *engineRun) {
		m := r.math()
		look := func(v uint32) { m.sync(); m.look(coreSemaphore(semFree), v) }
		m.do(isa.SEMINIT{Semaphores: free, Value: 3, Max: 15})
		look(3)
		m.do(isa.SEMPOST{Semaphores: free}, isa.SEMPOST{Semaphores: free})
		look(5)
		m.do(isa.SEMGET{Semaphores: free})
		look(4)
		for range 11 {
			m.do(isa.SEMPOST{Semaphores: free})
		}
		look(15)
		m.do(isa.SEMINIT{Semaphores: free, Max: 1})
		look(0)
	})
	add("semaphores count posts and gets of cores", counts, func(r *engineRun) {
		k, at := r.pack(), coreSemaphore(semFree)
		k.post(semFree)
		k.look(at, 1)
		k.post(semFree)
		k.look(at, 2)
		k.get(semFree)
		k.look(at, 1)
		k.do(isa.SEMGET{Semaphores: free})
		k.sync()
		k.look(at, 0)
	})
	add("semaphores are apart", counts, func(r *engineRun) {
		m := r.math()
		for i := range uint32(semCleared) {
			m.do(isa.SEMINIT{Semaphores: 1 << i, Value: 8 - i, Max: 15})
		}
		m.sync()
		for i := range uint32(semCleared) {
			m.look(coreSemaphore(i), 8-i)
		}
		for i := range uint32(semCleared) {
			m.do(isa.SEMINIT{Semaphores: 1 << i, Max: 1})
		}
	})
	add("SEMWAIT waits while a semaphore is zero", waits, func(r *engineRun) {
		m := r.math()
		m.held(whileZeroFree, func() { m.post(semFree) })
		m.get(semFree)
	})
	add("SEMWAIT waits while a semaphore is at its maximum", waits, func(r *engineRun) {
		m := r.math()
		m.do(isa.SEMINIT{Semaphores: free, Value: 2, Max: 2})
		m.held(isa.SEMWAIT{Condition: whileMax, Semaphores: free, Block: stallAll}, func() { m.get(semFree) })
		m.do(isa.SEMINIT{Semaphores: free, Max: 1})
	})
	add("SEMWAIT waits for another thread's post", waits, func(r *engineRun) {
		m, k := r.math(), r.pack()
		m.held(whileZeroFree, func() { m.post(semUnpack) })
		m.do(isa.SEMGET{Semaphores: free})
		k.take(semUnpack)
		k.do(isa.SEMPOST{Semaphores: free})
	})
	for unit, name := range sourceNames {
		add("STALLWAIT waits until "+name+" is there", waits, func(r *engineRun) {
			r.sources()
			m := r.math()
			r.unpack().take(semFree)
			r.unpackTile(1<<unit, arith.TileData)
			m.held(isa.STALLWAIT{Block: stallAll, Wait: r.waitSource(unit)}, func() { m.post(semFree) })
			m.freeSources(1 << unit)
		})
	}
	for unit, name := range sourceNames {
		add("the unpacker waits for a free bank of "+name, waits, func(r *engineRun) {
			r.sources()
			u, m := r.unpack(), r.math()
			for range 2 {
				r.unpackTile(1<<unit, arith.TileData)
			}
			u.held(unpacr(uint32(unit), 1), func() { u.post(semFree) })
			m.take(semFree)
			for range 3 {
				m.do(isa.STALLWAIT{Block: stallMath, Wait: r.waitSource(unit)})
				m.freeSources(1 << unit)
			}
		})
	}
	add("the matrix unit waits for both sources", waits, func(r *engineRun) {
		r.sources()
		m := r.math()
		r.unpackTile(1, arith.TileData)
		r.unpack().take(semFree)
		r.unpackTile(2, arith.TileData)
		m.held(isa.ELWADD{}, func() { m.post(semFree) })
		m.freeSources(3)
	})
	add("ATGETM waits for the owner of a mutex", waits, func(r *engineRun) {
		m, k := r.math(), r.pack()
		k.do(isa.ATGETM{})
		k.sync()
		k.post(semFree)
		k.take(semUnpack)
		k.do(isa.ATRELM{})
		m.take(semFree)
		m.held(isa.ATGETM{}, func() { m.post(semUnpack) })
		m.do(isa.ATRELM{})
	})
	add("three threads add under a mutex", excludes, func(r *engineRun) {
		word := r.freeWord()
		const rounds = 40
		for i, th := range r.threads {
			th.setGPR(gprOperand, uint32(1+i))
			for range rounds {
				th.do(isa.ATGETM{}, isa.RDCFG{Word: word, Gpr: 0})
				th.settleGPRs()
				th.do(isa.ADDDMAREG{Dst: 0, A: 0, B: gprOperand})
				th.settleGPRs()
				th.do(isa.WRCFG{Word: word, Gpr: 0}, isa.NOP{}, isa.DMANOP{}, isa.ATRELM{})
			}
			th.do(isa.SEMPOST{Semaphores: free})
		}
		r.math().poll(coreSemaphore(semFree), 3)
		r.math().look(config(word), rounds*(1+2+3))
	})
	cs.Add("tiles go through three threads, two at a time", "unpacking, computing and packing of different tiles go on at once",
		func(t *rig.T) { pipelined(newEngines(t, "tiles go through three threads, two at a time")) })

	add("SETDMAREG sets half a register", holds, func(r *engineRun) {
		for i, th := range r.threads {
			th.do(isa.SETDMAREG{Half: 40, Low: 0x1234, High: 2}, isa.SETDMAREG{Half: 41, Low: 0x2BCD + uint32(i), High: 3},
				isa.SETDMAREG{Half: 126, Low: 7}, isa.SETDMAREG{Half: 127})
			th.sync()
			th.look(gpr(20), (0xEBCD+uint32(i))<<16|0x9234)
			th.look(gpr(63), 7)
		}
	})
	add("ADDDMAREG and MULDMAREG compute with registers", holds, func(r *engineRun) {
		for _, th := range r.threads {
			for range 20 {
				a, b := r.rnd.Uint32(), r.rnd.Uint32()
				th.store(gpr(10), a)
				th.setGPR(51, b)
				th.do(isa.ADDDMAREG{Dst: 60, A: 10, B: 51}, isa.MULDMAREG{Dst: 61, A: 51, B: 10})
				th.sync()
				th.look(gpr(60), a+b)
				th.look(gpr(61), a&0xFFFF*(b&0xFFFF))
			}
		}
	})
	add("STOREREG stores to a register of the tile", holds, func(r *engineRun) {
		// A register of a stream that no circular buffer of the program uses.
		addr := uint32(0xFFB40000) + 30*0x1000 + r.by(0x00C, 0x020)
		th := r.pack()
		th.setGPR(7, 0x1357)
		th.do(isa.STOREREG{Addr: (addr - 0xFFB00000) >> 2, Gpr: 7})
		th.sync()
		th.poll(addr, 0x1357)
		th.look(addr, 0x1357)
		th.store(addr, 0)
	})

	add("configuration by stores of a core", holds, func(r *engineRun) {
		for i := range r.threads {
			word, v := r.freeWords()[i], r.rnd.Uint32()
			r.threads[i].store(config(word), v)
			r.threads[i].look(config(word), v)
		}
	})
	add("RMWCIB changes bits of one byte", holds, func(r *engineRun) {
		th, word := r.math(), r.freeWord()
		v := uint32(0)
		for byteIndex := range 4 {
			for range 4 {
				data, mask := r.rnd.Uint32()&0xFF, r.rnd.Uint32()&0xFF
				th.do(rmwcib(byteIndex, word, data, mask))
				v = v&^(mask<<(8*byteIndex)) | (data&mask)<<(8*byteIndex)
			}
		}
		th.sync()
		th.look(config(word), v)
	})
	add("WRCFG and RDCFG move a word between registers and configuration", holds, func(r *engineRun) {
		th, word, v := r.math(), r.freeWord(), r.rnd.Uint32()
		th.setGPR(9, v)
		th.writeConfig(word)
		th.do(isa.RDCFG{Word: word, Gpr: 11})
		th.sync()
		th.look(config(word), v)
		th.look(gpr(11), v)
	})
	add("WRCFG moves 128 bits", holds, func(r *engineRun) {
		th, word := r.math(), r.by(84, 12)
		var want [4]uint32
		for i := range want {
			want[i] = r.rnd.Uint32() & 0x007FFFFF & r.by(0xFF03FFFF, 0xFFFFFFFF)
			th.store(gpr(16+uint32(i)), want[i])
		}
		th.look(gpr(19), want[3])
		th.do(isa.WRCFG{Word: word, Wide: 1, Gpr: 16}, isa.NOP{}, isa.DMANOP{})
		th.sync()
		for i, v := range want {
			th.look(config(word+uint32(i)), v)
		}
	})
	add("each thread uses one of two banks of configuration", holds, func(r *engineRun) {
		word := r.freeWord()
		v, w := r.rnd.Uint32(), r.rnd.Uint32()
		m, k := r.math(), r.pack()
		write := func(th *engineThread, bank, v uint32) {
			th.set(isa.ThreadStateID, bank)
			th.setGPR(9, v)
			th.writeConfig(word)
			th.sync()
		}
		read := func(th *engineThread, v uint32) {
			th.do(isa.RDCFG{Word: word, Gpr: 11})
			th.sync()
			th.look(gpr(11), v)
		}
		write(m, 1, v)
		m.post(semFree)
		k.take(semFree)
		write(k, 0, w)
		k.post(semUnpack)
		m.take(semUnpack)
		read(m, v)
		m.set(isa.ThreadStateID, 0)
		read(m, w)
		read(k, w)
		k.look(config(word), w) // cores see the first bank
	})
	add("REG2FLOP moves a register to the configuration", holds, func(r *engineRun) {
		r.only(chip.Wormhole)
		th, word, v := r.pack(), r.freeWord(), r.rnd.Uint32()
		th.setGPR(9, v)
		th.do(isa.REG2FLOP{Gpr: 9, Flop: word - 52, Size: 1})
		th.sync()
		th.look(config(word), v)
	})
	add("CFGSHIFTMASK adds a scratch word to the configuration", holds, func(r *engineRun) {
		r.only(chip.Blackhole)
		word, base, th := r.freeWord(), r.rnd.Uint32(), r.math()
		for i := range uint32(3) {
			v := r.rnd.Uint32()
			r.set(isa.Scratch+isa.Config(i), v)
			th.store(config(word), base)
			th.look(config(word), base)
			th.do(isa.CFGSHIFTMASK{Word: word, Scratch: i, Width: 31, Operation: 3, Keep: 1})
			th.sync()
			th.look(config(word), base+v)
		}
	})
	return cs
}

// freeWords are writable configuration words, one for each thread.
func (e *engines) freeWords() []uint32 {
	return by(e, []uint32{105, 65, 93}, []uint32{125, 77, 113})
}

func (e *engines) freeWord() uint32 { return e.freeWords()[0] }

func (th *engineThread) settleGPRs() {
	th.do(isa.STALLWAIT{Block: stallTDMA | stallConfig, Wait: waitThcon}, isa.DMANOP{}, isa.DMANOP{}, isa.DMANOP{}, isa.DMANOP{})
}

func rmwcib(i int, word, data, mask uint32) isa.Instruction {
	return [...]isa.Instruction{
		isa.RMWCIB0{Word: word, Data: data, Mask: mask}, isa.RMWCIB1{Word: word, Data: data, Mask: mask},
		isa.RMWCIB2{Word: word, Data: data, Mask: mask}, isa.RMWCIB3{Word: word, Data: data, Mask: mask},
	}[i]
}

func (r *engineRun) sources() {
	for unit := range isa.Config(2) {
		r.unpacker(source{unit: unit, in: arith.BF16, out: arith.BF16, addr: r.place(randomTile(r.rnd, arith.BF16))})
	}
}

func pipelined(e *engines) {
	const n = 8
	r := e.newRun()
	u, m, k := r.unpack(), r.math(), r.pack()
	p := paths()[0]
	pack := arith.Pack{Mid: p.mid, Out: p.out}
	at, addr := r.reserve(n * p.out.TileBytes())
	r.configurePackers(p.mid, p.out, false, addr)
	r.packModes()
	u.do(isa.SEMINIT{Semaphores: 1 << semPack, Max: 2}, isa.SETADCXX{Units: 3, End: arith.TileData - 1})
	u.sync()
	u.post(semFree)
	m.take(semFree)
	m.mode(0, byEight)
	base, _, err := isa.PackOut.Place(e.arch, 0)
	e.OK(err)
	var want []byte
	math := arith.Math{Arch: e.model, A: p.src, B: p.src}
	for i := range n {
		half := uint32(i % 2)
		tiles := [2]*arith.SrcTile{}
		for unit := range isa.Config(2) {
			data := randomTile(e.rnd, p.in)
			tiles[unit] = unpackFormat{in: p.in, out: p.src}.tile(e, data)
			l1 := r.place(data)
			if i == 0 {
				r.unpacker(source{unit: unit, in: p.in, out: p.src, addr: l1})
			} else {
				u.rebase(unit, l1)
			}
			u.do(unpacr(uint32(unit), 1))
		}
		m.do(isa.SEMWAIT{Condition: whileMax, Semaphores: 1 << semPack, Block: stallMath | stallSync})
		m.set(isa.ThreadDstOffset, 512*half)
		m.do(isa.ZEROACC{Clear: 2, Dst: half})
		for range 8 {
			m.do(isa.ELWADD{})
		}
		m.freeSources(3)
		m.do(isa.STALLWAIT{Block: stallSync, Wait: r.waitMath()}, isa.SEMPOST{Semaphores: 1 << semPack})

		k.do(isa.STALLWAIT{Block: stallSync, Wait: r.waitPack()})
		k.sync()
		k.store(config(base), 1<<31|((addr+uint32(i*p.out.TileBytes()))>>4-1))
		for j := range e.packers() {
			word, row, err := (isa.PackDst + j).Place(e.arch, 512*half+16*uint32(j))
			e.OK(err)
			k.store(config(word), row)
		}
		k.do(isa.SETADCXY{Units: 4, Mask: 11}, isa.SETADCZW{Units: 4, Mask: 15})
		k.do(isa.STALLWAIT{Block: stallTDMA, Wait: r.waitStores()}, awaitDst)
		k.do(r.pacrs()...)
		k.packed()

		var dst arith.DstTile
		math.AddTile(&dst, tiles[0], tiles[1], false)
		tile := make([]byte, p.out.TileBytes())
		pack.Tile(tile, &dst)
		want = append(want, tile...)
	}
	r.output(at, want, "tiles")
}
