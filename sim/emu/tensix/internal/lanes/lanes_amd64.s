//go:build !purego

#include "textflag.h"

// Each function is the Go function of its name, eight lanes in a round: what differs is what a round computes, which the macros
// UNARY and BINARY get as a macro of its own. DI points to the result, SI and DX to operands; CX counts rounds; Y11 has the mask of
// lanes, shifted as rounds go on; Y15 is all ones.

// Bits of eight lanes, as shifts that bring them to the top.
DATA laneShifts<>+0(SB)/8, $0x0000001E0000001F
DATA laneShifts<>+8(SB)/8, $0x0000001C0000001D
DATA laneShifts<>+16(SB)/8, $0x0000001A0000001B
DATA laneShifts<>+24(SB)/8, $0x0000001800000019
GLOBL laneShifts<>(SB), RODATA|NOPTR, $32

// SPREAD copies a word to all of a vector.
#define SPREAD(R, X, Y) \
	VMOVD R, X \
	VPBROADCASTD X, Y

// SPREADBOOL makes a vector all ones if AX is 1, or zeros if it is 0.
#define SPREADBOOL(X, Y) \
	NEGL AX \
	SPREAD(AX, X, Y)

// ENABLED makes K the round's lanes of the mask, and goes on in the mask.
#define ENABLED(K) \
	VPSLLVD laneShifts<>(SB), Y11, K \
	VPSRLD $8, Y11, Y11

#define BEGIN(mask) \
	MOVL mask, AX          \
	SPREAD(AX, X11, Y11)   \
	VPCMPEQD Y15, Y15, Y15 \
	MOVL $4, CX

// RESULT stores Y0 in the lanes that are enabled.
#define RESULT \
	VMOVDQU (DI), Y1         \
	ENABLED(Y2)              \
	VBLENDVPS Y2, Y0, Y1, Y0 \
	VMOVDQU Y0, (DI)

#define END \
	ADDQ $32, DI \
	ADDQ $32, SI \
	DECL CX      \
	JNE round    \
	VZEROUPPER

// UNARY is the rounds of a function of the register at SI: BODY computes Y0 from Y0.
#define UNARY(BODY) \
round:               \
	VMOVDQU (SI), Y0 \
	BODY             \
	RESULT           \
	END

// BINARY is the rounds of a function of the registers at SI and DX: BODY computes Y0 from Y0, which is of SI, and (DX).
#define BINARY(BODY) \
round:               \
	VMOVDQU (SI), Y0 \
	BODY             \
	RESULT           \
	ADDQ $32, DX     \
	END

// SIGNS appends the signs of V to a mask of lanes.
#define SIGNS(V, R, T) \
	VMOVMSKPS V, T \
	SHLL $24, T    \
	SHRL $8, R     \
	ORL T, R

#define BITS \
	VPAND Y0, Y12, Y0   \
	VPAND (DI), Y13, Y2 \
	VPOR Y2, Y0, Y0     \
	VPXOR Y14, Y0, Y0

// func bitsAVX2(d, c *Register, keep, own, flip, enabled uint32)
TEXT ·bitsAVX2(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ c+8(FP), SI
	MOVL keep+16(FP), AX
	SPREAD(AX, X12, Y12)
	MOVL own+20(FP), AX
	SPREAD(AX, X13, Y13)
	MOVL flip+24(FP), AX
	SPREAD(AX, X14, Y14)
	BEGIN(enabled+28(FP))
	UNARY(BITS)
	RET

#define AND VPAND (DX), Y0, Y0

// func andAVX2(d, b, c *Register, enabled uint32)
TEXT ·andAVX2(SB), NOSPLIT, $0-28
	MOVQ d+0(FP), DI
	MOVQ b+8(FP), SI
	MOVQ c+16(FP), DX
	BEGIN(enabled+24(FP))
	BINARY(AND)
	RET

#define OR VPOR (DX), Y0, Y0

// func orAVX2(d, b, c *Register, enabled uint32)
TEXT ·orAVX2(SB), NOSPLIT, $0-28
	MOVQ d+0(FP), DI
	MOVQ b+8(FP), SI
	MOVQ c+16(FP), DX
	BEGIN(enabled+24(FP))
	BINARY(OR)
	RET

#define XOR VPXOR (DX), Y0, Y0

// func xorAVX2(d, b, c *Register, enabled uint32)
TEXT ·xorAVX2(SB), NOSPLIT, $0-28
	MOVQ d+0(FP), DI
	MOVQ b+8(FP), SI
	MOVQ c+16(FP), DX
	BEGIN(enabled+24(FP))
	BINARY(XOR)
	RET

#define EXPONENT \
	VPADDD Y0, Y0, Y0  \
	VPSRLD $24, Y0, Y0 \
	VPSUBD Y12, Y0, Y0 \
	SIGNS(Y0, R8, AX)

// func exponentsAVX2(d, c *Register, bias, enabled uint32) (negative uint32)
TEXT ·exponentsAVX2(SB), NOSPLIT, $0-28
	MOVQ d+0(FP), DI
	MOVQ c+8(FP), SI
	MOVL bias+16(FP), AX
	SPREAD(AX, X12, Y12)
	BEGIN(enabled+20(FP))
	XORL R8, R8
	UNARY(EXPONENT)
	MOVL R8, negative+24(FP)
	RET

// SHIFT takes the shift to the left where the number of bits isn't negative, and that to the right where it is.
#define SHIFT \
	VMOVDQU (DX), Y1   \
	VPAND Y12, Y1, Y2  \
	VPSLLVD Y2, Y0, Y2 \
	VPSUBD Y1, Y14, Y3 \
	VPAND Y12, Y3, Y3  \
	TESTL BX, BX       \
	JNE arithmetic     \
	VPSRLVD Y3, Y0, Y3 \
	JMP shifted        \
arithmetic:            \
	VPSRAVD Y3, Y0, Y3 \
shifted:               \
	VBLENDVPS Y1, Y3, Y2, Y0

// func shiftAVX2(d, c, by *Register, arithmetic bool, enabled uint32)
TEXT ·shiftAVX2(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ c+8(FP), SI
	MOVQ by+16(FP), DX
	MOVBLZX arithmetic+24(FP), BX
	BEGIN(enabled+28(FP))
	VPSRLD $27, Y15, Y12 // 31
	VPXOR Y14, Y14, Y14
	BINARY(SHIFT)
	RET

#define ADD \
	VPXOR (DX), Y12, Y1 \
	VPSUBD Y12, Y1, Y1  \
	VPADDD Y1, Y0, Y0   \
	SIGNS(Y0, R8, AX)

// func addAVX2(d, a, b *Register, minus bool, enabled uint32) (negative uint32)
TEXT ·addAVX2(SB), NOSPLIT, $0-36
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVBLZX minus+24(FP), AX
	SPREADBOOL(X12, Y12)
	BEGIN(enabled+28(FP))
	XORL R8, R8
	BINARY(ADD)
	MOVL R8, negative+32(FP)
	RET

// ORDER returns in K what orders V, of sign and magnitude, as an integer.
#define ORDER(V, K) \
	VPSRAD $31, V, K \
	VPSRLD $1, K, K  \
	VPXOR V, K, K

// func sortAVX2(greater, less, x, y *Register, enabled uint32)
TEXT ·sortAVX2(SB), NOSPLIT, $0-36
	MOVQ greater+0(FP), DI
	MOVQ less+8(FP), R8
	MOVQ x+16(FP), SI
	MOVQ y+24(FP), DX
	BEGIN(enabled+32(FP))

round:
	VMOVDQU (SI), Y0
	VMOVDQU (DX), Y1
	ORDER(Y0, Y2)
	ORDER(Y1, Y3)
	VPCMPGTD Y2, Y3, Y2
	ENABLED(Y3)
	VPAND Y3, Y2, Y2
	VBLENDVPS Y2, Y1, Y0, Y3
	VBLENDVPS Y2, Y0, Y1, Y4
	VMOVDQU Y3, (DI)
	VMOVDQU Y4, (R8)
	ADDQ $32, R8
	ADDQ $32, DX
	END
	RET

#define ROUND \
	VPADDD Y0, Y0, Y1        \
	VPSRLD $24, Y1, Y1       \
	VPADDD Y10, Y0, Y2       \
	VPAND Y9, Y2, Y2         \
	VPAND Y12, Y0, Y0        \
	VPCMPEQD Y13, Y1, Y3     \
	VPBLENDVB Y3, Y0, Y2, Y0 \
	VPCMPEQD Y14, Y1, Y3     \
	VPANDN Y0, Y3, Y0

// func roundBF16AVX2(d, c *Register, enabled uint32)
TEXT ·roundBF16AVX2(SB), NOSPLIT, $0-20
	MOVQ d+0(FP), DI
	MOVQ c+8(FP), SI
	BEGIN(enabled+16(FP))
	VPXOR Y14, Y14, Y14
	VPSRLD $24, Y15, Y13 // 255
	VPSLLD $23, Y15, Y12 // sign and exponent
	VPSRLD $31, Y15, Y10
	VPSLLD $15, Y10, Y10 // half of what is cut off
	VPSLLD $16, Y15, Y9
	UNARY(ROUND)
	RET

#define RANDOM \
	VPSRLD $1, Y0, Y1  \
	VPSRLD $21, Y0, Y2 \
	VPSRLD $31, Y0, Y3 \
	VPXOR Y2, Y3, Y3   \
	VPXOR Y1, Y3, Y3   \
	VPXOR Y0, Y3, Y3   \
	VPXOR Y15, Y3, Y3  \
	VPSLLD $31, Y3, Y3 \
	VPOR Y1, Y3, Y0

// func randomAVX2(d *Register, enabled uint32)
TEXT ·randomAVX2(SB), NOSPLIT, $0-12
	MOVQ d+0(FP), DI
	MOVQ DI, SI
	BEGIN(enabled+8(FP))
	UNARY(RANDOM)
	RET

// func testAVX2(c *Register) (negative, zero uint32)
TEXT ·testAVX2(SB), NOSPLIT, $0-16
	MOVQ c+0(FP), SI
	MOVL $4, CX
	VPXOR Y14, Y14, Y14
	XORL R8, R8
	XORL R9, R9

round:
	VMOVDQU (SI), Y0
	SIGNS(Y0, R8, AX)
	VPCMPEQD Y14, Y0, Y0
	SIGNS(Y0, R9, BX)
	END
	MOVL R8, negative+8(FP)
	MOVL R9, zero+12(FP)
	RET

// COLUMN makes X10 the shift that brings the data of a column to the upper halves, and back.
#define COLUMN(column) \
	MOVL column, AX \
	ANDL $1, AX     \
	XORL $1, AX     \
	SHLL $4, AX     \
	VMOVD AX, X10

// MASKS makes Y12 the bits of fp32's exponent, Y13 those of its upper mantissa, Y14 the sign.
#define MASKS \
	VPSRLD $24, Y15, Y12 \
	VPSLLD $23, Y12, Y12 \
	VPSRLD $25, Y15, Y13 \
	VPSLLD $16, Y13, Y13 \
	VPSLLD $31, Y15, Y14

// DECODE makes Y0 the upper half of an fp32, from how Dst holds it in a column.
#define DECODE \
	VPSLLD X10, Y0, Y0 \
	VPSLLD $7, Y0, Y1  \
	VPAND Y12, Y1, Y1  \
	VPAND Y14, Y0, Y9  \
	VPSRLD $8, Y0, Y0  \
	VPAND Y13, Y0, Y0  \
	VPOR Y1, Y0, Y0    \
	VPOR Y9, Y0, Y0

// func loadBF16AVX2(d *Register, from *Block, column, enabled uint32)
TEXT ·loadBF16AVX2(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ from+8(FP), SI
	COLUMN(column+16(FP))
	BEGIN(enabled+20(FP))
	MASKS
	UNARY(DECODE)
	RET

#define DECODEBOTH \
	DECODE             \
	VMOVDQU (DX), Y1   \
	VPSLLD X10, Y1, Y1 \
	VPSRLD $16, Y1, Y1 \
	VPOR Y1, Y0, Y0

// func load32AVX2(d *Register, high, low *Block, column, enabled uint32)
TEXT ·load32AVX2(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ high+8(FP), SI
	MOVQ low+16(FP), DX
	COLUMN(column+24(FP))
	BEGIN(enabled+28(FP))
	MASKS
	BINARY(DECODEBOTH)
	RET

// ENCODE returns in R the upper half of V as Dst holds it, in the upper half.
#define ENCODE(V, R, T) \
	VPAND Y13, V, R \
	VPSLLD $8, R, R \
	VPAND Y12, V, T \
	VPSRLD $7, T, T \
	VPOR T, R, R    \
	VPAND Y14, V, T \
	VPOR T, R, R

// DENORMALS makes T all ones where V is denormal or zero, if Y8 is all ones.
#define DENORMALS(V, T, Z) \
	VPXOR Z, Z, Z    \
	VPAND Y12, V, T  \
	VPCMPEQD Z, T, T \
	VPAND Y8, T, T

// PUT stores the upper halves of V to a column of the rows at P, in enabled lanes; K has those, and Y7 the other column's bits.
#define PUT(P, V, K, OLD, T) \
	VPSRLD X10, V, V       \
	VMOVDQU P, OLD         \
	VPAND Y7, OLD, T       \
	VPOR T, V, V           \
	VBLENDVPS K, V, OLD, V \
	VMOVDQU V, P

// OTHERS makes Y7 the bits of the column that isn't stored to.
#define OTHERS \
	VPSLLD $16, Y15, Y7 \
	VPSRLD X10, Y7, Y7  \
	VPXOR Y15, Y7, Y7

// UPPER makes Y0 data without denormals, if Y8 says so, and stores their upper halves.
#define UPPER \
	VMOVDQU (SI), Y0      \
	DENORMALS(Y0, Y1, Y2) \
	VPSRLD $1, Y1, Y1     \
	VPANDN Y0, Y1, Y0     \
	ENCODE(Y0, Y1, Y2)    \
	ENABLED(Y3)           \
	PUT((DI), Y1, Y3, Y4, Y5)

// func storeBF16AVX2(to *Block, c *Register, column, enabled uint32)
TEXT ·storeBF16AVX2(SB), NOSPLIT, $0-24
	MOVQ to+0(FP), DI
	MOVQ c+8(FP), SI
	COLUMN(column+16(FP))
	BEGIN(enabled+20(FP))
	MASKS
	OTHERS
	VMOVDQA Y15, Y8

round:
	UPPER
	END
	RET

// func store32AVX2(high, low *Block, c *Register, flushed bool, column, enabled uint32)
TEXT ·store32AVX2(SB), NOSPLIT, $0-36
	MOVQ high+0(FP), DI
	MOVQ low+8(FP), DX
	MOVQ c+16(FP), SI
	MOVBLZX flushed+24(FP), AX
	SPREADBOOL(X8, Y8)
	COLUMN(column+28(FP))
	BEGIN(enabled+32(FP))
	MASKS
	OTHERS

round:
	UPPER
	VPSLLD $16, Y0, Y0
	PUT((DX), Y0, Y3, Y4, Y5)
	ADDQ $32, DX
	END
	RET

// HALF makes R half a row of Dst, a datum in each lower half.
#define HALF(P, R) \
	VMOVDQU P, Y0         \
	DENORMALS(Y0, Y1, Y2) \
	VPANDN Y0, Y1, Y0     \
	ENCODE(Y0, R, Y2)     \
	VPSRLD $16, R, R

// func encodeRowAVX2(to *[2 * RowLanes]uint16, from *[2 * RowLanes]uint32, flushed bool)
TEXT ·encodeRowAVX2(SB), NOSPLIT, $0-17
	MOVQ to+0(FP), DI
	MOVQ from+8(FP), SI
	MOVBLZX flushed+16(FP), AX
	SPREADBOOL(X8, Y8)
	VPCMPEQD Y15, Y15, Y15
	MASKS
	HALF((SI), Y3)
	HALF(32(SI), Y4)
	VPACKUSDW Y4, Y3, Y3
	VPERMQ $0xD8, Y3, Y3
	VMOVDQU Y3, (DI)
	VZEROUPPER
	RET
