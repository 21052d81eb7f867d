// Printing from kernels of any processor, for C and C++: reprise_print("position %u of %d", a, b) is a line on the host.
//
// Formats stay in the kernel's file, in a section that isn't loaded; what goes to the host is where the format is in that
// section, the time and the arguments, by way of a ring in L1 that each processor of a core has. The host's side is package
// kernels/print, which docs/debugging.md describes.
//
// Without REPRISE_PRINTS (kernels.Source.Prints) nothing here takes an instruction or a byte; arguments are not evaluated.
//
// Arguments: integers of up to 64 bits, float and double, pointers to void, and strings, of which up to RP_PRINT_STRING
// characters are copied; at most eight. The compiler checks them against the format as those of printf, where int and unsigned
// stand for all integers of 32 bits: %d, %u, %x for uint32_t, %llu for uint64_t. A line ends where the format does.
#ifndef REPRISE_PRINT_H
#define REPRISE_PRINT_H

#include "reprise/kernel.h"

// Levels, for reprise_print_at: those of log/slog.
#define RP_PRINT_DEBUG (-4)
#define RP_PRINT_INFO 0
#define RP_PRINT_WARN 4
#define RP_PRINT_ERROR 8

#define RP_PRINT_STRING 96u

// --- the compiler's check ----------------------------------------------------------------------------------------
#if defined(__cplusplus)
extern "C" __attribute__((format(printf, 1, 2))) void rp_print_check(const char* format, ...);
namespace reprise {
// What a type is checked as.
template <typename T>
struct print_checked {
    using type = T;
};
template <>
struct print_checked<long> {
    using type = int;
};
template <>
struct print_checked<unsigned long> {
    using type = unsigned;
};
template <typename T>
typename print_checked<T>::type print_check(T);
}  // namespace reprise
#define RP_PRINT_CHECKED(x) reprise::print_check(x)
#else
__attribute__((format(printf, 1, 2))) void rp_print_check(const char* format, ...);
#define RP_PRINT_CHECKED(x) _Generic((x), long: 0, unsigned long: 0u, default: (x))
#endif
#pragma GCC diagnostic error "-Wformat"

#define RP_PRINT_PASTE(a, b) RP_PRINT_PASTE2(a, b)
#define RP_PRINT_PASTE2(a, b) a##b
#define RP_PRINT_COUNT(...) RP_PRINT_COUNT2(__VA_ARGS__, MANY, MANY, MANY, MANY, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define RP_PRINT_COUNT2(format, a, b, c, d, e, f, g, h, i, j, k, l, n, ...) n
// RP_PRINT_EACH(f, i, ...) is f(i, x) for each argument after the format.
#define RP_PRINT_EACH(f, ...) RP_PRINT_PASTE(RP_PRINT_EACH, RP_PRINT_COUNT(__VA_ARGS__))(f, __VA_ARGS__)
#define RP_PRINT_EACH0(m, s)
#define RP_PRINT_EACH1(m, s, a) m(0, a)
#define RP_PRINT_EACH2(m, s, a, b) m(0, a) m(1, b)
#define RP_PRINT_EACH3(m, s, a, b, c) m(0, a) m(1, b) m(2, c)
#define RP_PRINT_EACH4(m, s, a, b, c, d) m(0, a) m(1, b) m(2, c) m(3, d)
#define RP_PRINT_EACH5(m, s, a, b, c, d, e) m(0, a) m(1, b) m(2, c) m(3, d) m(4, e)
#define RP_PRINT_EACH6(m, s, a, b, c, d, e, f) m(0, a) m(1, b) m(2, c) m(3, d) m(4, e) m(5, f)
#define RP_PRINT_EACH7(m, s, a, b, c, d, e, f, g) m(0, a) m(1, b) m(2, c) m(3, d) m(4, e) m(5, f) m(6, g)
#define RP_PRINT_EACH8(m, s, a, b, c, d, e, f, g, h) m(0, a) m(1, b) m(2, c) m(3, d) m(4, e) m(5, f) m(6, g) m(7, h)
#define RP_PRINT_EACHMANY(...) +reprise_print_takes_at_most_eight_arguments
#define RP_PRINT_FORMAT(...) RP_PRINT_FORMAT2(__VA_ARGS__, 0)
#define RP_PRINT_FORMAT2(format, ...) format
#define RP_PRINT_CHECK_ARG(i, x) , RP_PRINT_CHECKED(x)
#define RP_PRINT_CHECK(...)                                                                                  \
    if (0) {                                                                                                 \
        rp_print_check(RP_PRINT_FORMAT(__VA_ARGS__) RP_PRINT_EACH(RP_PRINT_CHECK_ARG, __VA_ARGS__));         \
    }

#define reprise_print(...) reprise_print_at(RP_PRINT_INFO, __VA_ARGS__)

#if !defined(REPRISE_PRINTS)
#define reprise_print_at(level, ...)     \
    do {                                 \
        RP_PRINT_CHECK(__VA_ARGS__)      \
    } while (0)
#endif

#if defined(REPRISE_PRINTS) || defined(REPRISE_ZONES)

// --- the ring ----------------------------------------------------------------------------------------------------
// Each processor has a header here and RP_PRINT_SIZE bytes of records after the headers. Positions count bytes, and wrap at
// 32 bits; a record never goes around the end of the ring, but a word that skips the rest. abi.L1Map has the same numbers.
#define RP_L1_PRINT 0x1C00u
#define RP_L1_PRINT_DATA 0x1D00u
#define RP_PRINT_SIZE 1024u

struct rp_print_ring {
    // The host's words.
    uint32_t taken;     // up to where it has taken records
    uint32_t beat;      // changes at each of its visits, never 0
    uint32_t patience;  // cycles without a visit for which a full ring waits; 0: nobody listens
    uint32_t told;      // of made, what it has taken or knows to be lost
    // This processor's.
    uint32_t put;       // up to where records are; RP_PRINT_BUSY is set while it makes one
    uint32_t tail;      // the first record that hasn't been overwritten
    uint32_t made;      // records that were ever made, whatever became of them; it agrees with put while RP_PRINT_BUSY is clear
    uint32_t deserted;  // the beat at which it stopped waiting for the host
};

// Set before a processor takes the time of a record, and cleared by handing it over: the host then knows that one with an earlier
// time than what other processors of the core have handed over may still come.
#define RP_PRINT_BUSY 1u

// A record: words and kind, the id by which the host knows the program, the time, then what the kind says.
#define RP_PRINT_MAGIC 0x52500000u
#define RP_PRINT_KIND_FORMAT 0x0000u  // offset of the format, arguments
#define RP_PRINT_KIND_STREAM 0x0100u  // items: see api/debug/dprint.h
#define RP_PRINT_KIND_SKIP 0x0200u    // nothing, and no header but this word
#define RP_PRINT_KIND_ZONE 0x0300u    // see reprise/zone.h
#define RP_PRINT_HEADER 4u            // words
#define RP_PRINT_MOST 64u             // words of a record

RP_INLINE volatile struct rp_print_ring* rp_print_ring(void) {
    return (volatile struct rp_print_ring*)RP_L1_PRINT + rp_processor();
}

// rp_print_room makes records of a full ring free until it has room up to a position: those that the host has taken; else, if
// the host listens, it waits for that as long as the host comes by; else the oldest are lost.
static __attribute__((noinline, unused)) void rp_print_room(volatile struct rp_print_ring* r, uint32_t data, uint32_t end) {
    uint32_t put = r->put;
    uint32_t tail = r->tail;
    do {
        rp_invalidate_l1();
        uint32_t taken = r->taken;
        uint32_t beat = r->beat;
        if (taken == tail && beat != r->deserted && r->patience != 0) {
            rp_waypoint_detail("PRNT", data);
            uint32_t since = rp_wall_clock_low();
            while (taken == tail && r->patience != 0) {
                if (r->beat != beat) {
                    beat = r->beat;
                    since = rp_wall_clock_low();
                } else if (rp_wall_clock_low() - since >= r->patience) {
                    r->deserted = beat;
                    break;
                }
                rp_invalidate_l1();
                taken = r->taken;
            }
            rp_waypoint("RUN ");
        }
        if (taken != tail && taken - tail <= put - tail) {
            tail = taken;
        } else {
            uint32_t first = rp_load(data + (tail & (RP_PRINT_SIZE - 4)));
            uint32_t size = 4 * (first & 0xFFu);
            tail = size - 1 < put - tail && put - tail <= RP_PRINT_SIZE ? tail + size : put;
        }
    } while (end - tail > RP_PRINT_SIZE);
    r->tail = tail;
}

// rp_print_begin makes room for a record of some words, at most RP_PRINT_MOST, writes its header and returns where the rest goes.
// The words are the low byte of its argument, the kind the next one.
static __attribute__((noinline, unused)) volatile uint32_t* rp_print_begin(uint32_t head) {
    // The section says that the kernel prints, even if it has no format.
    __asm__ volatile(".pushsection .reprise_print,\"\",@progbits\n\t.balign 4\n\t.word 0\n\t.popsection");
    volatile struct rp_print_ring* r = rp_print_ring();
    uint32_t data = RP_L1_PRINT_DATA + RP_PRINT_SIZE * rp_processor();
    uint32_t put = r->put & ~RP_PRINT_BUSY;
    uint32_t rest = RP_PRINT_SIZE - (put & (RP_PRINT_SIZE - 4));
    uint32_t size = 4 * (head & 0xFFu);
    uint32_t end = put + size + (rest < size ? rest : 0);
    if (end - r->tail > RP_PRINT_SIZE) {
        rp_print_room(r, data, end);
    }
    if (rest < size) {
        rp_store(data + (put & (RP_PRINT_SIZE - 4)), RP_PRINT_MAGIC | RP_PRINT_KIND_SKIP | rest / 4);
        put += rest;
    }
    r->put = put | RP_PRINT_BUSY;
    volatile uint32_t* w = rp_word(data + (put & (RP_PRINT_SIZE - 4)));
    w[0] = RP_PRINT_MAGIC | head;
    w[1] = ((const volatile struct rp_launch*)RP_LOCAL->launch)->host_assigned_id;
    w[2] = rp_load(RP_WALL_CLOCK_LOW);
    w[3] = rp_load(RP_WALL_CLOCK_HIGH);
    return w + RP_PRINT_HEADER;
}

// rp_print_end hands the record that was begun last to the host.
static __attribute__((noinline, unused)) void rp_print_end(uint32_t words) {
    volatile struct rp_print_ring* r = rp_print_ring();
    r->made = r->made + 1;
    r->put = r->put + (4 * words - RP_PRINT_BUSY);
}

// --- arguments ---------------------------------------------------------------------------------------------------
// Types of arguments, four bits each in the word before a format.
#define RP_PRINT_WORD 1u
#define RP_PRINT_LONG 2u
#define RP_PRINT_FLOAT 3u
#define RP_PRINT_DOUBLE 4u
#define RP_PRINT_TEXT 5u

union rp_print_bits {
    float f;
    double d;
    uint64_t u;
    uint32_t w[2];
};

RP_INLINE uint32_t rp_print_length(const char* s) {
    uint32_t n = 0;
    while (n < RP_PRINT_STRING && s[n] != 0) {
        n++;
    }
    return n;
}
RP_INLINE uint32_t rp_print_text_words(const char* s) { return 1 + (rp_print_length(s) + 3) / 4; }
static __attribute__((noinline, unused)) volatile uint32_t* rp_print_put_text(volatile uint32_t* w, const char* s) {
    uint32_t n = rp_print_length(s);
    *w++ = n;
    for (uint32_t i = 0; i < n; i += 4) {
        uint32_t v = 0;
        for (uint32_t k = 0; k < 4 && i + k < n; k++) {
            v |= (uint32_t)(uint8_t)s[i + k] << 8 * k;
        }
        *w++ = v;
    }
    return w;
}
RP_INLINE volatile uint32_t* rp_print_put_word(volatile uint32_t* w, uint32_t v) {
    *w = v;
    return w + 1;
}
RP_INLINE volatile uint32_t* rp_print_put_pointer(volatile uint32_t* w, const volatile void* v) {
    return rp_print_put_word(w, (uint32_t)(uintptr_t)v);
}
RP_INLINE volatile uint32_t* rp_print_put_long(volatile uint32_t* w, uint64_t v) {
    w[0] = (uint32_t)v;
    w[1] = (uint32_t)(v >> 32);
    return w + 2;
}
RP_INLINE volatile uint32_t* rp_print_put_float(volatile uint32_t* w, float v) {
    union rp_print_bits b;
    b.f = v;
    return rp_print_put_word(w, b.w[0]);
}
RP_INLINE volatile uint32_t* rp_print_put_double(volatile uint32_t* w, double v) {
    union rp_print_bits b;
    b.d = v;
    return rp_print_put_long(w, b.u);
}

#if defined(__cplusplus)
namespace reprise {
template <typename T>
struct print_type {
    static constexpr uint32_t type = sizeof(T) == 8 ? RP_PRINT_LONG : RP_PRINT_WORD;
};
template <>
struct print_type<float> {
    static constexpr uint32_t type = RP_PRINT_FLOAT;
};
template <>
struct print_type<double> {
    static constexpr uint32_t type = RP_PRINT_DOUBLE;
};
template <>
struct print_type<char*> {
    static constexpr uint32_t type = RP_PRINT_TEXT;
};
template <>
struct print_type<const char*> {
    static constexpr uint32_t type = RP_PRINT_TEXT;
};
template <typename T>
print_type<T> print_type_of(T);
template <typename T>
RP_INLINE uint32_t print_words(T v) {
    if constexpr (print_type<T>::type == RP_PRINT_TEXT) {
        return rp_print_text_words(v);
    } else {
        (void)v;
        return sizeof(T) == 8 ? 2 : 1;
    }
}
template <typename T>
RP_INLINE volatile uint32_t* print_put(volatile uint32_t* w, T v) {
    if constexpr (print_type<T>::type == RP_PRINT_TEXT) {
        return rp_print_put_text(w, v);
    } else if constexpr (print_type<T>::type == RP_PRINT_FLOAT) {
        return rp_print_put_float(w, v);
    } else if constexpr (print_type<T>::type == RP_PRINT_DOUBLE) {
        return rp_print_put_double(w, v);
    } else if constexpr (sizeof(T) == 8) {
        return rp_print_put_long(w, (uint64_t)v);
    } else {
        return rp_print_put_word(w, (uint32_t)v);
    }
}
}  // namespace reprise
#define RP_PRINT_TYPE_OF(x) decltype(reprise::print_type_of(x))::type
#define RP_PRINT_WORDS_OF(x) reprise::print_words(x)
#define RP_PRINT_PUT_OF(w, x) reprise::print_put(w, x)
#else
#define RP_PRINT_TYPE_OF(x)                                                                           \
    _Generic((x), long long: RP_PRINT_LONG, unsigned long long: RP_PRINT_LONG, float: RP_PRINT_FLOAT, \
             double: RP_PRINT_DOUBLE, char*: RP_PRINT_TEXT, const char*: RP_PRINT_TEXT, default: RP_PRINT_WORD)
RP_INLINE uint32_t rp_print_one_word(uint32_t v) { return (void)v, 1; }
RP_INLINE uint32_t rp_print_two_words(uint64_t v) { return (void)v, 2; }
RP_INLINE uint32_t rp_print_float_words(float v) { return (void)v, 1; }
RP_INLINE uint32_t rp_print_double_words(double v) { return (void)v, 2; }
RP_INLINE uint32_t rp_print_pointer_words(const volatile void* v) { return (void)v, 1; }
#define RP_PRINT_BY_TYPE(x, text, word, two, flt, dbl, pointer)                                                    \
    _Generic((x), long long: two, unsigned long long: two, float: flt, double: dbl, char*: text, const char*: text, \
             void*: pointer, const void*: pointer, volatile void*: pointer, const volatile void*: pointer, default: word)
#define RP_PRINT_WORDS_OF(x)                                                                                  \
    RP_PRINT_BY_TYPE(x, rp_print_text_words, rp_print_one_word, rp_print_two_words, rp_print_float_words,     \
                     rp_print_double_words, rp_print_pointer_words)(x)
#define RP_PRINT_PUT_OF(w, x)                                                                                 \
    RP_PRINT_BY_TYPE(x, rp_print_put_text, rp_print_put_word, rp_print_put_long, rp_print_put_float,          \
                     rp_print_put_double, rp_print_put_pointer)(w, x)
#endif

#endif  // REPRISE_PRINTS || REPRISE_ZONES

// --- formats -----------------------------------------------------------------------------------------------------
// RP_PRINT_ENTRY puts a text of at most RP_PRINT_LONGEST characters into the section .reprise_print and returns where it is
// there, which the linker knows: the assembler gets its characters as numbers, so that no text is data of the kernel. Before
// them stand the types of the arguments, the line, the level and the number of arguments; after them the file's name.
#define RP_PRINT_LONGEST 199u
#define RP_PRINT_CHAR(s, i) (uint64_t)((i) < sizeof(s) && (i) < RP_PRINT_LONGEST ? (uint8_t)(s)[(i) < sizeof(s) ? (i) : 0] : 0) << 8 * ((i) % 8)
#define RP_PRINT_EIGHT(s, i)                                                                                   \
    "i"(RP_PRINT_CHAR(s, i) | RP_PRINT_CHAR(s, i + 1) | RP_PRINT_CHAR(s, i + 2) | RP_PRINT_CHAR(s, i + 3) |    \
        RP_PRINT_CHAR(s, i + 4) | RP_PRINT_CHAR(s, i + 5) | RP_PRINT_CHAR(s, i + 6) | RP_PRINT_CHAR(s, i + 7))
#define RP_PRINT_ENTRY(to, s, size, types, line, level, count, file)                                             \
    __asm__(                                                                                                    \
        ".pushsection .reprise_print,\"\",@progbits\n"                                                          \
        "\t.balign 4\n"                                                                                         \
        "0:\t.word %1\n"                                                                                       \
        "\t.half %2, %3\n"                                                                                    \
        "\t.quad %4\n"                                                                                        \
        "\t.if %29 > 8\n"                                                                                     \
        "\t.quad %5, %6, %7\n"                                                                                \
        "\t.endif\n"                                                                                          \
        "\t.if %29 > 32\n"                                                                                    \
        "\t.quad %8, %9, %10, %11, %12, %13\n"                                                                \
        "\t.endif\n"                                                                                          \
        "\t.if %29 > 80\n"                                                                                     \
        "\t.quad %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28\n"    \
        "\t.endif\n" file                                                                                       \
        "\t.popsection\n"                                                                                       \
        "\tlui %0, %%hi(0b)\n"                                                                                  \
        "\taddi %0, %0, %%lo(0b)"                                                                               \
        : "=r"(to)                                                                                              \
        : "i"(types), "i"(line), "i"((uint32_t)(uint8_t)(level) << 8 | (count)), RP_PRINT_EIGHT(s, 0),          \
          RP_PRINT_EIGHT(s, 8), RP_PRINT_EIGHT(s, 16), RP_PRINT_EIGHT(s, 24), RP_PRINT_EIGHT(s, 32),            \
          RP_PRINT_EIGHT(s, 40), RP_PRINT_EIGHT(s, 48), RP_PRINT_EIGHT(s, 56), RP_PRINT_EIGHT(s, 64),           \
          RP_PRINT_EIGHT(s, 72), RP_PRINT_EIGHT(s, 80), RP_PRINT_EIGHT(s, 88), RP_PRINT_EIGHT(s, 96),           \
          RP_PRINT_EIGHT(s, 104), RP_PRINT_EIGHT(s, 112), RP_PRINT_EIGHT(s, 120), RP_PRINT_EIGHT(s, 128),       \
          RP_PRINT_EIGHT(s, 136), RP_PRINT_EIGHT(s, 144), RP_PRINT_EIGHT(s, 152), RP_PRINT_EIGHT(s, 160),       \
          RP_PRINT_EIGHT(s, 168), RP_PRINT_EIGHT(s, 176), RP_PRINT_EIGHT(s, 184), RP_PRINT_EIGHT(s, 192), "i"(size))

#if defined(REPRISE_PRINTS)
#define RP_PRINT_ARG_TYPE(i, x) | RP_PRINT_TYPE_OF(x) << 4 * (i)
#define RP_PRINT_ARG_WORDS(i, x) +RP_PRINT_WORDS_OF(x)
#define RP_PRINT_ARG_PUT(i, x) rp_print_at_ = RP_PRINT_PUT_OF(rp_print_at_, x);
#define reprise_print_at(level, ...)                                                                             \
    do {                                                                                                         \
        RP_PRINT_CHECK(__VA_ARGS__)                                                                              \
        RP_STATIC_ASSERT(sizeof(RP_PRINT_FORMAT(__VA_ARGS__)) <= RP_PRINT_LONGEST + 1, "a format of more than 199 characters"); \
        uint32_t rp_print_format_;                                                                               \
        RP_PRINT_ENTRY(rp_print_format_, RP_PRINT_FORMAT(__VA_ARGS__), sizeof(RP_PRINT_FORMAT(__VA_ARGS__)),      \
                       0u RP_PRINT_EACH(RP_PRINT_ARG_TYPE, __VA_ARGS__), __LINE__, level,                        \
                       RP_PRINT_COUNT(__VA_ARGS__), "\t.asciz \"" __FILE__ "\"\n");                              \
        uint32_t rp_print_words_ = RP_PRINT_HEADER + 1 RP_PRINT_EACH(RP_PRINT_ARG_WORDS, __VA_ARGS__);           \
        volatile uint32_t* rp_print_at_ = rp_print_begin(RP_PRINT_KIND_FORMAT | rp_print_words_);                \
        *rp_print_at_++ = rp_print_format_;                                                                      \
        RP_PRINT_EACH(RP_PRINT_ARG_PUT, __VA_ARGS__)                                                             \
        (void)rp_print_at_;                                                                                      \
        rp_print_end(rp_print_words_);                                                                           \
    } while (0)

#endif  // REPRISE_PRINTS

#endif
