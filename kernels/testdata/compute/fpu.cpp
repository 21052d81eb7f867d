// One operation of the matrix unit, by argument 0, on tiles of circular buffers 0 and 1; argument 1 is the number of results.
#include "api/compute/bcast.h"
#include "api/compute/eltwise_binary.h"
#include "api/compute/matmul.h"
#include "api/compute/reduce.h"
#include "api/compute/tile_move_copy.h"
#include "api/compute/transpose_wh.h"

constexpr uint32_t a = 0, b = 1, out = 16;

// Computes n tiles in tile dst of Dst, from `each` tiles of a for every one; b has as many, or one for all.
template <typename F>
static inline __attribute__((always_inline)) void run(uint32_t n, F compute, uint32_t each = 1, bool keep_b = false, uint32_t dst = 3) {
    if (keep_b) {
        cb_wait_front(b, 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        cb_wait_front(a, each);
        if (!keep_b) {
            cb_wait_front(b, each);
        }
        tile_regs_acquire();
        for (uint32_t k = 0; k < each; k++) {
            compute(k, dst);
        }
        tile_regs_commit();
        cb_pop_front(a, each);
        if (!keep_b) {
            cb_pop_front(b, each);
        }
        cb_reserve_back(out, 1);
        tile_regs_wait();
        pack_tile(dst, out);
        tile_regs_release();
        cb_push_back(out, 1);
    }
}

template <EltwiseBinaryType op, BroadcastType from>
static inline __attribute__((always_inline)) void repeated(uint32_t n) {
    init_bcast<op, from>(a, b, out);
    run(n, [](uint32_t k, uint32_t dst) { any_tiles_bcast<op, from>(a, b, k, k, dst); });
}

template <EltwiseBinaryType op, EltwiseBinaryReuseDestType reuse>
static inline __attribute__((always_inline)) void reused(uint32_t n) {
    run(n, [](uint32_t k, uint32_t dst) {
        copy_tile_to_dst_init_short(a);
        copy_tile(a, k, dst);
        binary_dest_reuse_tiles_init<op, reuse>(b);
        binary_dest_reuse_tiles<op, reuse>(b, k, dst);
    });
}

template <PoolType pool, ReduceDim over>
static inline __attribute__((always_inline)) void reduced(uint32_t n) {
    reduce_init<pool, over>(a, b, out);
    run(n, [](uint32_t k, uint32_t dst) { reduce_tile<pool, over>(a, b, k, 0, dst); }, 2, true);
    reduce_uninit();
}

void kernel_main() {
    const uint32_t op = get_arg_val<uint32_t>(0), n = get_arg_val<uint32_t>(1);
    compute_kernel_hw_startup(a, b, out);
#if OPERATIONS == 0
    using Reuse = EltwiseBinaryReuseDestType;
    if (op == 0) {
        add_tiles_init(a, b);
        run(n, [](uint32_t k, uint32_t dst) { add_tiles(a, b, k, k, dst); });
    } else if (op == 1) {
        sub_tiles_init(a, b);
        run(n, [](uint32_t k, uint32_t dst) { sub_tiles(a, b, k, k, dst); });
    } else if (op == 2) {
        mul_tiles_init(a, b);
        run(n, [](uint32_t k, uint32_t dst) { mul_tiles(a, b, k, k, dst); });
    } else if (op == 3) {
        add_tiles_init(a, b, true);
        run(n, [](uint32_t k, uint32_t dst) { add_tiles(a, b, k, k, dst); }, 2);
    } else if (op == 4) {
        copy_tile_to_dst_init_short(a);
        run(n, [](uint32_t k, uint32_t dst) { copy_tile(a, k, dst); });
    } else if (op == 5) {
        transpose_wh_init(a, out);
        run(n, [](uint32_t k, uint32_t dst) { transpose_wh_tile(a, k, dst); });
    } else if (op == 6) {
        mm_init(a, b, out, 1);
        run(n, [](uint32_t k, uint32_t dst) { matmul_tiles(a, b, k, k, dst); });
    } else if (op == 7) {
        reused<ELWADD, Reuse::DEST_TO_SRCA>(n);
    } else if (op == 8) {
        reused<ELWSUB, Reuse::DEST_TO_SRCB>(n);
    } else if (op == 9) {
        reused<ELWMUL, Reuse::DEST_TO_SRCA>(n);
    }
#elif OPERATIONS == 1
    if (op == 0) repeated<ELWADD, BroadcastType::ROW>(n);
    else if (op == 1) repeated<ELWADD, BroadcastType::COL>(n);
    else if (op == 2) repeated<ELWADD, BroadcastType::SCALAR>(n);
    else if (op == 3) repeated<ELWSUB, BroadcastType::ROW>(n);
    else if (op == 4) repeated<ELWSUB, BroadcastType::COL>(n);
    else if (op == 5) repeated<ELWSUB, BroadcastType::SCALAR>(n);
    else if (op == 6) repeated<ELWMUL, BroadcastType::ROW>(n);
    else if (op == 7) repeated<ELWMUL, BroadcastType::COL>(n);
    else repeated<ELWMUL, BroadcastType::SCALAR>(n);
#else
    if (op == 0) reduced<SUM, REDUCE_ROW>(n);
    else if (op == 1) reduced<SUM, REDUCE_COL>(n);
    else if (op == 2) reduced<SUM, REDUCE_SCALAR>(n);
    else if (op == 3) reduced<MAX, REDUCE_ROW>(n);
    else if (op == 4) reduced<MAX, REDUCE_COL>(n);
    else reduced<MAX, REDUCE_SCALAR>(n);
#endif
}
