// Floating-point and 64-bit arithmetic, by libgcc's routines. Any processor.
//
// Unique arguments: 0 address of the operands in L1, 1 number of operands; results follow the operands.

#include "reprise/kernel.h"

struct operands {
    double a, b;
    uint64_t m, n;
    float x, y;
};

struct results {
    double sum, difference, product, quotient, widened, converted;
    uint64_t times, over, rest, whole;
    int64_t less;
    float total, rate, share, narrowed;
};

void kernel_main(void) {
    const struct operands* in = (const struct operands*)rp_arg(0);
    struct results* out = (struct results*)(in + rp_arg(1));
    for (uint32_t left = rp_arg(1); left != 0; left--, in++, out++) {
        const double a = in->a, b = in->b;
        const uint64_t m = in->m, n = in->n;
        const float x = in->x, y = in->y;
        *out = (struct results){
            a + b, a - b, a * b, a / b, x, m,
            m * n, m / n, m % n, a > 0 && a < 1e18 ? (uint64_t)a : 0,
            (int64_t)m / (int64_t)n - (a < b),
            x + y, x * y, x / y, a,
        };
    }
    rp_publish();
}
