// The order of elements.
#pragma once
#include "tensor.h"

// ordered maps values, as load returns them, to integers of the same order. NaN is beyond the infinity of its sign, as for the engines'
// maxima; NaNs of one sign are equal.
static inline uint32_t ordered(uint32_t type, uint32_t v) {
    if (type == kInt32) {
        return v ^ kSign;
    }
    if (!is_float(type)) {
        return v;
    }
    if ((v & ~kSign) > kInfinity) {
        return v & kSign ? 0 : 0xFFFFFFFF;
    }
    if (v == kSign) {
        v = 0;
    }
    return v & kSign ? ~v : v | kSign;
}
