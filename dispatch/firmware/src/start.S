// First instructions of every base firmware image: a stack, and on Blackhole the core's configuration.
//
// The image is linked at its load address and has no data: what the firmware keeps is in struct rp_local and in
// registers, so nothing needs copying and a core can be reset and started again at any time.

    .section .text.start, "ax"
    .globl _start
    .type _start, @function
_start:
#if defined(REPRISE_BLACKHOLE)
    // cfg0 (CSR 0x7C0) bit 18 stops the core from fusing neighbouring Tensix instructions. The L0 data cache (bit 3)
    // stays on: every polling loop invalidates it. Written as .insn because the base instruction set has no CSRs.
    lui     t0, 1 << (18 - 12)
    .insn   i 0x73, 2, x0, t0, 0x7C0
#endif
    lui     sp, %hi(__stack_top)
    addi    sp, sp, %lo(__stack_top)
    tail    firmware_main
    .size _start, . - _start
