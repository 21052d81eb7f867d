// Computes a share of the pages of a tensor that has the elements of another one in another order, with a value where that one
// has no element. BRISC or NCRISC.
//
// Unique arguments: 0 first page, 1 number of pages. Common arguments: for each of the four dimensions of the result 0..3 the
// dimension of the operand that it is, 4..7 where it begins there, 8..11 the step there, 12..15 how many elements of the result
// come before, 16..19 how many elements are taken; 20 the bits of the value; 21 number of slots, 22 what a page's slot is chosen
// by, 23 bytes of a slot, 24 whether slots hold chunks instead of whole pages, 25 whether both tensors have their elements in the
// same order, row by row: then only 20 to 24 matter. Then the result and the operand.
//
// Circular buffers are only used as memory in L1: 0 holds a page of the result, 1 the slots, 2 a word for each slot.

#include "tensor.h"

// A chunk is a part of a page. Its size suits every bank's alignment.
constexpr uint32_t kChunk = 64;

// What a slot is chosen by: the position in the last or the last but one dimension of the result, or the page.
enum Key : uint32_t { kByColumn, kByRow, kByPage };

// Slots hold pages of the operand, or chunks of them, each at one place only.
struct Slots {
    Tensor from;
    uint32_t count, key, bytes, memory;
    uint32_t* held;
    bool chunks, reading;

    // begin starts to read what has the byte at an offset of a page, unless the slot holds it, and returns the byte's address.
    uint32_t begin(uint32_t page, uint32_t off, uint32_t slot) {
        const uint32_t first = chunks ? off & ~(kChunk - 1) : 0;
        const uint32_t what = chunks ? page * ((from.bytes + kChunk - 1) / kChunk) + first / kChunk : page;
        const uint32_t at = memory + slot * bytes;
        if (held[slot] != what) {
            held[slot] = what;
            reading = true;
            const uint32_t left = from.bytes - first;
            const rp_place p = from.place(page);
            rp_noc_read(noc_index, p.coord, p.addr + first, at, left < bytes ? left : bytes);
        }
        return at + off - first;
    }

    // wait waits for what was begun.
    void wait() {
        if (reading) {
            rp_wait_reads(noc_index);
            reading = false;
        }
    }
};

template <class T>
static void fill(uint32_t to, uint32_t count, uint32_t value) {
    for (T* p = reinterpret_cast<T*>(to); count != 0; count--) {
        *p++ = value;
    }
}

// copy copies elements whose distance is given in bytes to elements that follow one another.
template <class T>
static void copy(uint32_t to, uint32_t from, uint32_t distance, uint32_t count) {
    if (sizeof(T) < 4 && distance == sizeof(T) && ((to ^ from) & 3) == 0) {
        constexpr uint32_t each = 4 / sizeof(T);
        for (; count != 0 && (to & 3) != 0; count--, to += sizeof(T), from += sizeof(T)) {
            *reinterpret_cast<T*>(to) = *reinterpret_cast<const T*>(from);
        }
        for (; count >= 4 * each; count -= 4 * each, to += 16, from += 16) {
            const uint32_t* p = reinterpret_cast<const uint32_t*>(from);
            const uint32_t a = p[0], b = p[1], c = p[2], d = p[3];
            uint32_t* q = reinterpret_cast<uint32_t*>(to);
            q[0] = a, q[1] = b, q[2] = c, q[3] = d;
        }
    }
    for (; count >= 4; count -= 4, to += 4 * sizeof(T), from += 4 * distance) {
        const T a = *reinterpret_cast<const T*>(from), b = *reinterpret_cast<const T*>(from + distance);
        const T c = *reinterpret_cast<const T*>(from + 2 * distance), d = *reinterpret_cast<const T*>(from + 3 * distance);
        T* q = reinterpret_cast<T*>(to);
        q[0] = a, q[1] = b, q[2] = c, q[3] = d;
    }
    for (; count != 0; count--, to += sizeof(T), from += distance) {
        *reinterpret_cast<T*>(to) = *reinterpret_cast<const T*>(from);
    }
}

static inline uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

// gather copies count elements from index on, along a dimension of the operand with a step. column and row are the position in the
// result, without what comes before.
template <class T>
static void gather(Slots& s, uint32_t to, uint32_t* index, uint32_t along, uint32_t step, uint32_t count, uint32_t row, uint32_t column) {
    const Tensor& t = s.from;
    const bool tiles = t.flags & kFlagTile;
    if (along < 2 || (along == 2 && !tiles)) {
        // Each element is in a page of its own, at the same place in it.
        uint32_t pages = along == 2 ? t.wide : t.high * t.wide, page, off;
        if (along == 0) {
            pages *= t.dims[1];
        }
        pages *= step;
        if (tiles) {
            const uint32_t h = index[2], w = index[3];
            page = ((index[0] * t.dims[1] + index[1]) * t.high + h / 32) * t.wide + w / 32;
            off = (((h / 16 % 2 * 2 + w / 16 % 2) << 8) + h % 16 * 16 + w % 16) * sizeof(T);
        } else {
            page = ((index[0] * t.dims[1] + index[1]) * t.high + index[2]) * t.wide + index[3] / t.page_width;
            off = index[3] % t.page_width * sizeof(T);
        }
        while (count != 0) {
            const uint32_t n = least(count, s.count);
            uint32_t slot = column % s.count, p = page;
            for (uint32_t i = 0; i < n; i++, p += pages) {
                s.begin(p, off, slot);
                slot = slot + 1 == s.count ? 0 : slot + 1;
            }
            s.wait();
            slot = column % s.count;
            const uint32_t in = s.memory + (s.chunks ? off % kChunk : off);
            for (uint32_t i = 0; i < n; i++, to += sizeof(T)) {
                *reinterpret_cast<T*>(to) = *reinterpret_cast<const T*>(in + slot * s.bytes);
                slot = slot + 1 == s.count ? 0 : slot + 1;
            }
            page = p;
            column += n;
            count -= n;
        }
        return;
    }
    while (count != 0) {
        uint32_t page = (index[0] * t.dims[1] + index[1]) * t.high, off, left, distance = step * sizeof(T);
        const uint32_t h = index[2], w = index[3];
        if (tiles) {
            page = (page + h / 32) * t.wide + w / 32;
            off = (((h / 16 % 2 * 2 + w / 16 % 2) << 8) + h % 16 * 16 + w % 16) * sizeof(T);
            left = 16 - w % 16;
            if (along == 2) {
                left = 16 - h % 16;
                distance *= 16;
            }
        } else {
            page = (page + h) * t.wide + w / t.page_width;
            off = w % t.page_width * sizeof(T);
            left = t.page_width - w % t.page_width;
        }
        const uint32_t n = least(count, step == 1 ? left : (left + step - 1) / step);
        const uint32_t from = s.begin(page, off, s.key == kByPage ? page % s.count : row % s.count);
        s.wait();
        copy<T>(to, from, distance, n);
        index[along] += n * step;
        to += n * sizeof(T);
        count -= n;
    }
}

template <class T>
static void rearrange(uint32_t first, uint32_t end) {
    const uint32_t value = rp_common_arg(20);
    const bool same_order = rp_common_arg(25) != 0;
    Tensor out;
    Slots s;
    s.count = rp_common_arg(21);
    s.key = rp_common_arg(22);
    s.bytes = rp_common_arg(23);
    s.chunks = rp_common_arg(24) != 0;
    s.reading = false;
    s.memory = get_write_ptr(1);
    s.held = reinterpret_cast<uint32_t*>(get_write_ptr(2));
    s.from.read(out.read(26, get_write_ptr(0)), 0);
    for (uint32_t i = 0; i < s.count; i++) {
        s.held[i] = 0xFFFFFFFF;
    }
    clear(out);
    const uint32_t along = same_order ? 3 : rp_common_arg(3), step = same_order ? 1 : rp_common_arg(11);
    const uint32_t before = rp_common_arg(15), taken = rp_common_arg(19), start = rp_common_arg(7);
    for (uint32_t page = first; page != end; page++) {
        const uint32_t rows = out.dims[2] - page / out.wide % out.high * 32, columns = out.dims[3] - page % out.wide * out.page_width;
        if (columns < out.page_width || (out.flags & kFlagTile && rows < 32)) {
            clear(out);
        }
        each_run(out, page, [&](const Run& r) {
            const uint32_t at[4] = {r.n, r.c, r.h, r.w};
            uint32_t index[4], to = r.addr, count = r.count;
            if (same_order) {
                const uint32_t* dims = s.from.dims;
                uint32_t flat = ((r.n * out.dims[1] + r.c) * out.dims[2] + r.h) * out.dims[3] + r.w;
                while (count != 0) {
                    uint32_t q = flat;
                    index[3] = q % dims[3];
                    q /= dims[3];
                    index[2] = q % dims[2];
                    q /= dims[2];
                    index[1] = q % dims[1];
                    index[0] = q / dims[1];
                    const uint32_t n = least(count, dims[3] - index[3]);
                    gather<T>(s, to, index, 3, 1, n, index[2], index[3]);
                    flat += n;
                    to += n * sizeof(T);
                    count -= n;
                }
                return;
            }
            uint32_t row = 0;
            for (uint32_t i = 0; i < 3; i++) {
                row = at[i] - rp_common_arg(12 + i);
                if (row >= rp_common_arg(16 + i)) {
                    fill<T>(to, count, value);
                    return;
                }
                index[rp_common_arg(i)] = rp_common_arg(4 + i) + row * rp_common_arg(8 + i);
            }
            if (r.w < before) {
                const uint32_t n = least(count, before - r.w);
                fill<T>(to, n, value);
                to += n * sizeof(T);
                count -= n;
            }
            const uint32_t column = r.w + r.count - count - before;
            if (count != 0 && column < taken) {
                const uint32_t n = least(count, taken - column);
                index[along] = start + column * step;
                gather<T>(s, to, index, along, step, n, row, column);
                to += n * sizeof(T);
                count -= n;
            }
            fill<T>(to, count, value);
        });
        out.flush(page);
    }
    rp_wait_writes(noc_index);
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    Tensor out;
    out.read(26, 0);
    switch (size_of(out.type)) {
    case 1: rearrange<uint8_t>(first, end); break;
    case 2: rearrange<uint16_t>(first, end); break;
    default: rearrange<uint32_t>(first, end);
    }
}
