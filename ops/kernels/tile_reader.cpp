// Reads the tiles of one to three operands for the engines, to kLeft, kRight and kConstant, as the result needs them: an operand's dimension
// of 1 is repeated. BRISC.
//
// Unique arguments: 0 first tile of the result, 1 number of tiles. Common arguments: 0 number of operands, then the result and
// the operands.

#include "blocks.h"
#include "tensor.h"

// repeat fills a tile with copies of its first row or its first column, or both, that is of one element. A row of a face is 16
// elements, words of which are copied.
static void repeat(uint32_t tile, bool row, bool column, uint32_t size) {
    const uint32_t words = 4 * size, elements = size == 2 ? 0x10001 : 1;
    rp_invalidate_l1();
    for (uint32_t i = 0; i < 64; i++) {  // 4 faces of 16 rows; of a row of the tile the left face comes first
        const uint32_t face = i >> 4, from_row = row ? 0 : (face >> 1) * 32 + i % 16, from_face = column ? 0 : face & 1;
        const volatile uint32_t* from = reinterpret_cast<const volatile uint32_t*>(tile) + (from_row + from_face * 16) * words;
        volatile uint32_t* to = reinterpret_cast<volatile uint32_t*>(tile) + i * words;
        const uint32_t first = (size == 2 ? *from & 0xFFFF : *from) * elements;
        for (uint32_t w = 0; w < words; w++) {
            to[w] = column ? first : from[w];
        }
    }
    rp_publish();
}

// read brings a tile of an operand to the end of a circular buffer, without repeating in it.
static void read(const Tensor& t, const Tensor& out, uint32_t page, uint32_t cb) {
    const uint32_t row = page / out.wide, matrix = row / out.high;
    const uint32_t from = t.matrix(matrix / out.dims[1], matrix % out.dims[1]) * t.high + (t.high == 1 ? 0 : row % out.high);
    cb_reserve_back(cb, 1);
    t.copy(from * t.wide + (t.wide == 1 ? 0 : page % out.wide), get_write_ptr(cb));
}

// finish repeats and passes the tile on.
static void finish(const Tensor& t, const Tensor& out, uint32_t cb) {
    const bool row = t.dims[2] == 1 && out.dims[2] != 1, column = t.dims[3] == 1 && out.dims[3] != 1;
    if (row || column) {
        repeat(get_write_ptr(cb), row, column, size_of(t.type));
    }
    cb_push_back(cb, 1);
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1), operands = rp_common_arg(0);
    Tensor out, in[3];
    uint32_t at = out.read(1, 0);
    for (uint32_t i = 0; i < operands; i++) {
        at = in[i].read(at, 0);
    }
    for (uint32_t page = first; page != end; page++) {
        for (uint32_t i = 0; i < operands; i++) {
            read(in[i], out, page, kLeft + i);
        }
        noc_async_read_barrier();
        for (uint32_t i = 0; i < operands; i++) {
            finish(in[i], out, kLeft + i);
        }
    }
}
