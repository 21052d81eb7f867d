// Tiles of matrices that stand row by row in L1, and back. The unpacker takes 16 data at a time, by its counters: it reads a row of
// a face wherever that is, and writes the next row of SrcA or Dst. What it reads in the order of the result is then packed as it is.
//
// Formats of 16 and 32 bits; those of 32 bits by way of SrcA lose what doesn't fit 19 bits, unless they go to Dst directly.
#pragma once

#include "reprise/compute/eltwise.h"

namespace reprise {
namespace unpack {

// Address modes of UNPACR: what it adds to counters Z and Y of what it reads, and of what it writes.
constexpr uint32_t read_z = 1, write_y = 1 << 6;

// y and z are the dimensions of what is read, in rows of 16 data.
FORCE_INLINE void rows_init(uint32_t cb, uint32_t y, uint32_t z) {
    const uint32_t bytes = format_bits(to_dst(cb) ? cb_format(cb) : source_format(cb_format(cb))) == 32 ? 4 : 2;
    begin();
    configure(0, cb_format(cb));
    if (to_dst(cb)) {
        rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_OUT_FORMAT(0)), cb_format(cb) | 2u << RP_FIELD_SHIFT(RP_CFG_UNPACK_THROTTLE(0)));
    }
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_DESCRIPTOR1(0)), z << 16 | y);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_X_DIM(0)), 0x00100010);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_Y_STRIDE(0)), 16 * bytes << RP_FIELD_SHIFT(RP_CFG_UNPACK_Y_STRIDE(0)));
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_Z_STRIDE(0)), 256 * bytes);
    end();
    RP_TTI(RP_OP_SETADCXX(0, 15, RP_ADC_UNPACK0));
}
FORCE_INLINE void rows_end() {
    begin();
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_DESCRIPTOR1(0)), 4 << 16 | 1);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_X_DIM(0)), 0x01000100);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_Y_STRIDE(0)), 0);
    rp_cfg_store(RP_FIELD_WORD(RP_CFG_UNPACK_Z_STRIDE(0)), 0);
    end();
    RP_TTI(RP_OP_SETADCXX(0, 1023, RP_ADC_UNPACK0));
    RP_TTI(RP_OP_SETADCXY(RP_ADC_SECOND0 | RP_ADC_SECOND1, 0, 0, 0, 0, RP_ADC_UNPACK0));
    RP_TTI(RP_OP_SETADCZW(15, 0, 0, 0, 0, RP_ADC_UNPACK0));
}

// A matrix of tiles columns of tiles: a row of it has 2 * tiles rows of 16 data.
FORCE_INLINE void tilize_init(uint32_t cb, uint32_t tiles) {
    rows_init(cb, 2 * tiles, 32);
    RP_TTI(RP_OP_REPLAY(1, 0, 16, 0));
    for (uint32_t i = 0; i < 16; i++) {
        RP_TTI(unpacr(0, 0, read_z | write_y));
    }
}
template <uint32_t column, bool valid>
FORCE_INLINE void tilize_faces() {
    RP_TTI(RP_OP_SETADCXY(RP_ADC_SECOND0 | RP_ADC_SECOND1, 0, column, 0, 0, RP_ADC_UNPACK0));
    RP_TTI(RP_OP_SETADCZW(RP_ADC_FIRST0 | RP_ADC_FIRST1, 0, 0, column, 0, RP_ADC_UNPACK0));
    RP_TTI(RP_OP_REPLAY(0, 0, 16, 0));
    RP_TTI(RP_OP_SETADCXY(RP_ADC_SECOND1, 0, 0, 0, 0, RP_ADC_UNPACK0));
    RP_TTI(RP_OP_SETADCZW(RP_ADC_FIRST1, 0, 0, column + 2, 0, RP_ADC_UNPACK0));
    RP_TTI(RP_OP_REPLAY(0, 0, 15, 0));
    RP_TTI(unpacr(0, valid, read_z | write_y));
}
FORCE_INLINE void tilize(uint32_t cb, uint32_t tile) {
    const bool direct = to_dst(cb);
    use_a(rp_tensix_address(rp_cb_read_ptr(cb) + tile * 32 * format_bits(cb_format(cb)) / 8));
    if (direct) {
        begin_directly(0);
        tilize_faces<0, false>();
        tilize_faces<1, false>();
        end_directly();
    } else {
        tilize_faces<0, false>();
        tilize_faces<1, true>();
    }
}

// A row of tiles; what is written are pages of 1,024 data of the matrix that they are.
FORCE_INLINE void untilize_init(uint32_t cb) { rows_init(cb, 16, 4); }
FORCE_INLINE void untilize(uint32_t cb, uint32_t tiles, uint32_t page) {
    const bool direct = to_dst(cb);
    uint32_t row = page * 32 / tiles, tile = page * 32 % tiles;
    use_a(tile_address(cb, 0));
    if (direct) {
        begin_directly(0);
    }
    RP_TTI(RP_OP_SETADCXY(RP_ADC_SECOND1, 0, 0, 0, 0, RP_ADC_UNPACK0));
    RP_TTI(RP_OP_SETADCZW(RP_ADC_FIRST1, 0, 0, 0, 0, RP_ADC_UNPACK0));
    for (uint32_t i = 0; i < 32; i++) {
        if (i == 0 || tile == 0) {
            tt(RP_OP_SETADC(0, 1, 0, RP_ADC_UNPACK0) | (row & 15));
            tt(RP_OP_SETADC(0, 3, 0, RP_ADC_UNPACK0) | tile);
        }
        if (row < 16) {
            RP_TTI(RP_OP_SETADCZW(RP_ADC_FIRST0, 0, 0, 0, 0, RP_ADC_UNPACK0));
        } else {
            RP_TTI(RP_OP_SETADCZW(RP_ADC_FIRST0, 2, 0, 0, 0, RP_ADC_UNPACK0));
        }
        RP_TTI(unpacr(0, 0, read_z | write_y));
        if (i < 31 || direct) {
            RP_TTI(unpacr(0, 0, write_y));
        } else {
            RP_TTI(unpacr(0, 1, write_y));
        }
        RP_TTI(RP_OP_INCADCZW(0, 1, 0, 0, RP_ADC_UNPACK0));
        if (++tile == tiles) {
            tile = 0;
            row++;
        }
    }
    if (direct) {
        end_directly();
    }
}

}  // namespace unpack
}  // namespace reprise
