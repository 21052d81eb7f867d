// Softmax of rows of tiles: e^(x - max) / sum of e^(x - max), where x is an element times a factor, plus that of a mask. The reader
// is ../row_reader.cpp. Three passes over a row: its maximum, the sum, the result. If there is room, pass 2 leaves each e^(x - max) in
// kExponentials, with all bits, and pass 3 takes it from there.
//
// Arguments: 0 first tile of the result, 1 number of tiles, 2 tiles in a row, 3 columns of the last one, 4 whether a row stays in the
// circular buffers, 5 whether there is a mask, 6 the factor as the bits of an fp32, 7
// whether exponentials are kept.

#include "rows.h"

constexpr uint32_t kMinusInfinity = 0xFF800000, kUnity = 0x3F800000;

// A circular buffer of fp32 tiles, with room for a row.
constexpr uint32_t kExponentials = 6;

// keep packs a tile of Dst, which stays acquired, and waits until it is packed.
ALWI void keep(uint32_t dst, uint32_t cb) {
    cb_reserve_back(cb, 1);
#if defined(TRISC_MATH)
    RP_STALLWAIT(RP_STALL_SYNC, RP_WAIT_MATH | RP_WAIT_SFPU);
    RP_SEM_POST(reprise::sem_dst);
    rp_tensix_sync();
    RP_WAIT("SEMK", reprise::sem_dst, rp_sem_value(reprise::sem_dst) == 0);
#elif defined(TRISC_PACK)
    reprise::pack::wait();
    pack_tile(dst, cb);
    RP_STALLWAIT(RP_STALL_SYNC, RP_WAIT_PACK);
    RP_SEM_GET(reprise::sem_dst);
#endif
    cb_push_back(cb, 1);
    (void)dst;
}

struct Softmax : Rows {
    uint32_t scale;
    bool mask, keeps;

    // x leaves tile k in kTile.
    MEMBER void x(uint32_t k) const {
        take<kLeft>(k, kTile);
        if (mask) {
            take<kRight>(k, kOther);
            MATH((rows::each_with(scale, [] { using namespace rows; rows::take<kTile>(l0); rows::take<kOther>(l1); mad(l0, l0, l7, l1); leave<kTile>(l0); })));
        } else if (scale != kUnity) {
            MATH((rows::each_with(scale, [] { using namespace rows; rows::take<kTile>(l0); mul(l0, l0, l7); leave<kTile>(l0); })));
        }
        if (last(k)) {
            MATH((rows::pad<kTile>(column, kMinusInfinity)));
        }
    }
    MEMBER void row() const {
        pack_reconfig_data_format(kOut, kFirstRows);
        tile_regs_acquire();
        MATH((rows::each_with(kMinusInfinity, [] { using namespace rows; leave<kFirst>(l7); })));
        for (uint32_t k = 0; k < wide; k++) {
            x(k);
            MATH((rows::each([] { using namespace rows; rows::take<kTile>(l0); rows::take<kFirst>(l1); max(l0, l1); leave<kFirst>(l0); })));
        }
        MATH((rows::reduce<kFirst>(0, 0, [] { using namespace rows; max(l0, l1); }, [] {})));
        pack(kFirst, kFirstRows);

        tile_regs_acquire();
        MATH((rows::clear<kSecond>()));
        take_rows<kFirstRows>(kFirst);
        for (uint32_t k = 0; k < wide; k++) {
            x(k);
            if (keeps) {
                MATH((rows::each([] { exponential(); using namespace rows; RP_TTI(RP_OP_SFPSTORE(kTile * tile_rows, still, RP_SFPU_FP32, l0)); rows::take<kSecond>(l1); add(l0, l0, l1); leave<kSecond>(l0); })));
                keep(kTile, kExponentials);
            } else {
                MATH((rows::each([] { exponential(); using namespace rows; rows::take<kSecond>(l1); add(l0, l0, l1); leave<kSecond>(l0); })));
            }
        }
        if (keeps) {
            finish();
        }
        MATH((rows::reduce<kSecond>(0, 0, [] { using namespace rows; add(l0, l0, l1); }, [] { reprise::sfpu::recip(); })));
        pack(kSecond, kSecondRows);

        pack_reconfig_data_format(kFirstRows, kOut);
        for (uint32_t k = 0; keeps && k < wide; k++) {
            tile_regs_acquire();
            cb_wait_front(kExponentials, k + 1);
            copy_init(kExponentials);
            copy_tile(kExponentials, k, kTile);
            take_rows<kSecondRows>(kSecond);
            MATH((rows::each([] { using namespace rows; rows::take<kTile>(l0); rows::take<kSecond>(l1); mul(l0, l0, l1); leave<kTile>(l0); })));
            pack(kTile, kOut);
        }
        for (uint32_t k = 0; !keeps && k < wide; k++) {
            tile_regs_acquire();
            x(k);
            take_rows<kFirstRows>(kFirst);
            take_rows<kSecondRows>(kSecond);
            MATH((rows::each([] { exponential(); using namespace rows; rows::take<kSecond>(l1); mul(l0, l0, l1); leave<kTile>(l0); })));
            pack(kTile, kOut);
        }
        cb_pop_front(kFirstRows, 1);
        cb_pop_front(kSecondRows, 1);
        if (keeps) {
            cb_pop_front(kExponentials, wide);
        } else {
            finish();
        }
    }
    // finish ends the use of a row's operands.
    MEMBER void finish() const {
        done(kLeft);
        if (mask) {
            done(kRight);
        }
    }
    // exponential leaves e^(x - max) in L0.
    static MEMBER void exponential() {
#if defined(TRISC_MATH)
        using namespace rows;
        rows::take<kTile>(l0);
        rows::take<kFirst>(l1);
        neg(l1, l1);
        add(l0, l0, l1);
        reprise::sfpu::exp();
#endif
    }
};

void kernel_main() {
    const Softmax s = {
        {get_arg_val<uint32_t>(2), get_arg_val<uint32_t>(3), get_arg_val<uint32_t>(4) != 0}, get_arg_val<uint32_t>(6), get_arg_val<uint32_t>(5) != 0,
        get_arg_val<uint32_t>(7) != 0,
    };
    compute_kernel_hw_startup(kLeft, kLeft, kOut);
    for (uint32_t tiles = get_arg_val<uint32_t>(1); tiles != 0; tiles -= s.wide) {
        s.row();
    }
}
