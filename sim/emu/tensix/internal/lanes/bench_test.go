package lanes

import "testing"

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
