#include "textflag.h"

// func load8(p unsafe.Pointer) uint8
TEXT ·load8(SB), NOSPLIT, $0-9
	MOVQ p+0(FP), AX
	MOVBLZX (AX), CX
	MOVB CX, ret+8(FP)
	RET

// func load16(p unsafe.Pointer) uint16
TEXT ·load16(SB), NOSPLIT, $0-10
	MOVQ p+0(FP), AX
	MOVWLZX (AX), CX
	MOVW CX, ret+8(FP)
	RET

// func load32(p unsafe.Pointer) uint32
TEXT ·load32(SB), NOSPLIT, $0-12
	MOVQ p+0(FP), AX
	MOVL (AX), CX
	MOVL CX, ret+8(FP)
	RET

// func load64(p unsafe.Pointer) uint64
TEXT ·load64(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ (AX), CX
	MOVQ CX, ret+8(FP)
	RET

// func store8(p unsafe.Pointer, v uint8)
TEXT ·store8(SB), NOSPLIT, $0-9
	MOVQ p+0(FP), AX
	MOVB v+8(FP), CX
	MOVB CX, (AX)
	RET

// func store16(p unsafe.Pointer, v uint16)
TEXT ·store16(SB), NOSPLIT, $0-10
	MOVQ p+0(FP), AX
	MOVW v+8(FP), CX
	MOVW CX, (AX)
	RET

// func store32(p unsafe.Pointer, v uint32)
TEXT ·store32(SB), NOSPLIT, $0-12
	MOVQ p+0(FP), AX
	MOVL v+8(FP), CX
	MOVL CX, (AX)
	RET

// func store64(p unsafe.Pointer, v uint64)
TEXT ·store64(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ v+8(FP), CX
	MOVQ CX, (AX)
	RET

// func copyTo(dst unsafe.Pointer, src *byte, n uintptr)
TEXT ·copyTo(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	TESTQ $4, DI
	JZ to64
	CMPQ CX, $4
	JB todone
	MOVL (SI), AX
	MOVL AX, (DI)
	ADDQ $4, SI
	ADDQ $4, DI
	SUBQ $4, CX
to64:
	// Eight stores in a row fill a write-combining buffer.
	CMPQ CX, $64
	JB to8
	MOVQ 0(SI), AX
	MOVQ 8(SI), BX
	MOVQ 16(SI), R8
	MOVQ 24(SI), R9
	MOVQ 32(SI), R10
	MOVQ 40(SI), R11
	MOVQ 48(SI), R12
	MOVQ 56(SI), R13
	MOVQ AX, 0(DI)
	MOVQ BX, 8(DI)
	MOVQ R8, 16(DI)
	MOVQ R9, 24(DI)
	MOVQ R10, 32(DI)
	MOVQ R11, 40(DI)
	MOVQ R12, 48(DI)
	MOVQ R13, 56(DI)
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX
	JMP to64
to8:
	CMPQ CX, $8
	JB to4
	MOVQ (SI), AX
	MOVQ AX, (DI)
	ADDQ $8, SI
	ADDQ $8, DI
	SUBQ $8, CX
	JMP to8
to4:
	CMPQ CX, $4
	JB todone
	MOVL (SI), AX
	MOVL AX, (DI)
todone:
	RET

// func copyFrom(dst *byte, src unsafe.Pointer, n uintptr)
TEXT ·copyFrom(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	TESTQ $4, SI
	JZ from8
	CMPQ CX, $4
	JB fromdone
	MOVL (SI), AX
	MOVL AX, (DI)
	ADDQ $4, SI
	ADDQ $4, DI
	SUBQ $4, CX
from8:
	CMPQ CX, $8
	JB from4
	MOVQ (SI), AX
	MOVQ AX, (DI)
	ADDQ $8, SI
	ADDQ $8, DI
	SUBQ $8, CX
	JMP from8
from4:
	CMPQ CX, $4
	JB fromdone
	MOVL (SI), AX
	MOVL AX, (DI)
fromdone:
	RET

// func fence()
TEXT ·fence(SB), NOSPLIT, $0-0
	SFENCE
	RET
