
#include "reprise/kernel.h"

static volatile uint32_t data[16];

__attribute__((noinline)) static uint32_t deep(uint32_t n) {
    volatile uint32_t room[16];
    room[n & 15] = n;
    return n ? deep(n - 1) + room[n & 15] : data[0];  // line 9
}

__attribute__((noinline)) static void pop(uint32_t pages) {
    rp_cb_pop_front(3, pages);  // line 13
}

void kernel_main(void) {
    uint32_t what = rp_arg(0), n = rp_arg(1);
    switch (what) {
    case 0: data[1] = deep(n); break;
    case 1:
        rp_cb_reserve_back(3, 2);
        rp_cb_push_back(3, 2);
        rp_cb_wait_front(3, 2);
        pop(n);
        break;
    }
}
