// The unpack thread: takes tiles from circular buffers in L1 to SrcA (unpacker 0) and SrcB (unpacker 1), a whole tile to a bank
// each time, or to Dst.
#pragma once

#include "reprise/compute/config.h"

namespace reprise {
namespace unpack {

// Registers of the engines that hold addresses on their way to the configuration.
constexpr uint32_t gpr_a = 4, gpr_b = 5;

constexpr uint32_t unpacr(uint32_t unit, uint32_t valid = 1, uint32_t mode = 0) {
    return RP_OP_UNPACR(1, 0, 0, 0, 0, 0, valid, 1, 0, 0, 0, mode, unit, 0);
}

// What stays the same as long as the kernel runs.
FORCE_INLINE void start() {
    for (uint32_t unit = 0; unit < 2; unit++) {
        rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_DESCRIPTOR1(unit)), 4 << 16 | 1);  // 256 x 1 x 4 data
        rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_OUT_FORMAT(unit)) + 1, 0x000F000F);  // nothing is compressed
        rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_OFFSET(unit)), 0);
        rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_Z_STRIDE(unit)), 0);
    }
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_Y_STRIDE(0)), 0);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_DST(0)), 0x00400040);   // row 0 of SrcA, after 64 data that don't exist
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_X_DIM(0)), 0x01000100);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_ADD_DST), RP_FIELD(RP_CFG_UNPACK_ADD_DST, 1));
    RP_THREAD_SET(RP_THREAD_STATE_ID, 0);
    RP_THREAD_SET(RP_THREAD_SRC_A_SET_BY_ADDRESS, 4);
    RP_THREAD_SET(RP_THREAD_UNPACK_CONTEXT(0), 0);
    RP_TTI(RP_OP_SETADCXX(0, 1023, RP_ADC_UNPACK0 | RP_ADC_UNPACK1));
    RP_TTI(RP_OP_SETADCXY(RP_ADC_SECOND0 | RP_ADC_SECOND1, 0, 0, 0, 0, RP_ADC_UNPACK0 | RP_ADC_UNPACK1));
    RP_TTI(RP_OP_SETADCZW(15, 0, 0, 0, 0, RP_ADC_UNPACK0 | RP_ADC_UNPACK1));
    half = 0;
}

// How unpacker unit takes the tiles of a circular buffer; transpose turns each face around.
FORCE_INLINE void configure(uint32_t unit, uint32_t format, bool transpose = false) {
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_DESCRIPTOR(unit)), format | 0x10u | (unit == 1 ? 256u << 16 : 0));
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_OUT_FORMAT(unit)),
                 source_format(format) | 2u << RP_FIELD_SHIFT(RP_CFG_UNPACK_THROTTLE(0)) |
                     (uint32_t)transpose << RP_FIELD_SHIFT(RP_CFG_UNPACK_HALOIZE(0)));
}
// Around calls of configure: the unpackers have finished before, and see it afterwards.
FORCE_INLINE void begin() { rp_tensix_sync(); }
FORCE_INLINE void end() { RP_STALLWAIT(RP_STALL_UNPACK, RP_WAIT_STORES); }

FORCE_INLINE void init(uint32_t cb_a, uint32_t cb_b, bool transpose_a = false) {
    begin();
    configure(0, cb_format(cb_a), transpose_a);
    configure(1, cb_format(cb_b));
    end();
}
FORCE_INLINE void init(uint32_t cb_a, bool transpose = false) {
    begin();
    configure(0, cb_format(cb_a), transpose);
    end();
}

FORCE_INLINE uint32_t tile_address(uint32_t cb, uint32_t tile) {
    return rp_tensix_address(rp_cb_read_ptr(cb) + tile * rp_cb_page_size(cb));
}

// Tells the unpackers of addresses. The instruction after WRCFG doesn't see what it wrote.
FORCE_INLINE void use_a(uint32_t address) {
    set_gpr(gpr_a, address);
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_THCON | RP_WAIT_UNPACK);
    RP_TTI(RP_OP_WRCFG(RP_FIELD_WORD(RP_CFG_UNPACK_BASE(0)), 0, gpr_a));
    RP_TTI(RP_OP_NOP);
}
FORCE_INLINE void use_b(uint32_t address) {
    set_gpr(gpr_b, address);
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_THCON | RP_WAIT_UNPACK);
    RP_TTI(RP_OP_WRCFG(RP_FIELD_WORD(RP_CFG_UNPACK_BASE(2)), 0, gpr_b));
    RP_TTI(RP_OP_NOP);
}
FORCE_INLINE void use(uint32_t a, uint32_t b) {
    set_gpr(gpr_a, a);
    set_gpr(gpr_b, b);
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_THCON | RP_WAIT_UNPACK);
    RP_TTI(RP_OP_WRCFG(RP_FIELD_WORD(RP_CFG_UNPACK_BASE(2)), 0, gpr_b));
    RP_TTI(RP_OP_WRCFG(RP_FIELD_WORD(RP_CFG_UNPACK_BASE(0)), 0, gpr_a));
    RP_TTI(RP_OP_NOP);
}

FORCE_INLINE void tile_a(uint32_t cb, uint32_t tile) {
    use_a(tile_address(cb, tile));
    RP_TTI(unpacr(0));
}
FORCE_INLINE void tile_b(uint32_t cb, uint32_t tile) {
    use_b(tile_address(cb, tile));
    RP_TTI(unpacr(1));
}
FORCE_INLINE void tiles(uint32_t cb_a, uint32_t tile_a, uint32_t cb_b, uint32_t tile_b) {
    use(tile_address(cb_a, tile_a), tile_address(cb_b, tile_b));
    RP_TTI(unpacr(1));
    RP_TTI(unpacr(0));
}

// A block of a product, for one index of the inner dimension: rows tiles of the left operand, each against all columns of the
// right one. A tile of the left operand stays in SrcB for its row.
FORCE_INLINE void matmul_block(uint32_t left, uint32_t right, uint32_t left_tile, uint32_t right_tile, uint32_t columns,
                               uint32_t rows, uint32_t left_step) {
    for (uint32_t r = 0; r < rows; r++) {
        tile_b(left, left_tile + r * left_step);
        for (uint32_t c = 0; c < columns; c++) {
            tile_a(right, right_tile + c);
        }
    }
}

// Makes a bank valid that nothing has been unpacked to.
template <uint32_t unit>
FORCE_INLINE void empty() {
#if defined(REPRISE_WORMHOLE)
    RP_STALLWAIT(RP_STALL_UNPACK, unit == 0 ? RP_WAIT_SRCA_FREE : RP_WAIT_SRCB_FREE);
    RP_TTI(RP_OP_UNPACR_NOP(7, unit, 0, 0, 0, 0, 0, 0, 0, 0));
#else
    RP_TTI(RP_OP_UNPACR_NOP(0, unit, 1, 0, 0, 1, 0, 1, 0, 0));
#endif
}

}  // namespace unpack
}  // namespace reprise
