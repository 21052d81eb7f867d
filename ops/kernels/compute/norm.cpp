// Rows of tiles with mean 0 and variance 1, or with a mean square of 1, times weights, plus other weights. The reader is
// ../row_reader.cpp. Two or three passes over a row: its mean, unless only squares matter; its variance; the result.
//
// Arguments: 0 first tile of the result, 1 number of tiles, 2 tiles in a row, 3 columns of the last one, 4 whether a row stays in the
// circular buffers, 5 whether the mean stays, 6 1 for factors, plus 2 for summands, 7 one divided by the number of elements in a row,
// 8 what is added to the variance, both as the bits of an fp32.

#include "rows.h"

struct Norm : Rows {
    bool mean;  // stays
    uint32_t weights, share, epsilon;

    // x leaves tile k in kTile, without the mean.
    MEMBER void x(uint32_t k) const {
        take<kLeft>(k, kTile);
        if (!mean) {
            MATH((rows::each([] { using namespace rows; rows::take<kTile>(l0); rows::take<kFirst>(l1); neg(l1, l1); add(l0, l0, l1); leave<kTile>(l0); })));
        }
        if (last(k)) {
            MATH((rows::pad<kTile>(column, 0)));
        }
    }
    // times and plus combine kTile with tile k of some weights. Resident ones stay for all rows.
    template <uint32_t cb>
    MEMBER void times(uint32_t k) const {
        take<cb>(k, kOther);
        MATH((rows::each([] { using namespace rows; rows::take<kTile>(l0); rows::take<kOther>(l1); mul(l0, l0, l1); leave<kTile>(l0); })));
    }
    template <uint32_t cb>
    MEMBER void plus(uint32_t k) const {
        take<cb>(k, kOther);
        MATH((rows::each([] { using namespace rows; rows::take<kTile>(l0); rows::take<kOther>(l1); add(l0, l0, l1); leave<kTile>(l0); })));
    }
    // means leaves the mean of each row in kFirstRows.
    MEMBER void means() const {
        tile_regs_acquire();
        MATH((rows::clear<kSecond>()));
        for (uint32_t k = 0; k < wide; k++) {
            take<kLeft>(k, kTile);
            if (last(k)) {
                MATH((rows::pad<kTile>(column, 0)));
            }
            MATH((rows::each([] { using namespace rows; rows::take<kTile>(l0); rows::take<kSecond>(l1); add(l0, l0, l1); leave<kSecond>(l0); })));
        }
        MATH((rows::reduce<kSecond>(0, share, [] { using namespace rows; add(l0, l0, l1); }, [] { using namespace rows; mul(l0, l0, l7); })));
        pack(kSecond, kFirstRows);
    }
    // factors leaves the factor of each row in kSecondRows.
    MEMBER void factors() const {
        tile_regs_acquire();
        MATH((rows::clear<kSecond>()));
        if (!mean) {
            take_rows<kFirstRows>(kFirst);
        }
        for (uint32_t k = 0; k < wide; k++) {
            x(k);
            MATH((rows::each([] { using namespace rows; rows::take<kTile>(l0); rows::take<kSecond>(l1); mad(l0, l0, l0, l1); leave<kSecond>(l0); })));
        }
        MATH((rows::reduce<kSecond>(epsilon, share, [] { using namespace rows; add(l0, l0, l1); },
                                    [] { using namespace rows; mad(l0, l0, l7, l6); reprise::sfpu::rsqrt(); })));
        pack(kSecond, kSecondRows);
    }
    MEMBER void row() const {
        pack_reconfig_data_format(kOut, kFirstRows);
        if (!mean) {
            means();
        }
        factors();
        pack_reconfig_data_format(kFirstRows, kOut);
        for (uint32_t k = 0; k < wide; k++) {
            tile_regs_acquire();
            if (!mean) {
                take_rows<kFirstRows>(kFirst);
            }
            x(k);
            take_rows<kSecondRows>(kSecond);
            MATH((rows::each([] { using namespace rows; rows::take<kTile>(l0); rows::take<kSecond>(l1); mul(l0, l0, l1); leave<kTile>(l0); })));
            if (weights & 1) {
                times<kRight>(k);
            }
            if (weights == 2) {
                plus<kRight>(k);
            } else if (weights == 3) {
                plus<kConstant>(k);
            }
            pack(kTile, kOut);
        }
        if (!mean) {
            cb_pop_front(kFirstRows, 1);
        }
        cb_pop_front(kSecondRows, 1);
        done(kLeft);
    }
};

void kernel_main() {
    const Norm n = {
        {get_arg_val<uint32_t>(2), get_arg_val<uint32_t>(3), get_arg_val<uint32_t>(4) != 0}, get_arg_val<uint32_t>(5) != 0, get_arg_val<uint32_t>(6),
        get_arg_val<uint32_t>(7), get_arg_val<uint32_t>(8),
    };
    compute_kernel_hw_startup(kLeft, kLeft, kOut);
    for (uint32_t tiles = get_arg_val<uint32_t>(1); tiles != 0; tiles -= n.wide) {
        n.row();
    }
}
