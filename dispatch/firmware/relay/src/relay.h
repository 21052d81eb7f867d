// What host and relays agree on: where things are in the L1 of the two Ethernet tiles of a link, and what the host tells
// them. Customers' data may lie from 0x18000 to 0x3FFFF (tt-isa-documentation WormholeB0/EthernetTile/L1.md). Both tiles use
// the same places; package relay has the same numbers.
#ifndef REPRISE_RELAY_H
#define REPRISE_RELAY_H

#include <stdint.h>

#define QUEUES 2u
#define PAGE 4096u
#define SLOTS 4u          // messages of a queue under way in a direction
#define BATCHES 32u       // batches of commands that lie in the mirror at a time

// Of each queue.
#define CHANNEL(q) (0x18000u + 0x1000u * (q))
#define FETCH_RD(q) (CHANNEL(q) + 0x00u)       // near: address of the fetch queue entry taken last
#define COMPLETION_RD(q) (CHANNEL(q) + 0x10u)  // near: the host's pointer
#define COMPLETION_WR(q) (CHANNEL(q) + 0x20u)  // far: the dispatcher's pointer, which the mirror's core sends on
#define TAKEN(q) (CHANNEL(q) + 0x30u)          // number of the last message that the other side has taken
#define WORD(q) (CHANNEL(q) + 0x40u)           // source of small writes
#define FETCHED(q) (CHANNEL(q) + 0x50u)        // far: address of the entry that the prefetcher has taken last, sent on by its core
#define HEADER_IN(q, s) (CHANNEL(q) + 0x60u + 16u * (s))
#define HEADER_OUT(q, s) (CHANNEL(q) + 0xA0u + 16u * (s))
#define TAKING(q, s) (CHANNEL(q) + 0xE0u + 16u * (s))  // source of what goes to the other side's TAKEN
#define FETCH(q) (CHANNEL(q) + 0x120u)                 // near: the fetch queue
#define OUT(q, s) (0x1A000u + PAGE * (SLOTS * (q) + (s)))  // what is sent
#define IN(q, s) (0x22000u + PAGE * (SLOTS * (q) + (s)))   // what has arrived

#define ARGS 0x3E000u
#define STOP 0x3E100u   // the host stores 1
#define STATE 0x3E110u  // running or ended
#define STATE_RUNNING 0x314E5552u  // "RUN1"
#define STATE_ENDED 0x31444E45u    // "END1"

#define LAUNCH 0x9004u  // 1 while customer code runs (CallingIntoCustomerCode.md, tt-metal)
#define YIELD 0x9020u   // pointer to what lets the base firmware work

struct near_args {
    uint32_t issue_base, issue_size;            // host memory, lower half
    uint32_t completion_base, completion_size;  // host memory, lower half
    uint32_t completion_wr_word;                // host memory, lower half
    uint32_t fetch_end;                         // L1
};

struct far_args {
    uint32_t issue_base, issue_size;            // in the mirror's L1
    uint32_t prefetch_xy, fetch_queue, fetch_bytes;
    uint32_t completion_base, completion_size;  // in the mirror's L1
    uint32_t dispatch_xy, completion_rd_word;
};

struct relay_args {
    uint32_t far;     // 1: the tile of the chip that has no PCI interface
    uint32_t queues;
    uint32_t self;    // x | y << 6
    uint32_t memory;  // x | y << 6: the PCIe tile, or the core whose L1 is the mirror
    uint32_t memory_hi;
    uint32_t unused[3];
    union {
        struct near_args near[QUEUES];
        struct far_args far_queue[QUEUES];
    };
};

#endif
