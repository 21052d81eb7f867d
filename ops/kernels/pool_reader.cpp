// Reads the tiles of a pool for the engines (compute/pool.cpp): for each tile of the result a tile for each element of the window, with
// what is under it at the tile's positions, to kLeft. BRISC.
//
// Unique arguments: 0 first tile of the result, 1 number of tiles. Common arguments: those of Windows, the result and the images.

#include "blocks.h"
#include "windows.h"

constexpr uint32_t kPages = 2, kHeld = 3;

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    Tensor out;
    Windows w;
    w.read(0, out.read(kWindowArgs, 0), kPages, kHeld);
    const uint32_t elements = w.kernel_height * w.kernel_width;
    uint32_t placed = 0xFFFFFFFF;
    for (uint32_t page = first; page != end; page++) {
        const uint32_t row = page / out.wide, channel = page % out.wide * 32, left = w.channels - channel;
        if (row != placed) {
            w.place(row * 32, out.dims[2]);
            placed = row;
        }
        for (uint32_t element = 0; element < elements; element++) {
            w.push(kLeft, element, channel, left < 32 ? left : 32);
        }
    }
}
