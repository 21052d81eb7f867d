package emu

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
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
