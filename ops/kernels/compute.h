// The operations on elements.
#pragma once
#include "operations.h"
#include "tensor.h"

// compute takes and returns 32-bit integers, or the bits of single-precision floats.
static inline uint32_t compute(uint32_t op, bool floats, uint32_t a, uint32_t b) {
    switch (op) {
    case kRelu: return a & kSign && (!floats || a <= (kSign | kInfinity)) ? 0 : a;
    case kAdd: return floats ? f32_add(a, b) : a + b;
    case kMultiply: return floats ? f32_mul(a, b) : a * b;
    case kSubtract: return floats ? f32_add(a, b ^ kSign) : a - b;
    default: return a;
    }
}
