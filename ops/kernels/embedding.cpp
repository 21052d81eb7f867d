// Copies the rows of a table that indices choose to a share of the pages of the result; a row of zeros where an index is not
// below the number of rows. BRISC or NCRISC.
//
// Unique arguments: 0 first page, 1 number of pages. Common arguments: 0 the most rows of a page that are read at a time, 1 bytes for
// each, then the result, the indices and the table, which has a row in each page.
//
// Circular buffers are only used as memory in L1: 0 holds a page of the result, 1 a page of the indices, 2 rows of the table or parts
// of them. If the result is row-major with whole rows as pages, these go straight there.

#include "tensor.h"

// Offsets in pages that all banks' alignments suit.
constexpr uint32_t kAligned = 64;

static Tensor out, indices, table;
static uint32_t room, bytes;

// row returns the row of the table for a row of the result.
static uint32_t row(uint32_t flat) {
    const uint32_t* d = indices.dims;
    uint32_t run;
    const uint32_t w = flat % d[3], h = flat / d[3] % d[2], matrix = flat / d[3] / d[2];
    return load(indices.type, indices.find(matrix, h, w, &run));
}

// begin starts to read bytes of a row of the table, or stores zeros.
static void begin(uint32_t from, uint32_t off, uint32_t length, uint32_t to) {
    if (from >= table.dims[2]) {
        for (uint32_t i = 0; i < length; i += 4) {
            *reinterpret_cast<uint32_t*>(to + i) = 0;
        }
        for (uint32_t i = 0; i < 3; i++) {  // parts loads bytes of them: the store queue, of three, must have others by then
            rp_publish();
        }
        return;
    }
    const rp_place p = table.place(from);
    rp_noc_read(noc_index, p.coord, p.addr + off, to, length);
}

// whole copies rows to pages.
static void whole(uint32_t first, uint32_t end, uint32_t most) {
    for (uint32_t i = 0; i < most; i++) {  // zeros from a page to the next one, which no read changes
        for (uint32_t k = out.bytes & ~3u; k < out.stride; k += 4) {
            *reinterpret_cast<uint32_t*>(room + i * bytes + k) = 0;
        }
    }
    rp_publish();
    for (uint32_t page = first; page != end;) {
        const uint32_t count = end - page < most ? end - page : most;
        for (uint32_t i = 0; i < count; i++) {
            begin(row(page + i), 0, out.bytes, room + i * bytes);
        }
        rp_wait_reads(noc_index);
        rp_publish();
        for (uint32_t i = 0; i < count; i++, page++) {
            const rp_place p = out.place(page);
            rp_noc_write(noc_index, p.coord, p.addr, room + i * bytes, out.stride);
        }
        rp_wait_writes_sent(noc_index);
    }
}

// copy copies bytes, words at a time where both are aligned to them.
static void copy(uint32_t to, uint32_t from, uint32_t length) {
    if (((to | from) & 3) == 0) {
        for (; length >= 16; length -= 16, to += 16, from += 16) {
            const uint32_t* p = reinterpret_cast<const uint32_t*>(from);
            const uint32_t a = p[0], b = p[1], c = p[2], d = p[3];
            uint32_t* q = reinterpret_cast<uint32_t*>(to);
            q[0] = a, q[1] = b, q[2] = c, q[3] = d;
        }
    }
    for (; length != 0; length--) {
        *reinterpret_cast<uint8_t*>(to++) = *reinterpret_cast<const uint8_t*>(from++);
    }
}

// parts copies the part of each row that a page has.
static void parts(uint32_t first, uint32_t end) {
    const bool tiles = out.flags & kFlagTile;
    const uint32_t size = size_of(out.type), high = tiles ? 32 : 1;
    clear(out);
    for (uint32_t page = first; page != end; page++) {
        const uint32_t h = page / out.wide % out.high * high, w = page % out.wide * out.page_width;
        const uint32_t flat = page / out.wide / out.high * out.dims[2] + h;
        const uint32_t rows = out.dims[2] - h < high ? out.dims[2] - h : high;
        const uint32_t columns = out.dims[3] - w < out.page_width ? out.dims[3] - w : out.page_width;
        const uint32_t off = w * size & ~(kAligned - 1), shift = w * size - off;
        for (uint32_t i = 0; i < rows; i++) {
            begin(row(flat + i), off, shift + columns * size, room + i * bytes);
        }
        rp_wait_reads(noc_index);
        if (rows < high || columns < out.page_width) {
            clear(out);
        }
        each_run(out, page, [&](const Run& r) { copy(r.addr, room + (r.h - h) * bytes + shift + (r.w - w) * size, r.count * size); });
        out.flush(page);
    }
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1), most = rp_common_arg(0);
    bytes = rp_common_arg(1);
    room = get_write_ptr(2);
    const uint32_t at = indices.read(out.read(2, get_write_ptr(0)), get_write_ptr(1));
    table.read(at, 0);
    if (!(out.flags & kFlagTile) && out.wide == 1) {
        whole(first, end, most);
    } else {
        parts(first, end);
    }
    rp_wait_writes(noc_index);
}
