// What the three kernels of a tile operation on bf16 tiles have in common: unpack.c (TRISC0), math.c (TRISC1) and pack.c
// (TRISC2). A tile stays where it is in L1 and is computed again and again, so that what is measured is the engines.
//
// Unique arguments of each: 0 what to compute (enum operation), 1 how often, 2 and 3 L1 addresses of the operands, 4 of the
// result, 5 fidelity phases of a product, 1 to 4.
#ifndef TILE_H
#define TILE_H

#include "reprise/tensix.h"

enum operation { MATMUL, ADD, MUL, EXP, UNPACK_ONLY, PACK_ONLY };
enum { SEM_PACK = 1 };  // posted when Dst holds a tile

RP_INLINE uint32_t operation(void) { return rp_arg(0); }
RP_INLINE uint32_t repeats(void) { return rp_arg(1); }

#endif
