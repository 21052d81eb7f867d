//go:build linux && !purego

#include "go_asm.h"
#include "textflag.h"

// func enter(code, entry uintptr, m *Machine, end int32) (next, newEnd int32, why Exit)
//
// Code keeps SP and BP. It takes the time of a slice at most, in which the goroutine can't be preempted: to Go's runtime, code
// that it doesn't know is unsafe to stop at.
TEXT ·enter(SB), NOSPLIT|NOFRAME, $0-44
	MOVQ code+0(FP), CX
	MOVQ entry+8(FP), AX
	MOVQ m+16(FP), DI
	MOVL end+24(FP), R15
	MOVQ Machine_l1(DI), SI
	MOVQ Machine_local(DI), R9
	ADDQ $Machine_X, DI
	CALL CX
	MOVL AX, next+32(FP)
	MOVL R15, newEnd+36(FP)
	MOVL CX, why+40(FP)
	RET
