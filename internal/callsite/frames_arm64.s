#include "textflag.h"

// func returnAddress() uintptr
TEXT ·returnAddress(SB), NOSPLIT|NOFRAME, $0-8
	MOVD (R29), R0
	MOVD 8(R0), R0
	MOVD R0, ret+0(FP)
	RET
