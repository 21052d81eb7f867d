// What the compiler may call without being told to: copying and filling structures. Linked into a kernel only if used.

#include <stddef.h>
#include <stdint.h>

void* memcpy(void* restrict to, const void* restrict from, size_t n) {
    uint8_t* t = to;
    const uint8_t* f = from;
    if ((((uintptr_t)t | (uintptr_t)f) & 3) == 0) {
        for (; n >= 4; n -= 4, t += 4, f += 4) {
            *(uint32_t*)(void*)t = *(const uint32_t*)(const void*)f;
        }
    }
    while (n-- != 0) {
        *t++ = *f++;
    }
    return to;
}

void* memmove(void* to, const void* from, size_t n) {
    uint8_t* t = to;
    const uint8_t* f = from;
    if (t < f) {
        while (n-- != 0) {
            *t++ = *f++;
        }
    } else {
        while (n-- != 0) {
            t[n] = f[n];
        }
    }
    return to;
}

void* memset(void* to, int value, size_t n) {
    uint8_t* t = to;
    while (n-- != 0) {
        *t++ = (uint8_t)value;
    }
    return to;
}

int memcmp(const void* a, const void* b, size_t n) {
    const uint8_t* x = a;
    const uint8_t* y = b;
    for (; n != 0; n--, x++, y++) {
        if (*x != *y) {
            return *x - *y;
        }
    }
    return 0;
}
