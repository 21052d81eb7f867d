//go:build !purego

#include "textflag.h"

// Words of an fmaKernel; see the Go type.
#define fma_flipX    0(BX)
#define fma_flipZ    4(BX)
#define fma_lost     8(BX)
#define fma_gradual  12(BX)
#define fma_signed   16(BX)

// UNPACK takes eight fp32 apart: exponents to E, mantissas to M, which are 0 for denormals.
#define UNPACK(V, E, M, T) \
	VPSLLD   $1, V, E      \
	VPSRLD   $24, E, E     \
	VPSLLD   $9, V, M      \
	VPSRLD   $9, M, M      \
	VPSLLD   $23, Y15, T   \
	VPOR     T, M, M       \
	VPCMPEQD Y14, E, T     \
	VPANDN   M, T, M

// SHIFT shifts M right by D, and keeps whether a bit was lost in the lowest one unless nothing else is left.
#define SHIFT(D, M, T, U) \
	VPSRLVD  D, M, T      \
	VPSLLVD  D, T, U      \
	VPCMPEQD M, U, U      \
	VPANDN   Y15, U, U    \
	VPCMPGTD Y14, T, M    \
	VPAND    U, M, M      \
	VPOR     T, M, M

// func fmaAVX2(dst, x, y, z *[32]uint32, k *fmaKernel) (special uint32)
//
// It computes as Arch.FMA does for finite operands whose product is finite too; special has the other lanes' bits.
TEXT ·fmaAVX2(SB), NOSPLIT, $0-44
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ y+16(FP), DX
	MOVQ z+24(FP), R9
	MOVQ k+32(FP), BX
	XORL R10, R10
	XORL CX, CX
	VPXOR Y14, Y14, Y14
	VPCMPEQD Y15, Y15, Y15
	VPSRLD $31, Y15, Y15 // ones

lanes:
	VPBROADCASTD fma_flipX, Y0
	VPXOR (SI), Y0, Y0
	VMOVDQU (DX), Y1
	VPBROADCASTD fma_flipZ, Y2
	VPXOR (R9), Y2, Y2
	UNPACK(Y0, Y3, Y4, Y9)
	UNPACK(Y1, Y5, Y6, Y9)
	UNPACK(Y2, Y7, Y8, Y9)
	VPXOR Y0, Y1, Y0
	VPSRAD $31, Y0, Y0 // sign of the product
	VPSRAD $31, Y2, Y2 // sign of the addend

	// special lanes: an exponent of 255, or of the product beyond it
	VPSLLD $8, Y15, Y9
	VPSUBD Y15, Y9, Y9
	VPCMPEQD Y9, Y3, Y10
	VPCMPEQD Y9, Y5, Y11
	VPOR Y11, Y10, Y10
	VPCMPEQD Y9, Y7, Y11
	VPOR Y11, Y10, Y10
	VPADDD Y5, Y3, Y3
	VPSRLD $1, Y9, Y11
	VPSUBD Y11, Y3, Y3 // exponent of the product
	VPSUBD Y15, Y9, Y11
	VPCMPGTD Y11, Y3, Y11
	VPOR Y11, Y10, Y10
	VMOVMSKPS Y10, AX
	SHLL CX, AX
	ORL AX, R10

	// product, with 26 fractional bits, the lowest of them sticky
	VPMULUDQ Y6, Y4, Y10
	VPSRLQ $32, Y4, Y4
	VPSRLQ $32, Y6, Y6
	VPMULUDQ Y6, Y4, Y4
	VPSRLQ $20, Y10, Y6
	VPSRLQ $20, Y4, Y11
	VPSLLQ $32, Y11, Y11
	VPOR Y11, Y6, Y6
	VPSLLQ $44, Y10, Y10
	VPSRLQ $32, Y10, Y10
	VPSLLQ $44, Y4, Y4
	VPBLENDD $0xAA, Y4, Y10, Y4
	VPCMPEQD Y14, Y4, Y4
	VPANDN Y15, Y4, Y4
	VPOR Y4, Y6, Y6

	// none if it is zero or underflows
	VPCMPEQD Y14, Y6, Y4
	VPSRAD $31, Y3, Y5
	VPOR Y5, Y4, Y4
	VPANDN Y6, Y4, Y6
	VPANDN Y3, Y4, Y3

	// align and add
	VPSLLD $3, Y8, Y8
	VPMAXSD Y3, Y7, Y1
	VPSUBD Y3, Y1, Y3
	VPSUBD Y7, Y1, Y7
	SHIFT(Y3, Y6, Y9, Y10)
	SHIFT(Y7, Y8, Y9, Y10)
	VPXOR Y0, Y6, Y6
	VPSUBD Y0, Y6, Y6
	VPXOR Y2, Y8, Y8
	VPSUBD Y2, Y8, Y8
	VPADDD Y8, Y6, Y6
	VPAND Y2, Y0, Y0 // both negative
	VPSRAD $31, Y6, Y2 // sign of the sum
	VPABSD Y6, Y6

	// normalise
	VPSRLD $1, Y6, Y3
	VPANDN Y6, Y3, Y3
	VCVTDQ2PS Y3, Y3
	VPSRLD $23, Y3, Y3
	VPSLLD $7, Y15, Y4
	VPSUBD Y4, Y3, Y3
	VPSLLD $3, Y15, Y4
	VPSUBD Y4, Y3, Y3
	VPSLLD $4, Y15, Y4
	VPSUBD Y4, Y3, Y3
	VPSUBD Y15, Y3, Y3 // less 153: how far to the right
	VPADDD Y3, Y1, Y1
	VPCMPGTD Y1, Y15, Y4
	VPBROADCASTD fma_gradual, Y5
	VPAND Y5, Y4, Y7
	VPSUBD Y7, Y3, Y3 // one more where Blackhole's exponent is below 1
	VPCMPGTD Y1, Y14, Y8
	VPANDN Y8, Y5, Y8 // none where Wormhole's is below 0
	VPSRLVD Y3, Y6, Y9
	VPSUBD Y3, Y14, Y10
	VPSLLVD Y10, Y6, Y10
	VPOR Y10, Y9, Y9
	VPSLLVD Y3, Y15, Y10
	VPSUBD Y15, Y10, Y10
	VPBROADCASTD fma_lost, Y11
	VPAND Y11, Y10, Y10
	VPAND Y6, Y10, Y10
	VPCMPEQD Y14, Y10, Y10
	VPCMPGTD Y14, Y3, Y11
	VPANDN Y11, Y10, Y10
	VPAND Y15, Y10, Y10
	VPOR Y10, Y9, Y9

	// round to the nearest even
	VPMAXSD Y14, Y1, Y3
	VPSLLD $8, Y15, Y10
	VPMINSD Y10, Y3, Y3
	VPSLLD $23, Y3, Y3
	VPSRLD $3, Y9, Y10
	VPSLLD $9, Y10, Y10
	VPSRLD $9, Y10, Y10
	VPADDD Y10, Y3, Y3
	VPSLLD $29, Y9, Y9
	VPSRLD $29, Y9, Y9
	VPAND Y15, Y3, Y10
	VPADDD Y10, Y9, Y9
	VPSLLD $2, Y15, Y10
	VPCMPGTD Y10, Y9, Y9
	VPSUBD Y9, Y3, Y3

	// zero, underflow, overflow
	VPSRLD $23, Y3, Y9
	VPCMPEQD Y14, Y9, Y9
	VPOR Y8, Y9, Y9
	VPANDN Y3, Y9, Y3
	VPSLLD $8, Y15, Y10
	VPSUBD Y15, Y10, Y10
	VPSLLD $23, Y10, Y11 // infinity
	VPSUBD Y15, Y10, Y10
	VPCMPGTD Y10, Y1, Y10
	VPBLENDVB Y10, Y11, Y3, Y3
	VPANDN Y9, Y10, Y9
	VPBROADCASTD fma_signed, Y10
	VPANDN Y9, Y10, Y9 // zeros that lose their sign
	VPANDN Y2, Y9, Y2
	VPCMPEQD Y14, Y6, Y6
	VPANDN Y3, Y6, Y3
	VPAND Y10, Y0, Y0
	VPBLENDVB Y6, Y0, Y2, Y2
	VPSLLD $31, Y2, Y2
	VPOR Y2, Y3, Y3
	VMOVDQU Y3, (DI)

	ADDQ $32, DI
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, R9
	ADDL $8, CX
	CMPL CX, $32
	JNE lanes
	MOVL R10, special+40(FP)
	VZEROUPPER
	RET
