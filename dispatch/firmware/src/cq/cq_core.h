// Small things that all kernels of the command queue share.
#ifndef REPRISE_CQ_CORE_H
#define REPRISE_CQ_CORE_H

#include "reprise/abi.h"

// Small beats fast in most of these kernels: Wormhole's instruction cache holds 512 instructions, and a miss costs more
// than a call (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/InstructionCache.md).
#define CQ_SHARED static __attribute__((noinline, unused))

RP_INLINE uint32_t cq_min(uint32_t a, uint32_t b) { return a < b ? a : b; }
RP_INLINE uint32_t cq_align(uint32_t n, uint32_t to) { return (n + to - 1) & ~(to - 1); }

// cq_park stops this core for good and says why. Running on would treat payload as commands and write wherever it
// says; a host that waits finds the waypoint and the detail in the core's state instead.
RP_INLINE __attribute__((noreturn)) void cq_park(uint32_t waypoint, uint32_t detail) {
    RP_MAILBOX->core_state[rp_processor()].detail = detail;
    RP_MAILBOX->core_state[rp_processor()].waypoint = waypoint;
    for (;;) {
        __asm__ volatile("");
    }
}

#define CQ_BAD_COMMAND RP_WAYPOINT_WORD("BADC")  // detail: first word of the command (its id is the lowest byte)
#define CQ_BAD_LENGTH RP_WAYPOINT_WORD("BADL")   // detail: that word, the length, or the L1 address where bytes end
#define CQ_BAD_ENTRY RP_WAYPOINT_WORD("BADE")    // detail: the fetch queue entry
#define CQ_BAD_STALL RP_WAYPOINT_WORD("BADS")    // detail: command. A stall entry without a trace, or the reverse
#define CQ_BAD_LOOP RP_WAYPOINT_WORD("LOOP")   // detail: the loop that began an iteration too many
#define CQ_BAD_TRACE RP_WAYPOINT_WORD("BADT")    // detail: trace address. Its end came before EXEC_BUF_END

#endif
