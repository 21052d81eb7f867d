// Reads rows of tiles for the engines, and other operands with them: a mask to kRight, or weights of one row to kRight and kConstant.
// BRISC.
//
// Resident operands come once: the tensor and a mask for each row of tiles, weights at the start. Others come anew for each pass
// over the row, weights for the last one.
//
// Unique arguments: 0 first tile of the result, 1 number of tiles. Common arguments: 0 whether operands are resident, 1 number of
// passes, 2 number of weights, 3 whether there is a mask, then the result, the tensor and the others.

#include "blocks.h"
#include "tensor.h"

// repeat fills a tile with its first row.
static void repeat(uint32_t tile, uint32_t size) {
    const uint32_t words = 4 * size;  // of a row of a face
    volatile uint32_t* data = reinterpret_cast<volatile uint32_t*>(tile);
    rp_invalidate_l1();
    for (uint32_t i = 0; i < 64; i++) {  // 4 faces of 16 rows
        const volatile uint32_t* from = data + (i >> 4 & 1) * 16 * words;
        volatile uint32_t* to = data + i * words;
        for (uint32_t w = 0; to != from && w < words; w++) {
            to[w] = from[w];
        }
    }
    rp_publish();
}

// read passes on a tile of a tensor.
static void read(const Tensor& t, uint32_t page, uint32_t cb) {
    cb_reserve_back(cb, 1);
    t.copy(page, get_write_ptr(cb));
    noc_async_read_barrier();
    if (t.dims[2] == 1) {
        repeat(get_write_ptr(cb), size_of(t.type));
    }
    cb_push_back(cb, 1);
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    const bool resident = rp_common_arg(0) != 0, masked = rp_common_arg(3) != 0;
    const uint32_t passes = resident ? 1 : rp_common_arg(1), weights = rp_common_arg(2);
    Tensor out, a, other[2];
    uint32_t at = a.read(out.read(4, 0), 0);
    for (uint32_t i = 0; i < weights + masked; i++) {
        at = other[i].read(at, 0);
    }
    const Tensor& mask = other[0];
    for (uint32_t k = 0; resident && k < out.wide; k++) {
        for (uint32_t i = 0; i < weights; i++) {
            read(other[i], k, kRight + i);
        }
    }
    for (uint32_t page = first; page != end; page += out.wide) {
        const uint32_t row = page / out.wide, matrix = row / out.high;
        for (uint32_t pass = 0; pass < passes; pass++) {
            for (uint32_t k = 0; k < out.wide; k++) {
                cb_reserve_back(kLeft, 1);
                a.copy(page + k, get_write_ptr(kLeft));
                noc_async_read_barrier();
                cb_push_back(kLeft, 1);
                if (masked) {
                    const uint32_t from = mask.matrix(matrix / out.dims[1], matrix % out.dims[1]) * mask.high + (mask.high == 1 ? 0 : row % out.high);
                    read(mask, from * mask.wide + k, kRight);
                }
                for (uint32_t i = 0; !resident && pass == passes - 1 && i < weights; i++) {
                    read(other[i], k, kRight + i);
                }
            }
        }
    }
}
