//go:build !race

#include "textflag.h"

// func Store(p *uint32, v uint32)
TEXT ·Store(SB), NOSPLIT, $0-12
	MOV p+0(FP), X10
	MOVW v+8(FP), X11
	FENCE
	MOVW X11, (X10)
	RET
