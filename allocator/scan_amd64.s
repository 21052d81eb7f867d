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
	SHLQ         $7, BX
	ADDQ         holes_leaves(DI), BX
	VMOVDQU      64(BX), Y10
	VMOVDQU      96(BX), Y11
	VPMAXUD      Y15, Y10, Y2
	VPMAXUD      Y15, Y11, Y3
	VPCMPEQD     Y2, Y10, Y8        // all ones if it fits
	VPCMPEQD     Y3, Y11, Y9
	VPCMPEQD     Y4, Y4, Y4
	VPXOR        Y4, Y8, Y2
	VPXOR        Y4, Y9, Y3
	VPOR         (BX), Y2, Y2       // the end, or all ones if it is too small
	VPOR         32(BX), Y3, Y3
	VPMINUD      Y2, Y3, Y0
	VEXTRACTI128 $1, Y0, X1
	VPMINUD      X0, X1, X0
	VPSHUFD      $0x4e, X0, X1
	VPMINUD      X0, X1, X0
	VPSHUFD      $0xb1, X0, X1
	VPMINUD      X0, X1, X0
	VMOVD        X0, R9             // 0 if the leaf has overflown
	VPBROADCASTD X0, Y0
	VPCMPEQD     Y0, Y2, Y2
	VPCMPEQD     Y0, Y3, Y3
	VPAND        Y8, Y2, Y2         // a hole may end at all ones
	VPAND        Y9, Y3, Y3
	VMOVMSKPS    Y2, AX
	VMOVMSKPS    Y3, DX
	SHLL         $8, DX
	ORL          DX, AX
	BSFL         AX, AX
	JZ           missing
	MOVQ         AX, at+24(FP)
	VPANDN       Y10, Y2, Y2        // the sizes of the others
	VPANDN       Y11, Y3, Y3
	HMAX(Y2, Y3, Y0, X0, X1)
	VMOVD        X0, DX
	MOVL         DX, rest+32(FP)
	CMPL         R9, $0
	JEQ          escaped
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
	SHLQ         $7, BX
	ADDQ         holes_leaves(DI), BX
	VMOVDQU      64(BX), Y10
	VMOVDQU      96(BX), Y11
	VPMAXUD      Y15, Y10, Y2
	VPMAXUD      Y15, Y11, Y3
	VPCMPEQD     Y2, Y10, Y8        // all ones if it fits
	VPCMPEQD     Y3, Y11, Y9
	VPAND        (BX), Y8, Y2       // the end, or 0 if it is too small
	VPAND        32(BX), Y9, Y3
	HMAX(Y2, Y3, Y0, X0, X1)
	VMOVD        X0, R9             // 0 if the leaf has overflown
	VPBROADCASTD X0, Y0
	VPCMPEQD     Y0, Y2, Y2
	VPCMPEQD     Y0, Y3, Y3
	VPAND        Y8, Y2, Y2
	VPAND        Y9, Y3, Y3
	VMOVMSKPS    Y2, AX
	VMOVMSKPS    Y3, DX
	SHLL         $8, DX
	ORL          DX, AX
	BSFL         AX, AX
	JZ           missing
	MOVQ         AX, at+24(FP)
	VPANDN       Y10, Y2, Y2        // the sizes of the others
	VPANDN       Y11, Y3, Y3
	HMAX(Y2, Y3, Y0, X0, X1)
	VMOVD        X0, DX
	MOVL         DX, rest+32(FP)
	CMPL         R9, $0
	JEQ          escaped
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

// func aroundWide(l, before *leaf, start, end uint32) uint64
TEXT ·aroundWide(SB), NOSPLIT, $0-32
	MOVQ         l+0(FP), SI
	MOVQ         before+8(FP), DI
	LEAQ         start+16(FP), DX
	VPBROADCASTD (DX), Y14
	LEAQ         end+20(FP), DX
	VPBROADCASTD (DX), Y15
	VMOVDQU      (SI), Y0
	VMOVDQU      32(SI), Y1
	VPSUBD       64(SI), Y0, Y2     // starts
	VPSUBD       96(SI), Y1, Y3
	VPCMPEQD     Y15, Y2, Y2
	VPCMPEQD     Y15, Y3, Y3
	VPCMPEQD     (DI), Y14, Y4
	VPCMPEQD     32(DI), Y14, Y5
	VMOVMSKPS    Y2, AX
	VMOVMSKPS    Y3, DX
	SHLQ         $8, DX
	ORQ          DX, AX
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
	MOVQ         AX, ret+24(FP)
	VZEROUPPER
	RET

// func prefetchForWriting(b *block)
TEXT ·prefetchForWriting(SB), NOSPLIT, $0-8
	MOVQ b+0(FP), AX
	BYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (AX)
	RET
