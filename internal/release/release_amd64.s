//go:build !race

#include "textflag.h"

// func Store(p *uint32, v uint32)
// Every store is behind those before it.
TEXT ·Store(SB), NOSPLIT, $0-12
	MOVQ p+0(FP), AX
	MOVL v+8(FP), CX
	MOVL CX, (AX)
	RET
