//go:build !purego

#include "textflag.h"

// Words of a kernel, by which a pass differs from another; see the Go type.
#define kernel_bias         0(BX)
#define kernel_least        4(BX)
#define kernel_exponentMask 8(BX)
#define kernel_mantissaMask 12(BX)
#define kernel_roundAdd     16(BX)
#define kernel_roundMask    20(BX)
#define kernel_drop         24(BX)
#define kernel_limit        32(BX)
#define kernel_quirk        36(BX)
#define kernel_point        40(BX)
#define kernel_152          44(BX)
#define kernel_253          48(BX)

// powers and powerIndex turn a word d of 0 to 15 into 2 to the power of 14-d, or 0 for 15: the bytes of d*0x0101 plus
// powerIndex select bytes of powers, or 0 where bit 7 is set.
DATA powers<>+0(SB)/8, $0x0102040810204080
DATA powers<>+8(SB)/8, $0x0102040810204000
DATA powers<>+16(SB)/8, $0x0102040810204080
DATA powers<>+24(SB)/8, $0x0102040810204000
GLOBL powers<>(SB), RODATA|NOPTR, $32

DATA powerIndex<>+0(SB)/8, $0x79F979F979F979F9
DATA powerIndex<>+8(SB)/8, $0x79F979F979F979F9
DATA powerIndex<>+16(SB)/8, $0x79F979F979F979F9
DATA powerIndex<>+24(SB)/8, $0x79F979F979F979F9
GLOBL powerIndex<>(SB), RODATA|NOPTR, $32

DATA fifteen<>+0(SB)/8, $0x000F000F000F000F
DATA fifteen<>+8(SB)/8, $0x000F000F000F000F
DATA fifteen<>+16(SB)/8, $0x000F000F000F000F
DATA fifteen<>+24(SB)/8, $0x000F000F000F000F
GLOBL fifteen<>(SB), RODATA|NOPTR, $32

// EXPONENT adds the exponents of factors i, and keeps the largest in Y8.
#define EXPONENT(i, Y) \
	VPBROADCASTD (4*(i))(DX), Y    \
	VPADDW       (32*(i))(SI), Y, Y \
	VPMAXSW      Y, Y8, Y8

// PRODUCT adds to Y9 the product of factors i, whose exponents' sum is in Y, aligned to Y8 and rounded.
#define PRODUCT(i, Y) \
	VPSUBW       Y, Y8, Y               \
	VPMINUW      fifteen<>(SB), Y, Y    \
	VPSLLW       $8, Y, Y10             \
	VPOR         Y10, Y, Y              \
	VPADDB       powerIndex<>(SB), Y, Y \
	VPSHUFB      Y, Y15, Y              \
	VPBROADCASTD (4*(i))(R10), Y10        \
	VPMULLW      (32*(i))(R9), Y10, Y10   \
	VPABSW       Y10, Y11               \
	VPMULHRSW    Y, Y11, Y11            \
	VPSIGNW      Y10, Y11, Y11          \
	VPADDW       Y11, Y9, Y9

// GROUP adds eight products, from factor i on: the exponents go to Y8, the sums to Y9.
#define GROUP(i) \
	VPBROADCASTD kernel_least, Y8 \
	EXPONENT(i+0, Y0)             \
	EXPONENT(i+1, Y1)             \
	EXPONENT(i+2, Y2)             \
	EXPONENT(i+3, Y3)             \
	EXPONENT(i+4, Y4)             \
	EXPONENT(i+5, Y5)             \
	EXPONENT(i+6, Y6)             \
	EXPONENT(i+7, Y7)             \
	VPXOR        Y9, Y9, Y9       \
	PRODUCT(i+0, Y0)              \
	PRODUCT(i+1, Y1)              \
	PRODUCT(i+2, Y2)              \
	PRODUCT(i+3, Y3)              \
	PRODUCT(i+4, Y4)              \
	PRODUCT(i+5, Y5)              \
	PRODUCT(i+6, Y6)              \
	PRODUCT(i+7, Y7)              \
	VPBROADCASTD kernel_bias, Y10 \
	VPADDW       Y10, Y8, Y8      \
	VPXOR        Y11, Y11, Y11    \
	VPCMPGTW     Y11, Y8, Y11     \
	VPAND        Y11, Y8, Y8      \
	VPAND        Y11, Y9, Y9

// ALIGN shifts the terms v right by d bits, rounded to nearest, ties up. Y7 is ones.
#define ALIGN(d, v) \
	VPSLLVD d, Y7, Y11  \
	VPSRLD  $1, Y11, Y11 \
	VPADDD  Y11, v, v    \
	VPSRAVD d, v, v

// LOAD loads eight data of Dst from byte at on: bits to Y4, exponents to Y5, mantissas to Y6. Y7 is ones, Y12 31.
#define LOAD(at, narrowIn) \
	VPMOVZXWD    at(DI), Y4               \
	VPBROADCASTD kernel_exponentMask, Y5  \
	VPAND        Y4, Y5, Y5               \
	VPBROADCASTD kernel_mantissaMask, Y6  \
	VPAND        Y4, Y6, Y6               \
	VPSLLD       $8, Y6, Y6               \
	TESTQ        R8, R8                   \
	JZ           narrowIn                 \
	VPMOVZXWD    at(R8), Y7               \
	VPOR         Y7, Y6, Y6               \
narrowIn: \
	VPCMPEQD     Y7, Y7, Y7               \
	VPSRLD       $27, Y7, Y12 \
	VPSRLD       $31, Y7, Y7 \
	VPSLLD       $23, Y7, Y11             \
	VPXOR        Y10, Y10, Y10            \
	VPCMPEQD     Y10, Y5, Y10             \
	VPOR         Y11, Y6, Y6              \
	VPANDN       Y6, Y10, Y6              \
	VPSLLD       $16, Y4, Y4

// NORMALISE rounds the eight sums Y0, of exponents Y10, and stores them to Dst from byte at on. The leading one of a sum is the
// exponent of its conversion to float, which can't round up to the next power of two as the bit below the leading one is
// cleared for it. Exponents are kept less 2, so that results that overflow have no sign bit before they are limited.
#define NORMALISE(at, narrowOut) \
	VPABSD       Y0, Y2                   \
	VPSRLD       $1, Y2, Y3               \
	VPANDN       Y2, Y3, Y3 \
	VCVTDQ2PS    Y3, Y3                   \
	VPSRLD       $23, Y3, Y3 \
	VPADDD       Y3, Y10, Y10             \
	VPCMPEQD     Y11, Y11, Y11            \
	VPCMPEQD     Y0, Y11, Y11             \
	VPBROADCASTD kernel_quirk, Y12        \
	VPAND        Y12, Y11, Y11            \
	VPADDD       Y11, Y10, Y10            \
	VPBROADCASTD kernel_152, Y12          \
	VPSUBD       Y12, Y10, Y10            \
	VPBROADCASTD kernel_253, Y12          \
	VPMINSD      Y12, Y10, Y10 \
	VPBROADCASTD kernel_point, Y12        \
	VPSUBD       Y12, Y3, Y3              \
	VPSLLVD      Y3, Y7, Y11              \
	VPSRLD       $1, Y11, Y11             \
	VPADDD       Y2, Y11, Y11             \
	VPSRLVD      Y3, Y11, Y11 \
	VPXOR        Y1, Y1, Y1               \
	VPSUBD       Y3, Y1, Y3               \
	VPSLLVD      Y3, Y2, Y2 \
	VPOR         Y11, Y2, Y2              \
	VMOVQ        kernel_drop, X11         \
	VPSLLD       X11, Y2, Y2              \
	VPSLLD       $23, Y10, Y10            \
	VPADDD       Y2, Y10, Y10             \
	VPSRAD       $31, Y10, Y11            \
	VPBROADCASTD kernel_limit, Y12        \
	VPMINSD      Y12, Y10, Y10            \
	VPSLLD       $23, Y7, Y12             \
	VPADDD       Y12, Y10, Y10            \
	VPCMPEQD     Y0, Y1, Y1               \
	VPOR         Y1, Y11, Y11 \
	VPSRLD       $31, Y0, Y0              \
	VPSLLD       $31, Y0, Y2              \
	VPOR         Y2, Y10, Y10             \
	VPANDN       Y10, Y11, Y10            \
	TESTQ        R8, R8                   \
	JZ           narrowOut                \
	VPSLLD       $16, Y10, Y2             \
	VPSRLD       $16, Y2, Y2              \
	VEXTRACTI128 $1, Y2, X3               \
	VPACKUSDW    X3, X2, X2               \
	VMOVDQU      X2, at(R8)               \
narrowOut: \
	VPSRLD       $31, Y10, Y0             \
	VPSLLD       $15, Y0, Y0              \
	VPSRLD       $8, Y10, Y1              \
	VPBROADCASTD kernel_mantissaMask, Y2  \
	VPAND        Y2, Y1, Y1               \
	VPSRLD       $23, Y10, Y10            \
	VPBROADCASTD kernel_exponentMask, Y2  \
	VPAND        Y2, Y10, Y10             \
	VPOR         Y1, Y0, Y0               \
	VPOR         Y10, Y0, Y0              \
	VEXTRACTI128 $1, Y0, X1               \
	VPACKUSDW    X1, X0, X0               \
	VMOVDQU      X0, at(DI)

// ACCUMULATE adds to the eight data of Dst from byte at on the terms Y0 with exponents Y1 and Y2 with exponents Y3, as
// Math.accumulate does. Terms are signed: to align one, half of what is shifted out is added.
#define ACCUMULATE(at, narrowIn, narrowOut) \
	VPSLLD       $13, Y0, Y0              \
	VPSLLD       $13, Y2, Y2              \
	LOAD(at, narrowIn)                    \
	VPMAXSD      Y3, Y1, Y10              \
	VPMAXSD      Y5, Y10, Y10             \
	VPSUBD       Y1, Y10, Y1              \
	VPSUBD       Y3, Y10, Y3              \
	VPSUBD       Y5, Y10, Y5              \
	VPMINSD      Y12, Y1, Y1              \
	VPMINSD      Y12, Y3, Y3              \
	VPMINSD      Y12, Y5, Y5              \
	ALIGN(Y1, Y0)                         \
	ALIGN(Y3, Y2)                         \
	ALIGN(Y5, Y6)                         \
	VPBROADCASTD kernel_roundAdd, Y11     \
	VPBROADCASTD kernel_roundMask, Y12    \
	VPADDD       Y11, Y0, Y0              \
	VPADDD       Y11, Y2, Y2              \
	VPADDD       Y11, Y6, Y6              \
	VPAND        Y12, Y0, Y0              \
	VPAND        Y12, Y2, Y2              \
	VPAND        Y12, Y6, Y6              \
	VPSIGND      Y4, Y6, Y6               \
	VPADDD       Y2, Y0, Y0               \
	VPADDD       Y6, Y0, Y0 \
	NORMALISE(at, narrowOut)

// ACCUMULATE1 is ACCUMULATE without the second term. Exponents are not negative.
#define ACCUMULATE1(at, narrowIn, narrowOut) \
	VPSLLD       $13, Y0, Y0              \
	LOAD(at, narrowIn)                    \
	VPMAXSD      Y5, Y1, Y10              \
	VPSUBD       Y1, Y10, Y1              \
	VPSUBD       Y5, Y10, Y5              \
	VPMINSD      Y12, Y1, Y1              \
	VPMINSD      Y12, Y5, Y5              \
	ALIGN(Y1, Y0)                         \
	ALIGN(Y5, Y6)                         \
	VPBROADCASTD kernel_roundAdd, Y11     \
	VPBROADCASTD kernel_roundMask, Y12    \
	VPADDD       Y11, Y0, Y0              \
	VPADDD       Y11, Y6, Y6              \
	VPAND        Y12, Y0, Y0              \
	VPAND        Y12, Y6, Y6              \
	VPSIGND      Y4, Y6, Y6               \
	VPADDD       Y6, Y0, Y0               \
	NORMALISE(at, narrowOut)

// SET is ACCUMULATE1 for a Dst of zeros, without loading it.
#define SET(at, narrowOut) \
	VPSLLD       $13, Y0, Y0              \
	VPCMPEQD     Y7, Y7, Y7               \
	VPSRLD       $31, Y7, Y7              \
	VMOVDQA      Y1, Y10                  \
	VPBROADCASTD kernel_roundAdd, Y11     \
	VPBROADCASTD kernel_roundMask, Y12    \
	VPADDD       Y11, Y0, Y0              \
	VPAND        Y12, Y0, Y0              \
	NORMALISE(at, narrowOut)

// func mulRowsAVX2(hi, lo *DstRow, ae, af *[16][16]int16, be, bf *[16]twice, n int, k *kernel)
TEXT ·mulRowsAVX2(SB), NOSPLIT, $0-64
	MOVQ hi+0(FP), DI
	MOVQ lo+8(FP), R8
	MOVQ ae+16(FP), SI
	MOVQ af+24(FP), R9
	MOVQ be+32(FP), DX
	MOVQ bf+40(FP), R10
	MOVQ n+48(FP), CX
	MOVQ k+56(FP), BX
	VMOVDQU powers<>(SB), Y15

row:
	GROUP(0)
	VMOVDQA Y9, Y13
	VMOVDQA Y8, Y14
	GROUP(8)

	VPMOVSXWD X13, Y0
	VPMOVSXWD X14, Y1
	VPMOVSXWD X9, Y2
	VPMOVSXWD X8, Y3
	ACCUMULATE(0, in0, out0)
	VEXTRACTI128 $1, Y13, X0
	VEXTRACTI128 $1, Y14, X1
	VEXTRACTI128 $1, Y9, X2
	VEXTRACTI128 $1, Y8, X3
	VPMOVSXWD X0, Y0
	VPMOVSXWD X1, Y1
	VPMOVSXWD X2, Y2
	VPMOVSXWD X3, Y3
	ACCUMULATE(16, in1, out1)

	ADDQ $32, DI
	TESTQ R8, R8
	JZ next
	ADDQ $32, R8

next:
	ADDQ $192, DX
	ADDQ $192, R10
	DECQ CX
	JNZ row
	VZEROUPPER
	RET

// Words of an elementwise pass, after those of its kernel.
#define pair_maskA     56(BX)
#define pair_maskB     60(BX)
#define pair_flip      64(BX)
#define pair_keep      68(BX)
#define pair_zero      72(BX)
#define pair_bias      76(BX)
#define pair_shiftA    80(BX)
#define pair_shiftB    88(BX)
#define pair_bitsA     96(BX)
#define pair_bitsB     100(BX)
#define pair_leadA     104(BX)
#define pair_leadB     108(BX)
#define pair_rebias    112(BX)

// OPERANDS loads eight data of SrcA and SrcB to Y0 and Y1. It sets the lanes of Y2 and Y3 in which they are zero.
#define OPERANDS(at) \
	VPBROADCASTD pair_maskA, Y0 \
	VPAND        at(SI), Y0, Y0 \
	VPBROADCASTD pair_maskB, Y1 \
	VPAND        at(DX), Y1, Y1 \
	VPXOR        Y12, Y12, Y12  \
	VPSLLD       $1, Y0, Y2     \
	VPSRLD       $24, Y2, Y2    \
	VPCMPEQD     Y12, Y2, Y2    \
	VPSLLD       $1, Y1, Y3     \
	VPSRLD       $24, Y3, Y3    \
	VPCMPEQD     Y12, Y3, Y3    \
	VPBROADCASTD pair_keep, Y4  \
	VPANDN       Y3, Y4, Y3

// MULTIPLY leaves the products of eight data as terms in Y0 and their exponents in Y1, as Math.multiply does.
#define MULTIPLY(at) \
	OPERANDS(at)                 \
	VPOR         Y2, Y3, Y2      \
	VPXOR        Y0, Y1, Y3      \
	VPSRAD       $31, Y3, Y3     \
	VPSLLD       $1, Y0, Y4      \
	VPSRLD       $24, Y4, Y4     \
	VPSLLD       $1, Y1, Y5      \
	VPSRLD       $24, Y5, Y5     \
	VPADDD       Y4, Y5, Y4      \
	VPBROADCASTD pair_bias, Y5   \
	VPADDD       Y5, Y4, Y4      \
	VPCMPGTD     Y12, Y4, Y5     \
	VPANDN       Y5, Y2, Y2      \
	VMOVQ        pair_shiftA, X6 \
	VPSRLD       X6, Y0, Y0      \
	VPBROADCASTD pair_bitsA, Y6  \
	VPAND        Y6, Y0, Y0      \
	VPBROADCASTD pair_leadA, Y6  \
	VPOR         Y6, Y0, Y0      \
	VMOVQ        pair_shiftB, X6 \
	VPSRLD       X6, Y1, Y1      \
	VPBROADCASTD pair_bitsB, Y6  \
	VPAND        Y6, Y1, Y1      \
	VPBROADCASTD pair_leadB, Y6  \
	VPOR         Y6, Y1, Y1      \
	VPMADDWD     Y1, Y0, Y0      \
	VPXOR        Y3, Y0, Y0      \
	VPSUBD       Y3, Y0, Y0      \
	VPAND        Y2, Y0, Y0      \
	VPBROADCASTD pair_zero, Y1   \
	VPBLENDVB    Y2, Y4, Y1, Y1

// ADD leaves the sums of eight data as terms in Y0 and their exponents in Y1, as Math.sum does.
#define ADD(at) \
	OPERANDS(at)                  \
	VPBROADCASTD pair_flip, Y4    \
	VPXOR        Y4, Y1, Y1       \
	VPANDN       Y0, Y2, Y0       \
	VPANDN       Y1, Y3, Y1       \
	VPSLLD       $1, Y0, Y2       \
	VPSLLD       $1, Y1, Y3       \
	VPSRLD       $1, Y2, Y2       \
	VPSRLD       $1, Y3, Y3       \
	VPCMPGTD     Y2, Y3, Y2       \
	VPBLENDVB    Y2, Y1, Y0, Y3   \
	VPBLENDVB    Y2, Y0, Y1, Y1   \
	VPXOR        Y3, Y1, Y2       \
	VPSRAD       $31, Y2, Y2      \
	VPSLLD       $1, Y3, Y4       \
	VPSRLD       $24, Y4, Y4      \
	VPSLLD       $1, Y1, Y5       \
	VPSRLD       $24, Y5, Y5      \
	VPSUBD       Y5, Y4, Y5       \
	VPCMPEQD     Y7, Y7, Y7       \
	VPSRLD       $31, Y7, Y7      \
	VPSLLD       $10, Y7, Y8      \
	VPSUBD       Y7, Y8, Y9       \
	VPCMPEQD     Y12, Y3, Y10     \
	VPCMPEQD     Y12, Y1, Y11     \
	VPSRLD       $13, Y3, Y0      \
	VPAND        Y9, Y0, Y0       \
	VPOR         Y8, Y0, Y0       \
	VPANDN       Y0, Y10, Y0      \
	VPSRLD       $13, Y1, Y1      \
	VPAND        Y9, Y1, Y1       \
	VPOR         Y8, Y1, Y1       \
	VPANDN       Y1, Y11, Y1      \
	VPSLLVD      Y5, Y7, Y6       \
	VPSRLD       $1, Y6, Y6       \
	VPADDD       Y6, Y1, Y1       \
	VPSRLVD      Y5, Y1, Y1       \
	VPXOR        Y2, Y1, Y1       \
	VPSUBD       Y2, Y1, Y1       \
	VPADDD       Y1, Y0, Y0       \
	VPSRAD       $31, Y3, Y3      \
	VPXOR        Y3, Y0, Y0       \
	VPSUBD       Y3, Y0, Y0       \
	VPCMPEQD     Y12, Y4, Y2      \
	VPBROADCASTD pair_rebias, Y3  \
	VPADDD       Y3, Y4, Y1       \
	VPBROADCASTD pair_zero, Y3    \
	VPBLENDVB    Y2, Y3, Y1, Y1

// func elwMulAVX2(hi, lo *DstRow, a, b *Row, n int, k *pairKernel)
TEXT ·elwMulAVX2(SB), NOSPLIT, $0-48
	MOVQ hi+0(FP), DI
	MOVQ lo+8(FP), R8
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), DX
	MOVQ n+32(FP), CX
	MOVQ k+40(FP), BX

row:
	MULTIPLY(0)
	ACCUMULATE1(0, in0, out0)
	MULTIPLY(32)
	ACCUMULATE1(16, in1, out1)
	ADDQ $32, DI
	ADDQ $64, SI
	ADDQ $64, DX
	TESTQ R8, R8
	JZ next
	ADDQ $32, R8

next:
	DECQ CX
	JNZ row
	VZEROUPPER
	RET

// func elwAddAVX2(hi, lo *DstRow, a, b *Row, n int, k *pairKernel)
TEXT ·elwAddAVX2(SB), NOSPLIT, $0-48
	MOVQ hi+0(FP), DI
	MOVQ lo+8(FP), R8
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), DX
	MOVQ n+32(FP), CX
	MOVQ k+40(FP), BX

row:
	ADD(0)
	ACCUMULATE1(0, in0, out0)
	ADD(32)
	ACCUMULATE1(16, in1, out1)
	ADDQ $32, DI
	ADDQ $64, SI
	ADDQ $64, DX
	TESTQ R8, R8
	JZ next
	ADDQ $32, R8

next:
	DECQ CX
	JNZ row
	VZEROUPPER
	RET

// func elwSumAVX2(hi, lo *DstRow, a, b *Row, n int, k *pairKernel)
TEXT ·elwSumAVX2(SB), NOSPLIT, $0-48
	MOVQ hi+0(FP), DI
	MOVQ lo+8(FP), R8
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), DX
	MOVQ n+32(FP), CX
	MOVQ k+40(FP), BX

row:
	ADD(0)
	SET(0, out0)
	ADD(32)
	SET(16, out1)
	ADDQ $32, DI
	ADDQ $64, SI
	ADDQ $64, DX
	TESTQ R8, R8
	JZ next
	ADDQ $32, R8

next:
	DECQ CX
	JNZ row
	VZEROUPPER
	RET

// PAIR adds the products of factors i and i+1 to Y0, for columns 0 to 3 and 8 to 11, and to Y1 for the others.
#define PAIR(i) \
	VPBROADCASTD (4*(i))(DX), Y2      \
	VPBROADCASTD (4*(i)+4)(DX), Y3    \
	VPBLENDW     $0xAA, Y3, Y2, Y2    \
	VMOVDQU      (32*(i))(SI), Y3     \
	VMOVDQU      (32*(i)+32)(SI), Y4  \
	VPUNPCKLWD   Y4, Y3, Y5           \
	VPUNPCKHWD   Y4, Y3, Y6           \
	VPMADDWD     Y2, Y5, Y5           \
	VPMADDWD     Y2, Y6, Y6           \
	VPADDD       Y5, Y0, Y0           \
	VPADDD       Y6, Y1, Y1

// func sumInt8AVX2(sums *[16]int32, a *[16][16]int16, b *[16]twice)
TEXT ·sumInt8AVX2(SB), NOSPLIT, $0-24
	MOVQ sums+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	PAIR(0)
	PAIR(2)
	PAIR(4)
	PAIR(6)
	PAIR(8)
	PAIR(10)
	PAIR(12)
	PAIR(14)
	VPERM2I128 $0x20, Y1, Y0, Y2
	VPERM2I128 $0x31, Y1, Y0, Y3
	VMOVDQU Y2, (DI)
	VMOVDQU Y3, 32(DI)
	VZEROUPPER
	RET
