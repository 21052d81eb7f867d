// Printing from a kernel, which is not supported: what is printed is dropped.
#pragma once

namespace reprise {
struct no_print {
    template <typename T>
    constexpr const no_print& operator<<(const T&) const {
        return *this;
    }
};
}  // namespace reprise
#define DPRINT reprise::no_print()
#define DPRINT_MATH(x) ((void)0)
#define DPRINT_PACK(x) ((void)0)
#define DPRINT_UNPACK(x) ((void)0)
#define ENDL() 0
