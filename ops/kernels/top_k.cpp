// Finds the largest elements of rows, largest first, or the smallest, smallest first, and their indices; of equal ones the first comes
// first. Computes a share of the rows of pages of the results. BRISC or NCRISC.
//
// Unique arguments: 0 first row of pages, 1 number of them. Common arguments: 0 number of elements for each row, 1 whether they are the
// smallest, then the elements found, the tensor to search, and the indices.
//
// Circular buffers are only used as memory in L1: 0 holds a page of any of the tensors, 1 for each row of a page three words for
// each element to find: its place in the order, its bits and its index.

#include "ordered.h"
#include "tensor.h"

// Found is the largest elements of a row so far, in their order.
struct Found {
    uint32_t *keys, *bits, *indices;

    Found(uint32_t memory, uint32_t row, uint32_t k) {
        keys = reinterpret_cast<uint32_t*>(memory) + 3 * k * row;
        bits = keys + k;
        indices = bits + k;
    }

    // insert adds an element to count others, of which the last one is dropped if they are k.
    void insert(uint32_t key, uint32_t v, uint32_t index, uint32_t count, uint32_t k) {
        uint32_t i = count < k ? count : k - 1;
        for (; i != 0 && keys[i - 1] < key; i--) {
            keys[i] = keys[i - 1];
            bits[i] = bits[i - 1];
            indices[i] = indices[i - 1];
        }
        keys[i] = key;
        bits[i] = v;
        indices[i] = index;
    }
};

// put writes a row of pages of a result; get returns an element of a row.
template <class F>
static void put(Tensor& t, uint32_t pages, F get) {
    const uint32_t size = size_of(t.type);
    for (uint32_t page = pages * t.wide; page != (pages + 1) * t.wide; page++) {
        clear(t);
        each_run(t, page, [&](const Run& r) {
            for (uint32_t i = 0; i < r.count; i++) {
                store(size == 2 ? kUint16 : t.type, r.addr + i * size, get(r.h, r.w + i));
            }
        });
        t.flush(page);
    }
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1), k = rp_common_arg(0);
    const uint32_t memory = get_write_ptr(1);
    Tensor largest, a, indices;
    const uint32_t flip = rp_common_arg(1) ? 0xFFFFFFFF : 0;
    uint32_t at = a.read(largest.read(2, get_write_ptr(0)), get_write_ptr(0));
    indices.read(at, get_write_ptr(0));
    const uint32_t high = largest.flags & kFlagTile ? 32 : 1, type = a.type, size = size_of(type);
    for (uint32_t pages = first; pages != end; pages++) {
        const uint32_t h = pages % largest.high * high, matrix = pages / largest.high;
        const uint32_t rows = a.dims[2] - h < high ? a.dims[2] - h : high;
        a.cached = 0xFFFFFFFF;
        // All rows of a page before the next page.
        for (uint32_t w = 0, run = 0; w < a.dims[3]; w += run) {
            for (uint32_t row = 0; row < rows; row++) {
                Found found(memory, row, k);
                uint32_t x = a.find(matrix, h + row, w, &run);
                if (run > a.dims[3] - w) {
                    run = a.dims[3] - w;
                }
                for (uint32_t i = w; i < w + run; i++, x += size) {
                    const uint32_t v = size == 2 ? load(kUint16, x) : load(type, x);
                    const uint32_t key = ordered(type, type == kBfloat16 ? v << 16 : v) ^ flip;
                    if (i < k || key > found.keys[k - 1]) {
                        found.insert(key, v, i, i, k);
                    }
                }
            }
        }
        put(largest, pages, [&](uint32_t y, uint32_t i) { return Found(memory, y - h, k).bits[i]; });
        put(indices, pages, [&](uint32_t y, uint32_t i) { return Found(memory, y - h, k).indices[i]; });
    }
    rp_wait_writes(noc_index);
}
