// Reads the tiles of a convolution for the engines, which compute it as a product of matrices (compute/matmul.cpp): the left operand
// has a row for each position of the window, and a column for each channel of each element under it; tiles of it are gathered from
// the images. The right operand is the weights. BRISC.
//
// Blocks and circular buffers are those of matmul_reader.cpp. Unique arguments: 0 first tile of the result, 1 number of tiles. Common
// arguments: 0 whether there is a bias, then those of Windows, the result, the images, the weights and the bias.

#include "product.h"
#include "windows.h"

constexpr uint32_t kPages = 4, kHeld = 5;

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    const bool biased = rp_common_arg(0) != 0;
    Tensor out, weights, bias;
    Windows w;
    const uint32_t at = weights.read(w.read(1, out.read(1 + kWindowArgs, 0), kPages, kHeld), 0);
    if (biased) {
        bias.read(at, 0);
        cb_reserve_back(kConstant, 1);
        ones(get_write_ptr(kConstant), size_of(w.images.type));
        cb_push_back(kConstant, 1);
    }
    const uint32_t inner = w.kernel_height * w.kernel_width * w.channels;
    uint32_t placed = 0xFFFFFFFF;
    for (uint32_t page = first; page != end;) {
        const uint32_t count = block_width(page, end, out.wide), row = page / out.wide;
        if (row != placed) {
            w.place(row * 32, out.dims[2]);
            placed = row;
        }
        uint32_t right = page % out.wide;
        for (uint32_t k = 0; k < inner; k += 32, right += out.wide) {
            w.push(kLeft, k / w.channels, k % w.channels, inner - k < 32 ? inner - k : 32);
            read_block(weights, right, count);
        }
        if (biased) {
            read_block(bias, page % out.wide, count);
        }
        page += count;
    }
}
