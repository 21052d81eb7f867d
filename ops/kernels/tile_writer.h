// Tiles that the engines leave.
#pragma once
#include "padding.h"
#include "tensor.h"

// write_tiles writes tiles from a circular buffer to pages of a tensor, with zeros in its padding.
static inline void write_tiles(const Tensor& out, uint32_t cb, uint32_t first, uint32_t end) {
    for (uint32_t page = first; page != end; page++) {
        const uint32_t rows = out.dims[2] - page / out.wide % out.high * 32, columns = out.dims[3] - page % out.wide * 32;
        cb_wait_front(cb, 1);
        const uint32_t tile = get_read_ptr(cb);
        if (rows < 32 || columns < 32) {
            fill_padding(tile, rows, columns, size_of(out.type), 0);
            rp_publish();
        }
        const rp_place to = out.place(page);
        rp_noc_write(noc_index, to.coord, to.addr, tile, out.bytes);
        rp_wait_writes_sent(noc_index);
        cb_pop_front(cb, 1);
    }
    rp_wait_writes(noc_index);
}
