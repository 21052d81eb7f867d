// Copies a share of the pages of a tensor from the pages of another one, whole, with pages of a value where that one has none.
// BRISC or NCRISC.
//
// Unique arguments: 0 first page, 1 number of pages. Common arguments: 0 a word of elements of the value, 1 pages that each half of
// circular buffer 0 holds, 2 number of dimensions; then for each dimension of pages: its number of pages in the result, from one page
// to the next in the operand, the number of pages that the operand has there, after which they begin again, where it begins there, the
// step there, how many pages of the result come before, how many pages are taken; then the result and the operand.
//
// Circular buffer 0 is only used as memory in L1: it holds the pages of both halves and, if the result has any, one of the value.

#include "tensor.h"

struct Dimension {
    uint32_t pages, distance, size, start, step, before, taken;
};
constexpr uint32_t kMost = 8;

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1), half = rp_common_arg(1), dimensions = rp_common_arg(2);
    Tensor out, a;
    a.read(out.read(3 + 7 * dimensions, 0), 0);
    Dimension d[kMost];
    uint32_t at[kMost], page = first;
    for (uint32_t i = dimensions; i-- != 0;) {
        const uint32_t x = 3 + 7 * i;
        d[i] = {rp_common_arg(x), rp_common_arg(x + 1), rp_common_arg(x + 2), rp_common_arg(x + 3), rp_common_arg(x + 4), rp_common_arg(x + 5),
                rp_common_arg(x + 6)};
        at[i] = page % d[i].pages;
        page /= d[i].pages;
    }
    const uint32_t memory = get_write_ptr(0), room = get_local_cb_interface(0).fifo_page_size, blank = memory + 2 * half * room;
    // Zeros from a page to the next one, which no read changes.
    for (uint32_t i = 0; i < 2 * half; i++) {
        out.scratch = memory + i * room;
        for (uint32_t k = out.bytes & ~3u; k < out.stride; k += 4) {
            *reinterpret_cast<uint32_t*>(out.scratch + k) = 0;
        }
    }
    rp_publish();
    bool value = false;  // is in the blank page
    uint32_t source[2][8];
    uint32_t count[2] = {0, 0}, next = first, written = first;
    for (uint32_t turn = 0; written != end; turn ^= 1) {
        // Reads into one half while writes from the other one are on their way.
        count[turn] = 0;
        for (; count[turn] != half && next != end; next++) {
            uint32_t from = 0;
            bool inside = true;
            for (uint32_t i = 0; i < dimensions; i++) {
                const uint32_t x = at[i] - d[i].before;
                inside = inside && x < d[i].taken;
                uint32_t y = d[i].start + x * d[i].step;
                if (y >= d[i].size) {
                    y %= d[i].size;
                }
                from += y * d[i].distance;
            }
            for (uint32_t i = dimensions; i-- != 0 && ++at[i] == d[i].pages;) {
                at[i] = 0;
            }
            const uint32_t slot = count[turn]++;
            if (inside) {
                source[turn][slot] = memory + (turn * half + slot) * room;
                a.copy(from, source[turn][slot]);
                continue;
            }
            source[turn][slot] = blank;
            if (!value) {
                value = true;
                out.scratch = blank;
                clear(out);
                const uint32_t word = rp_common_arg(0), size = size_of(out.type);
                uint32_t k = 0;
                for (; k + 4 <= out.bytes; k += 4) {
                    *reinterpret_cast<uint32_t*>(blank + k) = word;
                }
                for (; k < out.bytes; k += size) {  // size is 1 or 2
                    if (size == 1) {
                        *reinterpret_cast<uint8_t*>(blank + k) = word;
                    } else {
                        *reinterpret_cast<uint16_t*>(blank + k) = word;
                    }
                }
                rp_publish();
            }
        }
        rp_wait_reads(noc_index);
        rp_wait_writes_sent(noc_index);
        for (uint32_t i = 0; i < count[turn]; i++, written++) {
            const rp_place p = out.place(written);
            rp_noc_write(noc_index, p.coord, p.addr, source[turn][i], out.stride);
        }
    }
    rp_wait_writes(noc_index);
}
