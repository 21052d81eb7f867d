//go:build linux && !purego

#include "textflag.h"

// func enter(code, entry uintptr, x, l1, flags, local unsafe.Pointer, l1Bytes, localBytes uint32, end int32) (next, newEnd int32, why Exit)
//
// Code keeps SP and BP, and finds l1Bytes, localBytes and flags where they are on this stack. It takes the time of a slice at
// most, in which the goroutine can't be preempted: to Go's runtime, code that it doesn't know is unsafe to stop at.
TEXT ·enter(SB), NOSPLIT|NOFRAME, $0-76
	MOVQ code+0(FP), CX
	MOVQ entry+8(FP), AX
	MOVQ x+16(FP), DI
	MOVQ l1+24(FP), SI
	MOVQ local+40(FP), R9
	MOVL end+56(FP), R15
	CALL CX
	MOVL AX, next+64(FP)
	MOVL R15, newEnd+68(FP)
	MOVL CX, why+72(FP)
	RET
