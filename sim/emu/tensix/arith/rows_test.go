package arith_test

import (
	"testing"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
)

// The golden cases hold the form without vector instructions to ttsim where a processor has none.
func TestVectorInstructionsComputeWhatTheirTwinDoes(t *testing.T) {
	n := uint64(1200)
	if testing.Short() {
		n = 400
	}
	for _, c := range mathCases() {
		for i := range n / 40 {
			c.number = c.number<<16 | i
			c.fill()
			twin := c
			c.run()
			twin.runScalar()
			if c.hi != twin.hi || c.lo != twin.lo {
				t.Fatalf("%v: got %04x %04x, its twin %04x %04x", &c, c.hi, c.lo, twin.hi, twin.lo)
			}
		}
	}
}

func (c *mathCase) runScalar() {
	switch c.op {
	case "mvmul":
		a, b := c.decoded()
		c.m.MulRowScalar(&c.hi, &c.lo, a, b)
	case "elwmul":
		c.m.ElwMulScalar(&c.hi, &c.lo, &c.a[0], &c.b)
	case "elwadd":
		c.m.ElwAddScalar(&c.hi, &c.lo, &c.a[0], &c.b, 0, c.accumulate)
	case "elwsub":
		c.m.ElwAddScalar(&c.hi, &c.lo, &c.a[0], &c.b, 0x80000000, c.accumulate)
	default:
		c.run()
	}
}

func TestRowsTogetherAreAsOneByOne(t *testing.T) {
	for _, c := range mathCases() {
		if c.number > 8 {
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
			switch hi, lo := &wantHi[i], &wantLo[i]; c.op {
			case "mvmul":
				c.m.MulRow(hi, lo, &a, &b[i])
			case "elwmul":
				c.m.ElwMul(hi, lo, &c.a[i], &c.a[8+i])
			case "elwadd":
				c.m.ElwAdd(hi, lo, &c.a[i], &c.a[8+i], c.accumulate)
			case "elwsub":
				c.m.ElwSub(hi, lo, &c.a[i], &c.a[8+i], c.accumulate)
			}
		}
		switch c.op {
		case "mvmul":
			c.m.MulRows(hi[:], lo[:], &a, b[:])
		case "elwmul":
			c.m.ElwMulRows(hi[:], lo[:], c.a[:8], c.a[8:])
		case "elwadd":
			c.m.ElwAddRows(hi[:], lo[:], c.a[:8], c.a[8:], c.accumulate)
		case "elwsub":
			c.m.ElwSubRows(hi[:], lo[:], c.a[:8], c.a[8:], c.accumulate)
		}
		if hi != wantHi || lo != wantLo {
			t.Fatalf("%v: got %04x %04x, want %04x %04x", &c, hi, lo, wantHi, wantLo)
		}
	}
}

func TestVectorInstructionsDecodeWhatTheirTwinsDo(t *testing.T) {
	for _, c := range mathCases() {
		if c.op != "mvmul" || c.m.Int8 {
			continue
		}
		c.fill()
		a, b := c.decoded()
		var twinA arith.MatrixA
		var twinB arith.RowB
		c.m.DecodeScalar(&twinA, &c.a, &twinB, &c.b)
		if *a != twinA || *b != twinB {
			t.Fatalf("%v: factors differ from those of plain Go", &c)
		}
	}
}

func TestVectorInstructionsPackWhatTheirTwinsDo(t *testing.T) {
	for n := range uint64(2000) {
		for _, wide := range []bool{false, true} {
			c := packCase{p: arith.Pack{Mid: bf16, Out: bf16, Wide: wide}, number: n}
			c.fill()
			c.p.Relu, c.p.Accumulate = arith.ReluOff, false
			var got, want arith.Row
			c.p.Row(&got, &c.hi, &c.lo)
			c.p.ReadScalar(&want, &c.hi, &c.lo)
			if got != want {
				t.Fatalf("wide %v, %04x %04x: got %08x, want %08x", wide, c.hi, c.lo, got, want)
			}
			c.p.Store(c.l1[:], got[:])
			for i, v := range want {
				if c.l1[2*i] != byte(v) || c.l1[2*i+1] != byte(v>>8) {
					t.Fatalf("L1 holds %x, want %04x", c.l1[:32], want)
				}
			}
		}
	}
}

func TestLanesMultiplyAndAddAsOneByOne(t *testing.T) {
	for _, chip := range chips {
		for n := range uint64(3000) {
			var x, y, z, got [32]uint32
			negateX, negateZ, enabled := n&1 != 0, n&2 != 0, ^uint32(0)
			if n&4 != 0 {
				enabled = uint32(n * 0x9E3779B9)
			}
			for lane := range x {
				x[lane], y[lane], z[lane] = fmaCase(n<<8 | uint64(lane))
			}
			ops := [4]*[32]uint32{&got, &x, &y, &z}
			old := [4][32]uint32{got, x, y, z}
			to := ops[n>>3&3]
			chip.FMALanes(to, &x, &y, &z, negateX, negateZ, enabled)
			got, x, y, z = *to, old[1], old[2], old[3]
			for lane := range x {
				vx, vz := x[lane], z[lane]
				if negateX {
					vx ^= 0x80000000
				}
				if negateZ {
					vz ^= 0x80000000
				}
				want := chip.FMA(vx, y[lane], vz)
				if enabled>>lane&1 == 0 {
					want = old[n>>3&3][lane]
				}
				if got[lane] != want {
					t.Fatalf("%v: %08x times %08x plus %08x: got %08x, want %08x", chip, vx, y[lane], vz, got[lane], want)
				}
			}
		}
	}
}

func TestVectorInstructionsSumIntegersAsTheirTwinDoes(t *testing.T) {
	for n := range uint64(2000) {
		c := mathCase{op: "mvmul", m: arith.Math{A: int8s, B: int8s, Int8: true, Phase: uint8(n % 4)}, number: n}
		c.fill()
		if got, want := c.m.SumsInt8(c.decoded()); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
}
