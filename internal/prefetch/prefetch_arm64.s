#include "textflag.h"

// func write(p unsafe.Pointer)
TEXT ·write(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PSTL1KEEP
	PRFM 64(R0), PSTL1KEEP
	PRFM 128(R0), PSTL1KEEP
	PRFM 192(R0), PSTL1KEEP
	RET
