#include "textflag.h"

// func Ticks() int64
TEXT ·Ticks(SB), NOSPLIT, $0-8
	FENCE // what is measured has ended before the counter is read
	RDTIME X10
	MOV X10, ret+0(FP)
	RET
