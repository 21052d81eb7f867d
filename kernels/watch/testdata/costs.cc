
#include "reprise/assert.h"

#define MEASURE(i, what)                                                 \
    do {                                                                 \
        uint32_t t = rp_wall_clock_low();                                \
        for (uint32_t n = 0; n < 16; n++) {                              \
            what;                                                        \
        }                                                                \
        rp_store(0x50000 + 4 * i, rp_wall_clock_low() - t);              \
    } while (0)

void kernel_main(void) {
    uint32_t self = rp_noc_coord(RP_LOCAL->my_x[0], RP_LOCAL->my_y[0]);
    MEASURE(0, { uint32_t v = rp_load(0x40000); reprise_assert(v != 1); (void)v; });
    MEASURE(1, { rp_cb_reserve_back(3, 1); rp_cb_push_back(3, 1); rp_cb_wait_front(3, 1); rp_cb_pop_front(3, 1); });
    MEASURE(2, { rp_noc_read(0, self, 0x30000, 0x40000, 64); rp_wait_reads(0); });
}
