// Reads the tiles of an attention for the engines. For each row of tiles of the queries: its tiles, and for each chunk of keys their
// tiles, each row of them after its mask if it has one, then those of the values, block of columns by block of columns. BRISC.
//
// Unique arguments: 0 first row of tiles, 1 number of rows of tiles. Common arguments: 0 position of the first query, 1 whether
// queries attend only to keys up to their position, 2 whether there is a mask, then the result, queries, keys, values, and the mask.

#include "attention.h"
#include "tensor.h"

// Instead of minus infinity, so that differences are numbers: the smallest of bf16.
static uint32_t lowest(uint32_t size) { return size == 2 ? 0xFF7F : 0xFF7F0000; }

static void put(uint32_t tile, uint32_t row, uint32_t column, uint32_t size, uint32_t value) {
    const uint32_t i = ((row / 16 * 2 + column / 16) * 16 + row % 16) * 16 + column % 16;
    if (size == 2) {
        reinterpret_cast<volatile uint16_t*>(tile)[i] = value;
    } else {
        reinterpret_cast<volatile uint32_t*>(tile)[i] = value;
    }
}

// fill stores a word in all of a tile.
static void fill(uint32_t tile, uint32_t size, uint32_t word) {
    for (uint32_t i = 0; i < 256 * size; i++) {
        reinterpret_cast<volatile uint32_t*>(tile)[i] = word;
    }
}

static void constants(uint32_t size) {
    const uint32_t one = size == 2 ? 0x3F803F80 : 0x3F800000, words = 4 * size;  // of a row of a face
    cb_reserve_back(kConstants, 2);
    volatile uint32_t* to = reinterpret_cast<volatile uint32_t*>(get_write_ptr(kConstants));
    for (uint32_t i = 0; i < 64 * words; i++) {
        to[i] = i / words % 16 == 0 ? one : 0;
    }
    fill(get_write_ptr(kConstants) + 1024 * size, size, one);
    rp_publish();
    cb_push_back(kConstants, 2);
}

// read_row brings count tiles that follow one another to a circular buffer that always gets as many pages.
static void read_row(const Tensor& t, uint32_t page, uint32_t count, uint32_t cb, uint32_t pages) {
    cb_reserve_back(cb, pages);
    for (uint32_t i = 0; i < count; i++) {
        t.copy(page + i, get_write_ptr(cb) + i * t.bytes);
    }
    noc_async_read_barrier();
    cb_push_back(cb, pages);
}

// read_mask passes on the mask for row r of tiles of the queries and row j of those of the keys: a page of a tensor, or zeros, and the
// lowest number where a query doesn't attend to a key.
static void read_mask(const Shape& s, const Tensor& mask, uint32_t page, uint32_t r, uint32_t j, uint32_t position, uint32_t size) {
    cb_reserve_back(kMask, 1);
    const uint32_t tile = get_write_ptr(kMask);
    if (s.masked) {
        mask.copy(page, tile);
        noc_async_read_barrier();
    } else {
        fill(tile, size, 0);
    }
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t limit = s.limit(r * 32 + i, position);
        for (uint32_t w = limit < j * 32 ? 0 : limit - j * 32; w < 32; w++) {
            put(tile, i, w, size, lowest(size));
        }
    }
    rp_publish();
    cb_push_back(kMask, 1);
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1), position = rp_common_arg(0);
    Tensor out, q, k, v, mask;
    const uint32_t at = v.read(k.read(q.read(out.read(3, 0), 0), 0), 0);
    const Shape s = {q.dims[2], q.high, k.dims[2], rp_common_arg(1) != 0, rp_common_arg(2) != 0};
    if (s.masked) {
        mask.read(at, 0);
    }
    const uint32_t size = size_of(q.type), group = q.dims[1] / k.dims[1];
    constants(size);
    for (uint32_t row = first; row != end; row++) {
        const uint32_t r = row % s.high, matrix = row / s.high, n = matrix / q.dims[1], c = matrix % q.dims[1];
        const uint32_t tiles = s.tiles(r, position), keys = k.matrix(n, c / group) * k.high, values = v.matrix(n, c / group) * v.high;
        read_row(q, row * q.wide, q.wide, kQueries, q.wide);
        for (uint32_t from = 0; from < tiles; from += kChunk) {
            const uint32_t to = tiles - from < kChunk ? tiles : from + kChunk;
            for (uint32_t j = from; j < to; j++) {
                if (s.has_mask(r, position, j)) {
                    read_mask(s, mask, s.masked ? (mask.matrix(n, c) * mask.high + r) * mask.wide + j : 0, r, j, position, size);
                }
                read_row(k, (keys + j) * k.wide, k.wide, kKeys, k.wide);
            }
            for (uint32_t w = 0; w < v.wide; w += kColumns) {
                for (uint32_t j = from; j < to; j++) {
                    read_row(v, (values + j) * v.wide + w, v.wide - w < kColumns ? v.wide - w : kColumns, kValues, kColumns);
                }
            }
        }
    }
}
