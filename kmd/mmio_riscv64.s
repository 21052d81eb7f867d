#include "textflag.h"

// func load8(p unsafe.Pointer) uint8
TEXT ·load8(SB), NOSPLIT, $0-9
	MOV p+0(FP), X5
	MOVBU (X5), X6
	MOVB X6, ret+8(FP)
	RET

// func load16(p unsafe.Pointer) uint16
TEXT ·load16(SB), NOSPLIT, $0-10
	MOV p+0(FP), X5
	MOVHU (X5), X6
	MOVH X6, ret+8(FP)
	RET

// func load32(p unsafe.Pointer) uint32
TEXT ·load32(SB), NOSPLIT, $0-12
	MOV p+0(FP), X5
	MOVWU (X5), X6
	MOVW X6, ret+8(FP)
	RET

// func load64(p unsafe.Pointer) uint64
TEXT ·load64(SB), NOSPLIT, $0-16
	MOV p+0(FP), X5
	MOV (X5), X6
	MOV X6, ret+8(FP)
	RET

// func store8(p unsafe.Pointer, v uint8)
TEXT ·store8(SB), NOSPLIT, $0-9
	MOV p+0(FP), X5
	MOVBU v+8(FP), X6
	MOVB X6, (X5)
	RET

// func store16(p unsafe.Pointer, v uint16)
TEXT ·store16(SB), NOSPLIT, $0-10
	MOV p+0(FP), X5
	MOVHU v+8(FP), X6
	MOVH X6, (X5)
	RET

// func store32(p unsafe.Pointer, v uint32)
TEXT ·store32(SB), NOSPLIT, $0-12
	MOV p+0(FP), X5
	MOVWU v+8(FP), X6
	MOVW X6, (X5)
	RET

// func store64(p unsafe.Pointer, v uint64)
TEXT ·store64(SB), NOSPLIT, $0-16
	MOV p+0(FP), X5
	MOV v+8(FP), X6
	MOV X6, (X5)
	RET

// func copyTo(dst unsafe.Pointer, src *byte, n uintptr)
TEXT ·copyTo(SB), NOSPLIT, $0-24
	MOV dst+0(FP), X5
	MOV src+8(FP), X6
	MOV n+16(FP), X7
	MOV $4, X28
	MOV $8, X29
	AND $4, X5, X30
	BEQZ X30, to8
	BLTU X7, X28, todone
	MOVWU (X6), X30
	MOVW X30, (X5)
	ADD $4, X5
	ADD $4, X6
	SUB $4, X7
to8:
	BLTU X7, X29, to4
	MOV (X6), X30
	MOV X30, (X5)
	ADD $8, X5
	ADD $8, X6
	SUB $8, X7
	JMP to8
to4:
	BLTU X7, X28, todone
	MOVWU (X6), X30
	MOVW X30, (X5)
todone:
	RET

// func copyFrom(dst *byte, src unsafe.Pointer, n uintptr)
TEXT ·copyFrom(SB), NOSPLIT, $0-24
	MOV dst+0(FP), X5
	MOV src+8(FP), X6
	MOV n+16(FP), X7
	MOV $4, X28
	MOV $8, X29
	AND $4, X6, X30
	BEQZ X30, from8
	BLTU X7, X28, fromdone
	MOVWU (X6), X30
	MOVW X30, (X5)
	ADD $4, X5
	ADD $4, X6
	SUB $4, X7
from8:
	BLTU X7, X29, from4
	MOV (X6), X30
	MOV X30, (X5)
	ADD $8, X5
	ADD $8, X6
	SUB $8, X7
	JMP from8
from4:
	BLTU X7, X28, fromdone
	MOVWU (X6), X30
	MOVW X30, (X5)
fromdone:
	RET

// func fence()
TEXT ·fence(SB), NOSPLIT, $0-0
	FENCE
	RET
