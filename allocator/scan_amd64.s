#include "textflag.h"

// FITS sets AX to the bits of the 16 numbers at M that are at least those in Y15.
#define FITS(M, T) \
	VMOVDQU  (M), Y0; \
	VMOVDQU  32(M), Y1; \
	VPMAXUD  Y15, Y0, Y2; \
	VPMAXUD  Y15, Y1, Y3; \
	VPCMPEQD Y2, Y0, Y2; \
	VPCMPEQD Y3, Y1, Y3; \
	VMOVMSKPS Y2, AX; \
	VMOVMSKPS Y3, T; \
	SHLL     $8, T; \
	ORL      T, AX

// HMAX sets the lowest of Y0 to the largest number of A and B.
#define HMAX(A, B, Y, X, T) \
	VPMAXUD      A, B, Y; \
	VEXTRACTI128 $1, Y, T; \
	VPMAXUD      X, T, X; \
	VPSHUFD      $0x4e, X, T; \
	VPMAXUD      X, T, X; \
	VPSHUFD      $0xb1, X, T; \
	VPMAXUD      X, T, X

DATA lanes<>+0(SB)/8, $0x0000000100000000
DATA lanes<>+8(SB)/8, $0x0000000300000002
DATA lanes<>+16(SB)/8, $0x0000000500000004
DATA lanes<>+24(SB)/8, $0x0000000700000006
DATA lanes<>+32(SB)/8, $0x0000000900000008
DATA lanes<>+40(SB)/8, $0x0000000b0000000a
DATA lanes<>+48(SB)/8, $0x0000000d0000000c
DATA lanes<>+56(SB)/8, $0x0000000f0000000e
GLOBL lanes<>(SB), RODATA|NOPTR, $64

// func settleWide(m *uint32, e, size uint32)
TEXT ·settleWide(SB), NOSPLIT, $0-16
	MOVQ    m+0(FP), SI
	MOVL    e+8(FP), BX
	MOVL    size+12(FP), AX
	VMOVDQU lanes<>+0(SB), Y6
	VMOVDQU lanes<>+32(SB), Y7

level:
	CMPL (SI)(BX*4), AX
	JEQ  settled
	CMPL BX, $16
	JCS  last

	// The others of its group are read before it is written: what has just been written can't be read as part of more.
	MOVL         BX, DX
	ANDL         $15, DX
	VMOVD        DX, X5
	VPBROADCASTD X5, Y5
	MOVL         BX, DX
	ANDL         $-16, DX
	VPCMPEQD     Y5, Y6, Y2
	VPCMPEQD     Y5, Y7, Y3
	VPANDN       (SI)(DX*4), Y2, Y2
	VPANDN       32(SI)(DX*4), Y3, Y3
	MOVL         AX, (SI)(BX*4)
	HMAX(Y2, Y3, Y0, X0, X1)
	VMOVD        X0, CX
	CMPL         AX, CX
	CMOVLCS      CX, AX
	SHRL         $4, BX
	DECL         BX
	JMP          level

last:
	MOVL AX, (SI)(BX*4)

settled:
	VZEROUPPER
	RET

// func descendWide(m *uint32, levels int, size uint32) uint32
TEXT ·descendWide(SB), NOSPLIT, $0-28
	MOVQ         m+0(FP), SI
	MOVQ         levels+8(FP), CX
	MOVL size+16(FP), DX
	VMOVD DX, X15
	VPBROADCASTD X15, Y15
	MOVQ         SI, DI
	XORL         BX, BX

down:
	FITS(DI, DX)
	BSFL AX, AX
	JZ   none
	ADDL AX, BX           // the element
	DECQ CX
	JZ   done
	INCL BX
	SHLL $4, BX           // the group below it
	LEAQ (SI)(BX*4), DI
	JMP  down

none:
	MOVL $-1, BX

done:
	MOVL BX, ret+24(FP)
	VZEROUPPER
	RET

// func descendTopWide(m *uint32, levels int, size uint32) uint32
TEXT ·descendTopWide(SB), NOSPLIT, $0-28
	MOVQ         m+0(FP), SI
	MOVQ         levels+8(FP), CX
	MOVL size+16(FP), DX
	VMOVD DX, X15
	VPBROADCASTD X15, Y15
	MOVQ         SI, DI
	XORL         BX, BX

down:
	FITS(DI, DX)
	BSRL AX, AX
	JZ   none
	ADDL AX, BX
	DECQ CX
	JZ   done
	INCL BX
	SHLL $4, BX
	LEAQ (SI)(BX*4), DI
	JMP  down

none:
	MOVL $-1, BX

done:
	MOVL BX, ret+24(FP)
	VZEROUPPER
	RET

// func lowestWide(l *leaf, size uint32) (i int, rest uint32)
TEXT ·lowestWide(SB), NOSPLIT, $0-28
	MOVQ         l+0(FP), SI
	MOVL size+8(FP), DX
	VMOVD DX, X15
	VPBROADCASTD X15, Y15
	VMOVDQU      64(SI), Y0
	VMOVDQU      96(SI), Y1
	VPMAXUD      Y15, Y0, Y2
	VPMAXUD      Y15, Y1, Y3
	VPCMPEQD     Y2, Y0, Y2
	VPCMPEQD     Y3, Y1, Y3
	VPCMPEQD     Y4, Y4, Y4
	VPXOR        Y4, Y2, Y8
	VPXOR        Y4, Y3, Y9
	VPOR         (SI), Y8, Y2       // the end, or all ones if it is too small
	VPOR         32(SI), Y9, Y3
	VPMINUD      Y2, Y3, Y0
	VEXTRACTI128 $1, Y0, X1
	VPMINUD      X0, X1, X0
	VPSHUFD      $0x4e, X0, X1
	VPMINUD      X0, X1, X0
	VPSHUFD      $0xb1, X0, X1
	VPMINUD      X0, X1, X0
	VPBROADCASTD X0, Y0
	VPCMPEQD     Y0, Y2, Y2
	VPCMPEQD     Y0, Y3, Y3
	VPANDN       Y2, Y8, Y2         // a hole may end at all ones
	VPANDN       Y3, Y9, Y3
	VMOVMSKPS    Y2, AX
	VMOVMSKPS    Y3, DX
	SHLL         $8, DX
	ORL          DX, AX
	BSFL         AX, AX
	MOVQ         AX, i+16(FP)
	VPANDN       64(SI), Y2, Y2     // the sizes of the others
	VPANDN       96(SI), Y3, Y3
	HMAX(Y2, Y3, Y0, X0, X1)
	VMOVD        X0, AX
	MOVL         AX, rest+24(FP)
	VZEROUPPER
	RET

// func highestWide(l *leaf, size uint32) (i int, rest uint32)
TEXT ·highestWide(SB), NOSPLIT, $0-28
	MOVQ         l+0(FP), SI
	MOVL size+8(FP), DX
	VMOVD DX, X15
	VPBROADCASTD X15, Y15
	VMOVDQU      64(SI), Y0
	VMOVDQU      96(SI), Y1
	VPMAXUD      Y15, Y0, Y2
	VPMAXUD      Y15, Y1, Y3
	VPCMPEQD     Y2, Y0, Y2
	VPCMPEQD     Y3, Y1, Y3
	VPAND        (SI), Y2, Y2       // the end, or 0 if it is too small
	VPAND        32(SI), Y3, Y3
	VPMAXUD      Y2, Y3, Y0
	VEXTRACTI128 $1, Y0, X1
	VPMAXUD      X0, X1, X0
	VPSHUFD      $0x4e, X0, X1
	VPMAXUD      X0, X1, X0
	VPSHUFD      $0xb1, X0, X1
	VPMAXUD      X0, X1, X0
	VPBROADCASTD X0, Y0
	VPCMPEQD     Y0, Y2, Y2
	VPCMPEQD     Y0, Y3, Y3
	VMOVMSKPS    Y2, AX
	VMOVMSKPS    Y3, DX
	SHLL         $8, DX
	ORL          DX, AX
	BSFL         AX, AX
	MOVQ         AX, i+16(FP)
	VPANDN       64(SI), Y2, Y2     // the sizes of the others
	VPANDN       96(SI), Y3, Y3
	HMAX(Y2, Y3, Y0, X0, X1)
	VMOVD        X0, AX
	MOVL         AX, rest+24(FP)
	VZEROUPPER
	RET

// func aroundWide(l *leaf, start, end uint32) uint64
TEXT ·aroundWide(SB), NOSPLIT, $0-24
	MOVQ         l+0(FP), SI
	MOVL start+8(FP), DX
	VMOVD DX, X14
	VPBROADCASTD X14, Y14
	MOVL end+12(FP), DX
	VMOVD DX, X15
	VPBROADCASTD X15, Y15
	VMOVDQU      (SI), Y0
	VMOVDQU      32(SI), Y1
	VPSUBD       64(SI), Y0, Y2     // starts
	VPSUBD       96(SI), Y1, Y3
	VPCMPEQD     Y15, Y2, Y2
	VPCMPEQD     Y15, Y3, Y3
	VMOVMSKPS    Y2, AX
	VMOVMSKPS    Y3, DX
	SHLQ         $8, DX
	ORQ          DX, AX
	VPCMPEQD     Y14, Y0, Y4
	VPCMPEQD     Y14, Y1, Y5
	VMOVMSKPS    Y4, BX
	VMOVMSKPS    Y5, DX
	SHLQ         $16, BX
	SHLQ         $24, DX
	ORQ          BX, AX
	ORQ          DX, AX
	VPXOR        Y8, Y8, Y8
	VPCMPEQD     Y8, Y0, Y6
	VPCMPEQD     Y8, Y1, Y7
	VMOVMSKPS    Y6, CX
	VMOVMSKPS    Y7, DX
	SHLQ         $32, CX
	SHLQ         $40, DX
	ORQ          CX, AX
	ORQ          DX, AX
	VPMAXUD      Y15, Y0, Y2
	VPMAXUD      Y15, Y1, Y3
	VPCMPEQD     Y2, Y0, Y2
	VPCMPEQD     Y3, Y1, Y3
	VMOVMSKPS    Y2, BX
	VMOVMSKPS    Y3, DX
	SHLQ         $48, BX
	SHLQ         $56, DX
	ORQ          BX, AX
	ORQ          DX, AX
	MOVQ         AX, ret+16(FP)
	VZEROUPPER
	RET
