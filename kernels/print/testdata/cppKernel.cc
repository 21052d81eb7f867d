
#include "debug/dprint.h"

template <typename T>
static inline void tell(T v) { DPRINT << "told " << v << ENDL(); }

void kernel_main() {
    uint32_t n = get_arg_val<uint32_t>(0);
    char local[4] = {'a', 'b', (char)('a' + n), 0};
    const char* p = local;
    DPRINT << "x " << n << ' ' << -3 << " " << HEX() << 255u << DEC() << " " << F32(1.5f) << SETW(6) << 42 << ENDL();
    DPRINT << local << p << BF16(0x4000) << "\n" << SETPRECISION(2) << FIXED() << 3.14159f << DEFAULTFLOAT() << ENDL();
    if (n) DPRINT << "if" << ENDL(); else DPRINT << "else" << ENDL();
    DPRINT << "a line of " << 1ull << " ";
    DPRINT << "several statements, with a literal that is longer than others are so that it takes more of the section";
    DPRINT << true << (uint8_t)7 << (int16_t)-8 << ENDL();
    tell(n);
    tell(-5ll);
    DPRINT_DATA0(DPRINT << "data 0" << ENDL());
    DPRINT << "no newline";
}
