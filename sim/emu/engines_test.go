package emu

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

// Waits hold back all that follows.
const allStall = 0x1FF

func semInit(i, value, top uint32) uint32 { return 0xA3000000 | top<<20 | value<<16 | 4<<i }
func semPost(i uint32) uint32             { return 0xA4000000 | 4<<i }
func semGet(i uint32) uint32              { return 0xA5000000 | 4<<i }
func semWait(i, condition uint32) uint32  { return 0xA6000000 | allStall<<15 | 4<<i | condition }
func setGPR(i, v uint32) uint32           { return 0x45000000 | v<<8 | i<<1 }

func (a *asm) ttinsn(w ...uint32) *asm {
	for _, v := range w {
		a.emit(v<<2 | v>>30)
	}
	return a
}

// sync waits until the engines have executed all that the core has given them.
func (a *asm) sync() *asm {
	return a.li(t0, pcBufBase+pcBufSync).sw(x0, t0, 0).lw(t1, t0, 0).addi(t1, t1, 0)
}

// start loads programs for the T cores and releases them.
func (r *rig) start(v chip.XY, programs ...*asm) {
	held := uint32(0x47800)
	for i, a := range programs {
		r.write(v, uint64(a.base), a.bytes())
		held &^= 0x1000 << i
	}
	r.st(v, 0xFFB121B0, held)
}

var triscBase = [3]uint32{0x6000, 0xA000, 0xE000}

// turns are two T cores that hand turns to each other through semaphores.
func turns(n int) (first, second *asm) {
	const whileZero = 1
	first, second = newAsm(triscBase[0]), newAsm(triscBase[1])
	first.ttinsn(semInit(2, 0, 1), semInit(3, 0, 1))
	for range n {
		first.ttinsn(semPost(2), semWait(3, whileZero), semGet(3))
		second.ttinsn(semWait(2, whileZero), semGet(2), semPost(3))
	}
	first.ttinsn(setGPR(5, 0x1234)).sync().li(t0, gprBase+20).lw(t1, t0, 0).li(t2, 0x20000).sw(t1, t2, 0).halt()
	second.sync().li(t2, 0x20000).li(t1, 0x77).sw(t1, t2, 4).halt()
	return first, second
}

func TestEnginesKeepTheOrderOfTheirThreads(t *testing.T) {
	for _, arch := range arches {
		for seed := range uint64(20) {
			r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: seed})
			v := r.worker(1, 1)
			first, second := turns(60)
			r.start(v, first) // its SEMINITs come before the other begins
			r.start(v, first, second)
			r.healthy()
			if a, b := r.ld(v, 0x20000), r.ld(v, 0x20004); a != 0x1234 || b != 0x77 {
				t.Fatalf("%v seed %d: %#x, %#x, want 0x1234 and 0x77", arch, seed, a, b)
			}
		}
	}
}

func TestBRISCHasTheGPRsOfAllThreads(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(0, 0)
		r.start(v, newAsm(triscBase[0]).halt(), newAsm(triscBase[1]).ttinsn(setGPR(5, 0x1234)).sync().halt())
		a := onB().li(t0, gprBase+0x100+20).lw(t1, t0, 0).addi(t1, t1, 1).sw(t1, t0, 4).lw(t1, t0, 4)
		r.run(v, a.li(t2, 0x20000).sw(t1, t2, 0).halt())
		r.healthy()
		if got := r.ld(v, 0x20000); got != 0x1235 {
			t.Errorf("%v: %#x, want 0x1235", arch, got)
		}
	}
}

func TestProcessorsSeeBothBanksOfTheConfiguration(t *testing.T) {
	for arch, words := range map[chip.Arch]int32{chip.Wormhole: 4 * 47, chip.Blackhole: 4 * 56} {
		const word, gateClocks = 2, 0xB22AFFFF // SETC16 of CG_CTRL_EN, on Wormhole
		r := syncRig(t, arch)
		v := r.worker(0, 0)
		a := newAsm(triscBase[0]).li(a0, configBase).li(t0, 0x11).sw(t0, a0, 4*word).li(t1, 0x22).sw(t1, a0, 4*(words+word))
		if arch == chip.Wormhole {
			const prefetchers = 186
			a.ttinsn(gateClocks).li(t0, 0x1F).sw(t0, a0, 4*(words+prefetchers)).lw(t2, a0, 4*prefetchers).bne(t0, t2, "end")
		}
		a.lw(t0, a0, 4*word).lw(t1, a0, 4*(words+word)).li(a1, 0x20000).sw(t0, a1, 0).sw(t1, a1, 4)
		a.ttinsn(0xB2000001, 0xB1000000|1<<16|word).sync().li(t0, gprBase+4).lw(t1, t0, 0).sw(t1, a1, 8) // RDCFG of bank 1
		r.start(v, a.label("end").halt())
		r.eventually("loads", func() bool { return r.ld(v, 0x20008) != 0 })
		got := [3]uint32{r.ld(v, 0x20000), r.ld(v, 0x20004), r.ld(v, 0x20008)}
		equal(t, got, [3]uint32{0x11, 0x22, 0x22}, "%v: bank 0, bank 1, bank 1", arch)
		r.healthy()
	}
}

func TestDumpSaysWhatAnEngineWaitsFor(t *testing.T) {
	r := syncRig(t, chip.Blackhole)
	v := r.worker(0, 0)
	r.start(v, newAsm(triscBase[0]).ttinsn(semInit(1, 0, 1), semWait(1, 1), semGet(1)).sync().halt())
	r.healthy()
	dump := r.dump()
	if want := "engines executed 1, engines: SEMWAIT 0xa6ff8009 waits while semaphore 1 is 0, 1 more instructions queued"; !strings.Contains(dump, want) {
		t.Errorf("the dump doesn't say %q:\n%s", want, dump)
	}
}

func TestRefusalsOfTheEnginesNameThreadAndInstruction(t *testing.T) {
	r := syncRig(t, chip.Wormhole)
	v := r.worker(2, 2)
	r.start(v, newAsm(triscBase[0]).halt(), newAsm(triscBase[1]).ttinsn(semInit(0, 3, 2)).halt())
	f, ok := r.c.Fault().(*Refusal)
	if !ok {
		t.Fatalf("fault %v", r.c.Fault())
	}
	got := fmt.Sprint(f.Category, " ", f.Core, " ", f.Tile == r.raw(v), " ", f.Detail)
	want := "NonContractualBehavior TRISC1 true thread 1: SEMINIT 0xa3230004: semaphore 0: value 3 of at most 2"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestCoreGoesOnWhenItsQueueDoes(t *testing.T) {
	for _, arch := range arches {
		r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: 3})
		v := r.worker(1, 1)
		a := newAsm(triscBase[0]).li(t0, 0x20000).label("poll").lw(t1, t0, 0).beq(t1, x0, "poll").
			ttinsn(semInit(1, 0, 1), semWait(1, 1))
		for range 100 {
			a.ttinsn(setGPR(1, 7))
		}
		a.sync().li(t0, 0x20004).li(t1, 1).sw(t1, t0, 0).halt()
		poster := newAsm(triscBase[1]).li(t0, 0x20008).label("poll").lw(t1, t0, 0).beq(t1, x0, "poll").ttinsn(semPost(1)).halt()
		r.start(v, a, poster)
		r.st(v, 0x20000, 1)
		r.st(v, 0x20000, 0) // as the loop would wait again
		if r.ld(v, 0x20004) != 0 {
			t.Fatalf("%v: it did not wait", arch)
		}
		r.st(v, 0x20008, 1)
		r.healthy()
		equal(t, r.ld(v, 0x20004), 1, "%v: what it does after its wait", arch)
	}
}

func TestThreadsLikeTTSim(t *testing.T) {
	withTTSim(t, func(t *testing.T, arch chip.Arch, path string) {
		var got [2][]byte
		for k, r := range []*rig{syncRig(t, arch), ttsimRig(t, arch, path)} {
			v := r.worker(0, 0)
			rng := rand.New(rand.NewPCG(4, 2))
			r.start(v, randomThread(rng, 0), randomThread(rng, 1), randomThread(rng, 2))
			r.settle()
			r.settle()
			r.healthy()
			got[k] = r.read(v, 0x30000, 3*512)
		}
		if binary.LittleEndian.Uint32(got[0][2*512+256:]) != 0x600D {
			t.Fatal("the programs did not end")
		}
		if diff := cmp.Diff(got[1], got[0]); diff != "" {
			t.Error(diff)
		}
	})
}

func randomThread(rng *rand.Rand, i int) *asm {
	a := newAsm(triscBase[i])
	for range 300 {
		x, y, z := rng.Uint32()&63, rng.Uint32()&63, rng.Uint32()&63
		a.ttinsn([]uint32{setGPR(x, rng.Uint32()&0x3FFF), 0x58000000 | x<<12 | y<<6 | z, 0x5A000000 | x<<12 | y<<6 | z,
			0x60000000}[rng.IntN(4)])
	}
	a.sync().li(s0, gprBase).li(s1, 0x30000+512*uint32(i))
	for r := range 64 {
		a.lw(t1, s0, int32(4*r)).sw(t1, s1, int32(4*r))
	}
	return a.li(t1, 0x600D).sw(t1, s1, 256).halt()
}

const (
	tileA, tileB, tileOut = 0x20000, 0x20800, 0x21000
	tileDone              = 0x21800
)

// matmulFields are configuration words and bits that differ between the chips.
type matmulFields struct {
	descriptor0, descriptor1, out0, out1, base0, base1, dest, xdim, destStep uint32
	srcASet, unpackMisc                                                      uint32
	modeAB, modeABStep, modeDst, modeBias, fidelity, modeShift               uint32
	packXY, packZW, packRead, packEdge, packRows, packCount, packDest        uint32
	packL1, waitStores, waitMatrix, waitPack                                 uint32
}

var matmulOf = map[chip.Arch]matmulFields{
	chip.Wormhole: {
		52, 92, 60, 100, 64, 104, 72, 74, 41,
		3, 39,
		7, 2, 23, 48, 6, 15,
		8, 9, 14, 20, 16, 24, 152,
		57, 0x2000, 0x80, 0x78,
	},
	chip.Blackhole: {
		64, 112, 72, 120, 76, 124, 84, 86, 50,
		5, 41,
		12, 1, 28, 47, 11, 14,
		12, 13, 18, 24, 20, 28, 180,
		69, 0x400, 0x10, 8,
	},
}

// matmul makes T core programs that multiply bf16 tiles n times, in four phases, and pack the
// product.
func matmul(arch chip.Arch, n uint32) (unpack, math, pack *asm) {
	const bf16, sem = 5, 1
	f := matmulOf[arch]
	cfg := func(a *asm, word, v uint32) { a.stw(configBase+4*word, v) }
	setC16 := func(reg, v uint32) uint32 { return 0xB2000000 | reg<<16 | v }
	replay := func(n, record uint32) uint32 { return 0x04000000 | n<<4 | record }
	stall := func(block, wait uint32) uint32 { return 0xA2000000 | block<<15 | wait }
	const stallSync, stallPack, stallUnpack, blockMatrix = 2, 4, 8, 0x40

	unpack = newAsm(triscBase[0])
	for _, w := range [][2]uint32{
		{f.descriptor0, 0x10 | bf16}, {f.descriptor0 + 1, 4<<16 | 1}, {f.descriptor1, 256<<16 | 0x10 | bf16}, {f.descriptor1 + 1, 4<<16 | 1},
		{f.out0, 0x20 | bf16}, {f.out0 + 1, 0x000F000F}, {f.out1, 0x20 | bf16}, {f.out1 + 1, 0x000F000F},
		{f.dest, 0x00400040}, {f.xdim, 0x01000100}, {f.destStep, 0x100},
	} {
		cfg(unpack, w[0], w[1])
	}
	unpack.sync().ttinsn(setC16(f.srcASet, 4), setC16(f.unpackMisc, 0), 0x5E000000|3<<21|1023<<10).li(s0, n).label("tile")
	cfg(unpack, f.base0, tileB>>4-1) // the right operand is SrcA
	cfg(unpack, f.base1, tileA>>4-1)
	unpack.ttinsn(0x51000000|3<<21|0xB, 0x54000000|3<<21|0xF, stall(stallUnpack, f.waitStores), 0x428000C1, 0x420000C1).
		sync().addi(s0, s0, -1).bne(s0, x0, "tile").halt()

	math = newAsm(triscBase[1])
	mode := func(i, ab, dst uint32) {
		math.ttinsn(setC16(f.modeAB+f.modeABStep*i, ab), setC16(f.modeDst+i, dst), setC16(f.modeBias+i, 0))
	}
	const aCR, bCR, dCR, phaseStep = 0x40, 0x4000, 0x400, 0x2000
	mode(0, 8<<8, 8)
	mode(1, 16|bCR, 8)
	mode(2, aCR|32<<8|bCR, 8)
	mode(3, 32|aCR|48<<8|bCR, dCR)
	last := uint32(0)
	if arch == chip.Blackhole {
		last = 5
		mode(5, 0, phaseStep)
	}
	math.ttinsn(replay(16, 1))
	for _, m := range []uint32{0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0, last} {
		math.ttinsn(0x26000000 | m<<f.modeShift)
	}
	math.ttinsn(0x37000000|15, semInit(sem, 0, 1), setC16(1, 0)).li(s0, n).label("tile").
		ttinsn(0xA6000000|(blockMatrix|stallSync)<<15|4<<sem|2, 0x10000000|3<<19, 0x37000000|15)
	for phase := range uint32(4) {
		if arch == chip.Wormhole {
			math.ttinsn(setC16(f.fidelity, phase))
		}
		math.ttinsn(replay(16, 0), 0x37000000|7)
	}
	math.ttinsn(0x37000000|3<<22|15, stall(stallSync, f.waitMatrix), semPost(sem)).addi(s0, s0, -1).bne(s0, x0, "tile").halt()

	pack = newAsm(triscBase[2])
	cfg(pack, f.packXY, 32<<16)
	cfg(pack, f.packZW, 2048<<16|512)
	if arch == chip.Blackhole {
		cfg(pack, 68, 0x00040000)
		cfg(pack, 70, bf16<<8|bf16<<4|1)
		cfg(pack, 71, 0)
	} else {
		for i, w := range []uint32{56, 84, 96, 124} {
			i := uint32(i)
			cfg(pack, w, 0x00040000)
			cfg(pack, w+1, 32*i-1)
			cfg(pack, w+2, 0x20000|bf16<<8|bf16<<4|1)
			cfg(pack, w+3, 0)
			cfg(pack, f.packCount+i, 16<<8)
			cfg(pack, f.packDest+i, 16*i)
		}
	}
	for _, w := range [][2]uint32{{f.packRead, 0}, {f.packEdge, 0xFFFF}, {f.packRows, 0}, {f.packCount, 16 << 8}, {f.packDest, 0}} {
		cfg(pack, w[0], w[1])
	}
	pack.sync().ttinsn(0xA0000000, 0xB6000000|0x1E<<16|bf16<<9|1, 0xB3000000|0xFC<<16|2, 0xB4000000|0xFF<<16|2, 0xB5000000|0x3F<<16|2,
		0xA1000000)
	length := uint32(16)
	if arch == chip.Blackhole {
		pack.ttinsn(0x5E000000|4<<21|15<<10, setC16(37, 4<<6|4), setC16(38, 0x2820), setC16(39, 0x1120), replay(length, 1))
		for i := range uint32(16) {
			pack.ttinsn([]uint32{0x41000000, 0x41000000, 0x41000000,
				0x41000000 | 2<<15}[i%4] | map[bool]uint32{true: 1<<15 ^ 2<<15 | 1}[i == 15])
		}
	} else {
		length = 2
		pack.ttinsn(0x5E000000|4<<21|255<<10, setC16(31, 0x4F), setC16(32, 0x820), setC16(33, 0x20), replay(length, 1), 0x41010F02,
			0x41008F11)
	}
	pack.li(s0, n).label("tile")
	cfg(pack, f.packL1, 1<<31|(tileOut>>4-1))
	pack.ttinsn(0x51000000|4<<21|0xB, 0x54000000|4<<21|0xF, stall(stallPack, f.waitStores), 0xA6000000|1<<15|4<<sem|1, replay(length, 0),
		stall(stallSync, f.waitPack), semGet(sem)).
		sync().addi(s0, s0, -1).bne(s0, x0, "tile").
		li(t0, tileDone).li(t1, 0x600D).sw(t1, t0, 0).halt()
	return unpack, math, pack
}

func (r *rig) multiply(n int, times uint32) []chip.XY {
	rng := rand.New(rand.NewPCG(3, 4))
	u, m, p := matmul(r.arch, times)
	var workers []chip.XY
	for w := range r.topo.Workers() {
		if len(workers) == n {
			break
		}
		v := r.worker(w.X, w.Y)
		workers = append(workers, v)
		var tiles []byte
		for range 2 * 1024 {
			tiles = binary.LittleEndian.AppendUint16(tiles, uint16(rng.Uint32())&0x83FF|0x3C00)
		}
		r.write(v, tileA, tiles)
		r.write(v, tileDone, make([]byte, 4))
		for _, a := range []*asm{u, m, p} {
			r.write(v, uint64(a.base), a.bytes())
		}
		r.st(v, 0xFFB121B0, 0x47800)
	}
	for _, v := range workers {
		r.st(v, 0xFFB121B0, 0x47800&^0x7000)
	}
	return workers
}

func (r *rig) products(workers []chip.XY) []byte {
	var out []byte
	a := map[chip.Arch]arith.Arch{chip.Wormhole: arith.Wormhole, chip.Blackhole: arith.Blackhole}[r.arch]
	for _, v := range workers {
		var left, right arith.SrcTile
		var dst arith.DstTile
		u := arith.Unpack{Arch: a, In: arith.BF16, Out: arith.BF16}
		u.Tile(&left, r.read(v, tileA, 2048))
		u.Tile(&right, r.read(v, tileB, 2048))
		arith.Math{Arch: a, A: arith.BF16, B: arith.BF16}.MatmulTile(&dst, &left, &right, arith.HiFi4)
		p, packed := arith.Pack{Mid: arith.BF16, Out: arith.BF16}, make([]byte, 2048)
		p.Tile(packed, &dst)
		out = append(out, packed...)
	}
	return out
}

func (r *rig) await(workers []chip.XY) {
	r.t.Helper()
	for _, v := range workers {
		r.eventually("product", func() bool { return r.ld(v, tileDone) == 0x600D })
	}
	r.healthy()
}

func (r *rig) digest(workers []chip.XY) string {
	h := sha256.New()
	for _, v := range workers {
		h.Write(r.read(v, 0, 128<<10))
		h.Write(r.read(v, tileA, 0x2000))
		e := r.c.tileAt(r.raw(v)).enginesOf()
		for row := range uint32(1024) {
			for pair := range uint32(8) {
				h.Write(binary.LittleEndian.AppendUint32(nil, e.DebugDst(row, pair)))
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func TestEnginesRunAlikeOnAnyNumberOfGoroutines(t *testing.T) {
	for _, arch := range arches {
		results := map[string]string{}
		for seed := range uint64(3) {
			var first, product string
			for _, n := range []int{1, 2, 5} {
				r := newRig(t, Config{Arch: arch, Synchronous: true, Seed: seed, Parallel: seed == 2, Workers: n, MaxRun: 1})
				workers := r.multiply(7, 10)
				r.await(workers)
				got := r.digest(workers)
				product = got
				var out []byte
				for _, v := range workers {
					out = append(out, r.read(v, tileOut, 2048)...)
				}
				if !bytes.Equal(out, r.products(workers)) {
					t.Fatalf("%v seed %d: the products are wrong", arch, seed)
				}
				for _, v := range workers {
					for p := chip.TRISC0; p <= chip.TRISC2; p++ {
						got += fmt.Sprint(" ", r.c.Retired(r.raw(v), p))
					}
				}
				got += fmt.Sprint(" at ", r.c.clock)
				if first == "" {
					first = got
				}
				noDiff(t, got, first, "%v seed %d: %d goroutines run otherwise than 1", arch, seed, n)
				if n > 1 && r.c.crew.Size() == 0 {
					t.Errorf("%v seed %d: no goroutine helped", arch, seed)
				}
			}
			results["synchronous"] = product
			r := newRig(t, Config{Arch: arch, Seed: seed})
			workers := r.multiply(7, 10)
			r.await(workers)
			results[fmt.Sprint("free-running, seed ", seed)] = r.digest(workers)
		}
		for how, got := range results {
			equal(t, got, results["synchronous"], "%v: %s", arch, how)
		}
	}
}

// Each store is done in its place among the instructions of its thread, and wakes who polls.
func TestEnginesStoreToRegistersFromAnyGoroutine(t *testing.T) {
	const rounds, increment = 6, 3
	for _, arch := range arches {
		update, available := uint32(0x088), uint32(0x100)
		if arch == chip.Blackhole {
			update, available = 0x438, 0x4A4
		}
		for _, n := range []int{1, 4} {
			r := newRig(t, Config{Arch: arch, Synchronous: true, MaxRun: 1, Seed: 5, Workers: n})
			core := newAsm(triscBase[0]).ttinsn(setGPR(2, increment<<6), 0x04000000|16<<4|1)
			for range 16 {
				core.ttinsn(0x58000000 | 4<<12 | 4<<6 | 1) // GPR 4 += GPR 1
			}
			for range rounds {
				core.ttinsn(0x04000000|16<<4, 0x04000000|16<<4, 0x67000000|2<<18|(streamBase+update-0xFFB00000)>>2)
			}
			core.sync().halt()
			poller := newAsm(triscBase[1]).li(a0, streamBase+available).li(a2, rounds*increment).
				label("poll").lw(a1, a0, 0).bne(a1, a2, "poll").li(t0, tileDone).li(t1, 0x600D).sw(t1, t0, 0).halt()
			var workers []chip.XY
			for w := range r.topo.Workers() {
				if len(workers) == 12 {
					break
				}
				v := r.worker(w.X, w.Y)
				workers = append(workers, v)
				r.st(v, tileDone, 0)
				for _, a := range []*asm{core, poller} {
					r.write(v, uint64(a.base), a.bytes())
				}
			}
			for _, v := range workers {
				r.st(v, 0xFFB121B0, 0x47800&^0x3000)
			}
			r.await(workers)
			if n > 1 && r.c.crew.Size() == 0 {
				t.Errorf("%v: no goroutine helped", arch)
			}
		}
	}
}

// BenchmarkEngines is a HiFi4 matmul of bf16 tiles with unpacking and packing, on 64 tiles at once.
func BenchmarkEngines(b *testing.B) {
	for _, arch := range arches {
		for _, n := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("%v/goroutines=%d", arch, n), func(b *testing.B) {
				const tiles = 64
				r := newRig(b, Config{Arch: arch, Seed: 1, Workers: n})
				start := time.Now()
				r.await(r.multiply(tiles, uint32(b.N)))
				b.ReportMetric(float64(time.Since(start).Microseconds())/float64(b.N*tiles), "µs/matmul")
			})
		}
	}
}
