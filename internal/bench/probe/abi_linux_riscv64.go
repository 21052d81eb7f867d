package probe

// Offsets in struct pt_regs (arch/riscv/include/asm/ptrace.h): a system call's arguments are in a0,
// which the kernel has overwritten by the time of the tracepoint and keeps in orig_a0, and a1; a Go
// function's first one is in a0 (ABIInternal).
const (
	arg0Offset = 280
	arg1Offset = 88
	markOffset = 80
)
