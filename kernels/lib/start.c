// Start-up code of every kernel, linked first: the firmware calls the image's first byte as a function.
//
// It moves the initial data from after the text in L1 to local RAM, clears .bss, and waits for the go signal, so
// that a kernel delivered ahead of time (preload) is ready when its turn comes. Waypoints: LOAD, GOW, then RUN.

#include "reprise/abi.h"

#if defined(REPRISE_WATCH)
#include "reprise/watch.h"
#endif

void kernel_main(void);

// The loader reads from this absolute symbol which architecture the kernel was compiled for.
#if defined(REPRISE_WORMHOLE)
__asm__(".globl __reprise_arch\n.set __reprise_arch, 1");
#else
__asm__(".globl __reprise_arch\n.set __reprise_arch, 2");
#endif

extern uint32_t __data_start[], __data_end[], __bss_start[], __bss_end[];

// data_image is where the text was put plus the text's size: relative to the program counter, because the image may
// be anywhere.
RP_INLINE const uint32_t* data_image(void) {
    const uint32_t* p;
    __asm__("lla %0, __data_image" : "=r"(p));
    return p;
}

__attribute__((section(".text.start"), used)) void _start(void) {
    rp_waypoint("LOAD");
    const volatile uint32_t* from = data_image();
    for (uint32_t* to = __data_start; to < __data_end; to++, from++) {
        *to = *from;
    }
    for (uint32_t* p = __bss_start; p < __bss_end; p++) {
        *p = 0;
    }

#if defined(REPRISE_WATCH)
    for (uint32_t i = 0; i < RP_WATCH_GUARD; i++) {
        __bss_end[i] = RP_WATCH_PAINT;
    }
#endif

    rp_waypoint("GOW ");
    const volatile struct rp_go* go = (const volatile struct rp_go*)RP_LOCAL->go;
    while (go->signal != RP_SIGNAL_GO) {
        rp_invalidate_l1();
    }

    rp_waypoint("RUN ");
    kernel_main();
#if defined(REPRISE_WATCH)
    rp_watch_stack();
#endif
}
