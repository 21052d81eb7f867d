package arith_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/internal/goldentest"
)

// The golden cases were compared with ttsim 1.10.0. A line has the computation, the number of the
// case, which decides its operands, and the results in hexadecimal.
var update = flag.Bool("update", false, "rewrite the golden cases in testdata with what the package computes")

const (
	fp32, tf32, fp16, bf16  = arith.FP32, arith.TF32, arith.FP16, arith.BF16
	bfp8a, bfp8, bfp4, bfp2 = arith.BFP8A, arith.BFP8, arith.BFP4, arith.BFP2
	int32s, int16s, int8s   = arith.INT32, arith.INT16, arith.INT8
	lf8                     = arith.LF8
)

type bitSource struct{ goldentest.Bits }

var specials = [...]uint32{
	0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x3F800000, 0xBF800000, 1, 0x007FFFFF,
	0x00800000, 0x7F7FFFFF, 0x80800000, 0x47FFE000, 0x33800000, 0x38800000, 0xC7FFE000,
}

// word is [goldentest.Bits.Number], with fp32 of few mantissa bits in class 6.
func (s *bitSource) word(class uint64) uint32 {
	v := s.Number(class, specials[:])
	if class == 6 {
		v = (v&0x807FFFFF | uint32(120+s.Below(12))<<23) & 0xFFF00000
	}
	return v
}

func (s *bitSource) mixed(class uint64) uint32 {
	if s.Below(8) == 0 {
		class = s.Below(8)
	}
	return s.word(class)
}

var chips = []arith.Arch{arith.Wormhole, arith.Blackhole}

type mathCase struct {
	op         string
	m          arith.Math
	accumulate bool
	number     uint64

	a      [16]arith.Row
	b      arith.Row
	hi, lo arith.DstRow
}

func (c *mathCase) fill() {
	s := bitSource{goldentest.Bits(c.number)}
	half := c.m.A == fp16 || c.m.A == lf8 || c.m.Int8
	classA, classB, classD := s.Below(8), s.Below(8), s.Below(3)
	pure := s.Below(4) != 0
	datum := func(class uint64) uint32 {
		v := s.word(class)
		if !pure {
			v = s.mixed(class)
		}
		switch {
		case c.m.Int8:
			v = v&0x801FE000 | 16<<23
			if s.Below(8) == 0 {
				v &= 0x80000000
			}
		case half:
			v = v&0x807FFFFF | uint32(s.Below(32))<<23
		}
		return v & 0xFFFFE000
	}
	for i := range c.a {
		for j := range c.a[i] {
			c.a[i][j] = datum(classA)
		}
	}
	for i := range c.b {
		if c.b[i] = datum(classB); c.op == "gmpool" {
			c.b[i] = 0x3F800000
		}
	}
	for i := range c.hi {
		switch classD {
		case 0:
			v := uint32(s.Next())
			c.hi[i], c.lo[i] = uint16(v>>16), uint16(v)
		case 1:
			v := arith.EncodeDst32(s.mixed(s.Below(8)))
			c.hi[i], c.lo[i] = uint16(v>>16), uint16(v)
		}
	}
	if classD == 2 { // about the negative of what is added, which cancels
		c.run()
		for i := range c.hi {
			c.hi[i] ^= 0x8000
			c.lo[i] += uint16(s.Below(5)) - 2
		}
	}
	if !c.m.Wide && !c.m.Int8 {
		c.lo = arith.DstRow{}
	}
}

func (c *mathCase) decoded() (*arith.MatrixA, *arith.RowB) {
	a, b := new(arith.MatrixA), make([]arith.RowB, 1)
	c.m.DecodeA(a, &c.a)
	c.m.DecodeRows(b, []arith.Row{c.b})
	return a, &b[0]
}

func (c *mathCase) run() {
	hi, lo, rows := []arith.DstRow{c.hi}, []arith.DstRow{c.lo}, []arith.Row{c.b}
	switch c.op {
	case "mvmul":
		a, b := c.decoded()
		c.m.MulRows(hi, lo, a, []arith.RowB{*b})
	case "elwmul":
		c.m.ElwMulRows(hi, lo, c.a[:1], rows)
	case "elwadd":
		c.m.ElwAddRows(hi, lo, c.a[:1], rows, c.accumulate)
	case "elwsub":
		c.m.ElwSubRows(hi, lo, c.a[:1], rows, c.accumulate)
	case "gmpool":
		c.m.MaxPool(&hi[0], &lo[0], &c.a)
	}
	c.hi, c.lo = hi[0], lo[0]
}

func (c *mathCase) String() string {
	flags := ""
	for _, f := range []struct {
		on   bool
		name string
	}{{c.m.Wide, " wide"}, {c.m.Int8, " int8"}, {c.m.KeepDenormalsB, " keep"}, {c.accumulate, " accumulate"}} {
		if f.on {
			flags += f.name
		}
	}
	return fmt.Sprintf("%v %s %v %v phase %d%s #%d", c.m.Arch, c.op, c.m.A, c.m.B, c.m.Phase, flags, c.number)
}

func mathCases() (cases []mathCase) {
	formats := []arith.Format{fp32, tf32, bf16, bfp8, bfp4}
	for _, chip := range chips {
		for _, op := range []string{"mvmul", "elwmul", "elwadd", "elwsub", "gmpool"} {
			for n := range uint64(80) {
				s := bitSource{goldentest.Bits(n ^ 0x5EED)}
				m := arith.Math{Arch: chip, A: formats[s.Below(5)], B: formats[s.Below(5)], Wide: n&1 != 0}
				elementwise := strings.HasPrefix(op, "elw")
				sum := op == "elwadd" || op == "elwsub"
				switch {
				case op == "gmpool":
				case n%8 == 5 || n%8 == 6:
					m.A = fp16
					if n%16 == 5 {
						m.A = lf8
					}
					m.B = m.A
				case n%8 == 7:
					m.A, m.B, m.Int8, m.Wide = int8s, int8s, true, false
				}
				if !sum && op != "gmpool" {
					m.Phase = uint8(n / 2 % 4)
				}
				m.KeepDenormalsB = elementwise && s.Below(4) == 0
				cases = append(cases, mathCase{op: op, m: m, accumulate: sum && s.Below(2) == 0, number: n})
			}
		}
	}
	return cases
}

func TestTheMatrixUnitComputesWhatTtsimDoes(t *testing.T) {
	var lines []string
	for _, c := range mathCases() {
		c.fill()
		c.run()
		results := fmt.Sprintf("%04x", c.hi)
		if c.m.Wide || c.m.Int8 {
			results += fmt.Sprintf(" %04x", c.lo)
		}
		lines = append(lines, fmt.Sprintf("%v: %s", &c, results))
	}
	goldentest.Compare(t, "testdata/math.txt", *update, lines)
}

// A third of the operands nearly cancel, or come near the smallest normal number.
func fmaCase(number uint64) (x, y, z uint32) {
	s := bitSource{goldentest.Bits(number)}
	x, y, z = s.mixed(s.Below(8)), s.mixed(s.Below(8)), s.mixed(s.Below(8))
	switch number % 6 {
	case 0:
		z = arith.Blackhole.FMA(x, y, 0) ^ 0x80000000 + uint32(s.Below(9)) - 4
	case 1:
		exponent := 1 + s.Below(253)
		x = x&0x807FFFFF | uint32(exponent)<<23
		y = y&0x807FFFFF | uint32(min(max(130-int(exponent)-int(s.Below(5)), 0), 255))<<23
		z = z&0x807FFFFF | uint32(s.Below(4))<<23
	}
	return x, y, z
}

func TestMultiplyAddsAreWhatTtsimComputes(t *testing.T) {
	var lines []string
	for n := range uint64(600) {
		x, y, z := fmaCase(n)
		lines = append(lines, fmt.Sprintf("%08x %08x %08x: wormhole %08x blackhole %08x reciprocal %08x", x, y, z,
			arith.Wormhole.FMA(x, y, z), arith.Blackhole.FMA(x, y, z), arith.ApproximateReciprocal(x)))
	}
	goldentest.Compare(t, "testdata/fma.txt", *update, lines)
}

type unpackCase struct {
	u         arith.Unpack
	number    uint64
	data      [64]byte
	exponents [2]byte
	first     int
}

func (c *unpackCase) fill() {
	s := bitSource{goldentest.Bits(c.number)}
	class := s.Below(8)
	for i := 0; i < len(c.data); i += 4 {
		v := s.mixed(class)
		c.data[i], c.data[i+1], c.data[i+2], c.data[i+3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
	}
	c.exponents = [2]byte{byte(s.Next()), byte(s.Next())}
	c.first = int(s.Below(16))
	c.u.Exp4 = c.u.In == lf8 && c.u.Arch == arith.Blackhole && s.Below(2) == 0
	c.u.Unsigned = c.u.In == int8s && s.Below(2) == 0
	c.u.Forced = c.u.In.BFP() && s.Below(4) == 0
	c.u.SharedExponent = byte(s.Next())
}

// The last three write to Dst.
var unpackModes = [][2]arith.Format{
	{fp32, fp16}, {fp32, tf32}, {fp32, bf16}, {fp16, fp16},
	{bf16, bf16}, {bfp8, bfp8}, {bfp4, bfp4}, {bfp2, bfp2},
	{int16s, int16s}, {lf8, lf8}, {int8s, int8s},
	{fp32, fp32}, {int32s, int32s},
}

func unpackCases() (cases []unpackCase) {
	for _, chip := range chips {
		for _, mode := range unpackModes {
			for n := range uint64(12) {
				cases = append(cases, unpackCase{u: arith.Unpack{Arch: chip, In: mode[0], Out: mode[1]}, number: n})
			}
		}
	}
	return cases
}

func (c *unpackCase) run() (out [16]uint32) {
	if c.u.Out == fp32 || c.u.Out == int32s {
		c.u.DstElements(out[:], c.data[:])
		return out
	}
	bit := c.first * c.u.In.Bits() % 8
	c.u.Elements(out[:], c.data[:], bit, c.exponents[:], c.first)
	return out
}

func TestUnpackersConvertAsTtsimDoes(t *testing.T) {
	var lines []string
	for _, c := range unpackCases() {
		c.fill()
		lines = append(lines, fmt.Sprintf("%v %v %v #%d: %08x", c.u.Arch, c.u.In, c.u.Out, c.number, c.run()))
	}
	goldentest.Compare(t, "testdata/unpack.txt", *update, lines)
}

type packCase struct {
	p      arith.Pack
	number uint64
	hi, lo arith.DstRow
	l1     [64]byte
}

func (c *packCase) fill() {
	s := bitSource{goldentest.Bits(c.number)}
	class := s.Below(8)
	half := !c.p.Wide && !c.p.Round10 && (c.p.Mid == fp16 || c.p.Mid == bfp8a)
	switch c.p.Mid {
	case fp32, fp16, bfp8a, bf16, bfp8:
		c.p.Relu = arith.Relu(c.number % 4)
		c.p.Threshold = uint16(s.Next()) & 0x7FFF
	case int32s:
		c.p.Relu = arith.Relu(c.number % 2)
	case int8s:
		c.p.Unsigned = c.number%2 != 0
	}
	switch c.p.Out {
	case fp32, fp16, bf16:
		c.p.Accumulate = c.number/4%2 != 0
	}
	for i := range c.hi {
		v := arith.EncodeDst32(s.mixed(class))
		if half && s.Below(2) == 0 {
			v = uint32(s.Next())
		}
		c.hi[i], c.lo[i] = uint16(v>>16), uint16(v)
	}
	class = s.Below(8)
	for i := 0; i < len(c.l1); i += 4 {
		v := s.mixed(class)
		if s.Below(3) == 0 { // about what is added
			h := uint32(arith.DecodeDstBF16(c.hi[i/4]))
			if c.p.Out == fp16 {
				h = uint32(arith.DecodeDstFP16(c.hi[i/4]))
			}
			v = h<<16 ^ h ^ uint32(s.Below(4))<<14 ^ 0x80008000
		}
		c.l1[i], c.l1[i+1], c.l1[i+2], c.l1[i+3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
	}
}

func (c *packCase) run() (l1 []byte, exponent byte) {
	var values arith.Row
	c.p.Row(&values, &c.hi, &c.lo)
	if c.p.Out.BFP() {
		exponent = c.p.Out.StoreBlock(c.l1[:], &values)
	} else {
		c.p.Store(c.l1[:], values[:])
	}
	return c.l1[:2*c.p.Out.Bits()], exponent
}

// packModes are conversions from narrow and wide Dst.
var packModes = [2][][2]arith.Format{
	{{fp16, fp32}, {fp16, fp16}, {fp16, bf16}, {fp16, lf8}, {fp16, lf8}, {bfp8a, bfp8}, {bf16, fp32}, {bf16, bf16}, {bf16, bfp8},
		{bf16, bfp4}, {bf16, bfp2}, {bfp8, fp32}, {bfp8, bf16}, {bfp8, bfp8}, {bfp8, bfp4}, {int16s, int16s}},
	{{fp32, fp32}, {fp32, fp16}, {fp32, bfp8}, {fp32, bfp4}, {fp32, bfp2}, {fp16, fp16}, {fp16, lf8}, {bf16, bf16}, {bfp8, bfp8},
		{bfp8, bfp4}, {int32s, int32s}, {int16s, int16s}, {int8s, int8s}},
}

func packCases() (cases []packCase) {
	for width, modes := range packModes {
		for i, m := range modes {
			round := m[0] == fp16 && (width == 1 || i > 0 && m == modes[i-1])
			for n := range uint64(16) {
				cases = append(cases, packCase{p: arith.Pack{Mid: m[0], Out: m[1], Wide: width == 1, Round10: round}, number: n})
			}
		}
	}
	return cases
}

func TestPackersConvertAsTtsimDoes(t *testing.T) {
	var lines []string
	for _, c := range packCases() {
		c.fill()
		width := "narrow"
		if c.p.Wide {
			width = "wide"
		}
		l1, exponent := c.run()
		lines = append(lines, fmt.Sprintf("%s %v %v relu %d #%d: %02x %x", width, c.p.Mid, c.p.Out, c.p.Relu, c.number, exponent, l1))
	}
	goldentest.Compare(t, "testdata/pack.txt", *update, lines)
}
