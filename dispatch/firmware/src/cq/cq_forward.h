// Commands that the dispatcher forwards to its subordinate, which runs on another processor of the same tile: a ring of
// commands of 16 bytes in their L1, after two counts that only grow. Each side writes one of them, 16 bytes apart. Beside each command
// is how often its sub-device's sync word had been counted: so many go signals come to the subordinate in pages and belong
// before this one.
#ifndef REPRISE_CQ_FORWARDED_H
#define REPRISE_CQ_FORWARDED_H

#include "cq_commands.h"
#include "cq_core.h"

#define CQ_FORWARDED_ENTRIES 8u
#define CQ_FORWARDED_TAKEN 16u    // the subordinate's count, after the dispatcher's
#define CQ_FORWARDED_COMMANDS 32u
#define CQ_FORWARDED_STRIDE 32u
#define CQ_FORWARDED_SYNC 16u     // after the command

// cq_sync_index is the sub-device that a command is for: the first one if it is no go signal.
RP_INLINE uint32_t cq_sync_index(const struct cq_send_go_signal* c, uint32_t first_stream) {
    return c->id == CQ_DISPATCH_SEND_GO_SIGNAL ? c->wait_stream - first_stream : 0;
}

RP_INLINE uint32_t cq_forward_entry(uint32_t base, uint32_t n) {
    return base + CQ_FORWARDED_COMMANDS + CQ_FORWARDED_STRIDE * (n % CQ_FORWARDED_ENTRIES);
}

// cq_forward forwards the command at from, the n-th, and waits while the ring is full.
RP_INLINE void cq_forward(uint32_t base, uint32_t n, uint32_t from, uint32_t sync) {
    rp_invalidate_l1();
    if (n - rp_load(base + CQ_FORWARDED_TAKEN) >= CQ_FORWARDED_ENTRIES) {
        rp_waypoint("HAND");
        do {
            rp_invalidate_l1();
        } while (n - rp_load(base + CQ_FORWARDED_TAKEN) >= CQ_FORWARDED_ENTRIES);
        rp_waypoint("RUN ");
    }
    uint32_t to = cq_forward_entry(base, n);
    uint32_t w0 = rp_load(from), w1 = rp_load(from + 4), w2 = rp_load(from + 8), w3 = rp_load(from + 12);
    rp_store(to, w0);
    rp_store(to + 4, w1);
    rp_store(to + 8, w2);
    rp_store(to + 12, w3);
    rp_store(to + CQ_FORWARDED_SYNC, sync);
    rp_l1_commit(to + CQ_FORWARDED_SYNC);
    rp_store(base, n + 1);
}

#endif
