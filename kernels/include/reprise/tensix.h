// The Tensix engines, for kernels of TRISC0, TRISC1 and TRISC2 in C and C++, without sfpi and LLK: unpackers, matrix unit
// (FPU), vector unit (SFPU), packers, and what synchronises them. Instructions and the places of configuration fields come
// from the tables that the emulator is generated from, sim/emu/tensix/instructions.txt and registers.txt.
//
// A T core pushes instructions to the queue of its thread of the engines and runs on. Instructions of a thread start in
// order; whether one has finished when the next starts, the kernel has to see to: with STALLWAIT within a thread, with
// semaphores between threads, with rp_tensix_sync between a thread and its core.
//
// Facts: tt-isa-documentation WormholeB0/TensixTile/TensixCoprocessor and BabyRISCV/{PushTensixInstruction,TTSync}.md,
// tt-llk tt_llk_{wormhole_b0,blackhole}/common/inc/{ckernel,ckernel_instr_params}.h.
#ifndef REPRISE_TENSIX_H
#define REPRISE_TENSIX_H

#include "reprise/kernel.h"

// --- what the generated headers are made of --------------------------------------------------------------------
// Never defined: a call that is left after optimisation is an error of the compiler.
#if defined(__cplusplus)
extern "C" {
#endif
uint32_t rp_tensix_too_large(void) __attribute__((error("a constant doesn't fit in its field")));
uint32_t rp_tensix_absent(void) __attribute__((error("this architecture doesn't have the field: want 0")));
#if defined(__cplusplus)
}
#endif

#define RP_TENSIX_MAX(width) ((2u << ((width) - 1)) - 1u)
#define RP_TENSIX_CHECK(v, max) \
    (__builtin_constant_p(v) && (uint32_t)(v) > (max) ? rp_tensix_too_large() : (uint32_t)(v))
// A field of an instruction: width bits from bit low on.
#define RP_TENSIX_BITS(v, low, width) (RP_TENSIX_CHECK(v, RP_TENSIX_MAX(width)) << (low))
#define RP_TENSIX_ABSENT(v) (__builtin_constant_p(v) && (uint32_t)(v) == 0u ? 0u : rp_tensix_absent())
// Where a field of the configuration is.
#define RP_TENSIX_PLACE(word, low, width) ((uint32_t)(width) << 16 | ((uint32_t)(word) << 5 | (uint32_t)(low)))
#define RP_TENSIX_INDEX(i, n) RP_TENSIX_CHECK(i, (n) - 1u)
#define RP_TENSIX_PICK(i, a, b, c, d) \
    (RP_TENSIX_INDEX(i, 4) == 0u ? (a) : (uint32_t)(i) == 1u ? (b) : (uint32_t)(i) == 2u ? (c) : (d))

#include "reprise/tensix_instructions.h"
#include "reprise/tensix_registers.h"

// --- instructions ----------------------------------------------------------------------------------------------
// RP_TTI(word) executes an instruction whose word is known when compiling: RP_TTI(RP_OP_MVMUL(0, 1, 0, 0)). It stands in
// the stream of RISC-V instructions, rotated left by two, and the core waits while the queue is full.
#define RP_TTI(word) __asm__ volatile(".word %0" ::"i"((uint32_t)(word) << 2 | (uint32_t)(word) >> 30) : "memory")

// rp_tensix_push executes an instruction whose word is known only at run time, by a store. ttsim doesn't make such stores
// wait, and stops at 512 instructions queued: no more than some hundred may follow without an rp_tensix_sync. A MOP counts
// as all that it expands to.
#define RP_TENSIX_PUSH 0xFFE40000u
RP_INLINE void rp_tensix_push(uint32_t word) { rp_store(RP_TENSIX_PUSH, word); }

// rp_tensix_sync waits until the engines have finished all that this core has pushed, so that the kernel may use what
// packers have written to L1 and change what unpackers have read.
RP_INLINE void rp_tensix_sync(void) {
    rp_store(RP_PC_BUF_TENSIX_SYNC, 0);
    uint32_t v = rp_load(RP_PC_BUF_TENSIX_SYNC);
    __asm__ volatile("addi x0, %0, 0" ::"r"(v) : "memory");
    rp_invalidate_l1();
}

// --- macro instructions ----------------------------------------------------------------------------------------
// A MOP instruction expands to what nine words say. They must not change while a MOP is being expanded: rp_mop_sync waits
// for that.
#define RP_MOP_CONFIG(i) (0xFFB80000u + 4u * (uint32_t)(i))
#define RP_PC_BUF_MOP_SYNC 0xFFE80008u
RP_INLINE void rp_mop_sync(void) {
    rp_store(RP_PC_BUF_MOP_SYNC, 0);
    uint32_t v = rp_load(RP_PC_BUF_MOP_SYNC);
    __asm__ volatile("addi x0, %0, 0" ::"r"(v) : "memory");
}
RP_INLINE void rp_mop_store(uint32_t i, uint32_t word) { rp_store(RP_MOP_CONFIG(i), word); }

// rp_mop_loops configures RP_OP_MOP(1, 0, 0):
//
//	for outer rounds { start; for inner rounds { body; other; } end0; end1; }
//
// The last instruction of the inner loop is replaced: by very_last in the last outer round, else by last. Without other, body
// alone is repeated. RP_OP_NOP stands for no instruction, but as last and very_last, which are what is executed. Outer is 1
// to 127 (ttsim: 32), inner 1 to 127 (64).
RP_INLINE void rp_mop_loops(uint32_t outer, uint32_t inner, uint32_t start, uint32_t body, uint32_t other, uint32_t end0,
                            uint32_t end1, uint32_t last, uint32_t very_last) {
    rp_mop_store(0, outer);
    rp_mop_store(1, inner);
    rp_mop_store(2, start);
    rp_mop_store(3, end0);
    rp_mop_store(4, end1);
    rp_mop_store(5, body);
    rp_mop_store(6, other);
    rp_mop_store(7, very_last);
    rp_mop_store(8, last);
}

// rp_mop_mask configures RP_OP_MOP(0, rounds - 1, mask): a round whose bit in mask is 0, from bit 0 on, executes a0 (then
// a1, a2, a3 if flags have RP_MOP_FOUR) and, if flags have RP_MOP_B, b; one whose bit is 1 skip_a and, with RP_MOP_B,
// skip_b. RP_OP_MOP_CFG sets bits 16 to 31 of the mask.
enum { RP_MOP_B = 1, RP_MOP_FOUR = 2 };
RP_INLINE void rp_mop_mask(uint32_t flags, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b,
                           uint32_t skip_a, uint32_t skip_b) {
    rp_mop_store(1, flags);
    rp_mop_store(2, b);
    rp_mop_store(3, a0);
    rp_mop_store(4, a1);
    rp_mop_store(5, a2);
    rp_mop_store(6, a3);
    rp_mop_store(7, skip_a);
    rp_mop_store(8, skip_b);
}

// --- configuration ---------------------------------------------------------------------------------------------
// Fields of the configuration: RP_CFG_... and RP_THREAD_... say where one is.
#define RP_FIELD_WORD(field) ((field) >> 5 & 0x7FFu)
#define RP_FIELD_SHIFT(field) ((field) & 31u)
#define RP_FIELD_MAX(field) RP_TENSIX_MAX((field) >> 16)
#define RP_FIELD_MASK(field) (RP_FIELD_MAX(field) << RP_FIELD_SHIFT(field))
// RP_FIELD is a value in its place, to be combined with others of the same word.
#define RP_FIELD(field, v) (RP_TENSIX_CHECK(v, RP_FIELD_MAX(field)) << RP_FIELD_SHIFT(field))

// Words by the core's own stores. The engines may execute an instruction pushed afterwards before such a store arrives, unless
// RP_TTI(RP_OP_STALLWAIT(RP_WAIT_STORES, ...)) holds it back or the core has loaded a word of the configuration.
RP_INLINE void rp_cfg_store(uint32_t word, uint32_t value) { rp_store(RP_TENSIX_CONFIG(word), value); }
RP_INLINE uint32_t rp_cfg_load(uint32_t word) { return rp_load(RP_TENSIX_CONFIG(word)); }
// rp_cfg_set changes one field, and may only be used on words that no other thread changes meanwhile.
RP_INLINE void rp_cfg_set(uint32_t field, uint32_t value) {
    uint32_t old = rp_cfg_load(RP_FIELD_WORD(field));
    rp_cfg_store(RP_FIELD_WORD(field), (old & ~RP_FIELD_MASK(field)) | value << RP_FIELD_SHIFT(field));
}

// RP_CFG_RMW changes a field of a word that threads share, by instructions, in their order: field and value known when
// compiling. If it takes more than one byte of the word, or fields change that belong together, hold mutex 0 meanwhile:
// words 1 and 2 (formats, ReLU) are changed by all three threads.
#define RP_CFG_RMW(field, value)                                                                                       \
    do {                                                                                                               \
        RP_CFG_RMW_BYTE(RP_OP_RMWCIB0, 0, field, value);                                                               \
        RP_CFG_RMW_BYTE(RP_OP_RMWCIB1, 8, field, value);                                                               \
        RP_CFG_RMW_BYTE(RP_OP_RMWCIB2, 16, field, value);                                                              \
        RP_CFG_RMW_BYTE(RP_OP_RMWCIB3, 24, field, value);                                                              \
    } while (0)
#define RP_CFG_RMW_BYTE(op, shift, field, value)                                                                       \
    do {                                                                                                               \
        if ((RP_FIELD_MASK(field) >> (shift) & 0xFFu) != 0) {                                                          \
            RP_TTI(op(RP_FIELD_WORD(field), RP_FIELD(field, value) >> (shift) & 0xFFu,                                 \
                      RP_FIELD_MASK(field) >> (shift) & 0xFFu));                                                       \
        }                                                                                                              \
    } while (0)
#define RP_CFG_LOCK() RP_TTI(RP_OP_ATGETM(0))
#define RP_CFG_UNLOCK() RP_TTI(RP_OP_ATRELM(0))

// RP_THREAD_SET sets a word of the thread's own configuration, the one that a field is in, to the 16 bits of value: fields
// that are not part of value become 0.
#define RP_THREAD_SET(field, value) RP_TTI(RP_OP_SETC16(value, RP_FIELD_WORD(field)))

// The engines take L1 addresses in units of 16 bytes, less one. The packers' destination wants RP_PACK_ADDRESS of it.
RP_INLINE uint32_t rp_tensix_address(uint32_t l1) { return (l1 >> 4) - 1u; }
#define RP_PACK_ADDRESS 0x80000000u

// --- number formats, as fields of the configuration have them --------------------------------------------------
enum rp_format {
    RP_FP32 = 0,
    RP_FP16 = 1,
    RP_BFP8A = 2,  // blocks of 16 that share an exponent of 5 bits
    RP_BFP4A = 3,
    RP_TF32 = 4,
    RP_BF16 = 5,
    RP_BFP8 = 6,  // blocks of 16 that share an exponent of 8 bits
    RP_BFP4 = 7,
    RP_INT32 = 8,  // sign and magnitude
    RP_UINT16 = 9,
    RP_LF8 = 10,
    RP_BFP2A = 11,
    RP_INT8 = 14,  // sign and magnitude, or unsigned
    RP_BFP2 = 15
};

// --- address modes ---------------------------------------------------------------------------------------------
// Address mode i says how an instruction of the matrix or vector unit moves the counters of SrcA, SrcB, Dst and the fidelity
// phase. RP_ADDRESS_MODE(0, RP_MODE_A(8) | RP_MODE_B(8), RP_MODE_DST(8)): eight rows on in all three.
// A carry adds to where the counter last returned to, and moves there; a clear sets it to 0.
#define RP_ADDRESS_MODE(i, ab, dst)                                                                                    \
    do {                                                                                                               \
        RP_THREAD_SET(RP_THREAD_MODE_SRC_A_INCREMENT(i), ab);                                                          \
        RP_THREAD_SET(RP_THREAD_MODE_DST_INCREMENT(i), dst);                                                           \
        RP_THREAD_SET(RP_THREAD_MODE_BIAS_INCREMENT(i), 0);                                                            \
    } while (0)
#define RP_MODE_A(rows) RP_FIELD(RP_THREAD_MODE_SRC_A_INCREMENT(0), rows)
#define RP_MODE_A_CARRY RP_FIELD(RP_THREAD_MODE_SRC_A_CARRY(0), 1)
#define RP_MODE_A_CLEAR RP_FIELD(RP_THREAD_MODE_SRC_A_CLEAR(0), 1)
#define RP_MODE_B(rows) RP_FIELD(RP_THREAD_MODE_SRC_B_INCREMENT(0), rows)
#define RP_MODE_B_CARRY RP_FIELD(RP_THREAD_MODE_SRC_B_CARRY(0), 1)
#define RP_MODE_B_CLEAR RP_FIELD(RP_THREAD_MODE_SRC_B_CLEAR(0), 1)
#define RP_MODE_DST(rows) RP_FIELD(RP_THREAD_MODE_DST_INCREMENT(0), rows)
#define RP_MODE_DST_CARRY RP_FIELD(RP_THREAD_MODE_DST_CARRY(0), 1)
#define RP_MODE_DST_CLEAR RP_FIELD(RP_THREAD_MODE_DST_CLEAR(0), 1)
#define RP_MODE_DST_TO_CARRY RP_FIELD(RP_THREAD_MODE_DST_TO_CARRY(0), 1)
#define RP_MODE_FIDELITY(phases) RP_FIELD(RP_THREAD_MODE_FIDELITY_INCREMENT(0), phases)
#define RP_MODE_FIDELITY_CLEAR RP_FIELD(RP_THREAD_MODE_FIDELITY_CLEAR(0), 1)

// Address mode i of the packers, 0 to 3.
#define RP_PACK_MODE(i, value) RP_THREAD_SET(RP_THREAD_PACK_MODE_Y_SRC_INCREMENT(i), value)

// Wormhole's instructions have two bits for the address mode, Blackhole's three: there mode 0 to 3 (4 to 7 with
// RP_THREAD_MODE_BIAS), here 0 to 7.
#if defined(REPRISE_WORMHOLE)
#define RP_ADDRESS_MODES 4u
#else
#define RP_ADDRESS_MODES 8u
#endif

// --- waiting ---------------------------------------------------------------------------------------------------
// RP_OP_STALLWAIT(wait, block): instructions of the blocked units, and all that follow them, wait until all conditions
// hold.
enum rp_stall {
    RP_STALL_TDMA = 0x1,  // counters, scalar unit, packers, unpackers
    RP_STALL_SYNC = 0x2,  // semaphores and mutexes
    RP_STALL_PACK = 0x4,
    RP_STALL_UNPACK = 0x8,
    RP_STALL_MOVER = 0x10,
    RP_STALL_THCON = 0x20,
    RP_STALL_MATH = 0x40,
    RP_STALL_CFG = 0x80,  // SETC16, WRCFG, RDCFG, RMWCIB
    RP_STALL_SFPU = 0x100,
    RP_STALL_ALL = 0x1FF
};
#if defined(REPRISE_WORMHOLE)
enum rp_wait {
    RP_WAIT_THCON = 0x1,     // the scalar unit's requests to memory are done
    RP_WAIT_UNPACK0 = 0x2,   // this thread's instructions on a unit are done
    RP_WAIT_UNPACK1 = 0x4,
    RP_WAIT_PACK = 0x78,     // all four packers
    RP_WAIT_MATH = 0x80,
    RP_WAIT_SRCA_FREE = 0x100,   // the unpacker's bank is free
    RP_WAIT_SRCB_FREE = 0x200,
    RP_WAIT_SRCA_VALID = 0x400,  // the matrix unit's bank is valid
    RP_WAIT_SRCB_VALID = 0x800,
    RP_WAIT_MOVER = 0x1000,
    RP_WAIT_STORES = 0x2000,     // the T core's stores to configuration and GPRs have arrived
    RP_WAIT_SFPU = 0x4000,
#else
enum rp_wait {
    RP_WAIT_THCON = 0x1,
    RP_WAIT_UNPACK0 = 0x2,
    RP_WAIT_UNPACK1 = 0x4,
    RP_WAIT_PACK = 0x8,
    RP_WAIT_MATH = 0x10,
    RP_WAIT_SRCA_FREE = 0x20,
    RP_WAIT_SRCB_FREE = 0x40,
    RP_WAIT_SRCA_VALID = 0x80,
    RP_WAIT_SRCB_VALID = 0x100,
    RP_WAIT_MOVER = 0x200,
    RP_WAIT_STORES = 0x400,
    RP_WAIT_SFPU = 0x800,
    RP_WAIT_CFG = 0x1000,  // the configuration unit is done
#endif
    RP_WAIT_UNPACK = RP_WAIT_UNPACK0 | RP_WAIT_UNPACK1
};
#define RP_STALLWAIT(block, wait) RP_TTI(RP_OP_STALLWAIT(wait, block))

// --- semaphores ------------------------------------------------------------------------------------------------
// The tile's engines have eight semaphores of up to 15, which their instructions name by a mask.
#define RP_SEM(i) (1u << (i))
enum rp_sem_condition { RP_SEM_WHILE_ZERO = 1, RP_SEM_WHILE_MAX = 2 };
#define RP_SEM_INIT(i, value, max) RP_TTI(RP_OP_SEMINIT(RP_SEM(i), value, max))
#define RP_SEM_POST(i) RP_TTI(RP_OP_SEMPOST(RP_SEM(i)))
#define RP_SEM_GET(i) RP_TTI(RP_OP_SEMGET(RP_SEM(i)))
#define RP_SEM_WAIT(i, condition, block) RP_TTI(RP_OP_SEMWAIT(condition, RP_SEM(i), block))

// The same semaphores for the core itself. rp_sem_post and rp_sem_get take effect without waiting for what the core has pushed.
#define RP_PC_BUF_SEMAPHORE(i) (0xFFE80020u + 4u * (uint32_t)(i))
RP_INLINE uint32_t rp_sem_value(uint32_t i) { return rp_load(RP_PC_BUF_SEMAPHORE(i)); }
RP_INLINE void rp_sem_post(uint32_t i) { rp_store(RP_PC_BUF_SEMAPHORE(i), 0); }
RP_INLINE void rp_sem_get(uint32_t i) { rp_store(RP_PC_BUF_SEMAPHORE(i), 1); }

// --- general-purpose registers of the thread, 0 to 63 ----------------------------------------------------------
RP_INLINE void rp_gpr_store(uint32_t i, uint32_t value) { rp_store(RP_TENSIX_GPRS + 4 * i, value); }
RP_INLINE uint32_t rp_gpr_load(uint32_t i) { return rp_load(RP_TENSIX_GPRS + 4 * i); }
// RP_GPR_SET sets a register by instructions, in their order.
#define RP_GPR_SET(i, value)                                                                                           \
    do {                                                                                                               \
        RP_TTI(RP_OP_SETDMAREG(2 * (i), 0, (value) & 0x3FFFu, (value) >> 14 & 3u));                                    \
        RP_TTI(RP_OP_SETDMAREG(2 * (i) + 1, 0, (value) >> 16 & 0x3FFFu, (value) >> 30 & 3u));                          \
    } while (0)

// --- values of fields ------------------------------------------------------------------------------------------
// Sources, in the fields clear and sources: what they name becomes free for the unpackers, or is cleared.
enum rp_source { RP_SRCA = 1, RP_SRCB = 2 };
// Counters that SETRWC sets (mask) and those that add to where they last returned to (cr).
enum rp_rwc { RP_RWC_A = 1, RP_RWC_B = 2, RP_RWC_D = 4, RP_RWC_FIDELITY = 8, RP_RWC_ALL = 15 };
// Sets of address counters (units), and counters of their two channels (mask): x0, y0 for SETADCXY, z0, w0 for SETADCZW.
enum rp_adc { RP_ADC_UNPACK0 = 1, RP_ADC_UNPACK1 = 2, RP_ADC_PACK = 4 };
enum rp_adc_mask { RP_ADC_FIRST0 = 1, RP_ADC_SECOND0 = 2, RP_ADC_FIRST1 = 4, RP_ADC_SECOND1 = 8 };
// What ZEROACC clears: one row (dst), 16 rows (block dst), half of Dst, all of it.
enum rp_zeroacc { RP_CLEAR_ROW = 0, RP_CLEAR_16 = 1, RP_CLEAR_HALF = 2, RP_CLEAR_ALL = 3 };

// --- vector unit -----------------------------------------------------------------------------------------------
// LReg 0 to 7 are registers; 8 to 15 are constants, of which 11 to 14 can be set by SFPCONFIG.
enum rp_lreg { RP_LREG_0_8373 = 8, RP_LREG_ZERO = 9, RP_LREG_ONE = 10, RP_LREG_CONSTANT = 11, RP_LREG_LANE = 15 };
// What SFPLOAD and SFPSTORE take a datum of Dst for (mod).
enum rp_sfpu_format {
    RP_SFPU_CONFIGURED = 0,  // as RP_CFG_FP32_SFPU and RP_CFG_SRC_B_FORMAT say
    RP_SFPU_FP16 = 1,
    RP_SFPU_BF16 = 2,
    RP_SFPU_FP32 = 3,
    RP_SFPU_INT32 = 4,
    RP_SFPU_UINT16 = 6,
    RP_SFPU_SIGN_MAGNITUDE = 12,
    RP_SFPU_LOW16 = 14,
    RP_SFPU_HIGH16 = 15
};
// RP_SFPU_SETTLE comes between an instruction of two cycles (SFPMAD, SFPADD, SFPMUL, SFPMULI, SFPADDI, SFPLUT, SFPLUTFP32,
// SFPSWAP) and the next instruction of the vector unit if that uses its result. Blackhole waits by itself, but after others than
// SFPSWAP not for SFPIADD and SFPSHFT of their destination, SFPSWAP that compares, SFPSHFT2, SFPCONFIG of LReg 0 and the second
// register of SFPAND and SFPOR: they want SFPNOP, or another instruction, before them.
#if defined(REPRISE_WORMHOLE)
#define RP_SFPU_SETTLE() RP_TTI(RP_OP_SFPNOP)
#else
#define RP_SFPU_SETTLE() ((void)0)
#endif
// RP_SFPU_LOADI sets LReg i, in lanes that execute, to 32 bits known when compiling.
#define RP_SFPU_LOADI(i, bits)                                                                                         \
    do {                                                                                                               \
        RP_TTI(RP_OP_SFPLOADI((uint32_t)(bits) & 0xFFFFu, 10, i));                                                     \
        RP_TTI(RP_OP_SFPLOADI((uint32_t)(bits) >> 16, 8, i));                                                          \
    } while (0)

#endif
