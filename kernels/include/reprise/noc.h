// NoC requests at the level of the registers, for C and C++.
//
// Every function takes the NoC (0 or 1) first. A coordinate argument ("coord") is in the form of the coordinate
// register and of the dispatch commands: (x | y << 6) << RP_NOC_COORD_SHIFT for one tile, with the start corner
// another 12 bits up for a rectangle (rp_noc_coord, rp_noc_rect). Addresses are 64 bits; the upper half is zero but
// for host memory, where it is RP_PCIE_ADDR_HI plus the address' own upper bits.
//
// Each data-movement processor has a NoC of its own and gives each of its four command buffers one duty:
//   RP_BUF_WRITE  bulk writes              RP_BUF_READ    reads
//   RP_BUF_WORD   small and second writes  RP_BUF_ATOMIC  atomics and inline writes
// so that the source (writes) or destination (reads, atomics) coordinate, which is always this tile, is set once.
//
// Alignment: source and destination addresses agree in the low 4 bits; from DRAM and host memory in the low 5
// (Wormhole) or 6 (Blackhole). Register targets take 4 aligned bytes. Atomics want a 16-byte aligned word.
// Facts: tt-isa-documentation WormholeB0/NoC/MemoryMap.md, Counters.md, Ordering.md, Atomics.md.
#ifndef REPRISE_NOC_H
#define REPRISE_NOC_H

#include "reprise/abi.h"

#define RP_BUF_WRITE 0u
#define RP_BUF_READ 1u
#define RP_BUF_WORD 2u
#define RP_BUF_ATOMIC 3u

// Bits of the CTRL register.
#define RP_CTRL_READ 0u
#define RP_CTRL_ATOMIC (1u << 0)
#define RP_CTRL_WRITE (1u << 1)
#define RP_CTRL_INLINE (1u << 3)
#define RP_CTRL_RESP (1u << 4)
#define RP_CTRL_MULTICAST (1u << 5)
#define RP_CTRL_LINKED (1u << 6)
#define RP_CTRL_VC_STATIC (1u << 7)
#define RP_CTRL_PATH_RESERVE (1u << 8)
#define RP_CTRL_SRC_INCLUDE (1u << 17)
#define RP_CTRL_VC(n) ((unsigned)(n) << 13)
#define RP_VC_UNICAST 1u
#define RP_VC_MULTICAST 4u
#define RP_VC_DISPATCH_MULTICAST 5u  // the dispatcher's own, so that workers' linked multicasts can't hold it up

// Kinds of writes: one of the first two, or RP_WRITE_MULTICAST with any of the modifiers.
#define RP_WRITE (RP_CTRL_WRITE | RP_CTRL_RESP | RP_CTRL_VC_STATIC | RP_CTRL_VC(RP_VC_UNICAST))
#define RP_WRITE_POSTED (RP_CTRL_WRITE | RP_CTRL_VC_STATIC | RP_CTRL_VC(RP_VC_UNICAST))
#define RP_WRITE_MULTICAST \
    (RP_CTRL_WRITE | RP_CTRL_RESP | RP_CTRL_VC_STATIC | RP_CTRL_VC(RP_VC_MULTICAST) | RP_CTRL_MULTICAST | RP_CTRL_PATH_RESERVE)
#define RP_WRITE_DISPATCH_MULTICAST \
    (RP_CTRL_WRITE | RP_CTRL_RESP | RP_CTRL_VC_STATIC | RP_CTRL_VC(RP_VC_DISPATCH_MULTICAST) | RP_CTRL_MULTICAST | RP_CTRL_PATH_RESERVE)
#define RP_WRITE_LINKED RP_CTRL_LINKED        // more of the same transaction follows at once
#define RP_WRITE_LOOPBACK RP_CTRL_SRC_INCLUDE  // multicast: this tile too, if it lies in the rectangle

// --- coordinates ---------------------------------------------------------------------------------------------
RP_INLINE uint32_t rp_noc_coord(uint32_t x, uint32_t y) { return (x | y << 6) << RP_NOC_COORD_SHIFT; }
// from x | y << 6, the form of kernel arguments and bank tables
RP_INLINE uint32_t rp_noc_coord_xy(uint32_t xy) { return xy << RP_NOC_COORD_SHIFT; }
// Corners as x | y << 6, upper left and lower right as NoC 0 sees them. NoC 1 runs the other way, so its requests
// begin at the other corner.
RP_INLINE uint32_t rp_noc_rect(uint32_t noc, uint32_t start_xy, uint32_t end_xy) {
    return (noc ? (end_xy << 12 | start_xy) : (start_xy << 12 | end_xy)) << RP_NOC_COORD_SHIFT;
}

// --- registers -----------------------------------------------------------------------------------------------
RP_INLINE uint32_t rp_noc_reg(uint32_t noc, uint32_t buf, uint32_t reg) {
    return RP_NOC_REGS(noc) + buf * RP_NOC_BUF_STRIDE + reg;
}
RP_INLINE void rp_noc_set(uint32_t noc, uint32_t buf, uint32_t reg, uint32_t value) {
    rp_store(rp_noc_reg(noc, buf, reg), value);
}
RP_INLINE uint32_t rp_noc_counter(uint32_t noc, uint32_t index) {
    return rp_load(RP_NOC_REGS(noc) + RP_NOC_COUNTER(index));
}
// rp_noc_ready waits until the buffer's last request has left; no register of it may change before.
RP_INLINE void rp_noc_ready(uint32_t noc, uint32_t buf) {
    while (rp_load(rp_noc_reg(noc, buf, RP_NOC_CMD_CTRL)) != 0) {
    }
}

// With REPRISE_WATCH each request is checked before it starts: reprise/watch.h. What is rarely in a hot loop is inlined for its
// reports, which have the line of the kernel that a check is called from.
#if defined(REPRISE_WATCH)
static void rp_watch_noc(uint32_t noc, uint32_t buf);
#define RP_NOC_LONG RP_INLINE
#else
#define rp_watch_noc(noc, buf) ((void)0)
#define RP_NOC_LONG static inline __attribute__((unused))
#endif
RP_INLINE void rp_noc_send(uint32_t noc, uint32_t buf) {
    rp_watch_noc(noc, buf);
    rp_noc_set(noc, buf, RP_NOC_CMD_CTRL, 1);
}

// Remote end of a request: TARG for reads, atomics and inline writes, RET for writes.
RP_INLINE void rp_noc_set_targ(uint32_t noc, uint32_t buf, uint32_t coord, uint32_t addr_hi) {
#if defined(REPRISE_WORMHOLE)
    rp_noc_set(noc, buf, RP_NOC_TARG_COORD, coord | addr_hi);
#else
    rp_noc_set(noc, buf, RP_NOC_TARG_MID, addr_hi);
    rp_noc_set(noc, buf, RP_NOC_TARG_COORD, coord);
#endif
}
RP_INLINE void rp_noc_set_ret(uint32_t noc, uint32_t buf, uint32_t coord, uint32_t addr_hi) {
#if defined(REPRISE_WORMHOLE)
    rp_noc_set(noc, buf, RP_NOC_RET_COORD, coord | addr_hi);
#else
    rp_noc_set(noc, buf, RP_NOC_RET_MID, addr_hi);
    rp_noc_set(noc, buf, RP_NOC_RET_COORD, coord);
#endif
}

// --- start-up --------------------------------------------------------------------------------------------------
// rp_noc_self is this tile's virtual coordinate, x | y << 6: the same on both NoCs.
RP_INLINE uint32_t rp_noc_self(uint32_t noc) { return rp_load(RP_NOC_REGS(noc) + RP_NOC_ID_LOGICAL) & 0xFFF; }

// rp_noc_init gives the four command buffers of one NoC their duties.
RP_INLINE void rp_noc_init(uint32_t noc) {
    uint32_t self = rp_noc_coord_xy(rp_noc_self(noc));
    rp_noc_set_targ(noc, RP_BUF_WRITE, self, 0);
    rp_noc_set_targ(noc, RP_BUF_WORD, self, 0);
    rp_noc_set_ret(noc, RP_BUF_READ, self, 0);
    rp_noc_set(noc, RP_BUF_READ, RP_NOC_CTRL,
               RP_CTRL_READ | RP_CTRL_RESP | RP_CTRL_VC_STATIC | RP_CTRL_VC(RP_VC_UNICAST));
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_RET_LO, RP_L1_ATOMIC_RETURN);
    rp_noc_set_ret(noc, RP_BUF_ATOMIC, self, 0);
}

// rp_noc_counters_init takes the hardware's counts as the starting point. Nothing may be in flight.
RP_INLINE void rp_noc_counters_init(uint32_t noc) {
    RP_LOCAL->reads_issued[noc] = rp_noc_counter(noc, RP_COUNTER_RD_RESP);
    RP_LOCAL->nonposted_writes_issued[noc] = rp_noc_counter(noc, RP_COUNTER_NONPOSTED_WR_SENT);
    RP_LOCAL->nonposted_writes_acked[noc] = rp_noc_counter(noc, RP_COUNTER_WR_ACK);
    RP_LOCAL->nonposted_atomics_acked[noc] = rp_noc_counter(noc, RP_COUNTER_ATOMIC_RESP);
    RP_LOCAL->posted_writes_issued[noc] = rp_noc_counter(noc, RP_COUNTER_POSTED_WR_SENT);
    RP_LOCAL->write_ids[noc] = 0;
}

// --- reads -----------------------------------------------------------------------------------------------------
// One packet: 1 <= len <= RP_NOC_MAX_BURST.
RP_INLINE void rp_noc_read_packet(uint32_t noc, uint32_t coord, uint64_t addr, uint32_t l1, uint32_t len) {
    rp_noc_ready(noc, RP_BUF_READ);
    rp_noc_set(noc, RP_BUF_READ, RP_NOC_RET_LO, l1);
    rp_noc_set(noc, RP_BUF_READ, RP_NOC_TARG_LO, (uint32_t)addr);
    rp_noc_set_targ(noc, RP_BUF_READ, coord, (uint32_t)(addr >> 32));
    rp_noc_set(noc, RP_BUF_READ, RP_NOC_LEN_BE, len);
    rp_noc_send(noc, RP_BUF_READ);
    RP_LOCAL->reads_issued[noc]++;
}

// rp_noc_read_state sets where the next reads come from; rp_noc_read_with_state then gives only the low address.
RP_INLINE void rp_noc_read_state(uint32_t noc, uint32_t coord, uint32_t addr_hi) {
    rp_noc_ready(noc, RP_BUF_READ);
    rp_noc_set_targ(noc, RP_BUF_READ, coord, addr_hi);
}
RP_INLINE void rp_noc_read_with_state(uint32_t noc, uint32_t addr_lo, uint32_t l1, uint32_t len) {
    rp_noc_ready(noc, RP_BUF_READ);
    rp_noc_set(noc, RP_BUF_READ, RP_NOC_RET_LO, l1);
    rp_noc_set(noc, RP_BUF_READ, RP_NOC_TARG_LO, addr_lo);
    rp_noc_set(noc, RP_BUF_READ, RP_NOC_LEN_BE, len);
    rp_noc_send(noc, RP_BUF_READ);
    RP_LOCAL->reads_issued[noc]++;
}
// As above with the length set once too (rp_noc_read_state_len).
RP_INLINE void rp_noc_read_state_len(uint32_t noc, uint32_t coord, uint32_t addr_hi, uint32_t len) {
    rp_noc_read_state(noc, coord, addr_hi);
    rp_noc_set(noc, RP_BUF_READ, RP_NOC_LEN_BE, len);
}
RP_INLINE void rp_noc_read_same_len(uint32_t noc, uint32_t addr_lo, uint32_t l1) {
    rp_noc_ready(noc, RP_BUF_READ);
    rp_noc_set(noc, RP_BUF_READ, RP_NOC_RET_LO, l1);
    rp_noc_set(noc, RP_BUF_READ, RP_NOC_TARG_LO, addr_lo);
    rp_noc_send(noc, RP_BUF_READ);
    RP_LOCAL->reads_issued[noc]++;
}

// Any length. The bytes must not cross a 4 GiB boundary. Not always inlined: it is long, and rarely in a hot loop.
RP_NOC_LONG void rp_noc_read(uint32_t noc, uint32_t coord, uint64_t addr, uint32_t l1, uint32_t len) {
    uint32_t lo = (uint32_t)addr;
    if (len == 0) {
        return;
    }
    rp_noc_read_state(noc, coord, (uint32_t)(addr >> 32));
    while (len > RP_NOC_MAX_BURST) {
        rp_noc_read_with_state(noc, lo, l1, RP_NOC_MAX_BURST);
        lo += RP_NOC_MAX_BURST;
        l1 += RP_NOC_MAX_BURST;
        len -= RP_NOC_MAX_BURST;
    }
    rp_noc_read_with_state(noc, lo, l1, len);
}

// True when everything read so far is in L1.
RP_INLINE int rp_noc_reads_done(uint32_t noc) {
    return rp_noc_counter(noc, RP_COUNTER_RD_RESP) == RP_LOCAL->reads_issued[noc];
}
RP_INLINE void rp_noc_read_barrier(uint32_t noc) {
    while (!rp_noc_reads_done(noc)) {
    }
    rp_invalidate_l1();
}

// --- writes ----------------------------------------------------------------------------------------------------
RP_INLINE void rp_noc_count_write(uint32_t noc, uint32_t kind, uint32_t destinations) {
    if (kind & RP_CTRL_RESP) {
        RP_LOCAL->nonposted_writes_issued[noc]++;
        RP_LOCAL->nonposted_writes_acked[noc] += destinations;
    } else {
        RP_LOCAL->posted_writes_issued[noc]++;
    }
}

// rp_noc_write_state sets kind and destination of a write buffer (RP_BUF_WRITE or RP_BUF_WORD) for what follows.
RP_INLINE void rp_noc_write_state(uint32_t noc, uint32_t buf, uint32_t kind, uint32_t coord, uint32_t addr_hi) {
    rp_noc_ready(noc, buf);
    rp_noc_set(noc, buf, RP_NOC_CTRL, kind);
    rp_noc_set_ret(noc, buf, coord, addr_hi);
}
// Only the kind, for instance to end a series of linked writes; only the destination.
RP_INLINE void rp_noc_write_state_kind(uint32_t noc, uint32_t buf, uint32_t kind) {
    rp_noc_ready(noc, buf);
    rp_noc_set(noc, buf, RP_NOC_CTRL, kind);
}
RP_INLINE void rp_noc_write_state_coord(uint32_t noc, uint32_t buf, uint32_t coord, uint32_t addr_hi) {
    rp_noc_ready(noc, buf);
    rp_noc_set_ret(noc, buf, coord, addr_hi);
}
// One packet with the state as set. kind and destinations are for the counters: the same as when it was set.
RP_INLINE void rp_noc_write_with_state(uint32_t noc, uint32_t buf, uint32_t kind, uint32_t addr_lo, uint32_t l1,
                                       uint32_t len, uint32_t destinations) {
    rp_noc_ready(noc, buf);
    rp_noc_set(noc, buf, RP_NOC_TARG_LO, l1);
    rp_noc_set(noc, buf, RP_NOC_RET_LO, addr_lo);
    rp_noc_set(noc, buf, RP_NOC_LEN_BE, len);
    rp_noc_send(noc, buf);
    rp_noc_count_write(noc, kind, destinations);
}
// Any length with the state as set. len 0 writes nothing.
RP_NOC_LONG void rp_noc_write_any_with_state(uint32_t noc, uint32_t buf, uint32_t kind, uint32_t addr_lo, uint32_t l1,
                                             uint32_t len, uint32_t destinations) {
    if (len == 0) {
        return;
    }
    while (len > RP_NOC_MAX_BURST) {
        rp_noc_write_with_state(noc, buf, kind, addr_lo, l1, RP_NOC_MAX_BURST, destinations);
        addr_lo += RP_NOC_MAX_BURST;
        l1 += RP_NOC_MAX_BURST;
        len -= RP_NOC_MAX_BURST;
    }
    rp_noc_write_with_state(noc, buf, kind, addr_lo, l1, len, destinations);
}

// One packet, everything set: 1 <= len <= RP_NOC_MAX_BURST.
RP_INLINE void rp_noc_write_packet(uint32_t noc, uint32_t buf, uint32_t kind, uint32_t coord, uint64_t addr,
                                   uint32_t l1, uint32_t len, uint32_t destinations) {
    rp_noc_write_state(noc, buf, kind, coord, (uint32_t)(addr >> 32));
    rp_noc_set(noc, buf, RP_NOC_TARG_LO, l1);
    rp_noc_set(noc, buf, RP_NOC_RET_LO, (uint32_t)addr);
    rp_noc_set(noc, buf, RP_NOC_LEN_BE, len);
    rp_noc_send(noc, buf);
    rp_noc_count_write(noc, kind, destinations);
}

// Any length to one tile, acknowledged or posted.
RP_INLINE void rp_noc_write(uint32_t noc, uint32_t coord, uint64_t addr, uint32_t l1, uint32_t len) {
    rp_noc_write_state(noc, RP_BUF_WRITE, RP_WRITE, coord, (uint32_t)(addr >> 32));
    rp_noc_write_any_with_state(noc, RP_BUF_WRITE, RP_WRITE, (uint32_t)addr, l1, len, 1);
}
RP_INLINE void rp_noc_write_posted(uint32_t noc, uint32_t coord, uint64_t addr, uint32_t l1, uint32_t len) {
    rp_noc_write_state(noc, RP_BUF_WRITE, RP_WRITE_POSTED, coord, (uint32_t)(addr >> 32));
    rp_noc_write_any_with_state(noc, RP_BUF_WRITE, RP_WRITE_POSTED, (uint32_t)addr, l1, len, 1);
}
// Any length to a rectangle (rp_noc_rect). destinations: tiles that will acknowledge, this one only with
// RP_WRITE_LOOPBACK in kind.
RP_INLINE void rp_noc_write_multicast(uint32_t noc, uint32_t kind, uint32_t rect, uint32_t addr, uint32_t l1,
                                      uint32_t len, uint32_t destinations) {
    rp_noc_write_state(noc, RP_BUF_WRITE, kind, rect, 0);
    rp_noc_write_any_with_state(noc, RP_BUF_WRITE, kind, addr, l1, len, destinations);
}

// rp_noc_sources_read: the data of every write that has been counted as sent are out of L1. A request is counted as
// sent before that (NoC/Counters.md).
static inline __attribute__((unused)) int rp_noc_tagged_sources_read(uint32_t noc, uint32_t ids) {
    for (uint32_t id = 0; ids != 0; ids >>= 1, id++) {
        if ((ids & 1) && rp_noc_counter(noc, RP_COUNTER_WRITES_OUTGOING_ID(id)) != 0) {
            return 0;
        }
    }
    return 1;
}
RP_INLINE int rp_noc_sources_read(uint32_t noc) {
    if (rp_noc_counter(noc, RP_COUNTER_WRITES_OUTGOING_ID(0)) != 0) {
        return 0;
    }
    return rp_noc_tagged_sources_read(noc, RP_LOCAL->write_ids[noc]);
}
// Sent: the requests have left with all their data, so L1 sources may be reused. Done: every destination has
// acknowledged.
RP_INLINE int rp_noc_writes_sent(uint32_t noc) {
    return rp_noc_counter(noc, RP_COUNTER_NONPOSTED_WR_SENT) == RP_LOCAL->nonposted_writes_issued[noc] &&
           rp_noc_sources_read(noc);
}
RP_INLINE int rp_noc_posted_writes_sent(uint32_t noc) {
    return rp_noc_counter(noc, RP_COUNTER_POSTED_WR_SENT) == RP_LOCAL->posted_writes_issued[noc] &&
           rp_noc_sources_read(noc);
}
RP_INLINE int rp_noc_writes_done(uint32_t noc) {
    return rp_noc_counter(noc, RP_COUNTER_WR_ACK) == RP_LOCAL->nonposted_writes_acked[noc];
}
RP_INLINE void rp_noc_write_flush(uint32_t noc) {
    while (!rp_noc_writes_sent(noc)) {
    }
}
RP_INLINE void rp_noc_posted_write_flush(uint32_t noc) {
    while (!rp_noc_posted_writes_sent(noc)) {
    }
}
RP_INLINE void rp_noc_write_barrier(uint32_t noc) {
    while (!rp_noc_writes_done(noc)) {
    }
    rp_invalidate_l1();
}

// --- transaction ids -------------------------------------------------------------------------------------------
// rp_noc_set_id tags what the buffer sends from now on (0..15); the barriers wait for one tag only. At most 255
// requests of a tag may be open. Wormhole's PCIe writes must use 0. A multicast leaves the count of its tag wrong,
// so give multicasts a tag that nothing waits for.
RP_INLINE void rp_noc_set_id(uint32_t noc, uint32_t buf, uint32_t id) {
    rp_noc_ready(noc, buf);
    rp_noc_set(noc, buf, RP_NOC_PACKET_TAG, id << 10);
    if (buf != RP_BUF_READ) {
        RP_LOCAL->write_ids[noc] |= 1u << id;
    }
}
// rp_noc_started waits until every request whose start was stored is counted: a load of another register may
// otherwise pass that store.
RP_INLINE void rp_noc_started(uint32_t noc) {
    for (uint32_t buf = 0; buf < 4; buf++) {
        rp_noc_ready(noc, buf);
    }
}
RP_INLINE void rp_noc_id_barrier(uint32_t noc, uint32_t id) {
    rp_noc_started(noc);
    while (rp_noc_counter(noc, RP_COUNTER_OUTSTANDING_ID(id)) != 0) {
    }
    rp_invalidate_l1();
}
RP_INLINE void rp_noc_id_write_flush(uint32_t noc, uint32_t id) {
    rp_noc_started(noc);
    while (rp_noc_counter(noc, RP_COUNTER_WRITES_OUTGOING_ID(id)) != 0) {
    }
}
RP_INLINE void rp_noc_clear_ids(uint32_t noc) { rp_store(RP_NOC_REGS(noc) + RP_NOC_CLEAR_OUTSTANDING, 0xFFFFu); }

// --- single words ----------------------------------------------------------------------------------------------
// rp_noc_reg_write stores a word into a register of another tile (or of this one) without a source in L1.
RP_INLINE void rp_noc_reg_write(uint32_t noc, uint32_t coord, uint32_t addr, uint32_t value, int posted) {
    rp_noc_ready(noc, RP_BUF_ATOMIC);
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_AT_DATA, value);
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_CTRL,
               RP_CTRL_WRITE | RP_CTRL_INLINE | RP_CTRL_VC_STATIC | RP_CTRL_VC(RP_VC_UNICAST) |
                   (posted ? 0u : RP_CTRL_RESP));
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_TARG_LO, addr);
    rp_noc_set_targ(noc, RP_BUF_ATOMIC, coord, 0);
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_LEN_BE, 0xFu << (addr & (32u - 4u)));
    rp_noc_send(noc, RP_BUF_ATOMIC);
    rp_noc_count_write(noc, posted ? 0u : RP_CTRL_RESP, 1);
}

// rp_noc_word_write stores a word into L1 of another tile. Acknowledged. Blackhole can't write inline to L1 (it may
// hang the tile), so there the word goes through a scratch line of this tile, one for each processor and NoC.
RP_INLINE void rp_noc_word_write(uint32_t noc, uint32_t coord, uint32_t addr, uint32_t value) {
#if defined(REPRISE_WORMHOLE)
    rp_noc_reg_write(noc, coord, addr, value, 0);
#else
    uint32_t scratch = RP_L1_INLINE_SCRATCH + 32u * rp_processor() + 16u * noc + (addr & 12u);
    // The last word may still be on its way out of the scratch line. Only when nothing is outgoing has its data been
    // read; that its request was sent is not enough (NoC/Counters.md). The buffer has tag 0 unless a kernel changes it.
    rp_noc_ready(noc, RP_BUF_WORD);
    while (rp_noc_counter(noc, RP_COUNTER_WRITES_OUTGOING_ID(0)) != 0) {
    }
    rp_store(scratch, value);
    rp_l1_commit(scratch);
    rp_noc_write_packet(noc, RP_BUF_WORD, RP_WRITE, coord, addr, scratch, 4, 1);
#endif
}

// rp_noc_dword_write takes any target: a register, or L1.
RP_INLINE void rp_noc_dword_write(uint32_t noc, uint32_t coord, uint32_t addr, uint32_t value) {
    if (addr >= RP_LOCAL_RAM) {
        rp_noc_reg_write(noc, coord, addr, value, 0);
    } else {
        rp_noc_word_write(noc, coord, addr, value);
    }
}

// rp_noc_stream_add adds n to a stream counter of another tile, posted: what a worker does to say that it is done.
RP_INLINE void rp_noc_stream_add(uint32_t noc, uint32_t coord, uint32_t stream, uint32_t n) {
    rp_noc_reg_write(noc, coord, RP_STREAM_BASE(stream) + RP_STREAM_UPDATE, n << RP_STREAM_INCREMENT_SHIFT, 1);
}

// --- atomics ---------------------------------------------------------------------------------------------------
// rp_noc_atomic_inc adds n to the word at addr (16-byte aligned) in L1 of another tile. Always acknowledged:
// Blackhole has no posted ones.
RP_INLINE void rp_noc_atomic_inc(uint32_t noc, uint32_t coord, uint32_t addr, uint32_t n) {
    rp_noc_ready(noc, RP_BUF_ATOMIC);
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_TARG_LO, addr);
    rp_noc_set_targ(noc, RP_BUF_ATOMIC, coord, 0);
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_CTRL,
               RP_CTRL_ATOMIC | RP_CTRL_RESP | RP_CTRL_VC_STATIC | RP_CTRL_VC(RP_VC_UNICAST));
    // opcode 1 increments, 31 = all 32 bits take part, then the word's place in its 16-byte line
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_LEN_BE, 1u << 12 | 31u << 2 | ((addr >> 2) & 3u));
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_AT_DATA, n);
    rp_noc_send(noc, RP_BUF_ATOMIC);
    RP_LOCAL->nonposted_atomics_acked[noc]++;
}
RP_INLINE int rp_noc_atomics_done(uint32_t noc) {
    return rp_noc_counter(noc, RP_COUNTER_ATOMIC_RESP) == RP_LOCAL->nonposted_atomics_acked[noc];
}
RP_INLINE void rp_noc_atomic_barrier(uint32_t noc) {
    while (!rp_noc_atomics_done(noc)) {
    }
    rp_invalidate_l1();
}

// Everything this processor started on noc has arrived.
RP_INLINE void rp_noc_full_barrier(uint32_t noc) {
    rp_noc_read_barrier(noc);
    rp_noc_write_barrier(noc);
    rp_noc_posted_write_flush(noc);
    rp_noc_atomic_barrier(noc);
}

#if defined(REPRISE_WATCH)
#include "reprise/kernel.h"  // has the checks
#endif

#endif
