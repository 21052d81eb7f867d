#include "textflag.h"

// func write(p unsafe.Pointer)
// PREFETCHW takes a line away from other processors at once, which a device's reads or another processor's may have left
// it shared with; processors that don't know it do nothing. The assembler doesn't know it either.
TEXT ·write(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08              // PREFETCHW (AX)
	BYTE $0x0F; BYTE $0x0D; BYTE $0x48; BYTE $0x40  // PREFETCHW 64(AX)
	BYTE $0x0F; BYTE $0x0D; BYTE $0x88; LONG $0x80  // PREFETCHW 128(AX)
	BYTE $0x0F; BYTE $0x0D; BYTE $0x88; LONG $0xC0  // PREFETCHW 192(AX)
	RET
