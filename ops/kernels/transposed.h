// Operands of products that are taken with rows and columns exchanged.
#pragma once
#include <cstdint>

#include "tensor.h"

// A flag of a tensor, beside those of tensor.h.
constexpr uint32_t kFlagTransposed = 8;

// Pages is how pages of tiles of an operand follow one another: a matrix of the operand has rows and columns of them, in the tensor's
// pages or exchanged.
struct Pages {
    uint32_t matrix, down, right;  // pages of a matrix; from a page to the one below, and to the one on the right

    explicit Pages(const Tensor& t)
        : matrix(t.high * t.wide), down(t.flags & kFlagTransposed ? 1 : t.wide), right(t.flags & kFlagTransposed ? t.wide : 1) {}
};
