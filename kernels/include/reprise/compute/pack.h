// The pack thread: takes tiles from Dst to circular buffers in L1. Blackhole has one packer, which packs four rows at a time;
// Wormhole has four, each for a face.
#pragma once

#include "reprise/compute/config.h"

namespace reprise {
namespace pack {

// Registers of the engines: an address on its way to the configuration, and where packers begin in each half of Dst.
constexpr uint32_t gpr_out = 4, gpr_half0 = 8, gpr_half1 = 12;

#if defined(REPRISE_WORMHOLE)
constexpr uint32_t packers = 4, length = 2;
#else
constexpr uint32_t packers = 1, length = 16;
#endif

// What packers take data of Dst for, to make a format of them.
FORCE_INLINE constexpr uint32_t dst_format(uint32_t format) {
    return format == RP_INT32 || format == RP_UINT16 || format == RP_INT8                 ? format
           : wide_dst ? (format == RP_BF16 ? (uint32_t)RP_BF16 : (uint32_t)RP_FP32)
           : format == RP_FP16 ? (uint32_t)RP_FP16 : (uint32_t)RP_BF16;
}

FORCE_INLINE void record() {
#if defined(REPRISE_WORMHOLE)
    RP_PACK_MODE(1, RP_FIELD(RP_THREAD_PACK_MODE_Y_SRC_CLEAR(0), 1) | RP_FIELD(RP_THREAD_PACK_MODE_Y_DST_CLEAR(0), 1));
    RP_TTI(RP_OP_REPLAY(1, 0, length, 0));
    RP_TTI(RP_OP_PACR(0, 1, 0, 0, 15, 0, 1, 0, 0, 0, 0, 0, 0));  // flushes
    RP_TTI(RP_OP_PACR(1, 0, 1, 0, 15, 0, 1, 0, 0, 0, 0, 0, 0));
#else
    constexpr uint32_t clear = RP_FIELD(RP_THREAD_PACK_MODE_Y_SRC_CLEAR(0), 1);
    RP_PACK_MODE(0, RP_FIELD(RP_THREAD_PACK_MODE_Y_SRC_INCREMENT(0), 4));
    RP_PACK_MODE(1, clear | RP_FIELD(RP_THREAD_PACK_MODE_Z_SRC_CLEAR(0), 1));
    RP_PACK_MODE(2, clear | RP_FIELD(RP_THREAD_PACK_MODE_Z_SRC_INCREMENT(0), 1));
    RP_TTI(RP_OP_REPLAY(1, 0, length, 0));
#define RP_ROWS(mode, last) RP_TTI(RP_OP_PACR(last, 0, 0, 0, 0, 0, mode, 0, 0, 0, 0, 0, 0))
    RP_ROWS(0, 0); RP_ROWS(0, 0); RP_ROWS(0, 0); RP_ROWS(2, 0); RP_ROWS(0, 0); RP_ROWS(0, 0); RP_ROWS(0, 0); RP_ROWS(2, 0);
    RP_ROWS(0, 0); RP_ROWS(0, 0); RP_ROWS(0, 0); RP_ROWS(2, 0); RP_ROWS(0, 0); RP_ROWS(0, 0); RP_ROWS(0, 0); RP_ROWS(1, 1);
#undef RP_ROWS
#endif
}

// Makes the half of Dst that the thread has turned to the packers'.
FORCE_INLINE void choose_half() {
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_THCON | RP_WAIT_PACK);
    tt(RP_OP_WRCFG(RP_FIELD_WORD(RP_CFG_PACK_DST(0)), 1, half != 0 ? gpr_half1 : gpr_half0));
    RP_TTI(RP_OP_NOP);
}

// What stays the same as long as the kernel runs.
FORCE_INLINE void start() {
    for (uint32_t i = 0; i < 4; i++) {
        rp_gpr_store(gpr_half0 + i, packers == 1 ? 0 : 16 * i);
        rp_gpr_store(gpr_half1 + i, half_rows + (packers == 1 ? 0 : 16 * i));
    }
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_EDGE_MASK(0)), 0xFFFF);  // no padding
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_EDGE_MASK(1)), 0);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_ROW_SETS(0)), 0);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_ROW_SETS(16)), 0);
    for (uint32_t i = 0; i < packers; i++) {
        rp_cfg_store(RP_FIELD_WORD(RP_CFG_PACK_ROWS(i)), 16u << 8);
    }
#if defined(REPRISE_BLACKHOLE)
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_PACK_OUT_Y_STRIDE), 0);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_PACK_OUT_BASE), 0);
    RP_TTI(RP_OP_SETADCXX(0, 15, RP_ADC_PACK));
#else
    RP_TTI(RP_OP_SETADCXX(0, 255, RP_ADC_PACK));
#endif
    RP_THREAD_SET(RP_THREAD_STATE_ID, 0);
    RP_TTI(RP_OP_SETADCXY(RP_ADC_SECOND0 | RP_ADC_SECOND1, 0, 0, 0, 0, RP_ADC_PACK));
    RP_TTI(RP_OP_SETADCZW(15, 0, 0, 0, 0, RP_ADC_PACK));
    RP_STALLWAIT(RP_STALL_CFG | RP_STALL_PACK, RP_WAIT_STORES);
    half = 0;
    choose_half();
    record();
    RP_CFG_LOCK();
    RP_CFG_RMW(RP_CFG_RELU, 0);
    RP_CFG_RMW(RP_CFG_RELU_THRESHOLD, 0);
    RP_CFG_UNLOCK();
}

// How packers write the tiles of a circular buffer; accumulate adds to what is in L1.
FORCE_INLINE void configure(uint32_t format, bool accumulate = false) {
    const uint32_t from = dst_format(format);
    const uint32_t bytes = format_bits(from) / 8;
    const uint32_t face = 2 * format_bits(format);  // units of 16 bytes
    rp_tensix_sync();
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_PACK_Y_STRIDE), 16 * bytes << RP_FIELD_SHIFT(RP_CFG_PACK_Y_STRIDE));
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_PACK_Z_STRIDE),
                 1024 * bytes << RP_FIELD_SHIFT(RP_CFG_PACK_W_STRIDE) | 256 * bytes << RP_FIELD_SHIFT(RP_CFG_PACK_Z_STRIDE));
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_PACK_READ32), wide_dst);
    for (uint32_t i = 0; i < packers; i++) {
        const uint32_t word = RP_FIELD_WORD(RP_CFG_PACK_ROW_STARTS(i));
        // Exponents of all faces come first. Each packer counts from its own face.
        const uint32_t exponents = block_format(format) ? 4 + i * (face - 1) : 0;
        rp_cfg_store(word, exponents << 16);
        rp_cfg_store(word + 1, (block_format(format) ? i : i * face) - 1);  // relative to the first one's address
        rp_cfg_store(word + 2, (packers == 4 ? 0x20000u : 0) | from << 8 | format << 4 | 1);
        rp_cfg_store(word + 3, (uint32_t)accumulate << RP_FIELD_SHIFT(RP_CFG_PACK_ACCUMULATE(0)));
    }
    RP_STALLWAIT(RP_STALL_CFG | RP_STALL_PACK, RP_WAIT_STORES);
    RP_CFG_LOCK();
    tt(RP_OP_RMWCIB3(1, 0, 0x1E) | from << 9);
    RP_CFG_UNLOCK();
}

// Whether packing adds to what is in L1, in the format that was configured last.
FORCE_INLINE void accumulate(bool on) {
    rp_tensix_sync();
    for (uint32_t i = 0; i < packers; i++) {
        rp_cfg_store(RP_FIELD_WORD(RP_CFG_PACK_ROW_STARTS(i)) + 3, (uint32_t)on << RP_FIELD_SHIFT(RP_CFG_PACK_ACCUMULATE(0)));
    }
    RP_STALLWAIT(RP_STALL_PACK, RP_WAIT_STORES);
}

// Rectifies: mode in bits 1 and 0 (0 none, 1 zero instead of negative numbers, 2 zero up to a threshold, 3 no more than it), the
// threshold in bits 31 to 16, in the format of Dst.
FORCE_INLINE void relu(uint32_t config) {
    constexpr uint32_t word = RP_FIELD_WORD(RP_CFG_RELU);
    const uint32_t value = (config & 3) << 2 | config >> 16 << 6;
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_PACK);
    RP_CFG_LOCK();
    tt(RP_OP_RMWCIB0(word, 0, 0xFC) | (value & 0xFC) << 8);
    tt(RP_OP_RMWCIB1(word, 0, 0xFF) | (value >> 8 & 0xFF) << 8);
    tt(RP_OP_RMWCIB2(word, 0, 0x3F) | (value >> 16 & 0x3F) << 8);
    RP_CFG_UNLOCK();
}

// Waits for a half of Dst that the math thread has filled; releases it.
FORCE_INLINE void wait() { RP_SEM_WAIT(sem_dst, RP_SEM_WHILE_ZERO, RP_STALL_TDMA); }
FORCE_INLINE void release() {
    RP_STALLWAIT(RP_STALL_SYNC, RP_WAIT_PACK);
    RP_SEM_GET(sem_dst);
    half ^= half_rows;
    choose_half();
}

// Packs a tile of Dst to an address of L1.
FORCE_INLINE void tile(uint32_t dst, uint32_t l1) {
    set_gpr(gpr_out, RP_PACK_ADDRESS | rp_tensix_address(l1));
    tt(RP_OP_SETADC(0, 3, 0, RP_ADC_PACK) | dst);  // W of channel 0
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_THCON | RP_WAIT_PACK);
    RP_TTI(RP_OP_WRCFG(RP_FIELD_WORD(RP_CFG_PACK_OUT(0)), 0, gpr_out));
    RP_TTI(RP_OP_NOP);
    RP_TTI(RP_OP_REPLAY(0, 0, length, 0));
}

}  // namespace pack
}  // namespace reprise
