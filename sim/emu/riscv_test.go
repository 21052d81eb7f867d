package emu

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"math/bits"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
)

// reference computes an instruction straight from the RISC-V manual (unprivileged specification,
// chapters I, M, Zba, Zbb and Zbkb's pack and brev8).
type reference struct {
	name   string
	encode func(rd, r1, r2 int, imm int32) uint32
	do     func(a, b uint32, imm int32) uint32
	bhOnly bool
}

func signed(v uint32) *big.Int   { return big.NewInt(int64(int32(v))) }
func unsigned(v uint32) *big.Int { return big.NewInt(int64(v)) }

func high(a, b *big.Int) uint32 {
	p := new(big.Int).Mul(a, b)
	return uint32(new(big.Int).And(new(big.Int).Rsh(p, 32), big.NewInt(0xFFFFFFFF)).Uint64())
}

func low(a *big.Int) uint32 {
	return uint32(new(big.Int).And(a, big.NewInt(0xFFFFFFFF)).Uint64())
}

func eachByte(v uint32, f func(b byte) byte) uint32 {
	var p [4]byte
	binary.LittleEndian.PutUint32(p[:], v)
	for i := range p {
		p[i] = f(p[i])
	}
	return binary.LittleEndian.Uint32(p[:])
}

func b32(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

func references() []reference {
	r := func(name string, f3, f7 uint32, bh bool, do func(a, b uint32) uint32) reference {
		return reference{name, func(rd, r1, r2 int, _ int32) uint32 { return rtype(0x33, f3, f7, rd, r1, r2) },
			func(a, b uint32, _ int32) uint32 { return do(a, b) }, bh}
	}
	i := func(name string, f3 uint32, do func(a uint32, imm int32) uint32) reference {
		return reference{name, func(rd, r1, _ int, imm int32) uint32 { return itype(0x13, f3, rd, r1, imm) },
			func(a, _ uint32, imm int32) uint32 { return do(a, imm) }, false}
	}
	sh := func(name string, f3 uint32, top int32, bh bool, do func(a uint32, n int) uint32) reference {
		return reference{name, func(rd, r1, _ int, imm int32) uint32 { return itype(0x13, f3, rd, r1, top|imm&31) },
			func(a, _ uint32, imm int32) uint32 { return do(a, int(imm&31)) }, bh}
	}
	one := func(name string, f3 uint32, code int32, do func(a uint32) uint32) reference {
		return reference{name, func(rd, r1, _ int, _ int32) uint32 { return itype(0x13, f3, rd, r1, code) },
			func(a, _ uint32, _ int32) uint32 { return do(a) }, true}
	}
	quotient := func(a, b *big.Int, zero uint32, f func(q, r *big.Int) *big.Int) uint32 {
		if b.Sign() == 0 {
			return zero
		}
		q, m := new(big.Int).QuoRem(a, b, new(big.Int)) // rounds towards zero
		return low(f(q, m))
	}
	first := func(q, _ *big.Int) *big.Int { return q }
	second := func(_, m *big.Int) *big.Int { return m }
	return []reference{
		r("add", 0, 0, false, func(a, b uint32) uint32 { return a + b }),
		r("sub", 0, 32, false, func(a, b uint32) uint32 { return a - b }),
		r("sll", 1, 0, false, func(a, b uint32) uint32 { return a << (b % 32) }),
		r("slt", 2, 0, false, func(a, b uint32) uint32 { return b32(signed(a).Cmp(signed(b)) < 0) }),
		r("sltu", 3, 0, false, func(a, b uint32) uint32 { return b32(a < b) }),
		r("xor", 4, 0, false, func(a, b uint32) uint32 { return a ^ b }),
		r("srl", 5, 0, false, func(a, b uint32) uint32 { return a >> (b % 32) }),
		r("sra", 5, 32, false, func(a, b uint32) uint32 { return low(new(big.Int).Rsh(signed(a), uint(b%32))) }),
		r("or", 6, 0, false, func(a, b uint32) uint32 { return a | b }),
		r("and", 7, 0, false, func(a, b uint32) uint32 { return a & b }),
		r("mul", 0, 1, false, func(a, b uint32) uint32 { return low(new(big.Int).Mul(signed(a), signed(b))) }),
		r("mulh", 1, 1, false, func(a, b uint32) uint32 { return high(signed(a), signed(b)) }),
		r("mulhsu", 2, 1, false, func(a, b uint32) uint32 { return high(signed(a), unsigned(b)) }),
		r("mulhu", 3, 1, false, func(a, b uint32) uint32 { return high(unsigned(a), unsigned(b)) }),
		r("div", 4, 1, false, func(a, b uint32) uint32 { return quotient(signed(a), signed(b), 0xFFFFFFFF, first) }),
		r("divu", 5, 1, false, func(a, b uint32) uint32 { return quotient(unsigned(a), unsigned(b), 0xFFFFFFFF, first) }),
		r("rem", 6, 1, false, func(a, b uint32) uint32 { return quotient(signed(a), signed(b), a, second) }),
		r("remu", 7, 1, false, func(a, b uint32) uint32 { return quotient(unsigned(a), unsigned(b), a, second) }),
		i("addi", 0, func(a uint32, imm int32) uint32 { return a + uint32(imm) }),
		i("slti", 2, func(a uint32, imm int32) uint32 { return b32(int32(a) < imm) }),
		i("sltiu", 3, func(a uint32, imm int32) uint32 { return b32(a < uint32(imm)) }),
		i("xori", 4, func(a uint32, imm int32) uint32 { return a ^ uint32(imm) }),
		i("ori", 6, func(a uint32, imm int32) uint32 { return a | uint32(imm) }),
		i("andi", 7, func(a uint32, imm int32) uint32 { return a & uint32(imm) }),
		sh("slli", 1, 0, false, func(a uint32, n int) uint32 { return a << n }),
		sh("srli", 5, 0, false, func(a uint32, n int) uint32 { return a >> n }),
		sh("srai", 5, 0x400, false, func(a uint32, n int) uint32 { return uint32(int32(a) >> n) }),
		r("min", 4, 5, true, func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) }),
		r("minu", 5, 5, true, func(a, b uint32) uint32 { return min(a, b) }),
		r("max", 6, 5, true, func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) }),
		r("maxu", 7, 5, true, func(a, b uint32) uint32 { return max(a, b) }),
		r("sh1add", 2, 16, true, func(a, b uint32) uint32 { return a*2 + b }),
		r("sh2add", 4, 16, true, func(a, b uint32) uint32 { return a*4 + b }),
		r("sh3add", 6, 16, true, func(a, b uint32) uint32 { return a*8 + b }),
		r("xnor", 4, 32, true, func(a, b uint32) uint32 { return ^(a ^ b) }),
		r("orn", 6, 32, true, func(a, b uint32) uint32 { return a | (0xFFFFFFFF - b) }),
		r("andn", 7, 32, true, func(a, b uint32) uint32 { return a & (0xFFFFFFFF - b) }),
		r("rol", 1, 48, true, func(a, b uint32) uint32 { return a<<(b%32) | a>>((32-b%32)%32)*b32(b%32 != 0) }),
		r("ror", 5, 48, true, func(a, b uint32) uint32 { return a>>(b%32) | a<<((32-b%32)%32)*b32(b%32 != 0) }),
		sh("rori", 5, 0x600, true, func(a uint32, n int) uint32 { return a>>n | uint32(uint64(a)<<(32-n)) }),
		r("pack", 4, 4, true, func(a, b uint32) uint32 { return a%0x10000 + b<<16 }),
		one("clz", 1, 0x600, func(a uint32) uint32 { return uint32(32 - bits.Len32(a)) }),
		one("ctz", 1, 0x601, func(a uint32) uint32 {
			n := uint32(0)
			for n < 32 && a>>n&1 == 0 {
				n++
			}
			return n
		}),
		one("cpop", 1, 0x602, func(a uint32) uint32 {
			n := uint32(0)
			for ; a != 0; a >>= 1 {
				n += a & 1
			}
			return n
		}),
		one("sext.b", 1, 0x604, func(a uint32) uint32 { return uint32(int32(a<<24) >> 24) }),
		one("sext.h", 1, 0x605, func(a uint32) uint32 { return uint32(int32(a<<16) >> 16) }),
		one("orc.b", 5, 0x287, func(a uint32) uint32 {
			return eachByte(a, func(b byte) byte {
				if b != 0 {
					return 0xFF
				}
				return 0
			})
		}),
		one("rev8", 5, 0x698, func(a uint32) uint32 { return a<<24 | a<<8&0xFF0000 | a>>8&0xFF00 | a>>24 }),
		one("brev8", 5, 0x687, func(a uint32) uint32 { return eachByte(a, bits.Reverse8) }),
	}
}

// encoded draws operands, edges often.
func encoded() *rapid.Generator[uint32] {
	return rapid.OneOf(rapid.Uint32(), rapid.SampledFrom([]uint32{
		0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0xFF, 0x100, 0x8000, 0xFFFF}))
}

// bare is a core that runs single programs fast.
func bare(t testing.TB, arch chip.Arch) *core {
	r := syncRig(t, arch)
	k := r.c.tileAt(r.raw(r.worker(0, 0))).core(chip.BRISC)
	k.tile.memory(k.tile.size)
	k.reset(0, true)
	return k
}

func (c *core) exec(t interface{ Fatalf(string, ...any) }, code ...uint32) {
	base := uint32(0x1000)
	for i, w := range code {
		c.tile.l1[base/4+uint32(i)] = w
	}
	c.tile.stored(base, 4*len(code))
	c.pc, c.state = base, runnable
	for range code {
		if c.run(1) != stopSlice {
			t.Fatalf("stopped at %#x: %v", c.pc, c.tile.chip.fault)
		}
	}
}

// For every choice of registers, including x0.
func TestArithmetic(t *testing.T) {
	for _, arch := range arches {
		c := bare(t, arch)
		refs := references()
		rapid.Check(t, func(t *rapid.T) {
			ref := refs[rapid.IntRange(0, len(refs)-1).Draw(t, "instruction")]
			if ref.bhOnly && arch != chip.Blackhole {
				return
			}
			rd, r1, r2 := rapid.IntRange(0, 31).Draw(t, "rd"), rapid.IntRange(0, 31).Draw(t, "rs1"), rapid.IntRange(0, 31).Draw(t, "rs2")
			imm := rapid.Int32Range(-2048, 2047).Draw(t, "imm")
			for i := 1; i < 32; i++ {
				c.X[i] = encoded().Draw(t, "x")
			}
			want := [32]uint32(c.X[:32])
			if rd != 0 {
				want[rd] = ref.do(want[r1], want[r2], imm)
			}
			c.exec(t, ref.encode(rd, r1, r2, imm))
			if diff := cmp.Diff(want, [32]uint32(c.X[:32])); diff != "" {
				t.Fatalf("%v %s x%d, x%d, x%d, %d: %s", arch, ref.name, rd, r1, r2, imm, diff)
			}
		})
	}
}

func TestControlFlow(t *testing.T) {
	c := bare(t, chip.Wormhole)
	rapid.Check(t, func(t *rapid.T) {
		a, b := encoded().Draw(t, "a"), encoded().Draw(t, "b")
		if rapid.Bool().Draw(t, "equal") {
			b = a
		}
		taken := map[uint32]bool{0: a == b, 1: a != b, 4: int32(a) < int32(b), 5: int32(a) >= int32(b), 6: a < b, 7: a >= b}
		f3 := rapid.SampledFrom([]uint32{0, 1, 4, 5, 6, 7}).Draw(t, "branch")
		d := rapid.Int32Range(-1024, 1023).Draw(t, "distance") * 4
		pc := uint32(0x4000) + 4*rapid.Uint32Range(0, 2047).Draw(t, "pc")
		at := func(w uint32) {
			c.tile.l1[pc/4] = w
			c.tile.stored(pc, 4)
			c.pc, c.state = pc, runnable
			if c.run(1) != stopSlice {
				t.Fatalf("stopped: %v", c.tile.chip.fault)
			}
		}
		c.X[5], c.X[6] = a, b
		at(btype(f3, 5, 6, d))
		want := pc + 4
		if taken[f3] {
			want = pc + uint32(d)
		}
		if c.pc != want {
			t.Fatalf("branch %d of %#x, %#x by %d at %#x went to %#x, want %#x", f3, a, b, d, pc, c.pc, want)
		}
		if at(btype(f3^b32(taken[f3]), 5, 6, d+2)); c.pc != pc+4 { // the one of the two that is not taken
			t.Fatalf("branch to half a word, not taken, at %#x went to %#x", pc, c.pc)
		}
		rd := rapid.IntRange(0, 31).Draw(t, "rd")
		jd := rapid.Int32Range(-4096, 100000).Draw(t, "jump") * 4
		at(jtype(rd, jd))
		if c.pc != pc+uint32(jd) || rd != 0 && c.X[rd] != pc+4 || c.X[0] != 0 {
			t.Fatalf("jal x%d by %d at %#x went to %#x, link %#x", rd, jd, pc, c.pc, c.X[rd])
		}
		c.X[5] = 0x10000 + 4*rapid.Uint32Range(0, 100).Draw(t, "base")
		off := d >> 1 &^ 3
		if off < -2048 || off > 2047 {
			off = 0
		}
		want = c.X[5] + uint32(off)
		at(itype(0x67, 0, 5, 5, off)) // link and base are the same register
		if c.pc != want || c.X[5] != pc+4 {
			t.Fatalf("jalr x5, %d(x5) at %#x went to %#x, want %#x, link %#x", off, pc, c.pc, want, c.X[5])
		}
	})
}

// In L1 and in local RAM, with and without decoded instructions in the line.
func TestLoadStore(t *testing.T) {
	for _, arch := range arches {
		c := bare(t, arch)
		rapid.Check(t, func(t *rapid.T) {
			base := rapid.SampledFrom([]uint32{0x8000, localBase, 0x1080, c.tile.chip.params.L1Size - 128,
				localBase + uint32(len(c.local))*4 - 128}).Draw(t, "base")
			mem := rapid.SliceOfN(rapid.Byte(), 128, 128).Draw(t, "memory")
			words := c.tile.l1
			first := base / 4
			if base >= localBase {
				words, first = c.local, (base-localBase)/4
			}
			for i := range 32 {
				words[int(first)+i] = binary.LittleEndian.Uint32(mem[4*i:])
			}
			if base < localBase {
				c.tile.stored(base, 128)
			}
			for range 20 {
				w := rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "width")
				off := rapid.IntRange(0, 128/w-1).Draw(t, "offset") * w
				imm := rapid.Int32Range(-2048, 2047).Draw(t, "imm")
				c.X[5] = base + uint32(off) - uint32(imm)
				f3 := map[int]uint32{1: 0, 2: 1, 4: 2}[w]
				if rapid.Bool().Draw(t, "store") {
					c.X[6] = rapid.Uint32().Draw(t, "value")
					for i := range w {
						mem[off+i] = byte(c.X[6] >> (8 * i))
					}
					c.exec(t, stype(f3, 5, 6, imm))
				} else {
					unsigned := w < 4 && rapid.Bool().Draw(t, "unsigned")
					var want uint32
					for i := range w {
						want |= uint32(mem[off+i]) << (8 * i)
					}
					if unsigned {
						f3 |= 4
					} else {
						want = uint32(int32(want<<(32-8*w)) >> (32 - 8*w))
					}
					c.exec(t, itype(0x03, f3, 7, 5, imm))
					if c.X[7] != want {
						t.Fatalf("%v load of %d at %#x = %#x, want %#x", arch, w, base+uint32(off), c.X[7], want)
					}
				}
			}
			var got []byte
			for i := range 32 {
				got = binary.LittleEndian.AppendUint32(got, words[int(first)+i])
			}
			if diff := cmp.Diff(mem, got); diff != "" {
				t.Fatalf("%v memory: %s", arch, diff)
			}
		})
	}
}

func TestAMO(t *testing.T) {
	c := bare(t, chip.Blackhole)
	ops := []struct {
		f5 uint32
		do func(old, v uint32) uint32
	}{
		{0x00, func(o, v uint32) uint32 { return o + v }}, {0x01, func(o, v uint32) uint32 { return v }},
		{0x04, func(o, v uint32) uint32 { return o ^ v }}, {0x08, func(o, v uint32) uint32 { return o | v }},
		{0x0C, func(o, v uint32) uint32 { return o & v }},
		{0x10, func(o, v uint32) uint32 { return uint32(min(int32(o), int32(v))) }},
		{0x14, func(o, v uint32) uint32 { return uint32(max(int32(o), int32(v))) }},
		{0x18, func(o, v uint32) uint32 { return min(o, v) }}, {0x1C, func(o, v uint32) uint32 { return max(o, v) }},
	}
	rapid.Check(t, func(t *rapid.T) {
		op := rapid.SampledFrom(ops).Draw(t, "op")
		old, v := encoded().Draw(t, "old"), encoded().Draw(t, "v")
		c.tile.l1[0x9000/4] = old
		c.X[5], c.X[6] = 0x9000, v
		c.exec(t, rtype(0x2F, 2, op.f5<<2|rapid.Uint32Range(0, 3).Draw(t, "aqrl"), 7, 5, 6))
		if got := c.tile.l1[0x9000/4]; got != op.do(old, v) || c.X[7] != old {
			t.Fatalf("amo %#x of %#x, %#x left %#x and returned %#x", op.f5, old, v, got, c.X[7])
		}
	})
}

func TestSelfModifyingCode(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(0, 0)
		a := onB().li(a0, 0x1000+4*6).li(a1, itype(0x13, 0, a2, a2, 100)) // addi a2, a2, 100
		for len(a.w) < 5 {
			a.addi(x0, x0, 0)
		}
		a.label("again").sw(a1, a0, 0).addi(a2, a2, 1).addi(a3, a3, 1).li(a4, 3).bne(a3, a4, "again").stw(0x40000, 0).sw(a2, t0, 0).halt()
		r.run(v, a)
		r.healthy()
		equal(t, r.ld(v, 0x40000), 300, "%v: sum", arch)
	}
}

type asm struct {
	base   uint32
	w      []uint32
	labels map[string]int
	fixups []fixup
}

type fixup struct {
	at    int
	label string
	jal   bool
}

const (
	x0, ra, sp, gp, tp     = 0, 1, 2, 3, 4
	t0, t1, t2             = 5, 6, 7
	s0, s1                 = 8, 9
	a0, a1, a2, a3, a4, a5 = 10, 11, 12, 13, 14, 15
)

func newAsm(base uint32) *asm { return &asm{base: base, labels: map[string]int{}} }

func (a *asm) emit(w uint32) *asm { a.w = append(a.w, w); return a }

func rtype(op, f3, f7 uint32, rd, rs1, rs2 int) uint32 {
	return f7<<25 | uint32(rs2)<<20 | uint32(rs1)<<15 | f3<<12 | uint32(rd)<<7 | op
}

func itype(op, f3 uint32, rd, rs1 int, imm int32) uint32 {
	return uint32(imm)<<20 | uint32(rs1)<<15 | f3<<12 | uint32(rd)<<7 | op
}

func stype(f3 uint32, rs1, rs2 int, imm int32) uint32 {
	u := uint32(imm)
	return u>>5&0x7F<<25 | uint32(rs2)<<20 | uint32(rs1)<<15 | f3<<12 | u&31<<7 | 0x23
}

func btype(f3 uint32, rs1, rs2 int, imm int32) uint32 {
	u := uint32(imm)
	return u>>12&1<<31 | u>>5&0x3F<<25 | uint32(rs2)<<20 | uint32(rs1)<<15 | f3<<12 | u>>1&15<<8 | u>>11&1<<7 | 0x63
}

func jtype(rd int, imm int32) uint32 {
	u := uint32(imm)
	return u>>20&1<<31 | u>>1&0x3FF<<21 | u>>11&1<<20 | u&0xFF000 | uint32(rd)<<7 | 0x6F
}

func (a *asm) lui(rd int, v uint32) *asm { return a.emit(v&0xFFFFF000 | uint32(rd)<<7 | 0x37) }

func (a *asm) li(rd int, v uint32) *asm {
	lo := int32(v<<20) >> 20
	hi := v - uint32(lo)
	if hi == 0 {
		return a.addi(rd, x0, lo)
	}
	a.lui(rd, hi)
	if lo != 0 {
		a.addi(rd, rd, lo)
	}
	return a
}

func (a *asm) addi(rd, rs int, imm int32) *asm { return a.emit(itype(0x13, 0, rd, rs, imm)) }
func (a *asm) andi(rd, rs int, imm int32) *asm { return a.emit(itype(0x13, 7, rd, rs, imm)) }
func (a *asm) add(rd, r1, r2 int) *asm         { return a.emit(rtype(0x33, 0, 0, rd, r1, r2)) }
func (a *asm) sub(rd, r1, r2 int) *asm         { return a.emit(rtype(0x33, 0, 32, rd, r1, r2)) }
func (a *asm) lw(rd, rs int, off int32) *asm   { return a.emit(itype(0x03, 2, rd, rs, off)) }
func (a *asm) lbu(rd, rs int, off int32) *asm  { return a.emit(itype(0x03, 4, rd, rs, off)) }
func (a *asm) sw(src, base int, off int32) *asm {
	return a.emit(stype(2, base, src, off))
}
func (a *asm) sb(src, base int, off int32) *asm { return a.emit(stype(0, base, src, off)) }
func (a *asm) sh(src, base int, off int32) *asm { return a.emit(stype(1, base, src, off)) }
func (a *asm) fence() *asm                      { return a.emit(0x0FF0000F) }

// stw stores a constant to a constant address through t0 and t1.
func (a *asm) stw(addr, v uint32) *asm { return a.li(t0, addr).li(t1, v).sw(t1, t0, 0) }

func (a *asm) label(name string) *asm { a.labels[name] = len(a.w); return a }

func (a *asm) branch(f3 uint32, r1, r2 int, label string) *asm {
	a.fixups = append(a.fixups, fixup{len(a.w), label, false})
	return a.emit(btype(f3, r1, r2, 0))
}
func (a *asm) beq(r1, r2 int, l string) *asm  { return a.branch(0, r1, r2, l) }
func (a *asm) bne(r1, r2 int, l string) *asm  { return a.branch(1, r1, r2, l) }
func (a *asm) bltu(r1, r2 int, l string) *asm { return a.branch(6, r1, r2, l) }

func (a *asm) j(label string) *asm {
	a.fixups = append(a.fixups, fixup{len(a.w), label, true})
	return a.emit(jtype(x0, 0))
}

// halt is a loop that the emulator parks at once.
func (a *asm) halt() *asm { return a.emit(jtype(x0, 0)) }

func (a *asm) bytes() []byte {
	for _, f := range a.fixups {
		to, ok := a.labels[f.label]
		if !ok {
			panic(fmt.Sprintf("label %q", f.label))
		}
		d := int32(to-f.at) * 4
		if f.jal {
			a.w[f.at] |= jtype(0, d) &^ 0x6F
		} else {
			a.w[f.at] |= btype(0, 0, 0, d) &^ 0x63
		}
	}
	a.fixups = nil
	p := make([]byte, 0, 4*len(a.w))
	for _, w := range a.w {
		p = binary.LittleEndian.AppendUint32(p, w)
	}
	return p
}

func FuzzInstructions(f *testing.F) {
	f.Add(false, busyLoop().bytes())
	f.Add(true, ping(chip.Blackhole, chip.XY{X: 1, Y: 2}, chip.XY{X: 2, Y: 2}, 3, true).bytes())
	f.Add(true, []byte{0x73, 0x90, 0x05, 0x7C, 0x2F, 0xA6, 0xA5, 0x00, 0x0F, 0, 0xF0, 0x0F})
	chips := map[bool]*rig{false: syncRig(f, chip.Wormhole), true: syncRig(f, chip.Blackhole)}
	raw := map[bool]chip.XY{}
	for bh, r := range chips {
		raw[bh] = r.raw(r.worker(0, 0))
	}
	f.Fuzz(func(t *testing.T, blackhole bool, code []byte) {
		r := chips[blackhole]
		must(t, r.c.Reset())
		c := r.c.tileAt(raw[blackhole]).core(chip.BRISC)
		for i := 1; i < 32; i++ { // addresses of registers and memory at hand
			c.X[i] = []uint32{0x40000, niu0Base, niu1Base + 0x800, streamBase + 0x30000, debugBase, localBase, configBase + 4*150,
				mailboxBase}[i%8]
		}
		code = append(code, make([]byte, 4)...)
		mem := c.tile.memory(0x5000)
		for i := 0; i+4 <= len(code) && i < 4096; i += 4 {
			mem[0x1000/4+i/4] = binary.LittleEndian.Uint32(code[i:])
		}
		c.pc, c.state, c.slice = 0x1000, runnable, minSlice
		r.c.enqueue(c)
		for n := 0; n < 20000 && r.c.busy(); n += r.c.step() {
		}
		equal(t, c.X[0], 0, "x0")
	})
}

func FuzzBAR(f *testing.F) {
	f.Add(true, uint8(0), uint64(0x1FC00000), uint8(4), uint64(0x1234567))
	f.Add(false, uint8(2), uint64(0x1200), uint8(4), uint64(1<<31))
	f.Add(false, uint8(4), uint64(0x01FF0000), uint8(8), uint64(1))
	f.Add(true, uint8(4), uint64(0x7_FFFF_FFFF), uint8(1), uint64(1))
	chips := map[bool]*rig{false: syncRig(f, chip.Wormhole), true: syncRig(f, chip.Blackhole)}
	f.Fuzz(func(t *testing.T, blackhole bool, bar uint8, off uint64, width uint8, v uint64) {
		r := chips[blackhole]
		w := 1 << (width % 4)
		r.c.BARStore(int(bar%6), off, w, v)
		r.c.BARLoad(int(bar%6), off, w)
		r.c.BARWrite(int(bar%6), off, make([]byte, v%5000))
		r.c.BARRead(int(bar%6), off^v, make([]byte, v%5000))
		r.c.ConfigWrite(uint32(off), uint32(v))
		r.c.ConfigRead(uint32(off))
		if r.c.Fault() != nil {
			must(t, r.c.Reset())
		}
	})
}
