package lanes

import (
	"math/rand/v2"
	"testing"
)

// numbers returns a register of any bits, of special values, or of small numbers.
func numbers(r *rand.Rand) (v Register) {
	specials := [...]uint32{0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FFFFFFF, 0xFFFFFFFF, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000,
		0x7F7FFFFF, 0x7F7F8000, 0x3F808000}
	class := r.IntN(4)
	for lane := range v {
		switch c := class; {
		case c == 1 || c == 0 && lane%2 == 0:
			v[lane] = specials[r.IntN(len(specials))]
		case c == 2:
			v[lane] = uint32(r.IntN(80) - 40)
		default:
			v[lane] = r.Uint32()
		}
	}
	return v
}

// The vector instructions do what the plain Go functions do, in any lanes and with results in place
// of any operand.
func TestVectorInstructionsDoWhatTheirTwinsDo(t *testing.T) {
	type state struct {
		r      [5]Register
		blocks [2]Block
		masks  [2]uint32
	}
	for _, tt := range []struct {
		name string
		f, g func(s *state, a, b, c *Register, x [3]uint32, enabled uint32)
	}{
		{"Bits",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { Bits(a, b, x[0], x[1], x[2], m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { bitsGo(a, b, x[0], x[1], x[2], m) }},
		{"And",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { And(a, b, c, m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { andGo(a, b, c, m) }},
		{"Or",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { Or(a, b, c, m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { orGo(a, b, c, m) }},
		{"Xor",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { Xor(a, b, c, m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { xorGo(a, b, c, m) }},
		{"Exponents",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { s.masks[0] = Exponents(a, b, x[0]&127, m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) {
				s.masks[0] = exponentsGo(a, b, x[0]&127, m)
			}},
		{"Shift",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { Shift(a, b, c, x[0]&1 != 0, m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { shiftGo(a, b, c, x[0]&1 != 0, m) }},
		{"Add",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { s.masks[0] = Add(a, b, c, x[0]&1 != 0, m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) {
				s.masks[0] = addGo(a, b, c, x[0]&1 != 0, m)
			}},
		{"Sort",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { Sort(&s.r[4], a, b, c, m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { sortGo(&s.r[4], a, b, c, m) }},
		{"Sort in place",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { Sort(a, b, a, b, m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { sortGo(a, b, a, b, m) }},
		{"RoundBF16",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { RoundBF16(a, b, m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { roundBF16Go(a, b, m) }},
		{"Random",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { Random(a, m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { randomGo(a, m) }},
		{"Test",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { s.masks[0], s.masks[1] = Test(a) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { s.masks[0], s.masks[1] = testGo(a) }},
		{"LoadBF16",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { LoadBF16(a, &s.blocks[0], x[0]&1, m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { loadBF16Go(a, &s.blocks[0], x[0]&1, m) }},
		{"Load32",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) {
				Load32(a, &s.blocks[0], &s.blocks[1], x[0]&1, m)
			},
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) {
				load32Go(a, &s.blocks[0], &s.blocks[1], x[0]&1, m)
			}},
		{"StoreBF16",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { StoreBF16(&s.blocks[0], a, x[0]&1, m) },
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) { storeBF16Go(&s.blocks[0], a, x[0]&1, m) }},
		{"Store32",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) {
				Store32(&s.blocks[0], &s.blocks[1], a, x[1]&1 != 0, x[0]&1, m)
			},
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) {
				store32Go(&s.blocks[0], &s.blocks[1], a, x[1]&1 != 0, x[0]&1, m)
			}},
		{"EncodeRow",
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) {
				EncodeRow(&s.blocks[0][1], (*[16]uint32)(a[x[1]&15:]), x[0]&1 != 0)
			},
			func(s *state, a, b, c *Register, x [3]uint32, m uint32) {
				encodeRowGo(&s.blocks[0][1], (*[16]uint32)(a[x[1]&15:]), x[0]&1 != 0)
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for n := range 5000 {
				var s state
				for i := range s.r {
					s.r[i] = numbers(r)
				}
				for i := range s.blocks {
					for row := range s.blocks[i] {
						for k := range s.blocks[i][row] {
							s.blocks[i][row][k] = uint16(r.Uint32())
						}
					}
				}
				want, got := s, s
				enabled := ^uint32(0)
				if n%2 != 0 {
					enabled = r.Uint32()
				}
				x := [3]uint32{r.Uint32(), r.Uint32(), r.Uint32()}
				at := [3]int{0, r.IntN(3), r.IntN(3)}
				tt.f(&got, &got.r[at[0]], &got.r[at[1]], &got.r[at[2]], x, enabled)
				tt.g(&want, &want.r[at[0]], &want.r[at[1]], &want.r[at[2]], x, enabled)
				if got != want {
					t.Fatalf("case %d: registers %v, lanes %#x, operands %#x: got %x, want %x, from %x", n, at, enabled, x, got, want, s)
				}
			}
		})
	}
}
