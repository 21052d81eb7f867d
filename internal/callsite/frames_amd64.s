#include "textflag.h"

// func returnAddress() uintptr
TEXT ·returnAddress(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ (BP), AX
	MOVQ 8(AX), AX
	MOVQ AX, ret+0(FP)
	RET
