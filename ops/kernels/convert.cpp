// Converts a share of a tensor's pages to another type of elements, by the RISC-V core: floats to integers towards zero, as the
// engines' typecast (DataType.integer in ../dtype.go); integers to the nearest float, ties to even; integers to narrower ones by their
// low bits. BRISC.
//
// Unique arguments: 0 first page, 1 number of pages. Common arguments: the result and the operand, of one shape and layout. Circular
// buffers are only used as memory in L1: 0 for a page of the operand, 1 for one of the result.

#include "tensor.h"

// to_integer returns the integer of a float, for a type.
static uint32_t to_integer(uint32_t type, uint32_t v) {
    const bool negative = v & kSign, has_sign = type == kInt32;
    const int32_t exponent = static_cast<int32_t>(v >> 23 & 255) - 127;
    const uint32_t most = type == kUint8 ? 0xFF : type == kUint16 ? 0xFFFF : type == kUint32 ? 0xFFFFFFFF : 0x7FFFFFFF;
    if (exponent < 0 || (negative && !has_sign)) {
        return 0;
    }
    const uint32_t m = (v & 0x7FFFFF) | 0x800000;
    uint32_t u = exponent >= 32 ? 0xFFFFFFFF : exponent >= 23 ? m << (exponent - 23) : m >> (23 - exponent);
    u = u < most ? u : most;
    return negative ? 0 - u : u;
}

// to_float returns the float of an integer of a type.
static uint32_t to_float(uint32_t type, uint32_t v) {
    const uint32_t sign = type == kInt32 ? v & kSign : 0;
    if (sign != 0) {
        v = 0 - v;
    }
    if (v == 0) {
        return 0;
    }
    uint32_t exponent = 127 + 31;  // of bit 31
    while (!(v & 0x80000000)) {
        v <<= 1;
        exponent--;
    }
    const uint32_t rest = v & 0xFF;
    v >>= 8;
    v += rest > 0x80 || (rest == 0x80 && (v & 1));
    return sign + ((exponent - 1) << 23) + v;  // the highest bit adds one to the exponent, and so does a carry out of rounding
}

// round_to rounds a float to a type of floats, ties to even.
static uint32_t round_to(uint32_t type, uint32_t v) {
    if (type != kBfloat16) {
        return v;
    }
    return (v & ~kSign) > kInfinity ? (v & kSign) | 0x7FC00000 : v + 0x7FFF + (v >> 16 & 1);
}

static inline uint32_t convert(uint32_t from, uint32_t to, uint32_t v) {
    if (!is_float(from)) {
        return is_float(to) ? round_to(to, to_float(from, v)) : v;
    }
    return is_float(to) ? round_to(to, v) : to_integer(to, v);
}

void kernel_main() {
    const uint32_t first = rp_arg(0), end = first + rp_arg(1);
    Tensor out, a;
    a.read(out.read(0, get_write_ptr(1)), get_write_ptr(0));
    const uint32_t size = size_of(a.type), to_size = size_of(out.type);
    for (uint32_t page = first; page != end; page++) {
        clear(out);
        each_run(out, page, [&](const Run& r) {
            for (uint32_t i = 0; i < r.count;) {
                uint32_t n, x = a.find(a.matrix(r.n, r.c), r.h, r.w + i, &n);
                for (; n != 0 && i < r.count; n--, i++, x += size) {
                    store(out.type, r.addr + i * to_size, convert(a.type, out.type, load(a.type, x)));
                }
            }
        });
        out.flush(page);
    }
    rp_wait_writes(noc_index);
}
