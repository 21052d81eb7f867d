package probe

// Offsets in struct pt_regs (arch/x86/include/asm/ptrace.h): a system call's arguments are in rdi
// and rsi, a Go function's first one in rax (ABIInternal).
const (
	arg0Offset = 112
	arg1Offset = 104
	markOffset = 80
)
