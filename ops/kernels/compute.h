// The operations on integers.
#pragma once
#include "operations.h"
#include "tensor.h"

// compute takes and returns integers of 32 bits.
static inline uint32_t compute(uint32_t op, uint32_t a, uint32_t b) {
    switch (op) {
    case kRelu: return a >> 31 ? 0 : a;
    case kAdd: return a + b;
    case kMultiply: return a * b;
    case kSubtract: return a - b;
    default: return a;
    }
}
