#include "textflag.h"

// func prefetchWrite(p unsafe.Pointer)
// The base instruction set has no prefetch.
TEXT ·prefetchWrite(SB), NOSPLIT, $0-8
	RET
