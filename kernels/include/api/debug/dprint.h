// Printing from a kernel under tt-metal's names: DPRINT << "x " << x << ENDL(), or DPRINT("x {}\n", x), of which DEVICE_PRINT is
// another name; the host has it from package kernels/print.
// Without REPRISE_PRINTS (kernels.Source.Prints) it takes no instruction and no byte, and nothing after DPRINT is evaluated.
//
// Literals stay in the kernel's file, other texts are copied. A line ends with ENDL() or "\n". DPRINT << TSLICE(cb, tile, range)
// prints data of a tile in a circular buffer as a matrix: in compute kernels of the page that the unpack thread reads or the pack
// thread has packed to; the math thread has none, see api/debug/dprint_tensix.h for Dst. In other kernels, whether the buffer is an
// input decides nothing, and the format is that of CB_FORMATS.
#pragma once

#include "reprise/arguments.h"
#include "reprise/print.h"

struct ENDL {};
struct FIXED {};
struct DEFAULTFLOAT {};
struct HEX {};
struct DEC {};
struct OCT {};
struct SETW {
    uint32_t width;
    constexpr SETW(uint32_t width, bool = true) : width(width) {}
};
struct SETPRECISION {
    uint32_t digits;
    constexpr SETPRECISION(uint32_t digits) : digits(digits) {}
};
struct F32 {
    float v;
    constexpr F32(float v) : v(v) {}
};
struct BF16 {
    uint16_t v;
    constexpr BF16(uint16_t v) : v(v) {}
};
struct U32 {
    uint32_t v;
    constexpr U32(uint32_t v) : v(v) {}
};

// Rows h0 up to h1 and columns w0 up to w1 of a tile, each hs-th and ws-th.
struct SliceRange {
    uint8_t h0, h1, hs, w0, w1, ws;
    static constexpr SliceRange hw0_32_16() { return {0, 32, 16, 0, 32, 16}; }
    static constexpr SliceRange hw0_32_8() { return {0, 32, 8, 0, 32, 8}; }
    static constexpr SliceRange hw0_32_4() { return {0, 32, 4, 0, 32, 4}; }
    static constexpr SliceRange hw041() { return {0, 4, 1, 0, 4, 1}; }
    static constexpr SliceRange h0_w0_32() { return {0, 1, 1, 0, 32, 1}; }
    static constexpr SliceRange h0_32_w0() { return {0, 32, 1, 0, 1, 1}; }
    static constexpr SliceRange h1_w0_32() { return {1, 2, 1, 0, 32, 1}; }
};
#define TSLICE_INPUT_CB true
#define TSLICE_OUTPUT_CB false
#define TSLICE_RD_PTR true
#define TSLICE_WR_PTR false

// What of a tile is printed. rows: a line for each row. tiled: the tile has faces, as the engines want it.
template <int = 64>
struct TileSlice {
    uint32_t cb, tile;
    SliceRange range;
    bool rows, tiled;
    bool chosen = false, read = false;
#if defined(TRISC_UNPACK) || defined(TRISC_MATH) || defined(TRISC_PACK)
    constexpr TileSlice(uint32_t cb, uint32_t tile, const SliceRange& range, bool rows = true, bool tiled = true)
        : cb(cb), tile(tile), range(range), rows(rows), tiled(tiled) {}
#else
    constexpr TileSlice(uint32_t cb, uint32_t tile, const SliceRange& range, bool input, bool read, bool rows, bool tiled)
        : cb(cb), tile(tile), range(range), rows(rows), tiled(tiled), chosen(true), read(read) {
        (void)input;
    }
    constexpr TileSlice(uint32_t cb, uint32_t tile, const SliceRange& range, bool input = true)
        : cb(cb), tile(tile), range(range), rows(true), tiled(true) {
        (void)input;
    }
    constexpr TileSlice(uint32_t cb, uint32_t tile, const SliceRange& range, bool input, bool read)
        : TileSlice(cb, tile, range, input, read, true, true) {}
    constexpr TileSlice(uint32_t cb, uint32_t tile, const SliceRange& range, bool input, bool read, bool rows)
        : TileSlice(cb, tile, range, input, read, rows, true) {}
#endif
};
using TSLICE = TileSlice<64>;

#if !defined(REPRISE_PRINTS)

namespace reprise {
struct no_print {
    template <typename T>
    constexpr const no_print& operator<<(const T&) const {
        return *this;
    }
    template <uint32_t N, typename... T>
    constexpr const no_print& operator()(const char (&)[N], T...) const {
        return *this;
    }
};
}  // namespace reprise
#define DPRINT while (false) reprise::no_print()
#define DPRINT_UNPACK(x) ((void)0)
#define DPRINT_MATH(x) ((void)0)
#define DPRINT_PACK(x) ((void)0)
#define DPRINT_DATA0(x) ((void)0)
#define DPRINT_DATA1(x) ((void)0)

#else

#if defined(TRISC_UNPACK) || defined(TRISC_MATH) || defined(TRISC_PACK)
#define DPRINT_UNPACK(x) UNPACK(x)
#define DPRINT_MATH(x) MATH(x)
#define DPRINT_PACK(x) PACK(x)
#define DPRINT_DATA0(x) ((void)0)
#define DPRINT_DATA1(x) ((void)0)
#else
#define DPRINT_UNPACK(x) ((void)0)
#define DPRINT_MATH(x) ((void)0)
#define DPRINT_PACK(x) ((void)0)
#define DPRINT_DATA0(x)              \
    do {                             \
        if (RP_LOCAL->noc_index == 0) { \
            x;                       \
        }                            \
    } while (0)
#define DPRINT_DATA1(x)              \
    do {                             \
        if (RP_LOCAL->noc_index == 1) { \
            x;                       \
        }                            \
    } while (0)
#endif
#define DPRINT reprise::printer()

namespace reprise {

// Items of a record: the kind in the highest byte of a word, and what the kind says. Package kernels/print has the same.
enum print_item : uint32_t {
    item_literal = 1u << 24,  // offset in .reprise_print
    item_unsigned = 2u << 24,
    item_signed = 3u << 24,
    item_unsigned2 = 4u << 24,
    item_signed2 = 5u << 24,
    item_float = 6u << 24,
    item_double = 7u << 24,
    item_bf16 = 8u << 24,
    item_char = 9u << 24,
    item_text = 10u << 24,
    item_endl = 11u << 24,
    item_width = 12u << 24,
    item_precision = 13u << 24,
    item_hex = 14u << 24,
    item_dec = 15u << 24,
    item_oct = 16u << 24,
    item_fixed = 17u << 24,
    item_default = 18u << 24,
    item_pointer = 19u << 24,
    item_bool = 20u << 24,
    item_slice = 21u << 24,
    item_data = 22u << 24,
    item_braces = 23u << 24  // offset in .reprise_print, whose placeholders the next values fill
};

// Why a slice has no data.
enum { slice_format = 1, slice_pointer = 2, slice_thread = 3 };

// The record of a statement, which is begun with its first item and handed over when the statement ends, or earlier if it is full.
struct print_record {
    volatile uint32_t* at;  // of the next item; null without a record
    volatile uint32_t* end;
};
static __attribute__((noinline, unused)) void print_flush(print_record* r) {
    const uint32_t words = RP_PRINT_MOST - (uint32_t)(r->end - r->at);
    r->end[-(int32_t)RP_PRINT_MOST] = RP_PRINT_MAGIC | RP_PRINT_KIND_STREAM | words;
    rp_print_end(words);
    r->at = nullptr;
}
// Returns room for items of some words.
static __attribute__((noinline, unused)) volatile uint32_t* print_room(print_record* r, uint32_t words) {
    if (r->at != nullptr && (uint32_t)(r->end - r->at) < words) {
        print_flush(r);
    }
    if (r->at == nullptr) {
        r->at = rp_print_begin(RP_PRINT_KIND_STREAM | RP_PRINT_MOST);
        r->end = r->at + (RP_PRINT_MOST - RP_PRINT_HEADER);
    }
    volatile uint32_t* at = r->at;
    r->at = at + words;
    return at;
}
static __attribute__((noinline, unused)) void print_one(print_record* r, uint32_t item) { *print_room(r, 1) = item; }
static __attribute__((noinline, unused)) void print_two(print_record* r, uint32_t item, uint32_t v) {
    volatile uint32_t* w = print_room(r, 2);
    w[0] = item;
    w[1] = v;
}
static __attribute__((noinline, unused)) void print_three(print_record* r, uint32_t item, uint64_t v) {
    volatile uint32_t* w = print_room(r, 3);
    w[0] = item;
    rp_print_put_long(w + 1, v);
}
static __attribute__((noinline, unused)) void print_text(print_record* r, const char* s) {
    while (*s != 0) {
        const uint32_t n = rp_print_length(s);
        volatile uint32_t* w = print_room(r, 1 + (n + 3) / 4);
        rp_print_put_text(w, s);
        w[0] = item_text | n;
        s += n;
    }
}

#if defined(CB_FORMATS)
constexpr uint8_t print_formats[] = {CB_FORMATS};
RP_INLINE uint32_t print_format(uint32_t cb) { return print_formats[cb]; }
#else
RP_INLINE uint32_t print_format(uint32_t) { return 5; }  // bf16
#endif

// Bytes that are collected to words.
struct print_bytes {
    volatile uint32_t* at;
    uint32_t word, shift;
    __attribute__((always_inline)) void put(uint32_t byte) {
        word |= (byte & 0xFFu) << shift;
        shift += 8;
        if (shift == 32) {
            *at++ = word;
            word = shift = 0;
        }
    }
    __attribute__((always_inline)) void finish() {
        if (shift != 0) {
            *at = word;
        }
    }
};

static __attribute__((noinline, unused)) void print_slice(print_record* r, const TileSlice<64>* s) {
    const struct rp_cb* cb = &RP_LOCAL->cb[s->cb];
    const uint32_t format = print_format(s->cb);
    const bool block = format == 6 || format == 7 || format == 15;  // with exponents of 8 bits
    const uint32_t bits = format == 7 ? 4 : format == 15 ? 2 : (format & 3) == 0 ? 32 : (format & 3) == 1 ? 16 : 8;
    uint32_t reason = 0;
    bool read = s->chosen ? s->read : rp_processor() == RP_BRISC;
#if defined(TRISC_UNPACK)
    read = true;
#elif defined(TRISC_PACK)
    read = false;
    rp_tensix_sync();  // what was packed is in L1
#elif defined(TRISC_MATH)
    reason = slice_thread;
#endif
    const uint32_t from = (read ? cb->fifo_rd_ptr : cb->fifo_wr_ptr) + s->tile * cb->fifo_page_size;
    if (reason == 0 && (cb->fifo_size == 0 || from < cb->fifo_limit - cb->fifo_size || from >= cb->fifo_limit)) {
        reason = slice_pointer;
    }
    if (reason == 0 && !block && format != 0 && format != 1 && format != 5 && format != 8 && format != 9 && format != 14) {
        reason = slice_format;
    }
    const SliceRange g = s->range;
    const uint32_t hs = g.hs ? g.hs : 1, ws = g.ws ? g.ws : 1;
    const uint32_t columns = g.w1 > g.w0 ? (g.w1 - g.w0 + ws - 1) / ws : 0;
    const uint32_t lines = g.h1 > g.h0 ? (g.h1 - g.h0 + hs - 1) / hs : 0;
    print_three(r, item_slice | reason << 16 | (uint32_t)s->rows << 8 | format, (uint64_t)columns << 32 | lines * columns);
    if (reason != 0) {
        return;
    }
    rp_invalidate_l1();
    const volatile uint8_t* tile = (const volatile uint8_t*)from;
    for (uint32_t h = g.h0; h < g.h1 && h < 32; h += hs) {
        const uint32_t bytes = columns * (block ? 2 : bits / 8);
        volatile uint32_t* w = print_room(r, 1 + (bytes + 3) / 4);
        w[0] = item_data | bytes;
        print_bytes out = {w + 1, 0, 0};
        for (uint32_t x = g.w0; x < g.w1; x += ws) {
            const uint32_t c = x & 31;
            const uint32_t i = s->tiled ? (h >> 4) * 512 + (c >> 4) * 256 + (h & 15) * 16 + (c & 15) : h * 32 + c;
            if (block) {
                out.put(tile[i >> 4]);
                out.put((tile[64 + i * bits / 8] >> (i * bits & 7)) & ((1u << bits) - 1));
            } else {
                for (uint32_t k = 0; k < bits / 8; k++) {
                    out.put(tile[i * (bits / 8) + k]);
                }
            }
        }
        out.finish();
    }
}

// Pointers to characters, which a literal isn't.
template <typename T>
struct print_is_text {};
template <>
struct print_is_text<const char*> {
    static constexpr bool value = true;
};
template <>
struct print_is_text<char*> {
    static constexpr bool value = true;
};

template <uint32_t... I>
struct print_indices {};

// What a format of DPRINT("x {}\n", x) asks for, found one character after the other without a loop, so that the compiler knows it.
struct print_placeholders {
    uint32_t count = 0;   // placeholders
    uint32_t values = 0;  // that numbered ones name
    uint32_t index = 0;
    char before = 0;      // { or } if it may be half of two that stand for one
    bool in = false, numbering = false;

    __attribute__((always_inline)) void take(char c) {
        if (in) {
            if (numbering && c >= '0' && c <= '9') {
                index = 10 * index + (uint32_t)(c - '0');
                values = index + 1 > values ? index + 1 : values;
            } else {
                numbering = false;
            }
            in = c != '}';
        } else if (before == '{' && c != '{') {
            count++;
            index = 0;
            in = c != '}';
            numbering = in && c >= '0' && c <= '9';
            if (numbering) {
                index = (uint32_t)(c - '0');
                values = index + 1 > values ? index + 1 : values;
            }
            before = 0;
        } else {
            before = before == c ? 0 : c == '{' || c == '}' ? c : 0;
        }
    }
    template <uint32_t N, uint32_t... I>
    __attribute__((always_inline)) static bool fit(const char (&s)[N], uint32_t values, print_indices<I...>) {
        print_placeholders p;
        (p.take(s[I]), ...);
        return values == (p.values != 0 ? p.values : p.count);
    }
};
__attribute__((error("the format of DPRINT has more or fewer placeholders than there are values"))) void print_values_differ();

class printer {
    print_record r = {nullptr, nullptr};

   public:
    __attribute__((always_inline)) printer() {}
    __attribute__((always_inline)) ~printer() {
        if (r.at != nullptr) {
            print_flush(&r);
        }
    }
    printer(const printer&) = delete;
#define RP_PRINTER(T) __attribute__((always_inline)) printer& operator<<(T)
    RP_PRINTER(int v) { return print_two(&r, item_signed, (uint32_t)v), *this; }
    RP_PRINTER(long v) { return print_two(&r, item_signed, (uint32_t)v), *this; }
    RP_PRINTER(short v) { return *this << (int)v; }
    RP_PRINTER(signed char v) { return *this << (int)v; }
    RP_PRINTER(unsigned v) { return print_two(&r, item_unsigned, v), *this; }
    RP_PRINTER(unsigned long v) { return print_two(&r, item_unsigned, (uint32_t)v), *this; }
    RP_PRINTER(unsigned short v) { return *this << (unsigned)v; }
    RP_PRINTER(unsigned char v) { return *this << (unsigned)v; }
    RP_PRINTER(long long v) { return print_three(&r, item_signed2, (uint64_t)v), *this; }
    RP_PRINTER(unsigned long long v) { return print_three(&r, item_unsigned2, v), *this; }
    RP_PRINTER(bool v) { return put(item_bool | (uint32_t)v); }
    RP_PRINTER(char v) { return put(item_char | (uint8_t)v); }
    RP_PRINTER(float v) {
        rp_print_bits b;
        b.f = v;
        return print_two(&r, item_float, b.w[0]), *this;
    }
    RP_PRINTER(double v) {
        rp_print_bits b;
        b.d = v;
        return print_three(&r, item_double, b.u), *this;
    }
    RP_PRINTER(const volatile void* v) { return print_two(&r, item_pointer, (uint32_t)(uintptr_t)v), *this; }
    RP_PRINTER(F32 v) { return *this << v.v; }
    RP_PRINTER(U32 v) { return *this << v.v; }
    RP_PRINTER(BF16 v) { return put(item_bf16 | v.v); }
    RP_PRINTER(ENDL) { return put(item_endl); }
    RP_PRINTER(SETW v) { return put(item_width | v.width); }
    RP_PRINTER(SETPRECISION v) { return put(item_precision | v.digits); }
    RP_PRINTER(FIXED) { return put(item_fixed); }
    RP_PRINTER(DEFAULTFLOAT) { return put(item_default); }
    RP_PRINTER(HEX) { return put(item_hex); }
    RP_PRINTER(DEC) { return put(item_dec); }
    RP_PRINTER(OCT) { return put(item_oct); }
#undef RP_PRINTER
    template <int N>
    __attribute__((always_inline)) printer& operator<<(const TileSlice<N>& s) {
        print_slice(&r, (const TileSlice<64>*)&s);
        return *this;
    }
    template <typename T, bool = print_is_text<T>::value>
    __attribute__((always_inline)) printer& operator<<(const T& s) {
        return print_text(&r, s), *this;
    }
    template <uint32_t N>
    __attribute__((always_inline)) printer& operator<<(char (&s)[N]) {
        return print_text(&r, s), *this;
    }
    // A literal.
    template <uint32_t N>
    __attribute__((always_inline)) printer& operator<<(const char (&s)[N]) {
        if constexpr (N > RP_PRINT_LONGEST + 1) {
            print_text(&r, s);
        } else {
            uint32_t at;
            RP_PRINT_ENTRY(at, s, N, 0u, 0, RP_PRINT_INFO, 0, "\t.byte 0\n");
            print_one(&r, item_literal | at);
        }
        return *this;
    }

    // tt-metal's later form: DPRINT("x {} {:#x}\n", x, y).
    template <uint32_t N, typename... T>
    __attribute__((always_inline)) printer& operator()(const char (&s)[N], T... values) {
        static_assert(N <= RP_PRINT_LONGEST + 1, "a format of more than 199 characters");
        static_assert(sizeof...(values) <= 32, "DPRINT takes at most 32 values");
        if (!print_placeholders::fit(s, sizeof...(values), print_indices<__integer_pack(N - 1)...>{})) {
            print_values_differ();
        }
        uint32_t at;
        RP_PRINT_ENTRY(at, s, N, 0u, 0, RP_PRINT_INFO, (uint32_t)sizeof...(values), "\t.byte 0\n");
        print_one(&r, item_braces | at);
        (void)(*this << ... << values);
        return *this;
    }

   private:
    __attribute__((always_inline)) printer& put(uint32_t item) {
        print_one(&r, item);
        return *this;
    }
};

}  // namespace reprise

#endif

// Other names of tt-metal for the form with a format.
#define DEVICE_PRINT(...) DPRINT(__VA_ARGS__)
#define DEVICE_PRINT_UNPACK(...) DPRINT_UNPACK(DPRINT(__VA_ARGS__))
#define DEVICE_PRINT_MATH(...) DPRINT_MATH(DPRINT(__VA_ARGS__))
#define DEVICE_PRINT_PACK(...) DPRINT_PACK(DPRINT(__VA_ARGS__))
#define DEVICE_PRINT_DATA0(...) DPRINT_DATA0(DPRINT(__VA_ARGS__))
#define DEVICE_PRINT_DATA1(...) DPRINT_DATA1(DPRINT(__VA_ARGS__))

using bf16_t = BF16;
