
#include "api/dataflow/dataflow_api.h"
#include "debug/dprint.h"

void kernel_main() {
    cb_reserve_back(0, 1);
    volatile uint16_t* tile = (volatile uint16_t*)get_write_ptr(0);
    for (uint32_t i = 0; i < 1024; i++) {
        uint32_t h = (i >> 9) * 16 + ((i >> 4) & 15), w = ((i >> 8) & 1) * 16 + (i & 15);
        tile[i] = (uint16_t)((h * 4 + (w & 3)) == 0 ? 0 : 0x4000 + h * 4 + (w & 3));
    }
    DPRINT << TileSlice(0, 0, SliceRange{1, 2, 1, 0, 32, 16}, TSLICE_INPUT_CB, TSLICE_WR_PTR);
    cb_push_back(0, 1);
    cb_wait_front(16, 1);
    cb_pop_front(16, 1);
}
