#include "go_asm.h"
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
	VZEROUPPER
	RET

// HMAX8 sets the lowest of X to the largest number of Y, which X is the low half of.
#define HMAX8(Y, X, T) \
	VEXTRACTI128 $1, Y, T; \
	VPMAXUD      X, T, X; \
	VPSHUFD      $0x4e, X, T; \
	VPMAXUD      X, T, X; \
	VPSHUFD      $0xb1, X, T; \
	VPMAXUD      X, T, X

// func lowestWide(h *holes, size uint32) (e uint32, at int, rest uint32)
TEXT ·lowestWide(SB), NOSPLIT, $0-36
	MOVQ         h+0(FP), DI
	LEAQ         size+8(FP), DX
	VPBROADCASTD (DX), Y15
	MOVQ         holes_max(DI), SI
	MOVQ         holes_levels(DI), CX
	XORL         BX, BX
	TESTQ        CX, CX
	JZ           leaf
	MOVQ         SI, R8

down:
	FITS(R8, DX)
	BSFL         AX, AX
	JZ           missing
	ADDL         AX, BX             // the element
	DECQ         CX
	JZ           leaf
	INCL         BX
	SHLL         $4, BX             // the group below it
	LEAQ         (SI)(BX*4), R8
	JMP          down

leaf:
	MOVL         BX, e+16(FP)
	SUBL         holes_first(DI), BX
	SHLQ         $6, BX
	ADDQ         holes_leaves(DI), BX
	VMOVDQU      32(BX), Y1
	VPMAXUD      Y15, Y1, Y2
	VPCMPEQD     Y2, Y1, Y2         // all ones if it fits
	VPCMPEQD     Y4, Y4, Y4
	VPXOR        Y4, Y2, Y3
	VPOR         (BX), Y3, Y5       // the end, or all ones if it is too small
	VEXTRACTI128 $1, Y5, X6
	VPMINUD      X5, X6, X0
	VPSHUFD      $0x4e, X0, X6
	VPMINUD      X0, X6, X0
	VPSHUFD      $0xb1, X0, X6
	VPMINUD      X0, X6, X0
	VMOVD        X0, R9             // 0 if the leaf has overflown
	VPBROADCASTD X0, Y0
	VPCMPEQD     Y0, Y5, Y5
	VPAND        Y5, Y2, Y5         // a hole may end at all ones
	VMOVMSKPS    Y5, AX
	BSFL         AX, AX
	JZ           missing
	VPANDN       Y1, Y5, Y0         // the sizes of the others
	HMAX8(Y0, X0, X1)
	VMOVD        X0, DX
	MOVL         DX, rest+32(FP)
	CMPL         R9, $0
	JEQ          escaped
	MOVQ         AX, at+24(FP)
	VZEROUPPER
	RET

missing:
	MOVQ         $const_missing, at+24(FP)
	VZEROUPPER
	RET

escaped:
	MOVQ         $const_escaped, at+24(FP)
	VZEROUPPER
	RET

// func highestWide(h *holes, size uint32) (e uint32, at int, rest uint32)
TEXT ·highestWide(SB), NOSPLIT, $0-36
	MOVQ         h+0(FP), DI
	LEAQ         size+8(FP), DX
	VPBROADCASTD (DX), Y15
	MOVQ         holes_max(DI), SI
	MOVQ         holes_levels(DI), CX
	XORL         BX, BX
	TESTQ        CX, CX
	JZ           leaf
	MOVQ         SI, R8

down:
	FITS(R8, DX)
	BSRL         AX, AX
	JZ           missing
	ADDL         AX, BX             // the element
	DECQ         CX
	JZ           leaf
	INCL         BX
	SHLL         $4, BX             // the group below it
	LEAQ         (SI)(BX*4), R8
	JMP          down

leaf:
	MOVL         BX, e+16(FP)
	SUBL         holes_first(DI), BX
	SHLQ         $6, BX
	ADDQ         holes_leaves(DI), BX
	VMOVDQU      32(BX), Y1
	VPMAXUD      Y15, Y1, Y2
	VPCMPEQD     Y2, Y1, Y2         // all ones if it fits
	VPAND        (BX), Y2, Y5       // the end, or 0 if it is too small
	VMOVDQA      Y5, Y0
	HMAX8(Y0, X0, X6)
	VMOVD        X0, R9             // 0 if the leaf has overflown
	VPBROADCASTD X0, Y0
	VPCMPEQD     Y0, Y5, Y5
	VPAND        Y5, Y2, Y5
	VMOVMSKPS    Y5, AX
	BSFL         AX, AX
	JZ           missing
	VPANDN       Y1, Y5, Y0         // the sizes of the others
	HMAX8(Y0, X0, X1)
	VMOVD        X0, DX
	MOVL         DX, rest+32(FP)
	CMPL         R9, $0
	JEQ          escaped
	MOVQ         AX, at+24(FP)
	VZEROUPPER
	RET

missing:
	MOVQ         $const_missing, at+24(FP)
	VZEROUPPER
	RET

escaped:
	MOVQ         $const_escaped, at+24(FP)
	VZEROUPPER
	RET

// func aroundWide(l, before, next *leaf, start, end uint32) uint64
TEXT ·aroundWide(SB), NOSPLIT, $0-40
	MOVQ         l+0(FP), SI
	MOVQ         before+8(FP), DI
	MOVQ         next+16(FP), R8
	LEAQ         start+24(FP), DX
	VPBROADCASTD (DX), Y14
	LEAQ         end+28(FP), DX
	VPBROADCASTD (DX), Y15
	VMOVDQU      (SI), Y0
	VPSUBD       32(SI), Y0, Y2     // starts
	VPCMPEQD     Y15, Y2, Y2
	VMOVMSKPS    Y2, AX
	VMOVDQU      (R8), Y1
	VPSUBD       32(R8), Y1, Y3
	VPCMPEQD     Y15, Y3, Y3
	VMOVMSKPS    Y3, BX
	SHLQ         $8, BX
	ORQ          BX, AX
	VPCMPEQD     (DI), Y14, Y4
	VMOVMSKPS    Y4, CX
	SHLQ         $16, CX
	ORQ          CX, AX
	VPXOR        Y8, Y8, Y8
	VPCMPEQD     Y8, Y0, Y6
	VMOVMSKPS    Y6, DX
	SHLQ         $32, DX
	ORQ          DX, AX
	VPMAXUD      Y15, Y0, Y2
	VPCMPEQD     Y2, Y0, Y2
	VMOVMSKPS    Y2, BX
	SHLQ         $48, BX
	ORQ          BX, AX
	VPMAXUD      Y15, Y1, Y3
	VPCMPEQD     Y3, Y1, Y3
	VMOVMSKPS    Y3, CX
	SHLQ         $56, CX
	ORQ          CX, AX
	MOVQ         AX, ret+32(FP)
	VZEROUPPER
	RET

// func prefetchForWriting(b *block)
TEXT ·prefetchForWriting(SB), NOSPLIT, $0-8
	MOVQ b+0(FP), AX
	BYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (AX)
	RET
