// Accesses to mappings of BARs and windows. Their pages can't be accessed, so a load or store of the program raises SIGSEGV. Its handler copies
// the instruction with another memory operand: a buffer, which it fills from the device before, or which is written to the device
// afterwards, when a trap behind the copy raises SIGTRAP. So only the operand's size and direction have to be known, and any register can
// be the other operand.
//
// Atomic operations of the processor are a load and a store of the device, as on PCIe.
#define _GNU_SOURCE
#include "card.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { NONE = 0, LOADS = 1, STORES = 2, BOTH = 3 };

// An access of an instruction, which is copied to a step's code.
struct access {
  size_t size;
  uint64_t bytes; // a bit for each byte that is accessed: vector instructions can have a mask
  int direction;
  int length;           // of the instruction
  uint8_t code[32];     // the copy, with the trap
  int code_length;
  int scratch, base; // arm64: the register that has the copy's address, and the one that has the program's
  uint64_t scratch_was;
};

// A step is a copied instruction that one thread executes.
struct step {
  uint8_t code[64];
  uint8_t memory[128] __attribute__((aligned(64)));
  struct access access;
  char *operand; // in memory
  struct mapping *mapping;
  uint64_t off;
  uint64_t next; // where the program goes on
  uint64_t scratch_is;
  uint64_t blocked; // the thread's blocked signals
  atomic_int used;
} __attribute__((aligned(64)));

#define STEPS 128
static struct step *steps;
static struct sigaction old[2]; // of the program, for SIGSEGV and SIGTRAP

static int index_of(int number) { return number == SIGSEGV ? 0 : number == SIGTRAP ? 1 : -1; }

// The kernel's set has 64 signals and its frame has no room for more.
static unsigned long *blocked(ucontext_t *u) { return (unsigned long *)&u->uc_sigmask; }

static int decode(ucontext_t *u, char *at, struct step *s, struct access *a);

#ifdef __x86_64__
#include <cpuid.h>

#define PC(u) ((u)->uc_mcontext.gregs[REG_RIP])
#define AFTER_TRAP 1

// Sizes of operands that depend on the instruction: V the vector's, H, Q and E a half, a quarter and an eighth of it, D that of general
// registers, I 4 or 8 bytes by the prefix W, P by the mandatory prefix as in scalar operations.
enum { V = 100, H, Q, E, D, I, P };

static const struct {
  uint8_t map, first, last;
  uint8_t prefixes; // allowed: 1 none, 2 66, 4 F3, 8 F2
  uint8_t size, direction, immediate;
} operations[] = {
    // mov, movsxd, movzx, movsx, movbe, movnti, cmov
    {0, 0x88, 0x88, 15, 1, STORES, 0}, {0, 0x89, 0x89, 15, D, STORES, 0}, {0, 0x8a, 0x8a, 15, 1, LOADS, 0}, {0, 0x8b, 0x8b, 15, D, LOADS, 0},
    {0, 0xc6, 0xc6, 15, 1, STORES, 1}, {0, 0xc7, 0xc7, 15, D, STORES, D}, {0, 0x63, 0x63, 15, 4, LOADS, 0}, {1, 0xc3, 0xc3, 1, D, STORES, 0},
    {1, 0xb6, 0xb6, 3, 1, LOADS, 0}, {1, 0xb7, 0xb7, 3, 2, LOADS, 0}, {1, 0xbe, 0xbe, 3, 1, LOADS, 0}, {1, 0xbf, 0xbf, 3, 2, LOADS, 0},
    {2, 0xf0, 0xf0, 3, D, LOADS, 0}, {2, 0xf1, 0xf1, 3, D, STORES, 0}, {1, 0x40, 0x4f, 3, D, LOADS, 0},
    // arithmetic with a constant, test, not, neg, mul …, shifts, imul, popcnt, bsf, bsr, shlx …
    {0, 0x80, 0x80, 15, 1, BOTH, 1}, {0, 0x81, 0x81, 15, D, BOTH, D}, {0, 0x83, 0x83, 15, D, BOTH, 1}, {0, 0x84, 0x84, 15, 1, LOADS, 0},
    {0, 0x85, 0x85, 15, D, LOADS, 0}, {0, 0xf6, 0xf6, 15, 1, BOTH, 1}, {0, 0xf7, 0xf7, 15, D, BOTH, D}, {0, 0xc0, 0xc0, 15, 1, BOTH, 1},
    {0, 0xc1, 0xc1, 15, D, BOTH, 1}, {0, 0x69, 0x69, 15, D, LOADS, D}, {0, 0x6b, 0x6b, 15, D, LOADS, 1}, {1, 0xaf, 0xaf, 3, D, LOADS, 0},
    {1, 0xb8, 0xb8, 4, D, LOADS, 0}, {1, 0xbc, 0xbd, 7, D, LOADS, 0}, {2, 0xf7, 0xf7, 15, I, LOADS, 0},
    // xchg, cmpxchg, xadd
    {0, 0x86, 0x86, 15, 1, BOTH, 0}, {0, 0x87, 0x87, 15, D, BOTH, 0}, {1, 0xb0, 0xb0, 3, 1, BOTH, 0}, {1, 0xb1, 0xb1, 3, D, BOTH, 0},
    {1, 0xc0, 0xc0, 3, 1, BOTH, 0}, {1, 0xc1, 0xc1, 3, D, BOTH, 0},
    // movups, movss, movlps, movhps, movaps, movntps
    {1, 0x10, 0x10, 15, P, LOADS, 0}, {1, 0x11, 0x11, 15, P, STORES, 0}, {1, 0x12, 0x12, 3, 8, LOADS, 0}, {1, 0x16, 0x16, 3, 8, LOADS, 0},
    {1, 0x13, 0x13, 3, 8, STORES, 0}, {1, 0x17, 0x17, 3, 8, STORES, 0}, {1, 0x28, 0x28, 3, V, LOADS, 0}, {1, 0x29, 0x29, 3, V, STORES, 0},
    {1, 0x2b, 0x2b, 3, V, STORES, 0},
    // movd, movq, movdqu, movdqa, movntdq, movntdqa, lddqu
    {1, 0x6e, 0x6e, 2, I, LOADS, 0}, {1, 0x7e, 0x7e, 2, I, STORES, 0}, {1, 0x7e, 0x7e, 4, 8, LOADS, 0}, {1, 0xd6, 0xd6, 2, 8, STORES, 0},
    {1, 0x6f, 0x6f, 14, V, LOADS, 0}, {1, 0x7f, 0x7f, 14, V, STORES, 0}, {1, 0xe7, 0xe7, 2, V, STORES, 0}, {1, 0xe7, 0xe7, 1, 8, STORES, 0},
    {2, 0x2a, 0x2a, 2, V, LOADS, 0}, {1, 0xf0, 0xf0, 8, V, LOADS, 0},
    // floats: conversion, comparison, arithmetic, shuffle
    {1, 0x2a, 0x2a, 12, I, LOADS, 0}, {1, 0x2e, 0x2f, 1, 4, LOADS, 0}, {1, 0x2e, 0x2f, 2, 8, LOADS, 0}, {1, 0x51, 0x59, 15, P, LOADS, 0},
    {1, 0x5c, 0x5f, 15, P, LOADS, 0}, {1, 0xc6, 0xc6, 3, V, LOADS, 1},
    // packed integers: pack, unpack, comparison, logic, arithmetic, shuffle
    {1, 0x60, 0x6d, 2, V, LOADS, 0}, {1, 0x70, 0x70, 14, V, LOADS, 1}, {1, 0x74, 0x76, 2, V, LOADS, 0}, {1, 0xd1, 0xd3, 2, 16, LOADS, 0},
    {1, 0xd4, 0xd5, 2, V, LOADS, 0}, {1, 0xd8, 0xe0, 2, V, LOADS, 0}, {1, 0xe1, 0xe2, 2, 16, LOADS, 0}, {1, 0xe3, 0xe5, 2, V, LOADS, 0},
    {1, 0xe8, 0xef, 2, V, LOADS, 0}, {1, 0xf1, 0xf3, 2, 16, LOADS, 0}, {1, 0xf4, 0xf6, 2, V, LOADS, 0}, {1, 0xf8, 0xfe, 2, V, LOADS, 0},
    {2, 0x00, 0x0b, 2, V, LOADS, 0}, {2, 0x17, 0x17, 2, V, LOADS, 0}, {2, 0x28, 0x29, 2, V, LOADS, 0}, {2, 0x37, 0x40, 2, V, LOADS, 0},
    {2, 0x26, 0x27, 6, V, LOADS, 0}, {3, 0x1e, 0x1f, 2, V, LOADS, 1}, {3, 0x25, 0x25, 2, V, LOADS, 1}, {3, 0x3e, 0x3f, 2, V, LOADS, 1},
    {3, 0x0f, 0x0f, 2, V, LOADS, 1},
    // broadcasts, pmovsx, pmovzx
    {2, 0x18, 0x18, 2, 4, LOADS, 0}, {2, 0x19, 0x19, 2, 8, LOADS, 0}, {2, 0x1a, 0x1a, 2, 16, LOADS, 0}, {2, 0x5a, 0x5a, 2, 16, LOADS, 0},
    {2, 0x58, 0x58, 2, 4, LOADS, 0}, {2, 0x59, 0x59, 2, 8, LOADS, 0}, {2, 0x78, 0x78, 2, 1, LOADS, 0}, {2, 0x79, 0x79, 2, 2, LOADS, 0},
    {2, 0x20, 0x20, 2, H, LOADS, 0}, {2, 0x21, 0x21, 2, Q, LOADS, 0}, {2, 0x22, 0x22, 2, E, LOADS, 0}, {2, 0x23, 0x23, 2, H, LOADS, 0},
    {2, 0x24, 0x24, 2, Q, LOADS, 0}, {2, 0x25, 0x25, 2, H, LOADS, 0}, {2, 0x30, 0x30, 2, H, LOADS, 0}, {2, 0x31, 0x31, 2, Q, LOADS, 0},
    {2, 0x32, 0x32, 2, E, LOADS, 0}, {2, 0x33, 0x33, 2, H, LOADS, 0}, {2, 0x34, 0x34, 2, Q, LOADS, 0}, {2, 0x35, 0x35, 2, H, LOADS, 0},
    // pextr, pinsr, vextract, vinsert
    {3, 0x14, 0x14, 2, 1, STORES, 1}, {3, 0x15, 0x15, 2, 2, STORES, 1}, {3, 0x16, 0x16, 2, I, STORES, 1}, {3, 0x17, 0x17, 2, 4, STORES, 1},
    {3, 0x20, 0x20, 2, 1, LOADS, 1}, {3, 0x22, 0x22, 2, I, LOADS, 1}, {3, 0x18, 0x18, 2, 16, LOADS, 1}, {3, 0x38, 0x38, 2, 16, LOADS, 1},
    {3, 0x19, 0x19, 2, 16, STORES, 1}, {3, 0x39, 0x39, 2, 16, STORES, 1},
};

// mask_of returns register k of masks, which the kernel has saved.
static uint64_t mask_of(ucontext_t *u, int k) {
  const char *saved = (const char *)u->uc_mcontext.fpregs;
  unsigned a, offset, c, d;
  uint64_t components, mask = 0;
  memcpy(&components, saved + 512, sizeof components);
  __cpuid_count(13, 5, a, offset, c, d);
  if (components & 1 << 5)
    memcpy(&mask, saved + offset + 8 * k, sizeof mask);
  return mask;
}

// string executes movs and stos, which take their addresses from registers.
static int string(ucontext_t *u, uint8_t operation, size_t width, int repeated, int length) {
  greg_t *r = u->uc_mcontext.gregs;
  char chunk[4096];
  size_t count = repeated ? (size_t)r[REG_RCX] : 1;
  char *to = (char *)r[REG_RDI], *from = (char *)r[REG_RSI];
  int copies = operation == 0xa4 || operation == 0xa5;
  struct mapping *out = find_mapping(to), *in = copies ? find_mapping(from) : NULL;
  if (r[REG_EFL] & 0x400) // downwards
    return -1;
  while (count > 0) {
    size_t n = sizeof chunk / width < count ? sizeof chunk : count * width;
    // Memory of the program may end before its mapping: an access beyond faults as the instruction would, after what was before.
    if (in != NULL && from + n > in->start + in->size)
      n = (size_t)(in->start + in->size - from);
    if (out != NULL && to + n > out->start + out->size)
      n = (size_t)(out->start + out->size - to);
    if (n < width)
      break;
    if (in != NULL && device_read(in, (uint64_t)(from - in->start), chunk, n) != 0)
      return zap(in), 0;
    if (in == NULL && copies)
      memcpy(chunk, from, n);
    for (size_t i = 0; !copies && i < n; i += width)
      memcpy(chunk + i, &r[REG_RAX], width);
    if (out != NULL && device_write(out, (uint64_t)(to - out->start), chunk, n) != 0)
      return zap(out), 0;
    if (out == NULL)
      memcpy(to, chunk, n);
    to += n, from += n, count -= n / width;
    r[REG_RDI] = (greg_t)to;
    if (copies)
      r[REG_RSI] = (greg_t)from;
    if (repeated)
      r[REG_RCX] = (greg_t)count;
  }
  if (count == 0)
    r[REG_RIP] += length;
  return 0;
}

// decode recognises the instruction that accesses memory and copies it with an operand relative to rip, which needs no register. It returns
// 1 for an instruction that it has executed, 0 for one to execute, -1 for one it doesn't know.
static int decode(ucontext_t *u, char *at, struct step *s, struct access *a) {
  const uint8_t *start = (const uint8_t *)PC(u), *p = start;
  int w = 0, prefix = 1, repeated = 0, map = 0, vector = 16, broadcast = 0, masked = 0;
  uint8_t *q = a->code;
  (void)at;
  for (;; p++) {
    if (*p == 0x66)
      prefix = prefix > 2 ? prefix : 2;
    else if (*p == 0xf3 || *p == 0xf2)
      prefix = *p == 0xf3 ? 4 : 8, repeated = 1;
    else if (*p == 0x26 || *p == 0x2e || *p == 0x36 || *p == 0x3e || *p == 0x64 || *p == 0x65)
      continue; // segments
    else if (*p == 0x67)
      return -1;
    else if (*p != 0xf0)
      break;
    *q++ = *p;
  }
  int word = prefix == 2 || (prefix > 2 && memchr(start, 0x66, (size_t)(p - start)) != NULL); // operands of 16 bits
  if ((*p & 0xf0) == 0x40)
    w = *p & 8, *q++ = *p++;
  static const uint8_t by_vex[] = {1, 2, 4, 8};
  uint8_t operation = *p;
  if (operation == 0xc5) {
    vector = p[1] & 4 ? 32 : 16, prefix = by_vex[p[1] & 3], map = 1;
    memcpy(q, p, 2), q += 2, p += 2;
  } else if (operation == 0xc4) {
    vector = p[2] & 4 ? 32 : 16, prefix = by_vex[p[2] & 3], map = p[1] & 31, w = p[2] & 0x80;
    memcpy(q, p, 3), q += 3, p += 3;
  } else if (operation == 0x62) {
    vector = 16 << (p[3] >> 5 & 3), prefix = by_vex[p[2] & 3], map = p[1] & 7, w = p[2] & 0x80, broadcast = p[3] & 0x10, masked = p[3] & 7;
    memcpy(q, p, 4), q += 4, p += 4;
  } else if (operation == 0x0f) {
    map = 1, *q++ = *p++;
    if (*p == 0x38 || *p == 0x3a)
      map = *p == 0x38 ? 2 : 3, *q++ = *p++;
  }
  operation = *q++ = *p++;
  const size_t general = w ? 8 : word ? 2 : 4;
  if (map == 0 && (operation == 0xa4 || operation == 0xa5 || operation == 0xaa || operation == 0xab))
    return string(u, operation, operation & 1 ? general : 1, repeated, (int)(p - start)) == 0 ? 1 : -1;

  uint8_t modrm = *p++;
  int mod = modrm >> 6, immediate = 0, digit = modrm >> 3 & 7;
  if (mod == 3)
    return -1;
  uint8_t base = modrm & 7;
  if (base == 4)
    base = *p++ & 7;
  p += mod == 1 ? 1 : mod == 2 || base == 5 ? 4 : 0;
  a->direction = NONE;
  if (map == 0 && operation < 0x40 && (operation & 7) < 4) { // add, or, adc, sbb, and, sub, xor, cmp
    a->size = operation & 1 ? general : 1;
    a->direction = operation & 2 || operation >> 3 == 7 ? LOADS : BOTH;
  } else if (map == 0 && (operation >= 0xd0 && operation <= 0xd3)) { // shifts
    a->size = operation & 1 ? general : 1, a->direction = BOTH;
  } else if (map == 0 && (operation == 0xfe || operation == 0xff) && digit < 2) { // inc, dec
    a->size = operation & 1 ? general : 1, a->direction = BOTH;
  }
  for (size_t i = 0; a->direction == NONE && i < COUNT(operations); i++) {
    if (operations[i].map != map || operation < operations[i].first || operation > operations[i].last || !(operations[i].prefixes & prefix))
      continue;
    a->direction = operations[i].direction, a->size = operations[i].size;
    immediate = operations[i].immediate == D ? (word && !w ? 2 : 4) : operations[i].immediate;
    const size_t by_prefix[] = {0, (size_t)vector, (size_t)vector, 0, 4, 0, 0, 0, 8};
    const size_t sizes[] = {(size_t)vector, (size_t)vector / 2, (size_t)vector / 4, (size_t)vector / 8, general, w ? 8 : 4, by_prefix[prefix]};
    if (a->size >= V)
      a->size = sizes[a->size - V];
    if (map == 0 && (operation & 0xfc) == 0x80 && digit == 7) // cmp
      a->direction = LOADS;
    if (map == 0 && (operation == 0xf6 || operation == 0xf7)) {
      a->direction = digit == 2 || digit == 3 ? BOTH : LOADS;
      immediate = digit < 2 ? immediate : 0;
    }
  }
  if (a->direction == NONE || (broadcast && a->direction != LOADS))
    return -1;
  if (broadcast)
    a->size = w ? 8 : 4;
  a->bytes = ~0ull;
  if (masked) {
    const int small = (map == 1 && prefix == 8) || (map == 2 && operation == 0x26) || (map == 3 && operation >= 0x3e);
    const int known = (map == 1 && (operation & 0xef) == 0x6f) || (map == 2 && (operation & 0xfe) == 0x26) ||
                      (map == 3 && (operation & 0xde) == 0x1e);
    const size_t element = small ? (w ? 2 : 1) : w ? 8 : 4;
    uint64_t mask = mask_of(u, masked);
    if (!known || !(mask & 1)) // other elements, or not from the address that the processor reported on
      return -1;
    a->bytes = 0;
    for (size_t i = 0; i < a->size; i++)
      a->bytes |= (mask >> i / element & 1) << i;
  }
  *q++ = (modrm & 0x38) | 5; // an offset from the next instruction
  int32_t offset = (int32_t)((uint8_t *)s->operand - (s->code + (q - a->code) + 4 + immediate));
  memcpy(q, &offset, 4), q += 4;
  memcpy(q, p, (size_t)immediate), q += immediate, p += immediate;
  *q++ = 0xcc; // int3
  a->code_length = (int)(q - a->code), a->length = (int)(p - start);
  return 0;
}

static void finish(ucontext_t *u, struct step *s) { (void)u, (void)s; }
static void prepare(ucontext_t *u, struct step *s) { (void)u, (void)s; }

#elif defined(__aarch64__)
#include <asm/sigcontext.h>

#define PC(u) ((u)->uc_mcontext.pc)
#define AFTER_TRAP 0

static uint32_t bits(uint32_t v, int high, int low) { return v >> low & ((2u << (high - low)) - 1); }

// active returns the bytes of a vector that predicate p selects and the vector's size, which the kernel has saved, up to 64.
static uint64_t active(ucontext_t *u, uint32_t p, size_t *size) {
  const char *record = (const char *)u->uc_mcontext.__reserved;
  uint32_t head[2];
  uint64_t mask = 0;
  for (memcpy(head, record, 8); head[0] != 0 && head[0] != SVE_MAGIC; memcpy(head, record, 8))
    record += head[1];
  const struct sve_context *sve = (const struct sve_context *)record;
  if (head[0] == 0 || sve->head.size <= sizeof *sve || sve->vl > 64)
    return 0;
  *size = sve->vl;
  memcpy(&mask, record + SVE_SIG_PREG_OFFSET(sve->vl / 16, p), sve->vl / 8);
  return mask;
}

// decode recognises loads and stores of registers and copies them with another base register (Arm ARM, C4.1.94).
static int decode(ucontext_t *u, char *at, struct step *s, struct access *a) {
  uint32_t i;
  memcpy(&i, (void *)PC(u), 4);
  const uint32_t size = bits(i, 31, 30), op = bits(i, 23, 22);
  const int vector = bits(i, 26, 26), load = bits(i, 22, 22);
  a->direction = NONE, a->bytes = ~0ull;
  if ((i & ~31u) == 0xd50b7420) { // dc zva
    static const char zeroes[2048];
    uint64_t block;
    __asm__("mrs %0, dczid_el0" : "=r"(block));
    block = 4ull << (block & 15);
    if (device_write(s->mapping, s->off & ~(block - 1), zeroes, block) != 0)
      zap(s->mapping);
    else
      PC(u) += 4;
    return 1;
  }
  if (bits(i, 31, 21) == 0x520 || bits(i, 31, 21) == 0x720) { // ld1b, st1b of scalable vectors
    a->bytes = active(u, bits(i, 12, 10), &a->size);
    a->direction = !(a->bytes & 1) ? NONE : bits(i, 30, 30) ? STORES : LOADS;
    if (bits(i, 15, 13) != (bits(i, 30, 30) ? 7 : 5) && bits(i, 15, 13) != 2)
      a->direction = NONE;
  } else if (bits(i, 29, 27) == 5 && !bits(i, 25, 25)) { // pairs
    a->size = vector ? 8u << size : size & 2 ? 16 : 8;
    a->direction = load ? LOADS : STORES;
  } else if (bits(i, 29, 27) == 7 && !bits(i, 25, 25)) {
    a->size = vector && op & 2 ? 16 : 1u << size;
    if (!bits(i, 24, 24) && bits(i, 21, 21) && bits(i, 11, 10) == 0) { // atomic operations
      a->direction = vector ? NONE : bits(i, 15, 12) == 12 ? LOADS : BOTH;
    } else if (bits(i, 24, 24) || !bits(i, 21, 21) || bits(i, 11, 10) == 2) {
      a->direction = (vector ? op & 1 : op != 0) ? LOADS : STORES;
    }
  } else if (bits(i, 29, 24) == 8 && bits(i, 23, 23)) { // ldar, stlr, cas
    a->size = 1u << size;
    a->direction = bits(i, 21, 21) ? BOTH : load ? LOADS : STORES;
  } else if (bits(i, 29, 24) == 25 && !bits(i, 21, 21)) { // ldapur, stlur
    a->size = 1u << size;
    a->direction = op != 0 ? LOADS : STORES;
  } else if (!bits(i, 31, 31) && (bits(i, 29, 23) == 24 || bits(i, 29, 23) == 25) && !bits(i, 21, 21)) { // ld1 to ld4 of whole registers
    static const uint8_t registers[16] = {4, 0, 4, 0, 3, 0, 3, 1, 2, 0, 2};
    a->size = registers[bits(i, 15, 12)] * (bits(i, 30, 30) ? 16u : 8u);
    a->direction = a->size == 0 ? NONE : load ? LOADS : STORES;
  }
  if (a->direction == NONE)
    return -1;
  a->base = (int)bits(i, 9, 5);
  a->scratch = 9;
  for (uint32_t r = 9; r < 14; r++) // one that the instruction doesn't have; fields that aren't registers do no harm
    if (r != bits(i, 4, 0) && r != bits(i, 14, 10) && r != bits(i, 20, 16) && r != (uint32_t)a->base)
      a->scratch = (int)r;
  uint64_t base = a->base == 31 ? u->uc_mcontext.sp : u->uc_mcontext.regs[a->base];
  s->scratch_is = base - (uint64_t)at + (uint64_t)s->operand;
  i = (i & ~(31u << 5)) | (uint32_t)a->scratch << 5;
  const uint32_t trap = 0xd4200000; // brk
  memcpy(a->code, &i, 4), memcpy(a->code + 4, &trap, 4);
  a->code_length = 8, a->length = 4;
  return 0;
}

static void prepare(ucontext_t *u, struct step *s) {
  s->access.scratch_was = u->uc_mcontext.regs[s->access.scratch];
  u->uc_mcontext.regs[s->access.scratch] = s->scratch_is;
}

// The base register may have moved.
static void finish(ucontext_t *u, struct step *s) {
  uint64_t moved = u->uc_mcontext.regs[s->access.scratch] - s->scratch_is;
  u->uc_mcontext.regs[s->access.scratch] = s->access.scratch_was;
  if (s->access.base == 31)
    u->uc_mcontext.sp += moved;
  else if (moved != 0)
    u->uc_mcontext.regs[s->access.base] += moved;
}
#else
#error "reprise card: this processor's instructions aren't known"
#endif

// transfer copies the operand from or to the device.
static int transfer(struct step *s, int direction) {
  struct access *a = &s->access;
  for (size_t i = 0, n; i < a->size; i += n) {
    int skip = a->size <= 64 && !(a->bytes >> i & 1);
    for (n = 1; i + n < a->size && (a->size > 64 || (int)(~a->bytes >> (i + n) & 1) == skip); n++)
      ;
    if (!skip && (direction == LOADS ? device_read(s->mapping, s->off + i, s->operand + i, n)
                                     : device_write(s->mapping, s->off + i, s->operand + i, n)) != 0)
      return -1;
  }
  return 0;
}

static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);

static void find_sigaction(void) {
  if (real_sigaction == NULL)
    real_sigaction = (__typeof__(real_sigaction))dlsym(RTLD_NEXT, "sigaction");
}

// pass_on gives a signal to the program's own handler. Without one the instruction is executed again and ends the process.
static void pass_on(int number, siginfo_t *info, void *context) {
  struct sigaction *a = &old[index_of(number)];
  if (a->sa_flags & SA_SIGINFO)
    a->sa_sigaction(number, info, context);
  else if (a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN)
    a->sa_handler(number);
  else
    real_sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

static struct step *take_step(void) {
  for (int i = 0;; i = (i + 1) % STEPS) {
    int unused = 0;
    if (atomic_compare_exchange_strong(&steps[i].used, &unused, 1))
      return &steps[i];
    if (i == STEPS - 1)
      sched_yield();
  }
}

static void on_segv(int number, siginfo_t *info, void *context) {
  ucontext_t *u = context;
  char *at = info->si_addr;
  struct mapping *m = info->si_code == SEGV_ACCERR ? find_mapping(at) : NULL;
  if (m == NULL) {
    pass_on(number, info, context);
    return;
  }
  int error = errno;
  struct step *s = take_step();
  s->access.bytes = 0, s->mapping = m, s->off = (uint64_t)(at - m->start);
  s->operand = (char *)s->memory + ((uintptr_t)at & 63); // as aligned as the program's
  int known = decode(u, at, s, &s->access);
  if (known != 0) {
    atomic_store(&s->used, 0);
    if (known < 0) {
      const uint8_t *p = (const uint8_t *)PC(u);
      dprintf(2, "reprise card: the instruction %02x %02x %02x %02x %02x %02x %02x %02x at %p can't access an emulated card's memory\n", p[0],
              p[1], p[2], p[3], p[4], p[5], p[6], p[7], (void *)p);
      pass_on(number, info, context);
    }
    errno = error;
    return;
  }
  if (s->access.direction & LOADS && transfer(s, LOADS) != 0) {
    zap(m); // the instruction is executed again and raises SIGBUS
    atomic_store(&s->used, 0);
    errno = error;
    return;
  }
  memcpy(s->code, s->access.code, (size_t)s->access.code_length);
  __builtin___clear_cache((char *)s->code, (char *)s->code + s->access.code_length);
  prepare(u, s);
  s->next = (uint64_t)PC(u) + (uint64_t)s->access.length;
  s->blocked = *blocked(u);
  *blocked(u) = ~(1ull << (SIGSEGV - 1) | 1ull << (SIGTRAP - 1) | 1ull << (SIGBUS - 1));
  PC(u) = (uint64_t)s->code;
  errno = error;
}

static void on_trap(int number, siginfo_t *info, void *context) {
  ucontext_t *u = context;
  uint64_t at = (uint64_t)PC(u) - (uint64_t)steps;
  struct step *s = &steps[at / sizeof *s];
  if (at >= STEPS * sizeof *s || (uint64_t)PC(u) != (uint64_t)s->code + (uint64_t)(s->access.code_length - (AFTER_TRAP ? 0 : 4))) {
    pass_on(number, info, context);
    return;
  }
  int error = errno;
  if (s->access.direction & STORES && transfer(s, STORES) != 0)
    zap(s->mapping); // this store is lost, the next access raises SIGBUS
  finish(u, s);
  PC(u) = s->next;
  *blocked(u) = s->blocked;
  atomic_store(&s->used, 0);
  errno = error;
}

static void install(void) {
  find_sigaction();
  steps = mmap(NULL, STEPS * sizeof *steps, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (steps == MAP_FAILED) {
    dprintf(2, "reprise card: no memory for code: %s\n", strerror(errno));
    abort();
  }
  struct sigaction a = {.sa_flags = SA_SIGINFO | SA_NODEFER, .sa_sigaction = on_segv};
  real_sigaction(SIGSEGV, &a, &old[0]);
  a.sa_sigaction = on_trap;
  real_sigaction(SIGTRAP, &a, &old[1]);
}

void catch_faults(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install);
}

// Handlers of the program's come after this library's.
EXPORT int sigaction(int number, const struct sigaction *restrict new, struct sigaction *restrict was) {
  int i = index_of(number);
  find_sigaction();
  if (steps == NULL || i < 0)
    return real_sigaction(number, new, was);
  struct sigaction before = old[i];
  if (new != NULL)
    old[i] = *new;
  if (was != NULL)
    *was = before;
  return 0;
}

EXPORT void (*signal(int number, void (*handler)(int)))(int) {
  struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART}, was;
  return sigaction(number, &a, &was) == 0 ? was.sa_handler : SIG_ERR;
}

// A thread can't block the signals of its own accesses.
static const sigset_t *without_ours(int how, const sigset_t *set, sigset_t *buffer) {
  if (set == NULL || how == SIG_UNBLOCK)
    return set;
  *buffer = *set;
  sigdelset(buffer, SIGSEGV);
  sigdelset(buffer, SIGTRAP);
  return buffer;
}

EXPORT int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict was) {
  sigset_t buffer;
  return ((__typeof__(&sigprocmask))dlsym(RTLD_NEXT, "sigprocmask"))(how, without_ours(how, set, &buffer), was);
}

EXPORT int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict was) {
  sigset_t buffer;
  return ((__typeof__(&pthread_sigmask))dlsym(RTLD_NEXT, "pthread_sigmask"))(how, without_ours(how, set, &buffer), was);
}
