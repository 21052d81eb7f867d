// Elements of tensors in any layout, for the engines: as many as a tile has follow one another in L1, in any order, for
// operations on elements.
#pragma once
#include "tensor.h"

constexpr uint32_t kTileElements = 1024;

// tiles_of returns how many tiles hold the elements of a page.
static inline uint32_t tiles_of(const Tensor& t) {
    return t.flags & kFlagTile ? 1 : (t.page_width + kTileElements - 1) / kTileElements;
}

// copy_elements copies elements, of which the first stands for all if step is 0.
static inline void copy_elements(uint32_t to, uint32_t from, uint32_t step, uint32_t count, uint32_t size) {
    if (size == 4) {
        for (uint32_t i = 0; i < count; i++, to += 4, from += step) {
            *reinterpret_cast<volatile uint32_t*>(to) = *reinterpret_cast<const volatile uint32_t*>(from);
        }
        return;
    }
    if (step != 0 && ((to ^ from) & 2) == 0) {  // words, but for what is before and after them
        if ((to & 2) != 0 && count != 0) {
            *reinterpret_cast<volatile uint16_t*>(to) = *reinterpret_cast<const volatile uint16_t*>(from);
            to += 2, from += 2, count--;
        }
        for (; count >= 2; count -= 2, to += 4, from += 4) {
            *reinterpret_cast<volatile uint32_t*>(to) = *reinterpret_cast<const volatile uint32_t*>(from);
        }
    }
    for (uint32_t i = 0; i < count; i++, to += 2, from += step) {
        *reinterpret_cast<volatile uint16_t*>(to) = *reinterpret_cast<const volatile uint16_t*>(from);
    }
}
