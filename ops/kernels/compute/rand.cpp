// Random numbers, evenly distributed. Each core has a generator of its own.
//
// Arguments: 0 first tile of the result, 1 number of tiles. Common arguments: 0 seed, 1 the least number, 2 the width of the range, both
// as the bits of an fp32.

#include "../blocks.h"
#include "api/compute/eltwise_unary/rand.h"

// stream returns the start of a core's generator for a seed and the core's first tile: splitmix64's mixing function, so that neighbours
// have nothing in common. All ones is the generator's fixed point.
static uint32_t stream(uint32_t seed, uint32_t first) {
    uint64_t z = (static_cast<uint64_t>(seed) << 32 | first) + 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    const uint32_t v = static_cast<uint32_t>(z ^ z >> 31);
    return v == 0xFFFFFFFF ? 0 : v;
}

void kernel_main() {
    const uint32_t from = get_common_arg_val<uint32_t>(1), width = get_common_arg_val<uint32_t>(2);
    init_sfpu(kOut, kOut);
    rand_tile_init(stream(get_common_arg_val<uint32_t>(0), get_arg_val<uint32_t>(0)));
    for (uint32_t tiles = get_arg_val<uint32_t>(1); tiles != 0; tiles--) {
        tile_regs_acquire();
        rand_tile(0, from, width);
        tile_regs_commit();
        cb_reserve_back(kOut, 1);
        tile_regs_wait();
        pack_tile(0, kOut);
        tile_regs_release();
        cb_push_back(kOut, 1);
    }
}
