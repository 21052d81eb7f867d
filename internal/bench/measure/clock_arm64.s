#include "textflag.h"

// func Ticks() int64
TEXT ·Ticks(SB), NOSPLIT, $0-8
	ISB $15 // what is measured has ended before the counter is read
	MRS CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET

// func storeNonTemporal(dst *byte, src *[64]byte)
TEXT ·storeNonTemporal(SB), NOSPLIT, $0-16
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	FLDPQ (R1), (F0, F1)
	FLDPQ 32(R1), (F2, F3)
	WORD $0xAC000400 // STNP Q0, Q1, [X0]
	WORD $0xAC010C02 // STNP Q2, Q3, [X0, #32]
	RET
