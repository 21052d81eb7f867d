// A kernel whose text has its own addresses in every way that compilers make them: it pushes what it computed with them into
// circular buffer 0, as 16 words.

#include "reprise/kernel.h"

extern volatile uint16_t my_x;
extern const uint32_t __kernel_data_lma[];
extern uint32_t __data_start[], __data_end[], __bss_start[], __bss_end[];

// The place of the initial values is an absolute address of text.
__attribute__((section(".text.start"), used)) void _start(void) {
    const volatile uint32_t* from = __kernel_data_lma;
    for (uint32_t* to = __data_start; to < __data_end; to++, from++) {
        *to = *from;
    }
    for (uint32_t* p = __bss_start; p < __bss_end; p++) {
        *p = 0;
    }
    const volatile struct rp_go* go = (const volatile struct rp_go*)RP_LOCAL->go;
    while (go->signal != RP_SIGNAL_GO) {
        rp_invalidate_l1();
    }
    kernel_main();
}

static uint32_t zeroed[2];

__attribute__((noinline)) static uint32_t twice(uint32_t x) { return 2 * x; }
__attribute__((noinline)) static uint32_t square(uint32_t x) { return x * x; }
__attribute__((noinline)) static uint32_t next(uint32_t x) { return x + 1; }

// A table of functions in initialized data: stored addresses.
typedef uint32_t (*function)(uint32_t);
static function table[] = {twice, square, next};

// A function by its address, made by two instructions.
__attribute__((noinline)) static uint32_t apply(function f, uint32_t x) {
    __asm__ volatile("" : "+r"(f));
    return f(x);
}

// Constants in the text, which are read by an upper half and several loads.
__attribute__((section(".text.constants"), aligned(16))) static const uint32_t constants[4] = {11, 22, 33, 44};

// A jump table, of absolute addresses.
__attribute__((noinline)) static uint32_t choose(uint32_t i) {
    switch (i) {
        case 0: return twice(100);
        case 1: return square(5) + zeroed[1];
        case 2: zeroed[0]++; return zeroed[0];
        case 3: return 77;
        case 4: return next(i) << 8;
        case 5: return square(i) ^ 0xFF;
        case 6: return twice(i) - 1;
        default: return 0;
    }
}

void kernel_main(void) {
    rp_cb_reserve_back(0, 1);
    volatile uint32_t* out = (volatile uint32_t*)rp_cb_write_ptr(0);
    uint32_t n = rp_arg(0); // 0: the compiler doesn't know it
    for (uint32_t i = 0; i < 7; i++) {
        out[i] = choose(i + n);
    }
    for (uint32_t i = 0; i < 3; i++) {
        out[7 + i] = table[i + n](9);
    }
    out[10] = apply(twice, 21);
    out[11] = apply(next, 21);
    const volatile uint32_t* c = constants;
    out[12] = c[0] + c[1] + c[2] + c[3];
    out[13] = *(const volatile uint32_t*)((uintptr_t)constants + 4 * n);
    out[14] = my_x != 0;
    out[15] = zeroed[0];
    rp_cb_push_back(0, 1);
}
