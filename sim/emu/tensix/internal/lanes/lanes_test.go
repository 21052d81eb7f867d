package lanes

import (
	"math/rand/v2"
	"testing"
)

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

type operands struct {
	r       [5]Register
	blocks  [2]Block
	masks   [2]uint32 // results
	at      [3]int    // registers of the operands, which may be the same
	x       [3]uint32
	enabled uint32
}

func (o *operands) a() *Register { return &o.r[o.at[0]] }
func (o *operands) b() *Register { return &o.r[o.at[1]] }
func (o *operands) c() *Register { return &o.r[o.at[2]] }

func TestVectorInstructionsDoWhatTheirTwinsDo(t *testing.T) {
	both := func(name string, vector, plain func(o *operands)) {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for n := range 5000 {
				o := operands{enabled: ^uint32(0), x: [3]uint32{r.Uint32(), r.Uint32(), r.Uint32()}, at: [3]int{0, r.IntN(3), r.IntN(3)}}
				for i := range o.r {
					o.r[i] = numbers(r)
				}
				for i := range o.blocks {
					for row := range o.blocks[i] {
						for k := range o.blocks[i][row] {
							o.blocks[i][row][k] = uint16(r.Uint32())
						}
					}
				}
				if n%2 != 0 {
					o.enabled = r.Uint32()
				}
				got, want := o, o
				vector(&got)
				plain(&want)
				if got != want {
					t.Fatalf("case %d: got %x, want %x, from %x", n, got, want, o)
				}
			}
		})
	}
	bits := func(f func(d, c *Register, keep, own, flip, enabled uint32)) func(*operands) {
		return func(o *operands) { f(o.a(), o.b(), o.x[0], o.x[1], o.x[2], o.enabled) }
	}
	binary := func(f func(d, b, c *Register, enabled uint32)) func(*operands) {
		return func(o *operands) { f(o.a(), o.b(), o.c(), o.enabled) }
	}
	exponents := func(f func(d, c *Register, bias, enabled uint32) uint32) func(*operands) {
		return func(o *operands) { o.masks[0] = f(o.a(), o.b(), o.x[0]&127, o.enabled) }
	}
	shift := func(f func(d, c, by *Register, arithmetic bool, enabled uint32)) func(*operands) {
		return func(o *operands) { f(o.a(), o.b(), o.c(), o.x[0]&1 != 0, o.enabled) }
	}
	add := func(f func(d, a, b *Register, minus bool, enabled uint32) uint32) func(*operands) {
		return func(o *operands) { o.masks[0] = f(o.a(), o.b(), o.c(), o.x[0]&1 != 0, o.enabled) }
	}
	sort := func(f func(greater, less, x, y *Register, enabled uint32)) func(*operands) {
		return func(o *operands) {
			if o.x[1]&1 != 0 { // in place
				f(o.a(), &o.r[3], o.a(), &o.r[3], o.enabled)
			} else {
				f(&o.r[4], o.a(), o.b(), o.c(), o.enabled)
			}
		}
	}
	round := func(f func(d, c *Register, enabled uint32)) func(*operands) {
		return func(o *operands) { f(o.a(), o.b(), o.enabled) }
	}
	random := func(f func(d *Register, enabled uint32)) func(*operands) {
		return func(o *operands) { f(o.a(), o.enabled) }
	}
	test := func(f func(c *Register) (negative, zero uint32)) func(*operands) {
		return func(o *operands) { o.masks[0], o.masks[1] = f(o.a()) }
	}
	load16 := func(f func(d *Register, from *Block, column, enabled uint32)) func(*operands) {
		return func(o *operands) { f(o.a(), &o.blocks[0], o.x[0]&1, o.enabled) }
	}
	load32 := func(f func(d *Register, high, low *Block, column, enabled uint32)) func(*operands) {
		return func(o *operands) { f(o.a(), &o.blocks[0], &o.blocks[1], o.x[0]&1, o.enabled) }
	}
	store16 := func(f func(to *Block, c *Register, column, enabled uint32)) func(*operands) {
		return func(o *operands) { f(&o.blocks[0], o.a(), o.x[0]&1, o.enabled) }
	}
	store32 := func(f func(high, low *Block, c *Register, flushed bool, column, enabled uint32)) func(*operands) {
		return func(o *operands) { f(&o.blocks[0], &o.blocks[1], o.a(), o.x[1]&1 != 0, o.x[0]&1, o.enabled) }
	}
	encode := func(f func(to *[2 * RowLanes]uint16, from *[2 * RowLanes]uint32, flushed bool)) func(*operands) {
		return func(o *operands) { f(&o.blocks[0][1], (*[16]uint32)(o.a()[o.x[1]&15:]), o.x[0]&1 != 0) }
	}
	both("Bits", bits(Bits), bits(bitsGo))
	both("And", binary(And), binary(andGo))
	both("Or", binary(Or), binary(orGo))
	both("Xor", binary(Xor), binary(xorGo))
	both("Exponents", exponents(Exponents), exponents(exponentsGo))
	both("Shift", shift(Shift), shift(shiftGo))
	both("Add", add(Add), add(addGo))
	both("Sort", sort(Sort), sort(sortGo))
	both("RoundBF16", round(RoundBF16), round(roundBF16Go))
	both("Random", random(Random), random(randomGo))
	both("Test", test(Test), test(testGo))
	both("LoadBF16", load16(LoadBF16), load16(loadBF16Go))
	both("Load32", load32(Load32), load32(load32Go))
	both("StoreBF16", store16(StoreBF16), store16(storeBF16Go))
	both("Store32", store32(Store32), store32(store32Go))
	both("EncodeRow", encode(EncodeRow), encode(encodeRowGo))
}
