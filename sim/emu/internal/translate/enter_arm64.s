//go:build linux && !purego

#include "go_asm.h"
#include "textflag.h"

// func enter(code, entry uintptr, m *Machine, end int32) (next, newEnd int32, why Exit)
//
// Code keeps R18 and R27 to R30, and SP: R28 is g, by which Go's signal handlers know where they are. It has no stack, and takes
// the time of a slice at most, in which the goroutine can't be preempted: to Go's runtime, code that it doesn't know is unsafe to
// stop at. ISB, because the goroutine may have come to another processor since synchronize.
TEXT ·enter(SB), NOSPLIT, $0-44
	MOVD code+0(FP), R2
	MOVD entry+8(FP), R0
	MOVD m+16(FP), R4
	MOVWU end+24(FP), R10
	MOVD Machine_l1(R4), R5
	MOVD Machine_local(R4), R6
	MOVD Machine_flags(R4), R7
	MOVWU Machine_l1Bytes(R4), R8
	MOVWU Machine_localBytes(R4), R9
	ADD $Machine_X, R4
	ISB $15
	CALL (R2)
	MOVW R0, next+32(FP)
	MOVW R10, newEnd+36(FP)
	MOVW R1, why+40(FP)
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
