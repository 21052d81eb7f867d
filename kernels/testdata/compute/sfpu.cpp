// A function of the vector unit, by argument 0, of the tiles of circular buffer 0, or of those and the ones of buffers 1 and 2.
// Arguments: 0 the function, 1 the number of tiles, 2 and 3 numbers.
#include "api/compute/binary_max_min.h"
#include "api/compute/eltwise_binary_sfpu.h"
#include "api/compute/eltwise_unary/sfpu_split_includes.h"

constexpr uint32_t in = 0, out = 16;

template <typename F>
static inline __attribute__((always_inline)) void run(uint32_t n, uint32_t inputs, F f) {
    for (uint32_t i = 0; i < n; i++) {
        tile_regs_acquire();
        for (uint32_t cb = 0; cb < inputs; cb++) {
            cb_wait_front(cb, 1);
            copy_tile(cb, 0, cb);
            cb_pop_front(cb, 1);
        }
        f();
        tile_regs_commit();
        tile_regs_wait();
        cb_reserve_back(out, 1);
        pack_tile(0, out);
        cb_push_back(out, 1);
        tile_regs_release();
    }
}

void kernel_main() {
    const uint32_t f = get_arg_val<uint32_t>(0), n = get_arg_val<uint32_t>(1), x = get_arg_val<uint32_t>(2), y = get_arg_val<uint32_t>(3);
    (void)x, (void)y;
    init_sfpu(in, out);
#define FUNCTION(i, inputs, statement) \
    if (f == i) {                      \
        run(n, inputs, [=] { (void)x, (void)y; statement; }); \
    }
#if FUNCTIONS == 0
    FUNCTION(0, 1, exp_tile(0))
    FUNCTION(1, 1, recip_tile(0))
    FUNCTION(2, 1, sqrt_tile(0))
    FUNCTION(3, 1, rsqrt_tile(0))
    FUNCTION(4, 1, log_tile(0))
    FUNCTION(5, 1, sigmoid_tile(0))
    FUNCTION(6, 1, silu_tile(0))
    FUNCTION(7, 1, tanh_tile(0))
    FUNCTION(8, 1, gelu_tile(0))
    FUNCTION(9, 1, square_tile(0))
    FUNCTION(10, 1, log_with_base_tile(0, x))
#elif FUNCTIONS == 1
    FUNCTION(0, 1, relu_tile(0))
    FUNCTION(1, 1, abs_tile(0))
    FUNCTION(2, 1, sign_tile(0))
    FUNCTION(3, 1, negative_tile(0))
    FUNCTION(4, 1, floor_tile(0))
    FUNCTION(5, 1, ceil_tile(0))
    FUNCTION(6, 1, trunc_tile(0))
    FUNCTION(7, 1, frac_tile(0))
    FUNCTION(8, 1, round_tile(0, 0))
    FUNCTION(9, 1, relu_max_tile(0, x))
    FUNCTION(10, 1, relu_min_tile(0, x))
    FUNCTION(11, 1, leaky_relu_tile(0, x))
    FUNCTION(12, 1, add_unary_tile(0, x))
    FUNCTION(13, 1, sub_unary_tile(0, x))
    FUNCTION(14, 1, mul_unary_tile(0, x))
    FUNCTION(15, 1, rsub_unary_tile(0, x))
    FUNCTION(16, 1, identity_tile(0))
    FUNCTION(17, 1, signbit_tile(0))
#elif FUNCTIONS == 2
    FUNCTION(0, 2, add_binary_tile(0, 1, 0))
    FUNCTION(1, 2, sub_binary_tile(0, 1, 0))
    FUNCTION(2, 2, mul_binary_tile(0, 1, 0))
    FUNCTION(3, 2, div_binary_tile(0, 1, 0))
    FUNCTION(4, 2, binary_max_tile(0, 1, 0))
    FUNCTION(5, 2, binary_min_tile(0, 1, 0))
    FUNCTION(6, 3, where_tile(0, 1, 2, 0))
    FUNCTION(7, 1, fill_tile_bitcast(0, x))
    FUNCTION(8, 1, fill_tile(0, 1.5f))
    if (f == 9) {
        rand_tile_init(7);
    }
    FUNCTION(9, 1, rand_tile(0, x, y))
#else
    FUNCTION(0, 1, (typecast_tile<FROM, TO>(0)))
#endif
}
