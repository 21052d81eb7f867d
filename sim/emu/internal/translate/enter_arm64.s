//go:build linux && !purego

#include "textflag.h"

// func enter(code, entry uintptr, x, l1, flags, local unsafe.Pointer, l1Bytes, localBytes uint32, end int32) (next, newEnd int32, why Exit)
//
// Code keeps R18 and R27 to R30, and SP: R28 is g, by which Go's signal handlers know where they are. It has no stack, and takes
// the time of a slice at most, in which the goroutine can't be preempted: to Go's runtime, code that it doesn't know is unsafe to
// stop at. ISB, because the goroutine may have come to another processor since synchronize.
TEXT ·enter(SB), NOSPLIT, $0-76
	MOVD code+0(FP), R2
	MOVD entry+8(FP), R0
	MOVD x+16(FP), R4
	MOVD l1+24(FP), R5
	MOVD flags+32(FP), R7
	MOVD local+40(FP), R6
	MOVWU l1Bytes+48(FP), R8
	MOVWU localBytes+52(FP), R9
	MOVWU end+56(FP), R10
	ISB $15
	CALL (R2)
	MOVW R0, next+64(FP)
	MOVW R10, newEnd+68(FP)
	MOVW R1, why+72(FP)
	RET

// func synchronize(start, end uintptr)
//
// CTR_EL0 has the logarithms of the sizes of lines in words: of data in bits 16 to 19, of instructions in bits 0 to 3.
TEXT ·synchronize(SB), NOSPLIT|NOFRAME, $0-16
	MOVD start+0(FP), R0
	MOVD end+8(FP), R1
	MRS CTR_EL0, R2
	MOVD $4, R3
	UBFX $16, R2, $4, R4
	LSL R4, R3, R4
	SUB $1, R4, R5
	BIC R5, R0, R5
data:
	DC CVAU, R5
	ADD R4, R5
	CMP R1, R5
	BLO data
	DSB $11 // ISH
	UBFX $0, R2, $4, R4
	LSL R4, R3, R4
	SUB $1, R4, R5
	BIC R5, R0, R5
instructions:
	SYS $(3<<16|7<<12|5<<8|1<<5), R5 // IC IVAU
	ADD R4, R5
	CMP R1, R5
	BLO instructions
	DSB $11
	ISB $15
	RET
