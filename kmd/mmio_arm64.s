#include "textflag.h"

// func load8(p unsafe.Pointer) uint8
TEXT ·load8(SB), NOSPLIT, $0-9
	MOVD p+0(FP), R0
	MOVBU (R0), R1
	MOVB R1, ret+8(FP)
	RET

// func load16(p unsafe.Pointer) uint16
TEXT ·load16(SB), NOSPLIT, $0-10
	MOVD p+0(FP), R0
	MOVHU (R0), R1
	MOVH R1, ret+8(FP)
	RET

// func load32(p unsafe.Pointer) uint32
TEXT ·load32(SB), NOSPLIT, $0-12
	MOVD p+0(FP), R0
	MOVWU (R0), R1
	MOVW R1, ret+8(FP)
	RET

// func load64(p unsafe.Pointer) uint64
TEXT ·load64(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD (R0), R1
	MOVD R1, ret+8(FP)
	RET

// func store8(p unsafe.Pointer, v uint8)
TEXT ·store8(SB), NOSPLIT, $0-9
	MOVD p+0(FP), R0
	MOVBU v+8(FP), R1
	MOVB R1, (R0)
	RET

// func store16(p unsafe.Pointer, v uint16)
TEXT ·store16(SB), NOSPLIT, $0-10
	MOVD p+0(FP), R0
	MOVHU v+8(FP), R1
	MOVH R1, (R0)
	RET

// func store32(p unsafe.Pointer, v uint32)
TEXT ·store32(SB), NOSPLIT, $0-12
	MOVD p+0(FP), R0
	MOVWU v+8(FP), R1
	MOVW R1, (R0)
	RET

// func store64(p unsafe.Pointer, v uint64)
TEXT ·store64(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD v+8(FP), R1
	MOVD R1, (R0)
	RET

// func copyTo(dst unsafe.Pointer, src *byte, n uintptr)
TEXT ·copyTo(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2
	TBZ $2, R0, to8
	CMP $4, R2
	BLO todone
	MOVWU (R1), R3
	MOVW R3, (R0)
	ADD $4, R0
	ADD $4, R1
	SUB $4, R2
to8:
	CMP $8, R2
	BLO to4
	MOVD (R1), R3
	MOVD R3, (R0)
	ADD $8, R0
	ADD $8, R1
	SUB $8, R2
	B to8
to4:
	CMP $4, R2
	BLO todone
	MOVWU (R1), R3
	MOVW R3, (R0)
todone:
	RET

// func copyFrom(dst *byte, src unsafe.Pointer, n uintptr)
TEXT ·copyFrom(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2
	TBZ $2, R1, from8
	CMP $4, R2
	BLO fromdone
	MOVWU (R1), R3
	MOVW R3, (R0)
	ADD $4, R0
	ADD $4, R1
	SUB $4, R2
from8:
	CMP $8, R2
	BLO from4
	MOVD (R1), R3
	MOVD R3, (R0)
	ADD $8, R0
	ADD $8, R1
	SUB $8, R2
	B from8
from4:
	CMP $4, R2
	BLO fromdone
	MOVWU (R1), R3
	MOVW R3, (R0)
fromdone:
	RET

// func fence()
TEXT ·fence(SB), NOSPLIT, $0-0
	DMB $0xE // full system, stores
	RET
