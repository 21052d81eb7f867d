// Computes a share of the pages of a tensor that has the elements of another one in another order, with a value where that one
// has no element. BRISC or NCRISC.
//
// Dimensions count from the last one: 0 is along rows, 1 along columns, others are outside of matrices.
//
// Unique arguments: 0 first page, 1 number of pages. Common arguments: 0 the bits of the value; 1 number of slots, 2 what a page's slot
// is chosen by, 3 bytes of a slot, 4 whether slots hold chunks instead of whole pages, 5 number of dimensions, or 0 if both tensors
// have their elements in the same order, row by row; for each dimension of the result: its size there, the size of the operand's
// dimension of this number, the dimension of the operand that it is, where it begins there, the step there, how many elements of the
// result come before, how many elements are taken. Then the result and the operand.
//
// Circular buffers are only used as memory in L1: 0 holds a page of the result, 1 the slots, 2 a word for each slot.

#include "tensor.h"

constexpr uint32_t kMost = 8;  // dimensions

// A chunk is a part of a page. Its size suits every bank's alignment.
constexpr uint32_t kChunk = 64;

// What a slot is chosen by: the position in dimension 0 or 1 of the result, or the page.
// Of transposed tiles there are two slots, in turn.
enum Key : uint32_t { kByColumn, kByRow, kByPage, kTransposed };

// Slots hold pages of the operand, or chunks of them, each at one place only.
struct Slots {
    Tensor from;
    uint32_t count, key, bytes, memory;
    uint32_t* held;
    bool chunks, reading;
    uint32_t rank, sizes[kMost];  // of the operand

    // matrix returns the matrix of an element.
    uint32_t matrix(const uint32_t* index) const {
        uint32_t m = index[rank - 1];
        for (uint32_t k = rank - 2; k != 1; k--) {
            m = m * sizes[k] + index[k];
        }
        return m;
    }

    // page returns the page of an element.
    uint32_t page(const uint32_t* index) const {
        const uint32_t line = matrix(index) * from.high;
        if (from.flags & kFlagTile) {
            return (line + (index[1] >> 5)) * from.wide + (index[0] >> 5);
        }
        return (line + index[1]) * from.wide + index[0] / from.page_width;
    }

    // begin starts to read a page unless the slot holds it, and returns its address.
    uint32_t begin(uint32_t page, uint32_t slot) {
        if (held[slot] != page) {
            fetch(page, slot);
        }
        return memory + slot * bytes;
    }

    __attribute__((noinline)) void fetch(uint32_t page, uint32_t slot) {
        held[slot] = page;
        reading = true;
        from.copy(page, memory + slot * bytes);
    }

    // wait waits for what was begun.
    void wait() {
        if (reading) {
            rp_wait_reads(noc_index);
            reading = false;
        }
    }
};

static inline uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

// Row is what is left to be stored of a row of a page: tiles have 16 elements of it in one face, and 16 in the next.
template <class T>
struct Row {
    uint32_t to, left;  // address, and elements up to the end of the face

    void advance(uint32_t n) {
        to += n * sizeof(T);
        left -= n;
        if (left == 0) {
            to += 240 * sizeof(T);
            left = 16;
        }
    }

    void fill(uint32_t count, uint32_t value) {
        while (count != 0) {
            const uint32_t n = least(count, left);
            for (uint32_t i = 0; i < n; i++) {
                reinterpret_cast<T*>(to)[i] = value;
            }
            advance(n);
            count -= n;
        }
    }

    // unrolled copies elements with a constant distance.
    template <class E, uint32_t distance, uint32_t count>
    static void unrolled(uint32_t to, uint32_t from) {
#pragma GCC unroll 16
        for (uint32_t i = 0; i < count; i += 4) {
            const E a = *reinterpret_cast<const E*>(from + i * distance), b = *reinterpret_cast<const E*>(from + (i + 1) * distance);
            const E c = *reinterpret_cast<const E*>(from + (i + 2) * distance), d = *reinterpret_cast<const E*>(from + (i + 3) * distance);
            E* q = reinterpret_cast<E*>(to) + i;
            q[0] = a, q[1] = b, q[2] = c, q[3] = d;
        }
    }

    // copy copies elements whose distance is given in bytes; there is room for them up to the end of the face.
    void copy(uint32_t from, uint32_t distance, uint32_t count) {
        uint32_t at = to, n = count;
        if (n == 16) {
            switch (distance) {
            case sizeof(T):
                if (((at | from) & 3) != 0) {
                    break;
                }
                unrolled<uint32_t, 4, 4 * sizeof(T)>(at, from);
                advance(16);
                return;
            case 16 * sizeof(T):
                unrolled<T, 16 * sizeof(T), 16>(at, from);
                advance(16);
                return;
            }
        }
        if (sizeof(T) < 4 && distance == sizeof(T) && ((at ^ from) & 3) == 0) {
            constexpr uint32_t each = 4 / sizeof(T);
            for (; n != 0 && (at & 3) != 0; n--, at += sizeof(T), from += sizeof(T)) {
                *reinterpret_cast<T*>(at) = *reinterpret_cast<const T*>(from);
            }
            for (; n >= 4 * each; n -= 4 * each, at += 16, from += 16) {
                const uint32_t* p = reinterpret_cast<const uint32_t*>(from);
                const uint32_t a = p[0], b = p[1], c = p[2], d = p[3];
                uint32_t* q = reinterpret_cast<uint32_t*>(at);
                q[0] = a, q[1] = b, q[2] = c, q[3] = d;
            }
        }
        if (distance == kChunk) {
            for (; n >= 8; n -= 8, at += 8 * sizeof(T), from += 8 * kChunk) {
                unrolled<T, kChunk, 8>(at, from);
            }
        }
        for (; n >= 4; n -= 4, at += 4 * sizeof(T), from += 4 * distance) {
            const T a = *reinterpret_cast<const T*>(from), b = *reinterpret_cast<const T*>(from + distance);
            const T c = *reinterpret_cast<const T*>(from + 2 * distance), d = *reinterpret_cast<const T*>(from + 3 * distance);
            T* q = reinterpret_cast<T*>(at);
            q[0] = a, q[1] = b, q[2] = c, q[3] = d;
        }
        for (; n != 0; n--, at += sizeof(T), from += distance) {
            *reinterpret_cast<T*>(at) = *reinterpret_cast<const T*>(from);
        }
        advance(count);
    }
};

// across takes count elements from pages with a distance, each from the same place, which is in row and column of the result without
// what comes before.
template <class T>
static void across(Slots& s, Row<T>& r, const uint32_t* index, uint32_t along, uint32_t step, uint32_t count, uint32_t column, bool all) {
    const Tensor& t = s.from;
    const uint32_t h = index[1], w = index[0], matrix = s.matrix(index) * t.high;
    uint32_t distance = along == 1 ? t.wide : t.high * t.wide, page, off;
    for (uint32_t k = 2; k < along; k++) {
        distance *= s.sizes[k];
    }
    distance *= step;
    if (t.flags & kFlagTile) {
        page = (matrix + h / 32) * t.wide + w / 32;
        off = (((h / 16 % 2 * 2 + w / 16 % 2) << 8) + h % 16 * 16 + w % 16) * sizeof(T);
    } else {
        page = (matrix + h) * t.wide + w / t.page_width;
        off = w % t.page_width * sizeof(T);
    }
    const uint32_t first = off & ~(kChunk - 1), length = least(t.bytes - first, kChunk);
    const uint32_t chunk = page * ((t.bytes + kChunk - 1) / kChunk) + first / kChunk;  // of the first element
    uint32_t slot = column % s.count;
    while (count != 0) {
        const uint32_t n = least(least(count, s.count - slot), r.left);
        // If there is a slot for each column, the same columns always begin at the same slot.
        if (!all || s.held[slot] != chunk + slot) {
            s.held[slot] = chunk + slot;
            for (uint32_t i = 0; i < n; i++) {
                const rp_place p = t.place(page + i * distance);
                rp_noc_read(noc_index, p.coord, p.addr + first, s.memory + (slot + i) * kChunk, length);
            }
            rp_wait_reads(noc_index);
        }
        r.copy(s.memory + slot * kChunk + off - first, kChunk, n);
        page += n * distance;
        count -= n;
        slot = slot + n == s.count ? 0 : slot + n;
    }
}

// gather takes count elements from index on, along a dimension of the operand with a step. row is the slot of a row.
template <class T>
static void gather(Slots& s, Row<T>& r, const uint32_t* index, uint32_t along, uint32_t step, uint32_t count, uint32_t row) {
    const Tensor& t = s.from;
    const uint32_t matrix = s.matrix(index) * t.high;
    uint32_t h = index[1], w = index[0];
    if (!(t.flags & kFlagTile)) {
        const uint32_t line = (matrix + h) * t.wide;
        while (count != 0) {
            uint32_t page = line, column = w, n = least(count, r.left);
            if (t.wide != 1) {
                page += w / t.page_width;
                column = w % t.page_width;
                const uint32_t left = t.page_width - column;
                n = least(n, step == 1 ? left : (left + step - 1) / step);
            }
            const uint32_t from = s.begin(page, s.key == kByRow ? row : page % s.count) + column * sizeof(T);
            s.wait();
            r.copy(from, step * sizeof(T), n);
            w += n * step;
            count -= n;
        }
        return;
    }
    while (count != 0) {
        const uint32_t page = (matrix + (h >> 5)) * t.wide + (w >> 5);
        const uint32_t place = ((h >> 4 & 1) * 2 + (w >> 4 & 1)) * 256 + (h & 15) * 16 + (w & 15);
        const uint32_t left = 16 - ((along == 0 ? w : h) & 15);
        const uint32_t n = least(least(count, r.left), step == 1 ? left : (left + step - 1) / step);
        const uint32_t from = s.begin(page, s.key == kByRow ? row : page % s.count) + place * sizeof(T);
        s.wait();
        if (along == 0) {
            r.copy(from, step * sizeof(T), n);
            w += n * step;
        } else {
            r.copy(from, step * 16 * sizeof(T), n);
            h += n * step;
        }
        count -= n;
    }
}

// words_of takes as many of count elements of a row as are words in 16 elements that follow one another in both tensors, from index on,
// and returns how many. row is the slot of a row.
template <class T>
static inline uint32_t words_of(Slots& s, Row<T>& r, const uint32_t* index, uint32_t count, uint32_t row) {
    constexpr uint32_t size = sizeof(T), words = 4 * size;
    const Tensor& t = s.from;
    uint32_t w = index[0], page = s.matrix(index) * t.high;
    const uint32_t h = index[1], jump = r.left == 16 ? 256 * size : 16 * size;
    count &= ~15u;
    if ((r.to & 3) != 0 || (r.left < count && r.left != 16)) {
        return 0;
    }
    if (!(t.flags & kFlagTile)) {
        if (t.wide != 1 || (w * size & 3) != 0 || count == 0) {
            return 0;
        }
        page += h;
        uint32_t from = s.begin(page, s.key == kByRow ? row : page % s.count) + w * size;
        s.wait();
        for (uint32_t i = 0; i < count; i += 16, r.to += jump, from += 16 * size) {
            Row<T>::template unrolled<uint32_t, 4, words>(r.to, from);
        }
        return count;
    }
    if ((w & 15) != 0) {
        return 0;
    }
    page = (page + (h >> 5)) * t.wide + (w >> 5);
    const uint32_t off = ((h >> 4 & 1) * 512 + (h & 15) * 16) * size;
    uint32_t from = 0;
    for (uint32_t i = 0; i < count; i += 16, w += 16, r.to += jump) {
        if ((w & 16) == 0 || i == 0) {
            from = s.begin(page, s.key == kByRow ? row : page % s.count) + off;
            s.wait();
            page++;
        }
        Row<T>::template unrolled<uint32_t, 4, words>(r.to, from + (w & 16) * 16 * size);
    }
    return count;
}

// Axis says which elements of the operand a dimension of the result has.
struct Axis {
    uint32_t size, from, begin, step, before, taken;
};

// locate stores the indices of the operand for a matrix of the result, and reports whether it has one.
static inline bool locate(uint32_t* index, const Axis* axes, uint32_t rank, uint32_t matrix) {
    bool inside = true;
    for (uint32_t i = 2; i < rank; i++) {
        const Axis& x = axes[i];
        const uint32_t next = i + 1 == rank ? 0 : matrix / x.size, k = matrix - next * x.size - x.before;
        inside = inside && k < x.taken;
        index[x.from] = x.begin + k * x.step;
        matrix = next;
    }
    return inside;
}

// source returns the tile that a tile of the result is, transposed.
static inline uint32_t source(const Tensor& out, const Slots& s, const Axis* axes, uint32_t page) {
    const uint32_t line = page / out.wide;
    uint32_t index[kMost] = {};
    locate(index, axes, s.rank, line / out.high);
    return (s.matrix(index) * s.from.high + page % out.wide) * s.from.wide + line % out.high;
}

// transpose stores tiles with rows and columns exchanged, and reads one while it stores the one before.
template <class T>
static void transpose(Tensor& out, Slots& s, const Axis* axes, uint32_t first, uint32_t end) {
    constexpr uint32_t size = sizeof(T);
    s.from.copy(source(out, s, axes, first), s.memory);
    for (uint32_t page = first, turn = 0; page != end; page++, turn ^= 1) {
        rp_wait_reads(noc_index);
        if (page + 1 != end) {
            s.from.copy(source(out, s, axes, page + 1), s.memory + (turn ^ 1) * s.bytes);
        }
        for (uint32_t face = 0; face < 4; face++) {
            uint32_t to = out.scratch + face * 256 * size, from = s.memory + turn * s.bytes + ((face & 1) * 2 + (face >> 1)) * 256 * size;
            for (uint32_t i = 0; i < 16; i++, to += 16 * size, from += size) {
                Row<T>::template unrolled<T, 16 * size, 16>(to, from);
            }
        }
        out.flush(page);
    }
}

template <class T>
static void rearrange(uint32_t first, uint32_t end) {
    const uint32_t value = rp_common_arg(0), rank = rp_common_arg(5);
    const bool same_order = rank == 0;
    Tensor out;
    Slots s;
    s.count = rp_common_arg(1);
    s.key = rp_common_arg(2);
    s.bytes = rp_common_arg(3);
    s.chunks = rp_common_arg(4) != 0;
    s.reading = false;
    s.memory = get_write_ptr(1);
    s.held = reinterpret_cast<uint32_t*>(get_write_ptr(2));
    s.from.read(out.read(6 + 7 * rank, get_write_ptr(0)), 0);
    for (uint32_t i = 0; i < s.count; i++) {
        s.held[i] = 0xFFFFFFFF;
    }
    Axis axes[kMost] = {};
    for (uint32_t i = 0; i < kMost; i++) {
        s.sizes[i] = 1;
    }
    s.rank = same_order ? 4 : rank;
    s.sizes[2] = s.from.dims[1];
    for (uint32_t i = 0; i < rank; i++) {
        const uint32_t x = 6 + 7 * i;
        s.sizes[i] = rp_common_arg(x + 1);
        axes[i] = {rp_common_arg(x), rp_common_arg(x + 2), rp_common_arg(x + 3), rp_common_arg(x + 4), rp_common_arg(x + 5), rp_common_arg(x + 6)};
    }
    if (s.key == kTransposed) {
        transpose<T>(out, s, axes, first, end);
        rp_wait_writes(noc_index);
        return;
    }
    const Axis &x = axes[0], &y = axes[1];
    const bool tiles = out.flags & kFlagTile, every = x.taken <= s.count, straight = x.from == 0 && x.step == 1;
    clear(out);
    for (uint32_t page = first; page != end; page++) {
        const uint32_t line = page / out.wide, column = page % out.wide * out.page_width, matrix = line / out.high;
        const uint32_t h = line % out.high * (tiles ? 32 : 1), rows = tiles ? least(32, out.dims[2] - h) : 1;
        const uint32_t columns = least(out.page_width, out.dims[3] - column);
        if (columns < out.page_width || (tiles && rows < 32)) {
            clear(out);
        }
        uint32_t index[kMost] = {};
        const bool inside = !same_order && locate(index, axes, rank, matrix);
        // A page for each row: all are read at the same time.
        const uint32_t skipped = column < x.before ? x.before : column;
        if (s.key == kByRow && inside && rows <= s.count && skipped - x.before < x.taken) {
            index[x.from] = x.begin + (skipped - x.before) * x.step;
            for (uint32_t i = 0; i < rows; i++) {
                const uint32_t row = h + i - y.before;
                if (row < y.taken) {
                    index[y.from] = y.begin + row * y.step;
                    s.begin(s.page(index), row % s.count);
                }
            }
        }
        for (uint32_t i = 0; i < rows; i++) {
            Row<T> r = {out.scratch + ((i >> 4) * 512 + (i & 15) * 16) * (uint32_t)sizeof(T), tiles ? 16 : 0xFFFFFFFF};
            uint32_t left = columns;
            if (same_order) {
                const uint32_t* dims = s.from.dims;
                uint32_t q = (matrix * out.dims[2] + h + i) * out.dims[3] + column;
                index[0] = q % dims[3];
                q /= dims[3];
                index[1] = q % dims[2];
                q /= dims[2];
                index[2] = q % dims[1];
                index[3] = q / dims[1];
                while (left != 0) {
                    const uint32_t n = least(left, dims[3] - index[0]);
                    const uint32_t done = words_of<T>(s, r, index, n, 0);
                    index[0] += done;
                    gather<T>(s, r, index, 0, 1, n - done, 0);
                    left -= n;
                    index[0] = 0;
                    for (uint32_t k = 1; ++index[k] == dims[3 - k] && k != 3; k++) {
                        index[k] = 0;
                    }
                }
                continue;
            }
            const uint32_t row = h + i - y.before;
            if (!inside || row >= y.taken) {
                r.fill(left, value);
                continue;
            }
            index[y.from] = y.begin + row * y.step;
            if (column < x.before) {
                const uint32_t n = least(left, x.before - column);
                r.fill(n, value);
                left -= n;
            }
            const uint32_t begin = column + columns - left - x.before;
            if (left != 0 && begin < x.taken) {
                const uint32_t n = least(left, x.taken - begin);
                index[x.from] = x.begin + begin * x.step;
                if (s.chunks) {
                    across<T>(s, r, index, x.from, x.step, n, begin, every);
                } else {
                    const uint32_t slot = s.key == kByRow ? row % s.count : 0;
                    const uint32_t done = straight ? words_of<T>(s, r, index, n, slot) : 0;
                    if (done != n) {
                        index[x.from] += done * x.step;
                        gather<T>(s, r, index, x.from, x.step, n - done, slot);
                    }
                }
                left -= n;
            }
            r.fill(left, value);
        }
        out.flush(page);
    }
    rp_wait_writes(noc_index);
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    Tensor out;
    out.read(6 + 7 * rp_common_arg(5), 0);
    switch (size_of(out.type)) {
    case 1: rearrange<uint8_t>(first, end); break;
    case 2: rearrange<uint16_t>(first, end); break;
    default: rearrange<uint32_t>(first, end);
    }
}
