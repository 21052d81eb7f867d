// Sums, means and maxima over rows (REDUCE_ROW: a column is left), columns (REDUCE_COL: a row is left) or all of a tile
// (REDUCE_SCALAR). The second buffer has a tile with a factor in row 0 of each face, and zeros elsewhere: 1 for sums and maxima,
// 1/n for means. REDUCE_SCALAR multiplies by it twice. Calls with the same dst go on where the last one stopped.
#pragma once

#include "api/compute/common.h"
#include "api/compute/compute_kernel_hw_startup.h"
#include "api/compute/pack.h"
#include "reprise/compute/reduce.h"

enum PoolType { SUM, AVG, MAX };
enum ReduceDim { REDUCE_ROW, REDUCE_COL, REDUCE_SCALAR };

namespace reprise {
constexpr pooling pool_of(PoolType p) { return p == MAX ? pool_max : pool_sum; }
constexpr dimension dimension_of(ReduceDim d) { return d == REDUCE_ROW ? over_columns : d == REDUCE_COL ? over_rows : over_both; }
}  // namespace reprise

#if !defined(REDUCE_OP)
#define REDUCE_OP SUM
#endif
#if !defined(REDUCE_DIM)
#define REDUCE_DIM REDUCE_ROW
#endif

// What else than the result is in Dst isn't packed until reduce_uninit.
template <PoolType pool = REDUCE_OP, ReduceDim over = REDUCE_DIM>
ALWI void reduce_init_short(uint32_t cb, uint32_t factors) {
    UNPACK((reprise::unpack::reduce_init<reprise::pool_of(pool), reprise::dimension_of(over)>(cb, factors)));
    MATH((reprise::math::reduce_init<reprise::pool_of(pool), reprise::dimension_of(over)>(cb, factors)));
    PACK((reprise::pack::reduce_init<reprise::dimension_of(over)>()));
    (void)cb, (void)factors;
}
template <PoolType pool = REDUCE_OP, ReduceDim over = REDUCE_DIM>
ALWI void reduce_init(uint32_t cb, uint32_t factors, uint32_t out) {
    PACK((reprise::pack::configure(reprise::cb_format(out))));
    reduce_init_short<pool, over>(cb, factors);
    (void)out;
}
ALWI void reduce_uninit() { PACK((reprise::pack::reduce_end())); }
ALWI void reduce_revert_delta() { reduce_uninit(); }

template <PoolType pool = REDUCE_OP, ReduceDim over = REDUCE_DIM>
ALWI void reduce_tile(uint32_t cb, uint32_t factors, uint32_t tile, uint32_t factor, uint32_t dst) {
    UNPACK((reprise::unpack::reduce<reprise::pool_of(pool), reprise::dimension_of(over)>(cb, factors, tile, factor)));
    MATH((reprise::math::reduce<reprise::pool_of(pool), reprise::dimension_of(over)>(dst)));
    (void)cb, (void)factors, (void)tile, (void)factor, (void)dst;
}
