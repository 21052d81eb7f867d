
#include "api/compute/common.h"
#include "api/compute/compute_kernel_hw_startup.h"
#include "api/compute/tile_move_copy.h"
#include "api/compute/pack.h"
#include "debug/dprint.h"
#include "debug/dprint_tensix.h"

void kernel_main() {
    compute_kernel_hw_startup(0, 16);
    copy_tile_init(0);
    cb_wait_front(0, 1);
    DPRINT_UNPACK({ DPRINT << "in " << TSLICE(0, 0, SliceRange::hw041()); });
    tile_regs_acquire();
    copy_tile(0, 0, 1);
    dprint_tensix_dest_reg(1);
    tile_regs_commit();
    cb_pop_front(0, 1);
    tile_regs_wait();
    cb_reserve_back(16, 1);
    pack_tile(1, 16);
    DPRINT_PACK({ DPRINT << TSLICE(16, 0, SliceRange::hw0_32_16()); });
    DPRINT_MATH({ DPRINT << TSLICE(16, 0, SliceRange::hw041()) << ENDL(); });
    cb_push_back(16, 1);
    tile_regs_release();
}
