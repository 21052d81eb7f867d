#include "textflag.h"

// func Ticks() int64
TEXT ·Ticks(SB), NOSPLIT, $0-8
	LFENCE // what is measured has ended before the counter is read
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func storeNonTemporal(dst *byte, src *[64]byte)
TEXT ·storeNonTemporal(SB), NOSPLIT, $0-16
	MOVQ   dst+0(FP), DI
	MOVQ   src+8(FP), SI
	MOVOU  (SI), X0
	MOVOU  16(SI), X1
	MOVOU  32(SI), X2
	MOVOU  48(SI), X3
	MOVNTO X0, (DI)
	MOVNTO X1, 16(DI)
	MOVNTO X2, 32(DI)
	MOVNTO X3, 48(DI)
	RET
