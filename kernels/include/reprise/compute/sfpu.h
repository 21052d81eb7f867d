// The vector unit: 32 lanes see four rows of every second column of a tile of Dst at a time. Functions here name LRegs; they
// compute in fp32 whatever Dst holds. "Clobbers" are the registers that a function changes beside its result.
#pragma once

#include "reprise/compute/math.h"

namespace reprise {
namespace sfpu {

enum lreg { l0, l1, l2, l3, l4, l5, l6, l7, zero = RP_LREG_ZERO, one = RP_LREG_ONE };

// Address modes: one that moves nothing, one that goes on to the next lanes of Dst. Wormhole has them among the modes with a bias.
constexpr uint32_t still = RP_ADDRESS_MODES - 1, next = RP_ADDRESS_MODES - 2;
constexpr uint32_t dst_format = wide_dst ? RP_SFPU_FP32 : RP_SFPU_BF16;

// Around instructions on Dst from a tile on: the matrix unit has finished before, all lanes execute.
FORCE_INLINE void begin(uint32_t dst) {
    math::tile(dst);
    RP_STALLWAIT(RP_STALL_SFPU, RP_WAIT_MATH);
#if defined(REPRISE_WORMHOLE)
    RP_THREAD_SET(RP_THREAD_MODE_BIAS, 1);
#endif
    RP_TTI(RP_OP_SFPENCC(10, 0, 3));
}
FORCE_INLINE void end() {
#if defined(REPRISE_WORMHOLE)
    RP_STALLWAIT(RP_STALL_CFG, RP_WAIT_SFPU);
    RP_THREAD_SET(RP_THREAD_MODE_BIAS, 0);
#endif
    RP_TTI(RP_OP_SETRWC(RP_RWC_D, 0, 0, 0, 0, 0));
}

// Executes f for all data of a tile, 32 at a time. f ends with a store.
template <typename F>
FORCE_INLINE void each(uint32_t dst, F f) {
    begin(dst);
    for (uint32_t i = 0; i < 32; i++) {
        f();
    }
    end();
}

// --- Dst -------------------------------------------------------------------------------------------------------
template <uint32_t format = dst_format>
FORCE_INLINE void load(uint32_t l) { RP_TTI(RP_OP_SFPLOAD(0, still, format, l)); }
// From a tile that isn't the one that begin named; row is where it begins from there.
template <uint32_t format = dst_format>
FORCE_INLINE void load_from(uint32_t l, uint32_t row) { tt(RP_OP_SFPLOAD(0, still, format, l) | row); }
template <uint32_t format = dst_format>
FORCE_INLINE void store_to(uint32_t l, uint32_t row) { tt(RP_OP_SFPSTORE(0, next, format, l) | row); }
// Stores what Dst can hold, and goes on.
template <uint32_t format = dst_format>
FORCE_INLINE void store_exact(uint32_t l) { RP_TTI(RP_OP_SFPSTORE(0, next, format, l)); }
// Rounds to what Dst can hold.
FORCE_INLINE void round(uint32_t l) {
    if constexpr (!wide_dst) {
        RP_TTI(RP_OP_SFP_STOCH_RND(1, l, l, 0, 0, 0));
    }
}
FORCE_INLINE void store(uint32_t l) {
    round(l);
    store_exact(l);
}

// --- arithmetic ------------------------------------------------------------------------------------------------
FORCE_INLINE void loadi(uint32_t d, uint32_t bits) {
    if (__builtin_constant_p(bits) && (bits & 0xFFFF) == 0) {
        RP_TTI(RP_OP_SFPLOADI(bits >> 16, 0, d));
    } else if (__builtin_constant_p(bits)) {
        RP_SFPU_LOADI(d, bits);
    } else {
        rp_tensix_push(RP_OP_SFPLOADI(0, 10, d) | (bits & 0xFFFF));
        rp_tensix_push(RP_OP_SFPLOADI(0, 8, d) | bits >> 16);
    }
}
// d = a b + c; a b; a + c.
FORCE_INLINE void mad(uint32_t d, uint32_t a, uint32_t b, uint32_t c) {
    RP_TTI(RP_OP_SFPMAD(0, d, c, b, a));
    RP_SFPU_SETTLE();
}
FORCE_INLINE void mul(uint32_t d, uint32_t a, uint32_t b) {
    RP_TTI(RP_OP_SFPMUL(0, d, zero, b, a));
    RP_SFPU_SETTLE();
}
FORCE_INLINE void add(uint32_t d, uint32_t a, uint32_t c) {
    RP_TTI(RP_OP_SFPADD(0, d, c, one, a));
    RP_SFPU_SETTLE();
}
// With a number of 16 bits, as bf16.
FORCE_INLINE void muli(uint32_t d, uint32_t bf16) {
    RP_TTI(RP_OP_SFPMULI(0, d, bf16));
    RP_SFPU_SETTLE();
}
FORCE_INLINE void addi(uint32_t d, uint32_t bf16) {
    RP_TTI(RP_OP_SFPADDI(0, d, bf16));
    RP_SFPU_SETTLE();
}
FORCE_INLINE void mov(uint32_t d, uint32_t c) { RP_TTI(RP_OP_SFPMOV(0, d, c)); }
FORCE_INLINE void neg(uint32_t d, uint32_t c) { RP_TTI(RP_OP_SFPMOV(1, d, c)); }
FORCE_INLINE void abs(uint32_t d, uint32_t c) { RP_TTI(RP_OP_SFPABS(1, d, c)); }
// d = c with the sign that d has.
FORCE_INLINE void copysign(uint32_t d, uint32_t c) { RP_TTI(RP_OP_SFPSETSGN(0, d, c, 0)); }
FORCE_INLINE void set_exponent(uint32_t d, uint32_t c, uint32_t biased) { RP_TTI(RP_OP_SFPSETEXP(1, d, c, biased)); }
// d = the lesser, the greater of d and c. c is lost unless it is a constant.
FORCE_INLINE void min(uint32_t d, uint32_t c) {
    RP_TTI(RP_OP_SFPSWAP(1, d, c));
    RP_SFPU_SETTLE();
}
FORCE_INLINE void max(uint32_t d, uint32_t c) {
    RP_TTI(RP_OP_SFPSWAP(9, d, c));
    RP_SFPU_SETTLE();
}
// Integers: d = c + d, c - d, d + imm; d shifted left (right if by is negative).
FORCE_INLINE void iadd(uint32_t d, uint32_t c) { RP_TTI(RP_OP_SFPIADD(4, d, c, 0)); }
FORCE_INLINE void isub(uint32_t d, uint32_t c) { RP_TTI(RP_OP_SFPIADD(6, d, c, 0)); }
FORCE_INLINE void iaddi(uint32_t d, int32_t imm) { RP_TTI(RP_OP_SFPIADD(5, d, d, (uint32_t)imm & 0xFFFu)); }
FORCE_INLINE void shift(uint32_t d, int32_t by) { RP_TTI(RP_OP_SFPSHFT(1, d, 0, (uint32_t)by & 0xFFFu)); }

// --- conditions ------------------------------------------------------------------------------------------------
// Only lanes execute where register c is as said, until all().
FORCE_INLINE void where_negative(uint32_t c) { RP_TTI(RP_OP_SFPSETCC(0, 0, c, 0)); }
FORCE_INLINE void where_nonzero(uint32_t c) { RP_TTI(RP_OP_SFPSETCC(2, 0, c, 0)); }
FORCE_INLINE void where_not_negative(uint32_t c) { RP_TTI(RP_OP_SFPSETCC(4, 0, c, 0)); }
FORCE_INLINE void where_zero(uint32_t c) { RP_TTI(RP_OP_SFPSETCC(6, 0, c, 0)); }
FORCE_INLINE void all() { RP_TTI(RP_OP_SFPENCC(0, 0, 0)); }

constexpr uint32_t infinity = 0x7F800000, not_a_number = 0x7FC00000;

// d = d x + each of some numbers in turn, given as bits. Clobbers t.
template <typename... Numbers>
FORCE_INLINE void horner(uint32_t d, uint32_t x, uint32_t t, Numbers... c) {
    ((loadi(t, c), mad(d, d, x, t)), ...);
}

// --- functions -------------------------------------------------------------------------------------------------
// L0 = e^L0, within 2^-21 of it: 0 below the normal numbers, infinity above. Clobbers L1, L2, L3.
FORCE_INLINE void exp() {
    loadi(l1, 0x42B20000);  // 89
    min(l0, l1);
    loadi(l1, 0xC2B00000);  // -88
    max(l0, l1);
    loadi(l1, 0x3FB8AA3B);  // 1 / ln 2
    loadi(l2, 0x4B400000);  // 1.5 2^23: what is added to it becomes a whole number n
    mad(l1, l0, l1, l2);
    mov(l2, l1);
    addi(l2, 0xCB40);
    loadi(l3, 0xBF318000);  // ln 2 in two parts
    mad(l0, l2, l3, l0);
    loadi(l3, 0x395E8083);
    mad(l0, l2, l3, l0);
    loadi(l3, 0x3C07F217);
    horner(l3, l0, l2, 0x3D2BB0DAu, 0x3E2AAD13u, 0x3EFFFE89u, 0x3F7FFFFBu, 0x3F800001u);
    shift(l1, 23);  // n to the exponent
    iadd(l1, l3);
    max(l1, zero);
    loadi(l0, infinity);
    min(l0, l1);
}

// L0 = 1 / L0, within 2^-22 of it: infinity for zero, zero for infinity. Clobbers L1, L2, L3.
FORCE_INLINE void recip() {
    set_exponent(l1, l0, 127);
    RP_TTI(RP_OP_SFPSETSGN(1, l1, l1, 1));  // -m, of which 1/m is wanted
    loadi(l2, 0x3EA57EB5);
    horner(l2, l1, l3, 0x3FBA2E8Cu, 0x4007C1F0u);
    for (int i = 0; i < 2; i++) {
        loadi(l3, 0x40000000);
        mad(l3, l1, l2, l3);
        mul(l2, l2, l3);
    }
    RP_TTI(RP_OP_SFPEXEXP(0, l1, l0));
    shift(l1, 23);
    isub(l1, l2);
    max(l1, zero);
    RP_TTI(RP_OP_SFPEXEXP(1, l3, l0));
    where_zero(l3);
    loadi(l1, infinity);
    all();
    copysign(l0, l1);
}

// L1 = L0^(-1/2), within 2^-17 of it, or 2^-22 in a wide Dst, for positive numbers. Clobbers L2, L3.
FORCE_INLINE void rsqrt_of_positive() {
    mov(l1, l0);
    shift(l1, -1);
    loadi(l2, 0x5F3759DF);
    isub(l1, l2);
    for (int i = 0; i < (wide_dst ? 3 : 2); i++) {
        mul(l3, l1, l0);
        mul(l3, l3, l1);
        muli(l3, 0xBF00);
        addi(l3, 0x3FC0);
        mul(l1, l1, l3);
    }
}
// Lanes where L0 is infinite; then all again. Clobbers L3.
FORCE_INLINE void where_infinite() {
    RP_TTI(RP_OP_SFPEXEXP(0, l3, l0));
    iaddi(l3, -128);
    where_zero(l3);
}
FORCE_INLINE void where_tiny(uint32_t x, uint32_t t) {  // zero, or what is taken for it
    RP_TTI(RP_OP_SFPEXEXP(1, t, x));
    where_zero(t);
}
// L0 = L0^(-1/2); L0^(1/2): infinity and zero for zero, NaN for negative numbers. They are rounded to what Dst can hold, which
// NaN would not survive. Clobbers L1, L2, L3.
FORCE_INLINE void where_special(uint32_t infinite, uint32_t tiny) {
    where_infinite();
    loadi(l1, infinite);
    all();
    where_negative(l0);
    loadi(l1, not_a_number);
    all();
    where_tiny(l0, l3);
    loadi(l1, tiny);
    all();
    mov(l0, l1);
}
FORCE_INLINE void rsqrt() {
    rsqrt_of_positive();
    round(l1);
    where_special(0, infinity);
}
FORCE_INLINE void sqrt() {
    rsqrt_of_positive();
    mul(l1, l1, l0);
    round(l1);
    where_special(infinity, 0);
}

// L0 = ln L0, and then what scale makes of it in L1: minus infinity for zero, NaN for negative numbers, rounded as above. Clobbers
// L1 to L4.
template <typename F>
FORCE_INLINE void log(F scale) {
    RP_TTI(RP_OP_SFPEXEXP(1, l1, l0));
    set_exponent(l2, l0, 127);
    loadi(l3, 0xBFB504F3);  // numbers from half the square root of 2 on
    add(l3, l2, l3);
    where_not_negative(l3);
    set_exponent(l2, l0, 126);
    iaddi(l1, 1);
    all();
    RP_TTI(RP_OP_SFPCAST(0, l1, l1));
    addi(l1, 0xC2FE);  // -127
    addi(l2, 0xBF80);
    loadi(l3, 0xBDCEFD41);
    horner(l3, l2, l4, 0x3E261E86u, 0xBE30A604u, 0x3E4BC717u, 0xBE7FB11Eu, 0x3EAAACEEu, 0xBF00003Du, 0x3F7FFFFFu);
    mul(l3, l3, l2);
    loadi(l4, 0x3F317218);
    mad(l1, l1, l4, l3);
    scale();
    round(l1);
    where_special(infinity, 0xFF800000);
}
FORCE_INLINE void log() {
    log([] {});
}

// L0 = 1 / (1 + e^-L0). Clobbers L1, L2, L3.
FORCE_INLINE void sigmoid() {
    neg(l0, l0);
    exp();
    add(l0, l0, one);
    recip();
}
// L0 = L0 / (1 + e^-L0): with h = e^(-|L0|/2), whose square may be too small for a number, L0 / (1 + h^2), and that times h^2 if L0
// is negative. Clobbers L1 to L5.
FORCE_INLINE void silu() {
    loadi(l1, 0xC3480000);  // -200: the result is 0 below
    max(l0, l1);
    mov(l4, l0);
    abs(l0, l0);
    muli(l0, 0xBF00);
    exp();
    mov(l5, l0);
    mad(l0, l0, l0, one);
    recip();
    mul(l0, l0, l4);
    where_negative(l4);
    mul(l0, l0, l5);
    mul(l0, l0, l5);
    all();
}

// L0 = tanh L0. Clobbers L1 to L6.
FORCE_INLINE void tanh() {
    mov(l4, l0);
    mul(l5, l0, l0);
    loadi(l6, 0x3C76983D);
    horner(l6, l5, l3, 0xBD54432Au, 0x3E083D04u, 0xBEAAA8DCu, 0x3F7FFFFEu);
    mul(l6, l6, l4);  // of numbers up to 0.625
    abs(l5, l0);
    add(l0, l5, l5);
    exp();
    add(l0, l0, one);
    recip();
    muli(l0, 0xC000);
    add(l0, l0, one);
    copysign(l4, l0);
    addi(l5, 0xBF20);
    where_negative(l5);
    mov(l4, l6);
    all();
    mov(l0, l4);
}

// L0 = L0 times the normal distribution's share below it: x (1 - Q(x)), or x Q(-x) if x is negative, with the share Q above;
// Q(a) e^(a^2/2) is a polynomial in 1 / (1 + 0.3 a). Clobbers L1 to L6.
FORCE_INLINE void gelu() {
    loadi(l1, 0xC1700000);  // -15: the result is 0 below
    max(l0, l1);
    mov(l4, l0);
    abs(l5, l0);
    loadi(l1, 0x3E99999A);
    mad(l0, l5, l1, one);
    recip();
    if constexpr (wide_dst) {
        loadi(l6, 0x3D121FB4);
        horner(l6, l0, l1, 0xBE20F9D6u, 0x3E534E52u, 0xBD5BE356u, 0x3E03A5A7u, 0x3DCC9F73u, 0x3DF74DDAu, 0x3DF50035u);
    } else {
        loadi(l6, 0xBD9DE533);
        horner(l6, l0, l1, 0x3E5D38BEu, 0xBC8AD618u, 0x3E13A82Fu, 0x3DE8F18Bu, 0x3DF5E97Au);
    }
    mul(l6, l6, l0);
    mul(l0, l5, l5);
    muli(l0, 0xBF00);
    exp();
    mul(l1, l0, l6);
    neg(l1, l1);
    add(l1, l1, one);
    mul(l1, l1, l4);
    where_negative(l4);  // in an order that nothing too small for a number is part of
    mul(l6, l6, l4);
    mul(l1, l0, l6);
    all();
    mov(l0, l1);
}

// L0 = the whole number next to it, halves to the even one. Clobbers L1, L2, L3.
FORCE_INLINE void nearest() {
    abs(l1, l0);
    mov(l2, l1);
    addi(l1, 0x4B00);  // 2^23
    addi(l1, 0xCB00);
    mov(l3, l0);
    copysign(l3, l1);
    addi(l2, 0xCB00);
    where_negative(l2);  // larger ones are whole
    mov(l0, l3);
    all();
}
// L0 = the next whole number below it, above it, towards zero; the rest from the last one. Clobbers L1 to L5.
FORCE_INLINE void floor() {
    mov(l4, l0);
    nearest();
    neg(l1, l0);
    add(l1, l1, l4);
    where_negative(l1);
    addi(l0, 0xBF80);
    all();
}
FORCE_INLINE void ceil() {
    neg(l0, l0);
    floor();
    neg(l0, l0);
}
FORCE_INLINE void trunc() {
    mov(l5, l0);
    abs(l0, l0);
    floor();
    copysign(l5, l0);
    mov(l0, l5);
}
FORCE_INLINE void frac() {
    mov(l6, l0);
    trunc();
    neg(l0, l0);
    add(l0, l0, l6);
}

// L0 = 1, -1 or 0. Clobbers L1, L2.
FORCE_INLINE void sign() {
    mov(l1, l0);
    copysign(l1, one);
    where_tiny(l0, l2);
    loadi(l1, 0);
    all();
    mov(l0, l1);
}

// --- functions of tiles ------------------------------------------------------------------------------------------
// e^x of a Dst of 16 bits: x / ln 2 + 127 in fixed point has the exponent of the result, and the fraction f of a power of two, 2^f,
// of which a polynomial in t = 1 + f stays from 1 up to less than 2.
FORCE_INLINE void exp_narrow(uint32_t dst) {
    constexpr uint32_t c12 = 12, c13 = 13, c14 = 14;
    begin(dst);
    loadi(l0, 0x3FB8AA3B);  // 1 / ln 2
    RP_TTI(RP_OP_SFPCONFIG(0, c12, 0));
    loadi(l0, 0x42FE0000);  // 127
    RP_TTI(RP_OP_SFPCONFIG(0, c13, 0));
    loadi(l0, 0x3F028426);
    RP_TTI(RP_OP_SFPCONFIG(0, c14, 0));
    loadi(l4, 0x3E9FE240);
    loadi(l5, 0x3E2A791F);
    loadi(l6, 0xBB0B2A44);
    loadi(l7, 0x3C5DE713);
    for (uint32_t i = 0; i < 32; i++) {
        load(l0);
        mad(l0, l0, c12, c13);
        loadi(l1, 0x437F0000);  // 255, infinity; min doesn't wait for mad, on Blackhole either
        min(l0, l1);
        max(l0, zero);
        RP_TTI(RP_OP_SFPEXEXP(0, l1, l0));
        RP_TTI(RP_OP_SFPEXMAN(0, l2, l0));
        RP_TTI(RP_OP_SFPSHFT(0, l2, l1, 0));
        set_exponent(l1, l2, 127);
        mad(l3, l1, l7, l6);
        mad(l3, l1, l3, l5);
        mad(l3, l1, l3, l4);
        mad(l3, l1, l3, c14);
        RP_TTI(RP_OP_SFPSETEXP(2, l2, l3, 0));
        store(l2);
    }
    end();
}
FORCE_INLINE void exp_tile(uint32_t dst) {
    if constexpr (wide_dst) {
        each(dst, [] { load(l0); exp(); store(l0); });
    } else {
        exp_narrow(dst);
    }
}

// f computes L0 from L0 and a number in L7.
template <typename F>
FORCE_INLINE void with_number(uint32_t dst, uint32_t bits, F f) {
    begin(dst);
    loadi(l7, bits);
    for (uint32_t i = 0; i < 32; i++) {
        load(l0);
        f();
        store(l0);
    }
    end();
}
FORCE_INLINE void relu_max(uint32_t dst, uint32_t limit) {
    with_number(dst, limit, [] { mov(l1, l7); min(l0, l1); max(l0, zero); });
}
FORCE_INLINE void relu_min(uint32_t dst, uint32_t limit) {
    with_number(dst, limit, [] { mov(l1, l7); max(l0, l1); });
}
FORCE_INLINE void leaky_relu(uint32_t dst, uint32_t slope) {
    with_number(dst, slope, [] { mul(l1, l0, l7); where_negative(l0); mov(l0, l1); all(); });
}

// f computes L0 from L0 and L7, of two tiles.
template <typename F>
FORCE_INLINE void binary(uint32_t a, uint32_t b, uint32_t out, F f) {
    begin(0);
    for (uint32_t i = 0; i < 32; i++) {
        load_from(l0, a * tile_rows);
        load_from(l7, b * tile_rows);
        f();
        round(l0);
        store_to(l0, out * tile_rows);
    }
    end();
}
FORCE_INLINE void where(uint32_t a, uint32_t b, uint32_t c, uint32_t out) {
    begin(0);
    for (uint32_t i = 0; i < 32; i++) {
        load_from(l0, a * tile_rows);
        load_from(l1, b * tile_rows);
        load_from(l2, c * tile_rows);
        shift(l0, 1);  // without the sign
        where_zero(l0);
        mov(l1, l2);
        all();
        store_to(l1, out * tile_rows);
    }
    end();
}

template <uint32_t format = dst_format>
FORCE_INLINE void fill(uint32_t dst, uint32_t bits) {
    begin(dst);
    loadi(l0, bits);
    if constexpr (format == RP_SFPU_BF16) {
        round(l0);
    }
    for (uint32_t i = 0; i < 32; i++) {
        store_exact<format>(l0);
    }
    end();
}

// Starts the generators of random numbers, which takes them some hundred cycles.
FORCE_INLINE void seed(uint32_t value) {
#if defined(REPRISE_WORMHOLE)
    constexpr uint32_t word = 164;  // PRNG_SEED_Seed_Val
#else
    constexpr uint32_t word = 186;
#endif
    rp_cfg_store(word, value);
    RP_STALLWAIT(RP_STALL_SFPU, RP_WAIT_STORES);
    for (uint32_t i = 0; i < 600; i++) {
        RP_TTI(RP_OP_SFPNOP);
    }
}
FORCE_INLINE void random(uint32_t dst, uint32_t from, uint32_t scale) {
    begin(dst);
    loadi(l6, scale);
    loadi(l7, from);
    for (uint32_t i = 0; i < 32; i++) {
        RP_TTI(RP_OP_SFPMOV(8, l0, zero));
        set_exponent(l0, l0, 127);
        RP_TTI(RP_OP_SFPSETSGN(1, l0, l0, 0));
        addi(l0, 0xBF80);
        mad(l0, l0, l6, l7);
        store(l0);
    }
    end();
}

// L0 = the integer of sign and magnitude of a number, towards zero. Clobbers L1, L2, L3.
FORCE_INLINE void to_int32() {
    RP_TTI(RP_OP_SFPEXMAN(0, l1, l0));
    RP_TTI(RP_OP_SFPEXEXP(0, l2, l0));
    mov(l3, l2);
    iaddi(l3, -23);
    RP_TTI(RP_OP_SFPSHFT(0, l1, l3, 0));
    where_negative(l2);
    loadi(l1, 0);
    all();
    iaddi(l2, -31);
    where_not_negative(l2);
    loadi(l1, 0x7FFFFFFF);
    all();
    copysign(l0, l1);
}
template <uint32_t from, uint32_t to>
FORCE_INLINE void typecast(uint32_t dst) {
    constexpr bool floats = from != RP_INT32 && from != RP_UINT16, to_floats = to != RP_INT32 && to != RP_UINT16;
    static_assert(wide_dst || (from != RP_INT32 && to != RP_INT32), "integers of 32 bits want a wide Dst");
    static_assert(!wide_dst || (from != RP_UINT16 && to != RP_UINT16), "integers of 16 bits want a Dst of 16 bits");
    static_assert(floats || to_floats, "from integers to integers");
    if constexpr (floats && to == RP_INT32) {
        each(dst, [] { load(l0); to_int32(); store_exact<RP_SFPU_INT32>(l0); });
    } else if constexpr (floats && to == RP_UINT16) {
        each(dst, [] { load(l0); max(l0, zero); RP_TTI(RP_OP_SFP_STOCH_RND(6, l0, l0, 0, 0, 0)); store_exact<RP_SFPU_UINT16>(l0); });
    } else if constexpr (floats && wide_dst && to != RP_FP32) {
        each(dst, [] { load(l0); RP_TTI(RP_OP_SFP_STOCH_RND(1, l0, l0, 0, 0, 0)); store_exact(l0); });
    } else if constexpr (from == RP_INT32) {
        each(dst, [] { load<RP_SFPU_INT32>(l0); RP_TTI(RP_OP_SFPCAST(0, l0, l0)); store_exact(l0); });
    } else if constexpr (from == RP_UINT16) {
        each(dst, [] { load<RP_SFPU_UINT16>(l0); RP_TTI(RP_OP_SFPCAST(0, l0, l0)); store(l0); });
    }
}

}  // namespace sfpu
}  // namespace reprise
