// The commands of a command queue, as bytes in L1.
//
// Two languages share one ring of bytes: the prefetcher reads its own commands out of the issue queue (or out of a
// trace in DRAM), and most of those carry one dispatcher command as payload. The wire format is that of
// tt-metal at the revision this runtime follows (tt_metal/impl/dispatch/kernels/cq_commands.hpp), with commands of this
// runtime's own from id 0xE0 on. cq_table.h has it, which is made of the host's descriptors; here is what no host writes.
#ifndef REPRISE_CQ_COMMANDS_H
#define REPRISE_CQ_COMMANDS_H

#include <stddef.h>
#include <stdint.h>

#include "cq_table.h"
#include "reprise/abi.h"

// The dispatcher's command for an entry of the log of control flow. Only the prefetcher makes it.
#define CQ_DISPATCH_STAMP 0xE4u

// The flags of an event's payload
#define CQ_EVENT_TIMED 0x01u

// What an event's record carries after the command. tt-metal's dispatcher sends it as it came; this one puts the time in
// when the flags ask for it.
struct cq_event {
    uint32_t id;
    uint32_t flags;
    uint32_t time_lo, time_hi; // cycles of the dispatch tile's clock since reset
};

// SINK, which tests of the dispatcher use.
struct cq_sink {
    uint8_t id, pad[3];
    uint32_t size; // payload bytes to drop
    uint32_t unused[2];
};

// An entry of the log of control flow, which the dispatcher writes to DRAM with the time at which it comes to the command:
// all programs that a WAIT before it waits for are done.
struct cq_stamp {
    uint8_t id, pad[3];
    uint32_t noc;     // of the tile that has the log
    uint32_t addr;    // of the entry, a multiple of 16
    uint32_t unused;
    uint32_t trace;   // the entry: the trace's address in every bank
    uint32_t what;    // offset of a command in the trace, and a CQ_TURN in its low bits
    uint32_t time_lo, time_hi;  // cycles of the dispatch tile's clock since reset
};

RP_INLINE uint32_t cq_u32(const uint8_t p[4]) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

RP_INLINE uint64_t cq_u64(const uint8_t p[8]) {
    return (uint64_t)cq_u32(p) | (uint64_t)cq_u32(p + 4) << 32;
}

RP_INLINE uint64_t cq_pair(uint32_t lo, uint32_t hi) {
    return (uint64_t)lo | (uint64_t)hi << 32;
}

RP_STATIC_ASSERT(sizeof(struct cq_event) == 16 && sizeof(struct cq_sink) == 16, "cq_event, cq_sink");
RP_STATIC_ASSERT(offsetof(struct cq_stamp, trace) == CQ_HEADER_BYTES && sizeof(struct cq_stamp) == 32, "cq_stamp");

#endif
