// Brings tiles of the left operand to kLeft, for a product in blocks: the first core of each row of cores reads them and sends
// them to the others. BRISC.
//
// A step is rows x depth tiles, row by row. Common arguments:
// those of Blocks, the result, the left and the right operand, and the bias.

#include "matmul_blocks.h"
#include "matmul_multicast.h"
#include "tensor.h"
#include "transposed.h"

void kernel_main() {
    Blocks b = Blocks::read();
    Share share = Share::of_row(b);
    Tensor out, a;
    a.read(out.read(Blocks::kArgs, 0), 0);
    const Pages of(a);
    const uint32_t pages = b.nominal_rows * b.step;
    for (uint32_t i = 0; i < b.turns(); i++) {
        b.turn(i);
        const uint32_t matrix = b.matrices() ? a.matrix(b.matrix / out.dims[1], b.matrix % out.dims[1]) : 0;
        const uint32_t first = matrix * of.matrix + b.row * of.down;
        for (uint32_t s = 0; s < b.all_steps(); s++) {
            const uint32_t depth = b.depth(s);
            share.flush();
            cb_reserve_back(kLeft, pages);
            const uint32_t to = get_write_ptr(kLeft);
            if (depth == 0 || b.rows == 0 || (b.flags & kSkipReads)) {
                // nothing comes
            } else if (share.sends()) {
                uint32_t at = to, row = first + s * b.step * of.right;
                for (uint32_t r = 0; r < b.rows; r++, row += of.down) {
                    uint32_t page = row;
                    for (uint32_t k = 0; k < depth; k++, at += a.bytes, page += of.right) {
                        a.copy(page, at);
                    }
                }
                noc_async_read_barrier();
                share.send(to, b.rows * depth * a.bytes);
            } else {
                share.receive();
            }
            cb_push_back(kLeft, pages);
        }
    }
    share.finish();
}
