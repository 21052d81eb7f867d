
#include "reprise/kernel.h"

#define UP 0x30000
#define HERE 0x40000

void kernel_main(void) {
    uint32_t noc = RP_LOCAL->noc_index;
    uint32_t self = rp_noc_coord(RP_LOCAL->my_x[noc], RP_LOCAL->my_y[noc]);
    struct rp_place dram = rp_dram_page(noc, 0x100000, 2048, 0);
    switch (rp_arg(0)) {
    case 0:  // right
        rp_noc_read(noc, dram.coord, dram.addr, HERE, 20000);
        rp_wait_reads(noc);
        rp_noc_write(noc, self, UP + 4, HERE + 4, 12);
        rp_noc_write(noc, dram.coord, dram.addr, HERE, 2048);
        rp_noc_atomic_inc(noc, self, UP, 1);
        rp_noc_word_write(noc, self, UP + 16, 3);
        rp_noc_full_barrier(noc);
        break;
    case 1: rp_noc_read(noc, self, UP + 4, HERE, 64); break;
    case 2: rp_noc_read(noc, dram.coord, dram.addr + RP_DRAM_ALIGNMENT / 2, HERE, 64); break;
    case 3: rp_noc_write(noc, rp_noc_coord(15, 15), UP, HERE, 64); break;
    case 4: rp_noc_write(noc, self, RP_L1_SIZE - 32, HERE, 64); break;
    case 5: rp_noc_read(noc, self, UP, RP_L1_SIZE - 32, 64); break;
    case 6: rp_noc_read(noc, self, UP, 0, 64); break;
    case 7: rp_noc_write_multicast(noc, RP_WRITE_MULTICAST, rp_noc_rect(noc ^ 1, rp_arg(1), rp_arg(2)), UP, HERE, 64, 1); break;
    case 8: rp_noc_read_packet(noc, self, UP, HERE, RP_NOC_MAX_BURST + 16); break;
    case 9: rp_noc_atomic_inc(noc, self, UP + 2, 1); break;
    case 10: rp_noc_write(noc, self, 0x100, HERE + 0x100, 4); break;
    case 11: rp_noc_read(noc, self, 0xFFB20000, HERE, 64); break;
    case 12: rp_noc_write(noc, dram.coord, (uint64_t)15 << 32 | 0xFFFFF000, HERE, 64); break;
    }
}
