// The operations on elements, with the host's numbers.
#pragma once
#include <cstdint>

enum Operation : uint32_t { kCopy, kRelu, kAdd, kMultiply, kSubtract, kDivide };
