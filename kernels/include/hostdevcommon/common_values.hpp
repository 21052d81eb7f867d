// Values of semaphores that kernels and hosts of tt-metal agree on.
#pragma once

#include <stdint.h>

constexpr uint32_t INVALID = 0;
constexpr uint32_t VALID = 1;
