//go:build !purego

#include "textflag.h"

// Words of an fmaKernel; see the Go type.
#define fma_flipX    0(BX)
#define fma_flipZ    4(BX)
#define fma_signed   8(BX)
#define fma_sticky   12(BX)

// EIGHT makes a constant of eight words, two of them at a time.
#define EIGHT(name, pair) \
	DATA name<>+0(SB)/8, pair  \
	DATA name<>+8(SB)/8, pair  \
	DATA name<>+16(SB)/8, pair \
	DATA name<>+24(SB)/8, pair \
	GLOBL name<>(SB), RODATA|NOPTR, $32

EIGHT(fmaLead, $0x0080000000800000)     // the leading one of a mantissa
EIGHT(fmaInfinity, $0xFF000000FF000000) // twice infinity
EIGHT(fma127, $0x0000007F0000007F)
EIGHT(fma153, $0x0000009900000099)
EIGHT(fma253, $0x000000FD000000FD)
EIGHT(fma254, $0x000000FE000000FE)
EIGHT(fmaSign, $0x8000000080000000)

// Bits of eight lanes, as shifts that bring them to the top.
DATA laneShifts<>+0(SB)/8, $0x0000001E0000001F
DATA laneShifts<>+8(SB)/8, $0x0000001C0000001D
DATA laneShifts<>+16(SB)/8, $0x0000001A0000001B
DATA laneShifts<>+24(SB)/8, $0x0000001800000019
GLOBL laneShifts<>(SB), RODATA|NOPTR, $32

// SHIFT shifts M right by D, and keeps whether a bit was lost in the lowest one unless nothing else is left.
#define SHIFT(D, M, T, U) \
	VPSRLVD  D, M, T      \
	VPSLLVD  D, T, U      \
	VPCMPEQD M, U, U      \
	VPANDN   Y15, U, U    \
	VPCMPGTD Y14, T, M    \
	VPAND    U, M, M      \
	VPOR     T, M, M

// func fmaAVX2(dst, x, y, z *[32]uint32, k *fmaKernel, enabled uint32) (special uint32)
//
// It computes as Arch.FMA does, in the lanes of enabled, where operands are finite and results are normal numbers or zero; special
// has the other lanes of enabled, which keep what dst has.
TEXT ·fmaAVX2(SB), NOSPLIT, $0-52
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ y+16(FP), DX
	MOVQ z+24(FP), R9
	MOVQ k+32(FP), BX
	XORL R10, R10
	XORL CX, CX
	MOVL fma_sticky, R11
	VPXOR Y14, Y14, Y14
	VPCMPEQD Y15, Y15, Y15
	VPSRLD $31, Y15, Y15 // ones
	VPBROADCASTD fma_flipX, Y13
	VPBROADCASTD fma_flipZ, Y12
	MOVL enabled+40(FP), AX
	VMOVD AX, X11
	VPBROADCASTD X11, Y11

lanes:
	VPXOR (SI), Y13, Y0
	VMOVDQU (DX), Y1
	VPXOR (R9), Y12, Y2

	// exponents; factors that are infinite or no number
	VPADDD Y0, Y0, Y3
	VPADDD Y1, Y1, Y4
	VPADDD Y2, Y2, Y5
	VPMAXUD Y3, Y4, Y6
	VPMAXUD fmaInfinity<>(SB), Y6, Y7
	VPCMPEQD Y6, Y7, Y7
	VPSRLD $24, Y3, Y3
	VPSRLD $24, Y4, Y4
	VPSRLD $24, Y5, Y5
	VPMINSD Y3, Y4, Y8
	VPCMPEQD Y14, Y8, Y8
	VPADDD Y4, Y3, Y3
	VPSUBD fma127<>(SB), Y3, Y3 // exponent of the product

	// product, with 26 fractional bits, the lowest of them sticky
	VPOR fmaLead<>(SB), Y0, Y4
	VPSLLD $8, Y4, Y4
	VPOR fmaLead<>(SB), Y1, Y6
	VPSLLD $8, Y6, Y6
	VPSRLD $4, Y6, Y6
	VPMULUDQ Y6, Y4, Y9
	VPSRLQ $32, Y4, Y4
	VPSRLQ $32, Y6, Y6
	VPMULUDQ Y6, Y4, Y10
	VPSRLQ $32, Y9, Y4
	VPBLENDD $0xAA, Y10, Y4, Y4
	VPSLLQ $32, Y10, Y10
	VPBLENDD $0xAA, Y10, Y9, Y9
	VPCMPEQD Y14, Y9, Y9
	VPANDN Y15, Y9, Y9
	VPOR Y9, Y4, Y4

	// none if a factor is zero or the product underflows
	VPSRAD $31, Y3, Y9
	VPOR Y9, Y8, Y8
	VPANDN Y4, Y8, Y4
	VPANDN Y3, Y8, Y3

	// the addend, which is zero if it is denormal
	VPOR fmaLead<>(SB), Y2, Y6
	VPSLLD $8, Y6, Y6
	VPSRLD $5, Y6, Y6
	VPCMPEQD Y14, Y5, Y9
	VPANDN Y6, Y9, Y6

	// align and add
	VPMAXSD Y3, Y5, Y8
	VPCMPGTD fma254<>(SB), Y8, Y9
	VPOR Y9, Y7, Y7
	VPSUBD Y3, Y8, Y3
	VPSUBD Y5, Y8, Y5
	SHIFT(Y3, Y4, Y9, Y10)
	SHIFT(Y5, Y6, Y9, Y10)
	VPXOR Y0, Y1, Y0
	VPOR Y15, Y0, Y9
	VPSIGND Y9, Y4, Y4
	VPOR Y15, Y2, Y9
	VPSIGND Y9, Y6, Y6
	VPADDD Y6, Y4, Y4

	// Wormhole loses the second bit of sums that are shifted out by two.
	TESTL R11, R11
	JNZ round
	VPABSD Y4, Y5
	VPSRLD $28, Y5, Y6
	VPADDD Y6, Y6, Y6
	VPANDN Y5, Y6, Y5
	VPSIGND Y4, Y5, Y4

round: // to the nearest even
	VCVTDQ2PS Y4, Y6
	VPCMPEQD Y14, Y4, Y5
	VPSUBD fma153<>(SB), Y8, Y8
	VPADDD Y6, Y6, Y9
	VPSRLD $24, Y9, Y9
	VPADDD Y8, Y9, Y9
	VPSUBD Y15, Y9, Y9
	VPMINUD fma253<>(SB), Y9, Y10
	VPCMPEQD Y9, Y10, Y10 // exponents from 1 to 254
	VPSLLD $23, Y8, Y8
	VPADDD Y8, Y6, Y6

	// zero
	VPOR Y5, Y10, Y10
	VPANDN Y6, Y5, Y6
	VPAND Y2, Y0, Y0
	VPBROADCASTD fma_signed, Y9
	VPAND Y9, Y5, Y5
	VPAND Y0, Y5, Y5
	VPOR Y5, Y6, Y6

	VPANDN Y10, Y7, Y7
	VPSLLVD laneShifts<>(SB), Y11, Y0
	VPAND Y0, Y7, Y7
	VMOVMSKPS Y7, AX
	SHLL CX, AX
	ORL AX, R10
	VMOVUPS (DI), Y1
	VBLENDVPS Y7, Y6, Y1, Y1
	VMOVUPS Y1, (DI)
	VPSRLD $8, Y11, Y11

	ADDQ $32, DI
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, R9
	ADDL $8, CX
	CMPL CX, $32
	JNE lanes
	NOTL R10
	ANDL enabled+40(FP), R10
	MOVL R10, special+48(FP)
	VZEROUPPER
	RET
