// What the kernels that read the operands of products of matrices share.
#pragma once
#include "blocks.h"
#include "tensor.h"

// ones stores a tile with ones in its first column and zeros elsewhere: times a bias in the first row of a tile it is one for each row.
static inline void ones(uint32_t tile, uint32_t size) {
    for (uint32_t i = 0; i < 256 * size; i++) {
        // 4 size words are a row of a face; the left faces are the first and the third.
        const bool first = i % (4 * size) == 0 && (i / (64 * size)) % 2 == 0;
        reinterpret_cast<volatile uint32_t*>(tile)[i] = !first ? 0 : size == 2 ? 0x3F80 : 0x3F800000;
    }
    rp_publish();
}

// read_block brings count tiles that follow one another to kRight, which gets kBlock pages.
static inline void read_block(const Tensor& t, uint32_t page, uint32_t count) {
    cb_reserve_back(kRight, kBlock);
    for (uint32_t i = 0; i < count; i++) {
        t.copy(page + i, get_write_ptr(kRight) + i * t.bytes);
    }
    noc_async_read_barrier();
    cb_push_back(kRight, kBlock);
}
