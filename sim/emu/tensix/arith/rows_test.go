package arith_test

import (
	"testing"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

// TestVectorInstructionsComputeWhatTheirTwinDoes compares MulRow with its form without vector instructions, which the golden
// cases hold to ttsim where a processor has none.
func TestVectorInstructionsComputeWhatTheirTwinDoes(t *testing.T) {
	n := uint64(4000)
	if testing.Short() {
		n = 400
	}
	for _, c := range mathCases() {
		if c.op != "mvmul" {
			continue
		}
		for i := range n / 40 {
			c.number = c.number<<16 | i
			c.fill()
			var a arith.MatrixA
			var b arith.RowB
			c.m.DecodeA(&a, &c.a)
			c.m.DecodeB(&b, &c.b)
			hi, lo := c.hi, c.lo
			c.m.MulRow(&c.hi, &c.lo, &a, &b)
			c.m.MulRowScalar(&hi, &lo, &a, &b)
			if c.hi != hi || c.lo != lo {
				t.Fatalf("%v: got %04x %04x, its twin %04x %04x", &c, c.hi, c.lo, hi, lo)
			}
		}
	}
}

func TestRowsTogetherAreAsOneByOne(t *testing.T) {
	for _, c := range mathCases() {
		if c.op != "mvmul" || c.number > 8 {
			continue
		}
		c.fill()
		var a arith.MatrixA
		var b [8]arith.RowB
		var hi, lo, wantHi, wantLo [8]arith.DstRow
		c.m.DecodeA(&a, &c.a)
		for i := range b {
			c.m.DecodeB(&b[i], &c.a[i])
			hi[i], lo[i] = c.hi, c.lo
		}
		wantHi, wantLo = hi, lo
		for i := range b {
			c.m.MulRow(&wantHi[i], &wantLo[i], &a, &b[i])
		}
		if c.m.MulRows(hi[:], lo[:], &a, b[:]); hi != wantHi || lo != wantLo {
			t.Fatalf("%v: got %04x %04x, want %04x %04x", &c, hi, lo, wantHi, wantLo)
		}
	}
}
