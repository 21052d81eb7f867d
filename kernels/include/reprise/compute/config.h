// What a compute kernel is compiled for: which thread of the engines, in which formats, with how many phases. One source is
// compiled three times, with TRISC_UNPACK, TRISC_MATH and TRISC_PACK (kernels.CompileCompute does it).
#pragma once

#include "reprise/arguments.h"
#include "reprise/tensix.h"

#if defined(TRISC_UNPACK) + defined(TRISC_MATH) + defined(TRISC_PACK) != 1
#error "a compute kernel is compiled with one of TRISC_UNPACK, TRISC_MATH and TRISC_PACK"
#endif

// UNPACK((x)), MATH((x)), PACK((x)): a statement of one thread.
#if defined(TRISC_UNPACK)
#define UNPACK(x) x
#else
#define UNPACK(x)
#endif
#if defined(TRISC_MATH)
#define MATH(x) x
#else
#define MATH(x)
#endif
#if defined(TRISC_PACK)
#define PACK(x) x
#else
#define PACK(x)
#endif

// Phases of a product: 0 (LoFi, one phase), 2, 3 or 4 (HiFi).
#if !defined(MATH_FIDELITY)
#define MATH_FIDELITY 4
#endif
// Whether Dst has 32 bits: 8 tiles then instead of 16, of which a kernel has half at a time.
#if !defined(DST_ACCUM_MODE)
#define DST_ACCUM_MODE 0
#endif
// The format of each circular buffer, by index: enum rp_format.
#if !defined(CB_FORMATS)
#define CB_FORMATS 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5
#endif
// Circular buffers of fp32 that copy_tile moves to Dst as they are, not by way of SrcA: a mask.
#if !defined(CB_UNPACK_TO_DST)
#define CB_UNPACK_TO_DST 0
#endif
static_assert(MATH_FIDELITY == 0 || (MATH_FIDELITY >= 2 && MATH_FIDELITY <= 4), "MATH_FIDELITY is 0, 2, 3 or 4");

namespace reprise {

constexpr bool wide_dst = DST_ACCUM_MODE;
constexpr uint32_t phases = MATH_FIDELITY == 0 ? 1 : MATH_FIDELITY;

constexpr uint8_t cb_formats[] = {CB_FORMATS};
static_assert(sizeof(cb_formats) == RP_NUM_CBS, "CB_FORMATS has a format for each circular buffer");
FORCE_INLINE constexpr uint32_t cb_format(uint32_t cb) { return cb_formats[cb]; }

// Whether a circular buffer has integers of 8 bits, which the matrix unit multiplies in a mode of their own.
FORCE_INLINE constexpr bool any_int8() {
    for (uint8_t format : cb_formats) {
        if (format == RP_INT8) {
            return true;
        }
    }
    return false;
}

// What unpackers make of a format in SrcA and SrcB: fp32 doesn't fit there.
FORCE_INLINE constexpr uint32_t source_format(uint32_t format) {
    return format != RP_FP32 ? format : (uint32_t)(wide_dst ? RP_TF32 : RP_BF16);
}

// Whether copy_tile unpacks a circular buffer to Dst.
FORCE_INLINE constexpr bool to_dst(uint32_t cb) {
    return cb_format(cb) == RP_INT32 || (wide_dst && cb_format(cb) == RP_FP32 && (CB_UNPACK_TO_DST >> cb & 1));
}

// Bytes of a datum's share of L1, times 8.
FORCE_INLINE constexpr uint32_t format_bits(uint32_t format) {
    return format == RP_BFP4 ? 4 : format == RP_BFP2 ? 2 : (format & 3) == 0 ? 32 : (format & 3) == 1 ? 16 : 8;
}
FORCE_INLINE constexpr bool block_format(uint32_t format) {
    return format == RP_BFP8 || format == RP_BFP4 || format == RP_BFP2 || format == RP_BFP8A || format == RP_BFP4A ||
           format == RP_BFP2A;
}

// Dst has two halves: the math thread fills one while the pack thread empties the other. This is the row where this thread's
// begins.
constexpr uint32_t half_rows = 512;
constexpr uint32_t tile_rows = 64;
static uint32_t half;

// Semaphores of the engines.
enum semaphore {
    sem_dst = 1,       // halves of Dst that are full: at most two
    sem_unpacked = 2,  // unpacked to Dst
    sem_dst_free = 7   // Dst may be unpacked to
};

// Executes an instruction: in the core's stream if it is known when compiling, else by a store.
FORCE_INLINE void tt(uint32_t word) {
    if (__builtin_constant_p(word)) {
        RP_TTI(word);
    } else {
        rp_tensix_push(word);
    }
}

// Sets a register of the engines by instructions.
FORCE_INLINE void set_gpr(uint32_t gpr, uint32_t value) {
    tt(RP_OP_SETDMAREG(2 * gpr, 0, 0, 0) | (value & 0xFFFFu) << 8);
    tt(RP_OP_SETDMAREG(2 * gpr + 1, 0, 0, 0) | value >> 16 << 8);
}

}  // namespace reprise
