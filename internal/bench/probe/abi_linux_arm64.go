package probe

// Offsets in struct pt_regs (arch/arm64/include/asm/ptrace.h): a system call's arguments are in x0
// and x1, and so is a Go function's first one (ABIInternal).
const (
	arg0Offset = 0
	arg1Offset = 8
	markOffset = 0
)
