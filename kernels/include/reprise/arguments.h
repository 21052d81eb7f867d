// Arguments of a kernel under tt-metal's names: those of runtime, and those known when compiling (C++17, any processor).
#pragma once

#include <stdint.h>

#include "reprise/kernel.h"

#define FORCE_INLINE inline __attribute__((always_inline))

static FORCE_INLINE uintptr_t get_arg_addr(int arg_idx) { return RP_LOCAL->rta_base + 4u * (uint32_t)arg_idx; }
static FORCE_INLINE uintptr_t get_common_arg_addr(int arg_idx) { return RP_LOCAL->crta_base + 4u * (uint32_t)arg_idx; }

template <typename T>
FORCE_INLINE T get_arg_val(int arg_idx) {
    static_assert(sizeof(T) == 4, "runtime arguments have 4 bytes");
    return *reinterpret_cast<volatile T*>(get_arg_addr(arg_idx));
}
template <typename T>
FORCE_INLINE T get_common_arg_val(int arg_idx) {
    static_assert(sizeof(T) == 4, "runtime arguments have 4 bytes");
    return *reinterpret_cast<volatile T*>(get_common_arg_addr(arg_idx));
}

#if defined(KERNEL_COMPILE_TIME_ARGS)
// From -DKERNEL_COMPILE_TIME_ARGS=1,2,3
constexpr uint32_t kernel_compile_time_args[] = {KERNEL_COMPILE_TIME_ARGS};
template <uint32_t Idx>
constexpr uint32_t get_ct_arg() {
    static_assert(Idx < sizeof(kernel_compile_time_args) / 4, "compile-time argument index out of range");
    return kernel_compile_time_args[Idx];
}
#define get_compile_time_arg_val(arg_idx) get_ct_arg<arg_idx>()
#endif

static FORCE_INLINE uint8_t get_absolute_logical_x() { return RP_LOCAL->logical_x; }
static FORCE_INLINE uint8_t get_absolute_logical_y() { return RP_LOCAL->logical_y; }
static FORCE_INLINE uint8_t get_relative_logical_x() { return RP_LOCAL->relative_x; }
static FORCE_INLINE uint8_t get_relative_logical_y() { return RP_LOCAL->relative_y; }
