package lanes

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/cpu"
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
	vector := cpu.X86.HasAVX2
	defer func() { cpu.X86.HasAVX2 = vector }()
	both := func(name string, do func(o *operands)) {
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
				cpu.X86.HasAVX2 = vector
				do(&got)
				cpu.X86.HasAVX2 = false
				do(&want)
				if got != want {
					t.Fatalf("case %d: got %x, want %x, from %x", n, got, want, o)
				}
			}
		})
	}
	both("Bits", func(o *operands) {
		Bits(o.a(), o.b(), o.x[0], o.x[1], o.x[2], o.enabled)
	})
	both("And", func(o *operands) { And(o.a(), o.b(), o.c(), o.enabled) })
	both("Or", func(o *operands) { Or(o.a(), o.b(), o.c(), o.enabled) })
	both("Xor", func(o *operands) { Xor(o.a(), o.b(), o.c(), o.enabled) })
	both("Exponents", func(o *operands) {
		o.masks[0] = Exponents(o.a(), o.b(), o.x[0]&127, o.enabled)
	})
	both("Shift", func(o *operands) {
		Shift(o.a(), o.b(), o.c(), o.x[0]&1 != 0, o.enabled)
	})
	both("Add", func(o *operands) {
		o.masks[0] = Add(o.a(), o.b(), o.c(), o.x[0]&1 != 0, o.enabled)
	})
	both("Sort", func(o *operands) {
		if o.x[1]&1 != 0 { // in place
			Sort(o.a(), &o.r[3], o.a(), &o.r[3], o.enabled)
		} else {
			Sort(&o.r[4], o.a(), o.b(), o.c(), o.enabled)
		}
	})
	both("RoundBF16", func(o *operands) { RoundBF16(o.a(), o.b(), o.enabled) })
	both("Random", func(o *operands) { Random(o.a(), o.enabled) })
	both("Test", func(o *operands) { o.masks[0], o.masks[1] = Test(o.a()) })
	both("LoadBF16", func(o *operands) {
		LoadBF16(o.a(), &o.blocks[0], o.x[0]&1, o.enabled)
	})
	both("Load32", func(o *operands) {
		Load32(o.a(), &o.blocks[0], &o.blocks[1], o.x[0]&1, o.enabled)
	})
	both("StoreBF16", func(o *operands) {
		StoreBF16(&o.blocks[0], o.a(), o.x[0]&1, o.enabled)
	})
	both("Store32", func(o *operands) {
		Store32(&o.blocks[0], &o.blocks[1], o.a(), o.x[1]&1 != 0, o.x[0]&1, o.enabled)
	})
	both("EncodeRow", func(o *operands) {
		EncodeRow(&o.blocks[0][1], (*[16]uint32)(o.a()[o.x[1]&15:]), o.x[0]&1 != 0)
	})
}

func BenchmarkLanes(b *testing.B) {
	const all = 1<<Count - 1
	var x, y, z Register
	var high, low Block
	for i := range x {
		x[i], y[i], z[i] = uint32(i)*0x01234567, uint32(i)<<28|1, uint32(i)<<20
	}
	for _, f := range []struct {
		name string
		run  func()
	}{
		{"Bits", func() { Bits(&z, &x, 0xFF, 0xF00, 1, all) }},
		{"And", func() { And(&z, &x, &y, all) }},
		{"Exponents", func() { Exponents(&z, &x, 127, all) }},
		{"Shift", func() { Shift(&z, &x, &y, false, all) }},
		{"ShiftArithmetic", func() { Shift(&z, &x, &y, true, all) }},
		{"Add", func() { Add(&z, &x, &y, true, all) }},
		{"Sort", func() { Sort(&y, &z, &x, &z, all) }},
		{"RoundBF16", func() { RoundBF16(&z, &x, all) }},
		{"Random", func() { Random(&z, all) }},
		{"Test", func() { Test(&z) }},
		{"LoadBF16", func() { LoadBF16(&z, &high, 1, all) }},
		{"Load32", func() { Load32(&z, &high, &low, 1, all) }},
		{"StoreBF16", func() { StoreBF16(&high, &z, 1, all) }},
		{"Store32", func() { Store32(&high, &low, &z, true, 1, all) }},
		{"EncodeRow", func() { EncodeRow(&high[0], (*[2 * RowLanes]uint32)(x[:]), true) }},
	} {
		b.Run(f.name, func(b *testing.B) {
			for b.Loop() {
				f.run()
			}
		})
	}
}
