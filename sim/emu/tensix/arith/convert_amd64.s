//go:build !purego

#include "textflag.h"

// Words of a factorKernel; see the Go type.
#define factor_mask       0(BX)
#define factor_upperShift 8(BX)
#define factor_lowerShift 16(BX)
#define factor_upperBits  24(BX)
#define factor_lowerBits  28(BX)
#define factor_lead       32(BX)
#define factor_zero       36(BX)

// FACTORS decodes eight data of SrcA or SrcB: exponents to Y1, signed factors of upper and lower mantissa bits to Y2 and Y3.
#define FACTORS(at) \
	VPBROADCASTD factor_mask, Y0      \
	VPAND        at(SI), Y0, Y0       \
	VPSLLD       $1, Y0, Y1           \
	VPSRLD       $24, Y1, Y1          \
	VPXOR        Y4, Y4, Y4           \
	VPCMPEQD     Y4, Y1, Y4           \
	VPSRAD       $31, Y0, Y5          \
	VMOVQ        factor_upperShift, X6 \
	VPSRLD       X6, Y0, Y2           \
	VPBROADCASTD factor_upperBits, Y6 \
	VPAND        Y6, Y2, Y2           \
	VPBROADCASTD factor_lead, Y6      \
	VPOR         Y6, Y2, Y2           \
	VMOVQ        factor_lowerShift, X6 \
	VPSRLD       X6, Y0, Y3           \
	VPBROADCASTD factor_lowerBits, Y6 \
	VPAND        Y6, Y3, Y3           \
	VPXOR        Y5, Y2, Y2           \
	VPSUBD       Y5, Y2, Y2           \
	VPXOR        Y5, Y3, Y3           \
	VPSUBD       Y5, Y3, Y3           \
	VPANDN       Y2, Y4, Y2           \
	VPANDN       Y3, Y4, Y3           \
	VPBROADCASTD factor_zero, Y6      \
	VPBLENDVB    Y4, Y6, Y1, Y1

// PACK stores 16 numbers of 16 bits from two registers of 32 bits each.
#define PACK(low, high, to) \
	VPACKSSDW high, low, high  \
	VPERMQ    $0xD8, high, high \
	VMOVDQU   high, to

// TWICE stores eight numbers in both halves of 32 bits.
#define TWICE(Y, to) \
	VPSLLD   $16, Y, Y0         \
	VPBLENDW $0xAA, Y0, Y, Y    \
	VMOVDQU  Y, to

// func decodeAAVX2(a *MatrixA, rows *[16]Row, k *factorKernel)
TEXT ·decodeAAVX2(SB), NOSPLIT, $0-24
	MOVQ a+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ k+16(FP), BX
	MOVQ $16, CX

row:
	FACTORS(0)
	VMOVDQA Y1, Y7
	VMOVDQA Y2, Y8
	VMOVDQA Y3, Y9
	FACTORS(32)
	PACK(Y7, Y1, 0(DI))
	PACK(Y8, Y2, 512(DI))
	PACK(Y9, Y3, 1024(DI))
	ADDQ $64, SI
	ADDQ $32, DI
	DECQ CX
	JNZ row
	VZEROUPPER
	RET

// func decodeBAVX2(b *RowB, rows *Row, n int, k *factorKernel)
TEXT ·decodeBAVX2(SB), NOSPLIT, $0-32
	MOVQ b+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), BX

row:
	FACTORS(0)
	TWICE(Y1, 0(DI))
	TWICE(Y2, 64(DI))
	TWICE(Y3, 128(DI))
	FACTORS(32)
	TWICE(Y1, 32(DI))
	TWICE(Y2, 96(DI))
	TWICE(Y3, 160(DI))
	ADDQ $64, SI
	ADDQ $192, DI
	DECQ CX
	JNZ row
	VZEROUPPER
	RET

// func widenBF16AVX2(dst *uint32, l1 *byte, blocks int)
TEXT ·widenBF16AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ l1+8(FP), SI
	MOVQ blocks+16(FP), CX

block:
	VPMOVZXWD (SI), Y0
	VPSLLD $16, Y0, Y0
	VMOVDQU Y0, (DI)
	ADDQ $16, SI
	ADDQ $32, DI
	DECQ CX
	JNZ block
	VZEROUPPER
	RET

// READ rounds eight data of Dst to bf16, without NaNs and denormals. Y15 is 0x7F800000, Y14 is 0x8000.
#define READ(at, narrow) \
	VPMOVZXWD at(DI), Y0     \
	VPSRLD    $15, Y0, Y1    \
	VPSLLD    $15, Y1, Y1    \
	VPSLLD    $24, Y0, Y2    \
	VPSRLD    $1, Y2, Y2     \
	VPSLLD    $17, Y0, Y0    \
	VPSRLD    $25, Y0, Y0    \
	VPSLLD    $16, Y0, Y0    \
	VPOR      Y2, Y0, Y0     \
	TESTQ     R8, R8         \
	JZ        narrow         \
	VPMOVZXWD at(R8), Y3     \
	VPOR      Y3, Y0, Y0     \
narrow: \
	VPMINUD   Y15, Y0, Y0    \
	VPADDD    Y14, Y0, Y0    \
	VPSRLD    $16, Y0, Y0    \
	VPSRLD    $7, Y0, Y2     \
	VPXOR     Y3, Y3, Y3     \
	VPCMPEQD  Y3, Y2, Y2     \
	VPOR      Y1, Y0, Y0     \
	VPANDN    Y0, Y2, Y0     \
	VMOVDQU   Y0, (2*(at))(SI)

// func readBF16AVX2(values *Row, hi, lo *DstRow)
TEXT ·readBF16AVX2(SB), NOSPLIT, $0-24
	MOVQ values+0(FP), SI
	MOVQ hi+8(FP), DI
	MOVQ lo+16(FP), R8
	VPCMPEQD Y15, Y15, Y15
	VPSRLD $31, Y15, Y14
	VPSLLD $15, Y14, Y14
	VPSRLD $24, Y15, Y15
	VPSLLD $23, Y15, Y15
	READ(0, narrow0)
	READ(16, narrow1)
	VZEROUPPER
	RET

// func store16AVX2(l1 *byte, values *uint32, blocks int)
TEXT ·store16AVX2(SB), NOSPLIT, $0-24
	MOVQ l1+0(FP), DI
	MOVQ values+8(FP), SI
	MOVQ blocks+16(FP), CX
	VPCMPEQD Y1, Y1, Y1
	VPSRLD $16, Y1, Y1

block:
	VPAND (SI), Y1, Y0
	VEXTRACTI128 $1, Y0, X2
	VPACKUSDW X2, X0, X0
	VMOVDQU X0, (DI)
	ADDQ $32, SI
	ADDQ $16, DI
	DECQ CX
	JNZ block
	VZEROUPPER
	RET
