// Brings tiles of the right operand to kRight, for a product in blocks, and writes the result: the first core of each column of
// cores reads the tiles and sends them to the others. NCRISC.
//
// A step is depth x columns tiles, row by row. Common arguments:
// those of Blocks, the result, the left and the right operand, and the bias.

#include "matmul_blocks.h"
#include "matmul_multicast.h"
#include "padding.h"
#include "product.h"
#include "tensor.h"
#include "transposed.h"

// write writes a part of the result, in whose padding it puts zeros.
static void write(const Tensor& out, uint32_t from, uint32_t row, uint32_t column, uint32_t rows, uint32_t columns) {
    for (uint32_t r = row; r < row + rows; r++) {
        for (uint32_t c = column; c < column + columns; c++, from += out.bytes) {
            const uint32_t high = out.dims[2] - r % out.high * 32, wide = out.dims[3] - c * 32;
            if (high < 32 || wide < 32) {
                fill_padding(from, high, wide, size_of(out.type), 0);
                rp_publish();
            }
            const rp_place to = out.place(r * out.wide + c);
            rp_noc_write(noc_index, to.coord, to.addr, from, out.bytes);
        }
    }
}

void kernel_main() {
    Blocks b = Blocks::read();
    Share share = Share::of_column(b);
    Tensor out, a, right, bias;
    const uint32_t at = right.read(a.read(out.read(Blocks::kArgs, 0), 0), 0);
    if (b.bias) {
        bias.read(at, 0);
        cb_reserve_back(kConstant, 1);
        ones(get_write_ptr(kConstant), size_of(a.type));
        cb_push_back(kConstant, 1);
    }
    const Pages of(right);
    const uint32_t pages = b.nominal_columns * b.step;
    for (uint32_t i = 0; i < b.turns(); i++) {
        b.turn(i);
        const uint32_t n = b.matrix / out.dims[1], c = b.matrix % out.dims[1];
        const uint32_t first = (b.matrices() ? right.matrix(n, c) * of.matrix : 0) + b.column * of.right;
        if (b.bias) {
            cb_reserve_back(kBias, b.nominal_columns);
            const uint32_t page = (b.matrices() ? bias.matrix(n, c) * bias.wide : 0) + b.column;
            for (uint32_t i = 0; i < b.columns; i++) {
                bias.copy(page + i, get_write_ptr(kBias) + i * bias.bytes);
            }
            noc_async_read_barrier();
            cb_push_back(kBias, b.nominal_columns);
        }
        for (uint32_t s = 0; s < b.all_steps(); s++) {
            const uint32_t depth = b.depth(s);
            share.flush();
            cb_reserve_back(kRight, pages);
            const uint32_t to = get_write_ptr(kRight);
            if (depth == 0 || b.columns == 0 || (b.flags & kSkipReads)) {
                // nothing comes
            } else if (share.sends()) {
                uint32_t addr = to;
                for (uint32_t k = 0; k < depth; k++) {
                    uint32_t page = first + (s * b.step + k) * of.down;
                    for (uint32_t i = 0; i < b.columns; i++, addr += right.bytes, page += of.right) {
                        right.copy(page, addr);
                    }
                }
                noc_async_read_barrier();
                share.send(to, b.columns * depth * right.bytes);
            } else {
                share.receive();
            }
            cb_push_back(kRight, pages);
        }
        b.each([&](uint32_t r, uint32_t column, uint32_t rows, uint32_t columns) {
            cb_wait_front(kOut, b.sub());
            if (!(b.flags & kSkipWrites)) {
                write(out, get_read_ptr(kOut), b.matrix * out.high + b.row + r, b.column + column, rows, columns);
                rp_wait_writes_sent(noc_index);
            }
            cb_pop_front(kOut, b.sub());
        });
    }
    share.finish();
    rp_wait_writes(noc_index);
}
