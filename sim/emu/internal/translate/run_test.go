package translate

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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

// Memory sizes in bytes, lines of L1 with flags, and the first index of code.
const (
	testL1     = 0x8000
	testLocal  = 0x1000
	flagged    = 4
	watched    = 6
	watchedAre = 1<<1 | 1<<2
	testFirst  = 32
)

// Registers of the tile that are words: loaded, not on all machines, stored narrow, stored.
const (
	testLoaded = 0x10200
	testSome   = 0x10300
	testNarrow = 0x18
	testStored = RegistersBytes - 4
)

const testIgnored = 0xFFEF0010

type outcome struct {
	Next, End int // relative to the first instruction
	Exit      Exit
	X         map[uint8]uint32  // that aren't zero
	Stored    map[uint32]uint32 // words that have changed, by address
}

type edge struct {
	name string
	ops  []rv32.Inst
	end  int
	x    map[uint8]uint32
	want outcome
}

// entered is an edge run from a later instruction, on a machine that ignores stores, left after
// some jumps.
type entered struct {
	edge
	start   int
	ignores bool
	waits   []int
}

// testWord is what is in memory before.
func testWord(addr uint32) uint32 { return addr*0x9E3779B1 ^ 0x80808080 }

func (c *entered) run(t *testing.T, m *Memory) outcome {
	p := &program{base: 0x1000, first: testFirst}
	for _, o := range c.ops {
		p.ops = append(p.ops, o.Op())
	}
	var known Registers
	known.Loads[testLoaded/4], known.Stores[testStored/4], known.Stores[testNarrow/4] = 1, 3, 2|Narrow
	known.Ignored = testIgnored
	r := known
	r.Loads[testSome/4] = 4
	code := m.Translate(p.base, p.first, p.ops, &known, c.waits)
	if code == nil {
		t.Fatal("there is no memory for code")
	}
	var mc Machine
	for r, v := range c.x {
		mc.X[r] = v
	}
	flags := make([]byte, testL1>>LineShift)
	flags[flagged], flags[watched] = 1<<4|watchedAre, watchedAre
	l1, local, registers := make([]uint32, testL1/4), make([]uint32, testLocal/4), make([]uint32, 4)
	mc.SetL1(l1, &flags[0])
	mc.SetLocal(local)
	mc.SetRegisters(&registers[0], &r, c.ignores)
	each := func(f func(addr uint32, w *uint32)) {
		for i := range l1 {
			f(uint32(i)*4, &l1[i])
		}
		for i := range local {
			f(LocalBase+uint32(i)*4, &local[i])
		}
		f(RegistersBase+testLoaded, &registers[0])
		f(RegistersBase+testNarrow, &registers[1])
		f(RegistersBase+testStored, &registers[2])
		f(RegistersBase+testSome, &registers[3])
	}
	each(func(addr uint32, w *uint32) { *w = testWord(addr) })
	next, end, why := code.Run(&mc, testFirst+c.start, testFirst+c.end)
	got := outcome{next - testFirst, end - testFirst, why, map[uint8]uint32{}, map[uint32]uint32{}}
	for r, v := range mc.X[:rv32.Sink] {
		if v != 0 {
			got.X[uint8(r)] = v
		}
	}
	each(func(addr uint32, w *uint32) {
		if *w != testWord(addr) {
			got.Stored[addr] = *w
		}
	})
	return got
}

func jumpEdges() []edge {
	addi := func(rd uint8, imm int32) rv32.Inst { return rv32.Inst{Code: rv32.ADDI, Rd: rd, Rs1: rd, Imm: imm} }
	nop, back := rv32.Inst{Code: rv32.Nop}, rv32.Inst{Code: rv32.JAL, Rd: rv32.Sink, Imm: -1}
	const at = 0x1000 + 4*testFirst
	// A jump that is the second of four instructions.
	jalr := func(name string, to uint32, next, end int, why Exit, x2 uint32) edge {
		x := map[uint8]uint32{1: at + 8, 2: x2, 3: to + 1}
		if why == Slow {
			delete(x, 1)
		}
		return edge{"jalr to " + name, []rv32.Inst{nop, {Code: rv32.JALR, Rd: 1, Rs1: 3, Imm: -1}, addi(2, 1), addi(2, 2)},
			100, map[uint8]uint32{3: to + 1}, outcome{Next: next, End: end, Exit: why, X: x}}
	}
	const far = -1<<29 - testFirst
	return []edge{
		{"falling off the end", []rv32.Inst{addi(1, 5), addi(1, -7)}, 2, nil, outcome{2, 2, Fell, map[uint8]uint32{1: ^uint32(1)}, nil}},
		{"an instruction for others", []rv32.Inst{addi(1, 5), {Code: rv32.AMOADD, Rd: 1, Rs1: 1, Rs2: 1}}, 9, nil,
			outcome{1, 9, Slow, map[uint8]uint32{1: 5}, nil}},
		{"a loop until the budget is used up", []rv32.Inst{addi(1, 1), back}, 8, nil, outcome{0, 0, Jumped, map[uint8]uint32{1: 4}, nil}},
		{"a loop until the budget ends inside", []rv32.Inst{addi(1, 1), back}, 7, nil, outcome{0, -1, Jumped, map[uint8]uint32{1: 4}, nil}},
		{"a branch to the next instruction", []rv32.Inst{{Code: rv32.BEQ, Imm: 1}, addi(1, 1)}, 2, nil,
			outcome{2, 2, Fell, map[uint8]uint32{1: 1}, nil}},
		{"a branch to the next instruction as the last of a budget", []rv32.Inst{{Code: rv32.BEQ, Imm: 1}, addi(1, 1)}, 1, nil,
			outcome{1, 1, Jumped, nil, nil}},
		{"a branch to the end", []rv32.Inst{{Code: rv32.BEQ, Imm: 2}, nop}, 9, nil, outcome{2, 10, Jumped, nil, nil}},
		{"a branch to before the range", []rv32.Inst{{Code: rv32.BEQ, Imm: -1}, nop}, 9, nil, outcome{-1, 7, Back | testFirst<<exitBits, nil, nil}},
		{"a branch that isn't taken", []rv32.Inst{{Code: rv32.BNE, Imm: -40}, nop}, 9, nil, outcome{2, 9, Fell, nil, nil}},
		{"jal far away", []rv32.Inst{{Code: rv32.JAL, Rd: 1, Imm: -1 << 18}}, 9, nil,
			outcome{-1 << 18, 8 - 1<<18, Jumped, map[uint8]uint32{1: at + 4}, nil}},
		{"jalr as the last of a budget", []rv32.Inst{{Code: rv32.JALR, Rd: 1, Rs1: 3}, addi(2, 1)}, 1, map[uint8]uint32{3: at + 4},
			outcome{1, 1, Jumped, map[uint8]uint32{1: at + 4, 3: at + 4}, nil}},
		jalr("the next instruction", at+8, 4, 100, Fell, 3),
		jalr("the last instruction", at+12, 4, 101, Fell, 2),
		jalr("the end", at+16, 4, 102, Jumped, 0),
		jalr("before the range", at-4, -1, 97, Jumped, 0),
		jalr("an odd address", at+13, 4, 101, Fell, 2),
		jalr("half a word", at+14, 1, 100, Slow, 0),
		jalr("as far as there is", 0x80001000, far, far+98, Jumped, 0),
	}
}

func accessEdge(base uint8, code rv32.Opcode, addr uint32, others bool) edge {
	const value = 0x84838281
	c := edge{name: fmt.Sprintf("opcode %d of %#x by x%d", code, addr, base), end: 100, x: map[uint8]uint32{base: addr - 8, 6: value},
		ops:  []rv32.Inst{{Code: code, Rd: 7, Rs1: base, Rs2: 6, Imm: 8}},
		want: outcome{End: 100, Exit: Slow, X: map[uint8]uint32{base: addr - 8, 6: value}}}
	if others {
		return c
	}
	c.want.Next, c.want.Exit = 1, Fell
	shift, mask, old := addr&3*8, uint32(1)<<(8*int(code.Bytes())-1)<<1-1, testWord(addr&^3)
	if kindOf(code) == store {
		c.want.Stored = map[uint32]uint32{addr &^ 3: old&^(mask<<shift) | value&mask<<shift}
		return c
	}
	v := old >> shift & mask
	if code == rv32.LB || code == rv32.LH {
		v |= -(v & (mask/2 + 1))
	}
	c.want.X[7] = v
	return c
}

// accessEdges access an address of which nothing, the truth or something wrong is guessed.
func accessEdges(base uint8, code rv32.Opcode, addr uint32, others bool) (all []entered) {
	register := addr >= RegistersBase && addr-RegistersBase < RegistersBytes
	all = append(all, entered{edge: accessEdge(base, code, addr, others || register && localFirst(base))})
	after := func(name string, value uint32, others bool) entered {
		c := accessEdge(base, code, addr, others)
		c.name += " after " + name
		c.ops = append([]rv32.Inst{{Code: rv32.LI, Rd: base, Imm: int32(value)}}, c.ops...)
		c.want.Next++
		return entered{edge: c}
	}
	guessed := after("its constant", addr-8, others)
	guessed.end, guessed.want.End = 101, 101
	all = append(all, guessed)
	for _, wrong := range []uint32{0x40, addr - 4, LocalBase + 16, RegistersBase + testLoaded - 8, RegistersBase + testStored - 8,
		testIgnored - 8, 0xFFEF0000} {
		c := after(fmt.Sprintf("%#x", wrong), wrong, others ||
			wrong+8 != addr && register && (localFirst(base) || areaOf(wrong+8) == areaLocal))
		c.start = 1
		all = append(all, c)
	}
	c := accessEdge(base, code, addr, others)
	c.name += ", absolute"
	c.ops[0].Rs1, c.ops[0].Imm = 0, int32(addr)
	return append(all, entered{edge: c})
}

// Code is left where it should be, at the edges of its range, budget, memory and watched lines.
func TestEdgesOfCode(t *testing.T) {
	if !Available {
		t.Skip("no code runs on this host")
	}
	var cases []entered
	for _, c := range jumpEdges() {
		cases = append(cases, entered{edge: c})
	}
	for _, base := range []uint8{5, 2} { // 2 is first looked for in local RAM
		for _, a := range []struct {
			code   rv32.Opcode
			addr   uint32
			others bool
		}{
			{rv32.LW, 0, false}, {rv32.LW, testL1 - 4, false}, {rv32.LW, testL1, true}, {rv32.LW, 0x101, true}, {rv32.LW, 0x102, true},
			{rv32.LB, 0, false}, {rv32.LB, testL1 - 1, false}, {rv32.LBU, testL1 - 1, false}, {rv32.LBU, testL1, true},
			{rv32.LH, testL1 - 2, false}, {rv32.LHU, testL1 - 2, false}, {rv32.LHU, 0x101, true}, {rv32.LH, 0x103, true},
			{rv32.LW, LocalBase - 4, true}, {rv32.LW, LocalBase, false}, {rv32.LHU, LocalBase + testLocal - 2, false},
			{rv32.LW, LocalBase + testLocal - 4, false}, {rv32.LW, LocalBase + testLocal, true}, {rv32.LB, ^uint32(0), true},
			{rv32.SW, testL1 - 4, false}, {rv32.SW, testL1, true}, {rv32.SH, testL1 - 2, false}, {rv32.SH, 0x201, true},
			{rv32.SW, 0x202, true}, {rv32.SB, testL1 - 1, false}, {rv32.SB, testL1, true},
			{rv32.SW, LocalBase, false}, {rv32.SH, LocalBase + 2, false}, {rv32.SB, LocalBase + testLocal - 1, false},
			{rv32.SB, LocalBase + testLocal, true}, {rv32.SW, LocalBase - 4, true},
			{rv32.SW, flagged<<LineShift - 4, false}, {rv32.SW, flagged << LineShift, true},
			{rv32.SB, (flagged+1)<<LineShift - 1, true}, {rv32.SH, (flagged + 1) << LineShift, false},
			{rv32.LW, flagged << LineShift, false},
			{rv32.SW, watched << LineShift, false}, {rv32.SW, watched<<LineShift + 4, true}, {rv32.SB, watched<<LineShift + 11, true},
			{rv32.SH, watched<<LineShift + 14, false}, {rv32.SB, watched<<LineShift + 31, false}, {rv32.SW, watched<<LineShift + 56, true},
			{rv32.LW, watched<<LineShift + 4, false},
			{rv32.LW, RegistersBase + testLoaded, false}, {rv32.SW, RegistersBase + testLoaded, true},
			{rv32.LH, RegistersBase + testLoaded, true}, {rv32.LW, RegistersBase + testLoaded + 2, true},
			{rv32.SW, RegistersBase + testStored, false}, {rv32.LW, RegistersBase + testStored, true},
			{rv32.SB, RegistersBase + testStored, true}, {rv32.LW, RegistersBase + testLoaded - 4, true},
			{rv32.SW, RegistersBase + testNarrow, true}, {rv32.LW, RegistersBase - 4, true}, {rv32.SW, RegistersBase + RegistersBytes, true},
		} {
			cases = append(cases, accessEdges(base, a.code, a.addr, a.others)...)
		}
	}
	for _, v := range []uint32{0, NarrowBits, NarrowBits + 1, NarrowBits << 1, 1 << 31} {
		for _, c := range accessEdges(5, rv32.SW, RegistersBase+testNarrow, v&^NarrowBits != 0) {
			c.name += fmt.Sprintf(", the value %#x", v)
			c.x[6], c.want.X[6] = v, v
			if c.want.Stored != nil {
				c.want.Stored = map[uint32]uint32{RegistersBase + testNarrow: v}
			}
			cases = append(cases, c)
		}
	}
	// A register that not all machines have is found by looking.
	cases = append(cases, accessEdges(5, rv32.LW, RegistersBase+testSome, false)[0],
		accessEdges(5, rv32.LW, RegistersBase+testSome, true)[1])
	// A loop from the second instruction on that may wait.
	loop := []rv32.Inst{{Code: rv32.Nop}, {Code: rv32.ADDI, Rd: 1, Rs1: 1, Imm: 1}, {Code: rv32.BNE, Rs1: 1, Rs2: 0, Imm: -1}}
	for _, c := range []struct {
		end  int
		want outcome
	}{
		{100, outcome{1, 98, Waits, map[uint8]uint32{1: 1}, nil}},
		{4, outcome{1, 2, Waits, map[uint8]uint32{1: 1}, nil}},
		{3, outcome{1, 1, Jumped, map[uint8]uint32{1: 1}, nil}},
		{2, outcome{1, 0, Jumped, map[uint8]uint32{1: 1}, nil}},
	} {
		cases = append(cases, entered{edge: edge{fmt.Sprintf("a loop that may wait, with %d instructions", c.end), loop, c.end, nil, c.want},
			waits: []int{testFirst + 2}})
	}
	for _, c := range []struct {
		name string
		imm  int32
		end  int
		want outcome
	}{
		{"", -3, 100, outcome{-3, 96, Back | testFirst<<exitBits, nil, nil}},
		{", the first instruction that is near enough", 1 - LongestWait, 100, outcome{1 - LongestWait, 100 - LongestWait, Back | testFirst<<exitBits, nil, nil}},
		{", too far", -LongestWait, 100, outcome{-LongestWait, 99 - LongestWait, Jumped, nil, nil}},
		{", with the last instruction of a budget", -3, 1, outcome{-3, -3, Jumped, nil, nil}},
	} {
		cases = append(cases, entered{edge: edge{"back to before the range" + c.name, []rv32.Inst{{Code: rv32.JAL, Rd: rv32.Sink, Imm: c.imm}},
			c.end, nil, c.want}})
	}
	for _, v := range []uint32{0, 1, MostIgnored, MostIgnored + 1, 1 << 31} {
		for _, ignores := range []bool{false, true} {
			for i, c := range accessEdges(5, rv32.SW, testIgnored, !ignores || v-1 >= MostIgnored) {
				if i == 0 || c.start == 1 && uint32(c.ops[0].Imm) != testIgnored-8 { // nothing is known of the address
					c = accessEdges(5, rv32.SW, testIgnored, true)[i]
				}
				c.name += fmt.Sprintf(", the value %#x, ignored: %v", v, ignores)
				c.x[6], c.want.X[6], c.want.Stored, c.ignores = v, v, nil, ignores
				cases = append(cases, c)
			}
		}
	}
	var m Memory
	t.Cleanup(m.Close)
	for _, c := range cases {
		want := c.want
		want.X = maps.Clone(want.X)
		maps.DeleteFunc(want.X, func(_ uint8, v uint32) bool { return v == 0 })
		if diff := cmp.Diff(want, c.run(t, &m), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: want (-), got (+): %s", c.name, diff)
		}
	}
}

func TestMayWait(t *testing.T) {
	op := func(code rv32.Opcode, rd, rs1, rs2 uint8, imm int32) rv32.Inst {
		return rv32.Inst{Code: code, Rd: rd, Rs1: rs1, Rs2: rs2, Imm: imm}
	}
	const sink = rv32.Sink
	load, fence := op(rv32.LW, 5, 10, 0, 0), op(rv32.FENCE, sink, 0, 0, 0)
	store, call := op(rv32.SW, 0, 10, 5, 0), op(rv32.JAL, 1, 0, 0, 100)
	back := func(n int32) rv32.Inst { return op(rv32.JAL, sink, 0, 0, -n) }
	for _, tt := range []struct {
		name string
		loop []rv32.Inst
		want bool
	}{
		{"an end of a program", []rv32.Inst{back(0)}, true},
		{"a word that is polled", []rv32.Inst{load, op(rv32.BNE, 0, 5, 6, -1)}, true},
		{"with a fence and an exit", []rv32.Inst{load, op(rv32.BEQ, 0, 5, 6, 9), fence, back(3)}, true},
		{"with an address that is made in each round", []rv32.Inst{op(rv32.ADDI, 10, 11, 0, 4), load, op(rv32.BEQ, 0, 5, 0, -2)}, true},
		{"a counter", []rv32.Inst{op(rv32.ADDI, 5, 5, 0, -1), op(rv32.BNE, 0, 5, 0, -1)}, false},
		{"a search", []rv32.Inst{load, op(rv32.ADDI, 10, 10, 0, 4), op(rv32.BNE, 0, 5, 6, -2)}, false},
		{"a list", []rv32.Inst{op(rv32.LW, 10, 10, 0, 0), op(rv32.BNE, 0, 10, 0, -1)}, false},
		{"a store in each round", []rv32.Inst{load, store, op(rv32.BNE, 0, 5, 6, -2)}, false},
		{"a store on another way", []rv32.Inst{load, op(rv32.BEQ, 0, 5, 0, 2), store, op(rv32.BNE, 0, 5, 6, -3)}, true},
		{"a counter on another way with a store", []rv32.Inst{load, op(rv32.BEQ, 0, 5, 0, 3), op(rv32.ADDI, 7, 7, 0, 1), store, back(4)}, true},
		{"a counter on one of two ways", []rv32.Inst{load, op(rv32.BEQ, 0, 5, 0, 2), op(rv32.ADDI, 7, 7, 0, 1), back(3)}, false},
		{"a value of the round before on one of two ways", []rv32.Inst{op(rv32.BEQ, 0, 6, 0, 2), op(rv32.LW, 5, 10, 0, 0), op(rv32.BNE, 0, 5, 6, -2)}, false},
		{"a call", []rv32.Inst{load, call, op(rv32.BNE, 0, 5, 6, -2)}, false},
		{"a call at the end", []rv32.Inst{load, op(rv32.JAL, 1, 0, 0, -1)}, false},
		{"a jump by a register", []rv32.Inst{load, op(rv32.JALR, sink, 6, 0, 0), back(2)}, false},
		{"an atomic operation", []rv32.Inst{op(rv32.AMOADD, 5, 10, 6, 0), op(rv32.BNE, 0, 5, 6, -1)}, false},
		{"data that it jumps over", []rv32.Inst{load, op(rv32.JAL, sink, 0, 0, 3), op(rv32.ADDI, 10, 10, 0, 1), store, op(rv32.BNE, 0, 5, 6, -4)}, true},
		{"a loop in it", []rv32.Inst{load, op(rv32.BNE, 0, 5, 6, -1), op(rv32.LW, 7, 11, 0, 0), op(rv32.BNE, 0, 7, 6, -3)}, true},
		{"no jump", []rv32.Inst{load}, false},
		{"nothing", nil, false},
	} {
		var ops []rv32.Op
		for _, o := range tt.loop {
			ops = append(ops, o.Op())
		}
		if got, _ := MayWait(ops); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	long := make([]rv32.Op, LongestWait+1)
	for i := range long {
		long[i] = fence.Op()
	}
	for _, n := range []int{LongestWait, LongestWait + 1} {
		long[n-1] = back(int32(n - 1)).Op()
		if got, _ := MayWait(long[:n]); got != (n <= LongestWait) {
			t.Errorf("%d instructions: %v", n, got)
		}
	}
}

func TestReached(t *testing.T) {
	loop := []rv32.Op{
		rv32.Inst{Code: rv32.BEQ, Rs1: 5, Imm: 3}.Op(),
		rv32.Inst{Code: rv32.JAL, Rd: rv32.Sink, Imm: 3}.Op(),
		0, // data
		rv32.Inst{Code: rv32.SW, Rs1: 10, Rs2: 5}.Op(),
		rv32.Inst{Code: rv32.JAL, Rd: rv32.Sink, Imm: -4}.Op(),
	}
	may, reached := MayWait(loop)
	if want := []bool{true, true, false, true, true}; !may || !slices.Equal(reached, want) {
		t.Errorf("%v, %v; want true, %v", may, reached, want)
	}
}
