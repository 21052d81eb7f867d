package translate

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

func randomProgram(r *rand.Rand, n int) *program {
	p := &program{base: 0x3000, first: r.IntN(1024 - n + 1)}
	reg := func() uint8 { return uint8(r.IntN(32)) }
	for range n {
		o := rv32.Inst{Code: rv32.Opcode(r.IntN(int(rv32.Illegal) + 1)), Rd: reg(), Rs1: reg(), Rs2: reg(), Imm: r.Int32N(4096) - 2048}
		if o.Rd == 0 {
			o.Rd = rv32.Sink
		}
		switch kindOf(o.Code) {
		case branch:
			o.Imm = r.Int32N(1024) - 512
		case jump:
			if o.Code == rv32.JAL {
				o.Imm = []int32{r.Int32N(1024) - 512, r.Int32N(1<<19) - 1<<18}[r.IntN(2)]
			}
		}
		p.ops = append(p.ops, o.Op())
	}
	return p
}

// armTarget returns where an instruction jumps to, or the address that it makes.
func armTarget(w uint32, at int) (to int, ok bool) {
	signed := func(v uint32, bits int) int { return int(int32(v<<(32-bits)) >> (32 - bits)) }
	switch {
	case w>>26 == 0x05: // b
		return at + 4*signed(w, 26), true
	case w>>24 == 0x54, w>>25 == 0x1A: // b.cond, cbz, cbnz
		return at + 4*signed(w>>5, 19), true
	case w>>24&0x9F == 0x10: // adr
		return at + signed(w>>5<<2|w>>29&3, 21), true
	}
	return 0, false
}

func TestJumpsStayInside(t *testing.T) {
	type host struct {
		name   string
		make   func(*program) (*emitter, []int32)
		target func(b *buffer, at int) int
	}
	hosts := []host{
		{"amd64", func(p *program) (*emitter, []int32) { e := newX86(p); _, starts := e.emit(); return &e.emitter, starts },
			func(b *buffer, at int) int { return at + 4 + int(int32(b.at(at))) }},
		{"arm64", func(p *program) (*emitter, []int32) { e := newArm(p); _, starts := e.emit(); return &e.emitter, starts },
			func(b *buffer, at int) int { to, _ := armTarget(b.at(at), at); return to }},
	}
	for _, h := range hosts {
		t.Run(h.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 1))
			for _, n := range []int{1, 16, 16, 16, 33 * 16, 1024, 1024} {
				p := randomProgram(r, n)
				e, starts := h.make(p)
				table := e.labels[e.table]
				if len(e.jumps) < n/4 {
					t.Fatalf("%d instructions have %d jumps", n, len(e.jumps))
				}
				if rest := len(e.b) - table; rest != 4*n || table%4 != 0 {
					t.Fatalf("%d bytes at %d for the table of %d instructions", rest, table, n)
				}
				for _, j := range e.jumps {
					want := e.labels[j.label]
					if got := h.target(&e.buffer, j.at); got != want || got < 0 || got > table || got == table && j.label != e.table {
						t.Fatalf("%d instructions: the jump at %d of %d goes to %d, not to label %d at %d", n, j.at, table, got, j.label, want)
					}
				}
				last := 0
				for k, s := range starts {
					if int(s) < last || int(s) >= table {
						t.Fatalf("instruction %d of %d is at %d, the one before at %d, the table at %d", k, n, s, last, table)
					}
					last = int(s)
					if got := table + int(int32(binary.LittleEndian.Uint32(e.b[table+4*k:]))); got != last {
						t.Fatalf("the table says that instruction %d is at %d; it is at %d", k, got, last)
					}
				}
			}
		})
	}
}

// Also none whose low byte on amd64 has no name without a prefix.
func TestHomesAreFree(t *testing.T) {
	for _, h := range []struct {
		name  string
		homes []uint8
		taken []uint8
	}{
		{"amd64", x86Homes[:], []uint8{rax, rcx, rdx, rsp, 5, rsi, rdi, r9, r15}},
		{"arm64", armHomes[:], []uint8{w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, 18, 27, 28, 29, 30, zr}},
	} {
		all := slices.Sorted(slices.Values(slices.Concat(h.homes, h.taken)))
		if len(slices.Compact(all)) != len(h.homes)+len(h.taken) {
			t.Errorf("%s: of homes %v and other registers %v some are the same", h.name, h.homes, h.taken)
		}
	}
}
