
#include "reprise/kernel.h"

void kernel_main(void) {
    switch (rp_arg(0)) {
    case 0:  // right
        rp_cb_reserve_back(3, 2);
        rp_cb_push_back(3, 1);
        rp_cb_push_back(3, 1);
        if (rp_cb_free(3) == 2) {
            rp_cb_push_back(3, 2);
        }
        break;
    case 1: rp_cb_push_back(3, 1); break;
    case 2:
        rp_cb_reserve_back(3, 1);
        rp_cb_push_back(3, 2);
        break;
    case 3: rp_cb_pop_front(3, 1); break;
    case 4: rp_cb_wait_front(3, 5); break;
    case 5: rp_cb_reserve_back(4, 1); break;
    case 6: rp_cb_reserve_back(26 + rp_arg(0), 1); break;
    case 7:
        rp_cb_reserve_back(3, 3);
        rp_cb_push_back(3, 3);
        rp_cb_wait_front(3, 3);
        rp_cb_pop_front(3, 3);
        rp_cb_reserve_back(3, 2);
        rp_cb_push_back(3, 2);
        break;
    }
}
