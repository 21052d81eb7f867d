// Is in one zone for as many cycles as its argument says, and in another one around it.
#define REPRISE_ZONES 1
#include "reprise/zone.h"

void kernel_main(void) {
    reprise_zone("outer");
    {
        reprise_zone("inner");
        uint32_t since = rp_wall_clock_low();
        while (rp_wall_clock_low() - since < rp_arg(0)) {
        }
    }
}
