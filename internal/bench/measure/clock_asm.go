//go:build amd64 || arm64 || riscv64

package measure

// Ticks reads the processor's constant-rate counter: the time-stamp counter, CNTVCT_EL0 or the
// RISC-V time CSR.
//
//go:noescape
func Ticks() int64
