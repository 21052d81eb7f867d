package translate

import (
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

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
