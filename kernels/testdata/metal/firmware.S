# The firmware's symbols, as a kernel of tt-metal has them: absolute, variables weak. They are places in the block of local RAM
# that Reprise's own firmware shares with kernels.

    .globl __fw_export_text_end
    .set __fw_export_text_end, 0x49f0
    .globl __fw_export_ldm_end
    .set __fw_export_ldm_end, 0xffb00480
    .globl __global_pointer$
    .set __global_pointer$, 0xffb007f0

    .weak my_x
    .set my_x, 0xffb00010
    .type my_x, @object
    .size my_x, 2

    .weak dram_bank_to_noc_xy
    .set dram_bank_to_noc_xy, 0xffb00020
    .type dram_bank_to_noc_xy, @object
    .size dram_bank_to_noc_xy, 32
