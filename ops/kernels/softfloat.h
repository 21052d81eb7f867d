// IEEE 754 single precision for cores without a floating-point unit: round to nearest, ties to even, with subnormals,
// infinities and signed zeros. Values are given by their bits. Every NaN result is kNaN.
#pragma once
#include <cstdint>

constexpr uint32_t kNaN = 0x7FC00000;
constexpr uint32_t kInfinity = 0x7F800000;
constexpr uint32_t kSign = 0x80000000;

// f32_pack rounds a significand of 24 bits and three more, the last of which is sticky, to a value with an exponent field
// of at least 1. A significand without its highest bit is subnormal, and then the exponent is 1.
static inline uint32_t f32_pack(uint32_t sign, int32_t exponent, uint32_t m) {
    if (exponent >= 255) {
        return sign | kInfinity;
    }
    const uint32_t rest = m & 7;
    m >>= 3;
    m += rest > 4 || (rest == 4 && (m & 1));
    // The highest bit adds one to the exponent, and so does a carry out of rounding.
    return sign + (static_cast<uint32_t>(exponent - 1) << 23) + m;
}

// shift_sticky shifts right and sets the lowest bit if any bit shifted out was 1.
static inline uint32_t shift_sticky(uint32_t m, uint32_t by) {
    if (by == 0) {
        return m;
    }
    if (by >= 31) {
        return m != 0;
    }
    return m >> by | ((m << (32 - by)) != 0);
}

static __attribute__((noinline, unused)) uint32_t f32_add(uint32_t a, uint32_t b) {
    if ((a & ~kSign) < (b & ~kSign)) {
        const uint32_t t = a;
        a = b;
        b = t;
    }
    int32_t ea = a >> 23 & 255, eb = b >> 23 & 255;
    if (ea == 255) {
        // The larger one is infinite or NaN; the sum of infinities of different sign is NaN.
        return (a & 0x7FFFFF) != 0 || (eb == 255 && ((a ^ b) & kSign)) ? kNaN : a;
    }
    uint32_t ma = a & 0x7FFFFF, mb = b & 0x7FFFFF;
    if (ea != 0) {
        ma |= 0x800000;
    } else {
        ea = 1;
    }
    if (eb != 0) {
        mb |= 0x800000;
    } else {
        eb = 1;
    }
    ma <<= 3;
    mb = shift_sticky(mb << 3, ea - eb);
    if (((a ^ b) & kSign) == 0) {
        ma += mb;
        if (ma & 1u << 27) {
            ma = shift_sticky(ma, 1);
            ea++;
        }
    } else {
        ma -= mb;
        if (ma == 0) {
            return 0;
        }
        while (!(ma & 1u << 26) && ea > 1) {
            ma <<= 1;
            ea--;
        }
    }
    return f32_pack(a & kSign, ea, ma);
}

static __attribute__((noinline, unused)) uint32_t f32_mul(uint32_t a, uint32_t b) {
    const uint32_t sign = (a ^ b) & kSign;
    a &= ~kSign;
    b &= ~kSign;
    if (a >= kInfinity || b >= kInfinity) {
        return a > kInfinity || b > kInfinity || a == 0 || b == 0 ? kNaN : sign | kInfinity;
    }
    if (a == 0 || b == 0) {
        return sign;
    }
    int32_t ea = a >> 23, eb = b >> 23;
    uint32_t ma = a & 0x7FFFFF, mb = b & 0x7FFFFF;
    if (ea != 0) {
        ma |= 0x800000;
    } else {
        for (ea = 1; !(ma & 0x800000); ea--) {
            ma <<= 1;
        }
    }
    if (eb != 0) {
        mb |= 0x800000;
    } else {
        for (eb = 1; !(mb & 0x800000); eb--) {
            mb <<= 1;
        }
    }
    const uint64_t p = static_cast<uint64_t>(ma) * mb;
    int32_t e = ea + eb - 127;
    uint32_t m;
    if (p >> 47) {
        e++;
        m = static_cast<uint32_t>(p >> 21) | ((static_cast<uint32_t>(p) & 0x1FFFFF) != 0);
    } else {
        m = static_cast<uint32_t>(p >> 20) | ((static_cast<uint32_t>(p) & 0xFFFFF) != 0);
    }
    if (e < 1) {
        m = shift_sticky(m, 1 - e);
        e = 1;
    }
    return f32_pack(sign, e, m);
}

// f32_to_bf16 rounds to the upper 16 bits.
static inline uint32_t f32_to_bf16(uint32_t v) {
    if ((v & ~kSign) > kInfinity) {
        return kNaN >> 16;
    }
    return (v + 0x7FFF + (v >> 16 & 1)) >> 16;
}
