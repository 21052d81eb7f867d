// What the host tells the command-queue kernels: their unique runtime arguments, one u32 each, in this order, and the
// semaphores of the two cores. Coordinates ("xy") are x | y << 6; corners of a rectangle are as NoC 0 sees them.
#ifndef REPRISE_CQ_ARGS_H
#define REPRISE_CQ_ARGS_H

#include "reprise/abi.h"

// Semaphores of the prefetch core. Those of the two rings hold the pages that the consumer has given out: the number
// of pages of the ring at the start, more as it returns them.
enum cq_prefetch_semaphore {
    CQ_SEM_DISPATCH_CREDITS = 0,
    CQ_SEM_SUBORDINATE_CREDITS = 1,
    CQ_SEM_SYNC = 2,  // one for each WAIT that notifies the prefetcher, from 0
};

// Semaphores of the dispatch core: pages published in each ring since the start, from 0.
enum cq_dispatch_semaphore {
    CQ_SEM_DISPATCH_PAGES = 0,
    CQ_SEM_SUBORDINATE_PAGES = 1,
};

#define CQ_PAGE_LOG 12u              // a page of the dispatch ring and of the completion queue: 4096 B
#define CQ_SUBORDINATE_PAGE_LOG 8u   // a page of the subordinate's ring: 256 B
#define CQ_FETCH_STALL 0x8000u       // in a fetch queue entry: fetch nothing after it until a trace has run
#define CQ_FETCH_UNIT_LOG 4u         // an entry counts bytes in units of 16
#define CQ_SYNC_STRIDE 16u           // bytes between the subordinate's sync words

struct cq_prefetch_args {
    uint32_t pcie_xy;
    uint32_t pcie_addr_hi;  // upper half of every host memory address
    uint32_t issue_base;    // lower half; PCIe aligned
    uint32_t issue_size;
    uint32_t fetch_queue;  // L1, 2-byte entries
    uint32_t fetch_queue_bytes;
    uint32_t fetch_rd_word;  // L1: address of the entry consumed last
    uint32_t pcie_rd_word;   // L1: issue queue address (lower half) up to which everything is in this core
    uint32_t buffer;         // L1, command-data buffer; PCIe aligned
    uint32_t buffer_size;
    uint32_t scratch;  // L1, two halves; also the base of the ring buffer cache
    uint32_t scratch_size;
    uint32_t ring_base;  // L1, ring buffer cache
    uint32_t ring_size;
    uint32_t dispatch_xy;
    uint32_t dispatch_ring;  // L1 of the dispatch core, page aligned
    uint32_t dispatch_ring_pages;
    uint32_t subordinate_ring;
    uint32_t subordinate_ring_pages;
    uint32_t reserved;
    uint32_t dispatch_sem_base;  // L1 of the dispatch core: its semaphore 0
    uint32_t control;            // L1, struct cq_control; a multiple of 64
};

struct cq_dispatch_args {
    uint32_t pcie_xy;
    uint32_t pcie_addr_hi;
    uint32_t completion_base;  // lower half; a multiple of 4096
    uint32_t completion_size;  // a multiple of 4096
    uint32_t completion_wr_word;  // L1, in 16-byte units, bit 31 flips at each wrap
    uint32_t completion_rd_word;  // L1, the same, written by the host
    uint32_t host_wr_word;        // host memory, lower half: a copy of completion_wr_word
    uint32_t ring;
    uint32_t ring_pages;
    uint32_t ring_blocks;
    uint32_t prefetch_xy;
    uint32_t prefetch_sem_base;
    uint32_t first_stream;
    uint32_t num_streams;
    uint32_t go_address;  // L1 of the workers: their go message 0
    uint32_t workers_start_xy;
    uint32_t workers_end_xy;
    uint32_t num_workers;
    uint32_t sync_base;  // L1: the subordinate's sync words
    uint32_t page_size;  // 4096
    uint32_t forwarded;  // L1: what it forwards to the subordinate, see cq_forward.h
    uint32_t arg_words;  // L1, struct cq_arg_words; a multiple of 64
};

struct cq_subordinate_args {
    uint32_t ring;
    uint32_t ring_pages;
    uint32_t prefetch_xy;
    uint32_t prefetch_sem_base;
    uint32_t first_stream;
    uint32_t num_streams;
    uint32_t go_address;
    uint32_t workers_start_xy;
    uint32_t workers_end_xy;
    uint32_t num_workers;
    uint32_t sync_base;
    uint32_t forwarded;
    uint32_t times;  // L1, see cq_times.h; a multiple of 16
};

RP_STATIC_ASSERT(sizeof(struct cq_prefetch_args) == 4 * 22, "prefetcher arguments");
RP_STATIC_ASSERT(offsetof(struct cq_prefetch_args, buffer) == 4 * 8, "prefetcher arguments");
RP_STATIC_ASSERT(offsetof(struct cq_prefetch_args, dispatch_xy) == 4 * 14, "prefetcher arguments");
RP_STATIC_ASSERT(sizeof(struct cq_dispatch_args) == 4 * 22, "dispatcher arguments");
RP_STATIC_ASSERT(offsetof(struct cq_dispatch_args, ring) == 4 * 7, "dispatcher arguments");
RP_STATIC_ASSERT(offsetof(struct cq_dispatch_args, first_stream) == 4 * 12, "dispatcher arguments");
RP_STATIC_ASSERT(sizeof(struct cq_subordinate_args) == 4 * 13, "subordinate arguments");

RP_INLINE void cq_load_args(uint32_t* to, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes / 4; i++) {
        to[i] = rp_load(RP_LOCAL->rta_base + 4 * i);
    }
}
RP_INLINE uint32_t cq_semaphore(uint32_t base, uint32_t id) { return base + RP_SEMAPHORE_STRIDE * id; }
RP_INLINE uint32_t cq_own_semaphore(uint32_t id) { return cq_semaphore(RP_LOCAL->sem_base, id); }

#endif
