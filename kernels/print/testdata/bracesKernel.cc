
#include "api/debug/device_print.h"

void kernel_main() {
    uint32_t n = get_arg_val<uint32_t>(0);
    const char* name = n ? "some" : "none";
    DPRINT("x {} {}|{:5}|{:<5}|{:^5}|{:*>5}|\n", n, -3, 42u, 42u, 42u, 42u);
    DPRINT("{:#x} {:08X} {:b} {:+} {:.3f} {:e}\n", 255u, 0xBEEFu, 5u, 7, 1.5f, 2.0f);
    DEVICE_PRINT("{1} before {0}, {1} again, {{}}\n", 1u, name);
    DPRINT("{:6}|{:>6}|{} {}\n", name, name, BF16(0x4000), 1ull << 40);
    DPRINT("no value, ");
    DPRINT << "and a stream" << ENDL();
    DPRINT("{{{}}} {{}} }} {:>3}, ", 1, 2);
    DPRINT("{1:02}{0}{1}\n", 2, 3);
    if (n) DPRINT("if {}\n", n); else DPRINT("else\n");
    DEVICE_PRINT_DATA0("data {}\n", 0);
}
