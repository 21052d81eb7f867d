// The completion queue: records for the host, in its memory.
//
// Pointers are in 16-byte units with a toggle in bit 31 that flips at each wrap, so that full and empty differ.
// Records begin at a page. The host polls a copy of the write pointer in its own memory, and stores its read
// pointer into this core's L1.
#ifndef REPRISE_CQ_COMPLETION_H
#define REPRISE_CQ_COMPLETION_H

#include "cq_args.h"
#include "cq_ring.h"

#define CQ_COMPLETION_UNIT_LOG 4u
#define CQ_COMPLETION_TOGGLE 0x80000000u

struct cq_completion {
    uint32_t base, size;  // units
    uint32_t wr;          // units
    uint32_t toggle;      // 0 or CQ_COMPLETION_TOGGLE
    uint32_t wr_word, rd_word, host_word;
};

static inline void cq_completion_init(struct cq_completion* q, const struct cq_dispatch_args* args) {
    q->base = args->completion_base >> CQ_COMPLETION_UNIT_LOG;
    q->size = args->completion_size >> CQ_COMPLETION_UNIT_LOG;
    q->wr_word = args->completion_wr_word;
    q->rd_word = args->completion_rd_word;
    q->host_word = args->host_wr_word;
    uint32_t wr = rp_load(q->wr_word);
    q->wr = wr & ~CQ_COMPLETION_TOGGLE;
    q->toggle = wr & CQ_COMPLETION_TOGGLE;
}

RP_INLINE uint32_t cq_completion_space(const struct cq_completion* q) {
    uint32_t word = rp_load(q->rd_word);
    uint32_t rd = word & ~CQ_COMPLETION_TOGGLE;
    return (word & CQ_COMPLETION_TOGGLE) == q->toggle ? q->size - (q->wr - rd) : rd - q->wr;
}

// Waits for the host to have read enough.
static inline void cq_completion_reserve(const struct cq_completion* q, uint32_t units) {
    rp_invalidate_l1();
    if (cq_completion_space(q) < units) {
        rp_waypoint_detail("HOST", units);
        do {
            rp_invalidate_l1();
        } while (cq_completion_space(q) < units);
        rp_waypoint("RUN ");
    }
}

// Tells the host. The pointer follows the data on the same path, and PCIe keeps writes in order. The word in L1 is
// the source of the write, so the last one must have left before it changes.
static inline void cq_completion_publish(struct cq_completion* q, uint32_t noc) {
    rp_noc_write_flush(noc);
    rp_store(q->wr_word, q->wr | q->toggle);
    rp_l1_commit(q->wr_word);
    rp_noc_write_with_state(noc, RP_BUF_WRITE, RP_WRITE, q->host_word, q->wr_word, 4, 1);
}

// cq_completion_push appends bytes from L1, which begin at a page of the queue, and publishes the pages they fill.
// The write buffer's state must lead to host memory.
static inline void cq_completion_push(struct cq_completion* q, uint32_t noc, uint32_t l1, uint32_t bytes) {
    uint32_t units = cq_align(bytes, 1u << CQ_PAGE_LOG) >> CQ_COMPLETION_UNIT_LOG;
    cq_completion_reserve(q, units);
    uint32_t to_end = (q->base + q->size - q->wr) << CQ_COMPLETION_UNIT_LOG;
    uint32_t first = cq_min(bytes, to_end);
    rp_noc_write_any_with_state(noc, RP_BUF_WRITE, RP_WRITE, q->wr << CQ_COMPLETION_UNIT_LOG, l1, first, 1);
    rp_noc_write_any_with_state(noc, RP_BUF_WRITE, RP_WRITE, q->base << CQ_COMPLETION_UNIT_LOG, l1 + first,
                                bytes - first, 1);
    q->wr += units;
    if (q->wr >= q->base + q->size) {
        q->wr -= q->size;
        q->toggle ^= CQ_COMPLETION_TOGGLE;
    }
    cq_completion_publish(q, noc);
}

#endif
