package emu

import (
	"encoding/binary"
	"fmt"
	"github.com/reprise-tt/reprise/sim/emu/internal/word"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

// twins are a processor that interprets and one that translates whatever it has executed once.
type twins struct{ plain, fast *core }

func newTwins(t testing.TB, arch chip.Arch) twins {
	t.Helper()
	if !translate.Available {
		t.Skip("no translation for this host")
	}
	w := twins{bare(t, arch), bare(t, arch)}
	w.plain.tile.chip.translated.off = true
	w.fast.tile.chip.translated.hot = 1
	return w
}

func (w twins) both(f func(*core)) { f(w.plain); f(w.fast) }

func (w twins) start(code []uint32, regs [32]uint32) {
	w.both(func(c *core) {
		t := c.tile
		clear(t.l1)
		copy(t.l1[0x1000/4:], code)
		for l := uint32(0); l < t.size>>lineShift; l++ {
			if t.flags[l] != 0 {
				t.touched(l)
			}
		}
		c.reset(0x1000, true)
		copy(c.X[1:32], regs[1:])
		c.state = runnable
	})
}

// run executes about n instructions of both and says how they differ, that they ended, or waited
// early.
func (w twins) run(n int) (diff string, ended, early bool) {
	a, b := w.plain.run(n), w.fast.run(n)
	type outcome struct {
		Stop    stop
		PC      uint32
		Used    int
		Retired uint64
		X       [32]uint32
		Fault   string
	}
	of := func(c *core, s stop) outcome {
		return outcome{s, c.pc, c.used, c.retired, [32]uint32(c.X[:32]), fmt.Sprint(c.tile.chip.fault)}
	}
	if plain, fast := of(w.plain, a), of(w.fast, b); plain != fast {
		diff = cmp.Diff(plain, fast)
	}
	return diff, a != stopSlice && a != stopWaits, a == stopWaits
}

// memory returns where the stored data of both differ.
func (w twins) memory() string {
	for _, m := range []struct {
		name        string
		plain, fast []uint32
	}{{"L1", w.plain.tile.l1, w.fast.tile.l1}, {"local RAM", w.plain.local, w.fast.local}} {
		if !slices.Equal(m.plain, m.fast) {
			return m.name + ": " + cmp.Diff(m.plain, m.fast)
		}
	}
	return ""
}

// forgive resumes both after a refusal.
func (w twins) forgive() {
	w.both(func(c *core) {
		c.tile.chip.fault = nil
		c.tile.chip.faulted.Store(false)
	})
}

// randomCode draws a program that stays in its code.
func randomCode(r *rand.Rand, refs []reference, arch chip.Arch, n int) []uint32 {
	code := make([]uint32, n)
	reg := func() int { return []int{0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 31}[r.IntN(16)] }
	small := func() int32 { return r.Int32N(64) - 32 }
	for i := range code {
		to := func() int32 { return int32(r.IntN(n)-i) * 4 }
		near := func() int32 { return max(min(small(), int32(n-i)), int32(-i)) * 4 }
		switch r.IntN(20) {
		case 0, 1, 2, 3, 4, 5, 6, 7:
			ref := refs[r.IntN(len(refs))]
			if ref.bhOnly && arch != chip.Blackhole {
				ref = refs[0]
			}
			code[i] = ref.encode(reg(), reg(), reg(), r.Int32N(4096)-2048)
		case 8, 9, 10:
			code[i] = itype(0x03, []uint32{0, 1, 2, 2, 4, 5}[r.IntN(6)], reg(), reg(), small()*[]int32{1, 4, 4, 4}[r.IntN(4)])
		case 11, 12, 13:
			code[i] = stype([]uint32{0, 1, 2, 2}[r.IntN(4)], reg(), reg(), small()*[]int32{1, 4, 4, 4}[r.IntN(4)])
		case 14, 15, 16:
			code[i] = btype([]uint32{0, 1, 4, 5, 6, 7}[r.IntN(6)], reg(), reg(), near())
		case 17:
			code[i] = jtype(reg(), to())
		case 18: // a jump by a register to where auipc, put before it, says
			if i > 0 {
				code[i-1] = uint32(5)<<7 | 0x17
				code[i] = itype(0x67, 0, reg(), 5, near())
			}
		default:
			code[i] = []uint32{
				uint32(r.IntN(1<<20))<<12 | uint32(reg())<<7 | 0x37, // lui
				itype(0x13, 0, reg(), reg(), small()),               // addi
				0x0FF0000F,                                          // fence
				rtype(0x2F, 2, 0, reg(), reg(), reg()),              // amoadd
				uint32(r.Uint64()),                                  // anything
			}[r.IntN(5)]
		}
	}
	return code
}

// randomRegisters draws values and addresses near edges.
func randomRegisters(r *rand.Rand, size, local uint32) (x [32]uint32) {
	for i := range x {
		x[i] = []uint32{0x20000 + 4*uint32(r.IntN(64)), localBase + 4*uint32(r.IntN(64)), localBase + local - 64, size - 64,
			0x1000 + 4*uint32(r.IntN(256)),
			uint32(r.Uint64()), uint32(r.IntN(16)), ^uint32(0), 1 << 31, 0x30001, localBase + 128, 0x20040}[r.IntN(12)]
	}
	x[2] = localBase + 512
	return x
}

func (w twins) compare(t testing.TB, seed uint64, code []uint32) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	w.forgive()
	w.start(code, randomRegisters(r, w.plain.tile.size, uint32(len(w.plain.local))*4))
	for range 24 {
		n := []int{1, 1 + r.IntN(32), 64 + r.IntN(64), 1000 + r.IntN(3000)}[r.IntN(4)]
		diff, ended, early := w.run(n)
		if diff != "" {
			t.Fatalf("seed %d, slice of %d: interpreted (-), translated (+): %s", seed, n, diff)
		}
		if ended {
			break
		}
		if waiting := r.IntN(2) == 0; early { // as the scheduler finds
			w.both(func(c *core) {
				if pg := c.codePage(c.pc); pg != nil {
					pg.waited(int(c.pc%pageBytes>>2), waiting)
				}
			})
		}
		if r.IntN(8) == 0 { // somebody else writes into the program
			at, v := 0x1000+4*uint32(r.IntN(len(code))), itype(0x13, 0, 6, 6, r.Int32N(64))
			w.both(func(c *core) {
				c.tile.l1[at/4] = v
				c.tile.stored(at, 4)
			})
		}
	}
	if diff := w.memory(); diff != "" {
		t.Fatalf("seed %d: %s", seed, diff)
	}
}

func (w twins) translated() bool {
	return w.fast.tile.code[1] != nil && w.fast.tile.code[1].code != [pageLines]*translate.Code{}
}

func TestTranslation(t *testing.T) {
	seeds := effort.Of[uint64](200, 400, 280_000) // the last are a thousand million instructions of both chips together
	for _, arch := range arches {
		w := newTwins(t, arch)
		refs, translated := references(), uint64(0)
		for seed := range seeds {
			r := rand.New(rand.NewPCG(seed, 1))
			w.compare(t, seed, randomCode(r, refs, arch, 8+r.IntN(300)))
			if w.translated() {
				translated++
			}
		}
		t.Logf("%v: %d instructions, %d of %d programs were translated", arch, w.fast.retired, translated, seeds)
		if translated < seeds/2 {
			t.Errorf("%v: few programs were translated", arch)
		}
	}
}

func FuzzTranslation(f *testing.F) {
	f.Add(uint64(1), true, busyLoop().bytes())
	both := map[bool]twins{false: newTwins(f, chip.Wormhole), true: newTwins(f, chip.Blackhole)}
	f.Fuzz(func(t *testing.T, seed uint64, blackhole bool, p []byte) {
		code := []uint32{0}
		for ; len(p) >= 4 && len(code) < pageOps; p = p[4:] {
			code = append(code, binary.LittleEndian.Uint32(p))
		}
		code[0] = itype(0x13, 0, 0, 0, 0)
		both[blackhole].compare(t, seed, code)
	})
}

func TestTranslationsAreShared(t *testing.T) {
	if !translate.Available {
		t.Skip("no translation for this host")
	}
	r := syncRig(t, chip.Wormhole)
	r.c.cfg.MaxRun = 100_000
	loop := func(step int32) *asm {
		return onB().li(a0, 0).label("l").addi(a0, a0, step).addi(a1, a1, 1).bne(a1, x0, "l").halt()
	}
	code := func(x int) *translate.Code { return r.c.tileAt(r.raw(r.worker(x, 0))).code[1].code[0] }
	for x, step := range []int32{1, 1, 2} {
		r.run(r.worker(x, 0), loop(step))
	}
	if code(0) == nil || code(0) != code(1) || code(2) == nil || code(2) == code(0) {
		t.Errorf("code of a loop, the same and another one: %p, %p, %p", code(0), code(1), code(2))
	}
	old := code(1)
	r.write(r.worker(1, 0), 0x1000, loop(2).bytes())
	if code(1) == old {
		t.Error("code of a loop that has changed is still used")
	}
	for x, step := range []uint32{1, 2, 2} {
		k := r.c.tileAt(r.raw(r.worker(x, 0))).core(chip.BRISC)
		if x != 1 && k.X[a0] != step*k.X[a1] {
			t.Errorf("worker %d counted to %d in %d steps of %d", x, k.X[a0], k.X[a1], step)
		}
	}
}

// Ranges of a page don't take each other's place again and again.
func TestTranslationsComeToRest(t *testing.T) {
	w := newTwins(t, chip.Blackhole)
	var code []uint32 // 60 lines, each with a load of a register that translated code leaves to others
	for len(code) < 60*lineWords-1 {
		code = append(code, itype(0x13, 0, a0, a0, 1))
		if len(code)%lineWords == 8 {
			code = append(code, itype(0x03, 2, a2, a1, 0))
		}
	}
	code = append(code, jtype(x0, -4*int32(len(code))))
	w.fast.tile.code[1] = new(codePage)
	w.start(code, [32]uint32{a1: niu0Base + layoutOf(chip.Blackhole).nodeID})
	for range 100 {
		if diff, ended, _ := w.run(4096); diff != "" || ended {
			t.Fatal(ended, diff)
		}
	}
	for l, code := range w.fast.tile.code[1].code[:60] {
		switch {
		case code == nil:
			t.Errorf("line %d of a loop has no code", l)
		case l < code.First/lineWords || l >= code.End/lineWords:
			t.Errorf("line %d has the code of lines %d to %d", l, code.First/lineWords, code.End/lineWords)
		}
	}
}

// Lines between code that were never executed are translated with it; stores to data in them cost
// one more translation.
func TestDataBetweenCode(t *testing.T) {
	if !translate.Available {
		t.Skip("no translation for this host")
	}
	const data, rounds = 0x1000 + 2*lineBytes, 3000
	for _, arch := range arches {
		for stores := range 3 { // the second one, what was there before
			r := syncRig(t, arch)
			for x := range 3 {
				a := onB().li(a0, data).li(a1, rounds).label("loop").lw(a2, a0, 0).addi(a2, a2, 1).j("far")
				for len(a.w) < 4*lineWords {
					a.emit(0)
				}
				a.label("far")
				if stores > 0 {
					a.sw(a2, a0, 0)
				}
				if stores > 1 {
					a.sw(x0, a0, 0)
				}
				a.addi(a1, a1, -1).bne(a1, x0, "loop").halt()
				r.run(r.worker(x, 0), a)
				w := r.c.tileAt(r.raw(r.worker(x, 0)))
				r.eventually("end of the loop", func() bool { return w.core(chip.BRISC).X[a1] == 0 })
				equal(t, w.l1[data/4], rounds*word.Bool(stores == 1), "%v: worker %d counted to", arch, x)
				if code := w.code[1].code; stores == 0 && (code[0] == nil || code[0] != code[4] || code[2] != code[0]) {
					t.Errorf("%v: worker %d: lines 0, 2 and 4 have the code %p, %p, %p; want the same", arch, x, code[0], code[2], code[4])
				}
			}
			if n := r.c.translated.made; n < 1 || n > 8 {
				t.Errorf("%v: %d translations with %d stores", arch, n, stores)
			}
		}
	}
}

func TestTranslationsWithoutRoom(t *testing.T) {
	w := newTwins(t, chip.Blackhole)
	code := randomCode(rand.New(rand.NewPCG(7, 1)), references(), chip.Blackhole, 100)
	w.compare(t, 7, code)
	w.fast.tile.chip.untranslate()
	if slices.ContainsFunc(w.fast.tile.code, func(p *codePage) bool { return p != nil && p.code != [pageLines]*translate.Code{} }) {
		t.Error("pages still have code")
	}
	w.compare(t, 7, code)
}

func TestTranslatedOperations(t *testing.T) {
	w := newTwins(t, chip.Blackhole)
	for _, ref := range references() {
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 3))
			var code []uint32
			for range 200 {
				code = append(code, ref.encode(1+r.IntN(31), r.IntN(32), r.IntN(32), r.Int32N(4096)-2048))
			}
			code = append(code, jtype(0, -4*int32(len(code))))
			w.compare(t, seed, code)
		}
	}
}
