package translate

import (
	"encoding/hex"
	"testing"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// x86Bytes returns what f emits; x5 is in ebx, x6 in r12d, x7 in r13d, and no other has a home.
func x86Bytes(f func(*x86)) string {
	e := newX86(&program{ops: make([]rv32.Op, 64)})
	e.home[5], e.home[6], e.home[7] = rbx, 12, 13
	f(e)
	return hex.EncodeToString(e.b)
}

// Instructions of amd64 are encoded so that GNU objdump reads them as they are meant.
func TestX86Encodings(t *testing.T) {
	inst := func(code rv32.Opcode, rd, rs1, rs2 uint8, imm int32) func(*x86) {
		return func(e *x86) { e.compute(rv32.Inst{Code: code, Rd: rd, Rs1: rs1, Rs2: rs2, Imm: imm}) }
	}
	for _, c := range []struct {
		text string
		emit func(*x86)
		want string
	}{
		{"mov eax,r15d", func(e *x86) { e.move(rax, r15) }, "418bc7"},
		{"mov r15d,eax", func(e *x86) { e.move(r15, rax) }, "448bf8"},
		{"mov ebx,edi", func(e *x86) { e.move(rbx, rdi) }, "8bdf"},
		{"add r8d,ebx", func(e *x86) { e.reg(xADD, 8, rbx) }, "4403c3"},
		{"sub ebx,r14d", func(e *x86) { e.reg(xSUB, rbx, 14) }, "412bde"},
		{"and r13d,r12d", func(e *x86) { e.reg(xAND, 13, 12) }, "4523ec"},
		{"or ecx,edx", func(e *x86) { e.reg(xOR, rcx, rdx) }, "0bca"},
		{"xor r10d,r11d", func(e *x86) { e.reg(xXOR, 10, 11) }, "4533d3"},
		{"cmp r12d,r13d", func(e *x86) { e.reg(xCMP, 12, 13) }, "453be5"},
		{"test r9d,r9d", func(e *x86) { e.reg(xTEST, r9, r9) }, "4585c9"},
		{"imul r12d,ecx", func(e *x86) { e.reg(xIMUL, 12, rcx) }, "440fafe1"},
		{"bsf eax,r13d", func(e *x86) { e.reg(xBSF, rax, 13) }, "410fbcc5"},
		{"bsr eax,edx", func(e *x86) { e.reg(xBSR, rax, rdx) }, "0fbdc2"},
		{"movzx eax,al", func(e *x86) { e.reg(xMOVZB, rax, rax) }, "0fb6c0"},
		{"movsx eax,al", func(e *x86) { e.reg(xMOVSB, rax, rax) }, "0fbec0"},
		{"movsx eax,r12w", func(e *x86) { e.reg(xMOVSW, rax, 12) }, "410fbfc4"},
		{"movzx eax,bx", func(e *x86) { e.reg(xMOVZW, rax, rbx) }, "0fb7c3"},
		{"cmovg eax,ecx", func(e *x86) { e.reg(0x0F40|xG, rax, rcx) }, "0f4fc1"},
		{"cmove eax,ecx", func(e *x86) { e.reg(0x0F40|xE, rax, rcx) }, "0f44c1"},
		{"mov r14d,[rdi+0x4]", func(e *x86) { e.fetch(14, 1) }, "448b7704"},
		{"mov [rdi+0x7c],r13d", func(e *x86) { e.keep(13, 31) }, "44896f7c"},
		{"mov eax,[rdi+0x80]", func(e *x86) { e.fetch(rax, rv32.Sink) }, "8b8780000000"},
		{"mov eax,[rdi]", func(e *x86) { e.fetch(rax, 0) }, "8b07"},
		{"cmp r14d,[rdi-0x10]", func(e *x86) { e.mem(xCMP, 14, rdi, -16) }, "443b77f0"},
		{"cmp ecx,[rsp+0x44]", func(e *x86) { e.mem(xCMP, rcx, rsp, 0x44) }, "3b4c2444"},
		{"mov rdx,[rdi-0x20]", func(e *x86) { e.pointer(rdx, -32) }, "488b57e0"},
		{"mov r12d,[rdx+rcx*4-0x4]", func(e *x86) { e.slot(xMOV, 12, rdx, rcx) }, "448b648afc"},
		{"test ch,0x80; je 0x1c; test r12d,0xffffc3ff; jne 0x0; and ecx,0x7fff", func(e *x86) {
			e.slow[0] = e.here()
			e.narrow(0, 12)
			e.resolve()
		}, "f6c5800f841300000041f7c4ffc3ffff0f85eaffffff81e1ff7f0000"},
		{"mov [rdx+rcx*4-0x4],ebx", func(e *x86) { e.slot(xSTORE, rbx, rdx, rcx) }, "895c8afc"},
		{"lea ecx,[r13+0x0]", func(e *x86) { e.mem(xLEA, rcx, 13, 0) }, "418d4d00"},
		{"lea ecx,[r12]", func(e *x86) { e.mem(xLEA, rcx, 12, 0) }, "418d0c24"},
		{"lea ecx,[r12+0x500000]", func(e *x86) { e.mem(xLEA, rcx, 12, -(LocalBase - 1<<32)) }, "418d8c2400005000"},
		{"lea r12d,[rbx+0x7f]", func(e *x86) { e.mem(xLEA, 12, rbx, 127) }, "448d637f"},
		{"lea r12d,[rbx+0x80]", func(e *x86) { e.mem(xLEA, 12, rbx, 128) }, "448da380000000"},
		{"lea eax,[r8-0x80]", func(e *x86) { e.mem(xLEA, rax, 8, -128) }, "418d4080"},
		{"lea eax,[r8-0x81]", func(e *x86) { e.mem(xLEA, rax, 8, -129) }, "418d807fffffff"},
		{"mov eax,[rsi+rax*1]", func(e *x86) { e.indexed(xMOV, rax, rsi, rax) }, "8b0406"},
		{"mov r13d,[rsi+r12*1]", func(e *x86) { e.indexed(xMOV, 13, rsi, 12) }, "468b2c26"},
		{"mov ebx,[r9+r13*1]", func(e *x86) { e.indexed(xMOV, rbx, r9, 13) }, "438b1c29"},
		{"movsx r12d,[r9+rcx*1]", func(e *x86) { e.indexed(xMOVSB, 12, r9, rcx) }, "450fbe2409"},
		{"movzx eax,[rsi+r8*1]", func(e *x86) { e.indexed(xMOVZW, rax, rsi, 8) }, "420fb70406"},
		{"mov [rsi+rbx*1],r14d", func(e *x86) { e.indexed(xSTORE, 14, rsi, rbx) }, "4489341e"},
		{"mov [rsi+r12*1],bl", func(e *x86) { e.put(1, rbx, x86Place{base: rsi, index: 12}) }, "42881c26"},
		{"mov [r9+rcx*1],r13b", func(e *x86) { e.put(1, 13, x86Place{base: r9, index: rcx}) }, "45882c09"},
		{"mov [r9+rcx*1],dl", func(e *x86) { e.put(1, rdx, x86Place{base: r9, index: rcx}) }, "41881409"},
		{"mov [rsi+r12*1],r13w", func(e *x86) { e.put(2, 13, x86Place{base: rsi, index: 12}) }, "6646892c26"},
		{"mov [r9+rcx*1],dx", func(e *x86) { e.put(2, rdx, x86Place{base: r9, index: rcx}) }, "6641891409"},
		{"mov [rsi+rax*1],edx", func(e *x86) { e.put(4, rdx, x86Place{base: rsi, index: rax}) }, "891406"},
		{"xor r12d,r12d", func(e *x86) { e.constant(12, 0) }, "4533e4"},
		{"mov r12d,0x80000000", func(e *x86) { e.constant(12, 1<<31) }, "41bc00000080"},
		{"mov ecx,0x3", func(e *x86) { e.constant(rcx, 3) }, "b903000000"},
		{"add r15d,0x7f", func(e *x86) { e.immediate(0, r15, 127) }, "4183c77f"},
		{"add r15d,0x80", func(e *x86) { e.immediate(0, r15, 128) }, "4181c780000000"},
		{"add r15d,0xffffff80", func(e *x86) { e.immediate(0, r15, -128) }, "4183c780"},
		{"and eax,0xffffff7f", func(e *x86) { e.immediate(4, rax, -129) }, "81e07fffffff"},
		{"xor r12d,0xffffffff", func(e *x86) { e.immediate(6, 12, -1) }, "4183f4ff"},
		{"cmp ecx,0x400", func(e *x86) { e.immediate(7, rcx, 1024) }, "81f900040000"},
		{"or ebx,0x1", func(e *x86) { e.immediate(1, rbx, 1) }, "83cb01"},
		{"shl r13d,0x1f", func(e *x86) { e.shift(4, 13, 31) }, "41c1e51f"},
		{"sar r13d,cl", func(e *x86) { e.shift(7, 13, -1) }, "41d3fd"},
		{"shr ecx,0x6", func(e *x86) { e.shift(5, rcx, 6) }, "c1e906"},
		{"rol ebx,cl", func(e *x86) { e.shift(0, rbx, -1) }, "d3c3"},
		{"ror r8d,0x1", func(e *x86) { e.shift(1, 8, 1) }, "41c1c801"},
		{"not eax", func(e *x86) { e.unary(2, rax) }, "f7d0"},
		{"neg eax", func(e *x86) { e.unary(3, rax) }, "f7d8"},
		{"mul ecx", func(e *x86) { e.unary(4, rcx) }, "f7e1"},
		{"imul ecx", func(e *x86) { e.unary(5, rcx) }, "f7e9"},
		{"div r9d", func(e *x86) { e.unary(6, r9) }, "41f7f1"},
		{"idiv ecx", func(e *x86) { e.unary(7, rcx) }, "f7f9"},
		{"jmp 0x5", func(e *x86) { l := e.label(); e.jump(l); e.place(l); e.resolve() }, "e900000000"},
		{"mov ebx,ecx; jle 0x0", func(e *x86) { l := e.here(); e.move(rbx, rcx); e.jumpIf(xLE, l); e.resolve() }, "8bd90f8ef8ffffff"},
		{"jmp rax", func(e *x86) { e.enter() }, "ffe0"},
		{"ret", func(e *x86) { e.ret() }, "c3"},
		{"test bl,0x3", func(e *x86) { e.testLow(rbx, 3) }, "f6c303"},
		{"test al,0x1", func(e *x86) { e.testLow(rax, 1) }, "f6c001"},
		{"test r12b,0x3", func(e *x86) { e.testLow(12, 3) }, "41f6c403"},
		{"movsxd rcx,[rdx+rcx*4]; add rcx,rdx; jmp rcx", func(e *x86) { e.jumpTable() }, "48630c8a4801d1ffe1"},
		{"cmp r12d,0xffb20000", func(e *x86) { e.isGuess(6, 0xFFB20000) }, "4181fc0000b2ff"},
		{"cmp [rdi+0x20],0x3000", func(e *x86) { e.isGuess(8, 0x3000) }, "817f2000300000"},
		{"mov r13d,[r9+0x7fc]", func(e *x86) { e.at(xMOV, 13, x86Place{base: r9, index: none, disp: 0x7FC}) }, "458ba9fc070000"},
		{"mov [rsi+0x420],bl", func(e *x86) { e.put(1, rbx, x86Place{base: rsi, index: none, disp: 0x420}) }, "889e20040000"},
		{"mov [rdx+0x1c],r12w", func(e *x86) { e.put(2, 12, x86Place{base: rdx, index: none, disp: 0x1C}) }, "664489621c"},
		{"movzx edx,[rdx+rcx*1]; test dl,0xf0; jne 0x0; mov ecx,r12d; shr ecx,0x2; and ecx,0x3; bt edx,ecx; jb 0x0", func(e *x86) {
			e.slow[0] = e.here()
			e.watched(0, 12)
			e.resolve()
		}, "0fb6140af6c2f00f85f3ffffff418bccc1e90283e1030fa3ca0f82e1ffffff"},
		{"mov rdx,[rdi-0x20]; cmp [rdx+rcx*1],0x0", func(e *x86) { e.testFlag() }, "488b57e0803c0a00"},
		{"mov ebx,0xfffff800", inst(rv32.LI, 5, 0, 0, -2048), "bb00f8ffff"},
		{"lea r12d,[rbx+0x1]", inst(rv32.ADDI, 6, 5, 0, 1), "448d6301"},
		{"mov r12d,0xfffffffb", inst(rv32.ADDI, 6, 0, 0, -5), "41bcfbffffff"},
		{"mov eax,[rdi+0x20]; add eax,0xfffff800; mov [rdi+0x24],eax", inst(rv32.ADDI, 9, 8, 0, -2048), "8b472081c000f8ffff894724"},
		{"mov eax,r13d; cmp eax,0x7; setl al; movzx eax,al; mov ebx,eax", inst(rv32.SLTI, 5, 7, 0, 7), "418bc583f8070f9cc00fb6c08bd8"},
		{"mov eax,[rdi]; cmp eax,r13d; setb al; movzx eax,al; mov ebx,eax", inst(rv32.SLTU, 5, 0, 7, 0), "8b07413bc50f92c00fb6c08bd8"},
		{"mov eax,ebx; sub eax,r12d; mov r12d,eax", inst(rv32.SUB, 6, 5, 6, 0), "8bc3412bc4448be0"},
		{"add r12d,ebx", inst(rv32.ADD, 6, 5, 6, 0), "4403e3"},
		{"mov ecx,r12d; mov r12d,r13d; shl r12d,cl", inst(rv32.SLL, 6, 7, 6, 0), "418bcc458be541d3e4"},
		{"mov ebx,r13d; ror ebx,0x3", inst(rv32.RORI, 5, 7, 0, 3), "418bddc1cb03"},
		{"mov eax,r13d; mov ecx,r12d; imul ecx; mov ebx,edx", inst(rv32.MULH, 5, 7, 6, 0), "418bc5418bccf7e98bda"},
		{"mov eax,r13d; mov ecx,r12d; movsxd rax,eax; imul rax,rcx; shr rax,0x20; mov ebx,eax", inst(rv32.MULHSU, 5, 7, 6, 0), "418bc5418bcc4863c0480fafc148c1e8208bd8"},
		{"mov eax,r13d; shl eax,0x3; add eax,r12d; mov ebx,eax", inst(rv32.SH3ADD, 5, 7, 6, 0), "418bc5c1e0034103c48bd8"},
		{"mov ecx,r12d; shl ecx,0x10; movzx eax,[rdi+0x20]; or eax,ecx; mov ebx,eax", inst(rv32.PACK, 5, 8, 6, 0), "418bccc1e1100fb747200bc18bd8"},
		{"mov edx,r13d; mov ecx,0x3f; bsr eax,edx; cmove eax,ecx; xor eax,0x1f; mov ebx,eax", inst(rv32.CLZ, 5, 7, 0, 0), "418bd5b93f0000000fbdc20f44c183f01f8bd8"},
		{"mov eax,r13d; bswap eax; mov ebx,eax", inst(rv32.REV8, 5, 7, 0, 0), "418bc50fc88bd8"},
		{"imul r12d,r12d,0xff", func(e *x86) { e.times(12, 0xFF) }, "4569e4ff000000"},
		{"mov eax,r13d; mov ecx,eax; shr ecx,0x1; or eax,ecx; mov ecx,eax; shr ecx,0x2; or eax,ecx; mov ecx,eax; shr ecx,0x4; or eax,ecx; and eax,0x1010101; imul eax,eax,0xff; mov ebx,eax", inst(rv32.ORCB, 5, 7, 0, 0), "418bc58bc8c1e9010bc18bc8c1e9020bc18bc8c1e9040bc181e00101010169c0ff0000008bd8"},
	} {
		if got := x86Bytes(c.emit); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}
