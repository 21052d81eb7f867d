// What kernels of any processor use, for C and C++: runtime arguments, semaphores, circular buffers, waiting.
#ifndef REPRISE_KERNEL_H
#define REPRISE_KERNEL_H

#include "reprise/noc.h"

// What every kernel defines. From C++ it has C linkage because of this declaration.
#if defined(__cplusplus)
extern "C" void kernel_main(void);
#else
void kernel_main(void);
#endif

// RP_WAIT waits until cond, an expression that reads L1 or registers, is true. If it isn't at once, the core's waypoint
// says what it waits for: four characters and a number.
#define RP_WAIT(name, detail, cond)             \
    do {                                        \
        rp_invalidate_l1();                     \
        if (!(cond)) {                          \
            rp_waypoint_detail(name, detail);   \
            do {                                \
                rp_invalidate_l1();             \
            } while (!(cond));                  \
            rp_waypoint("RUN ");                \
        }                                       \
    } while (0)

// rp_publish makes everything this core stored to L1 visible before whatever it stores next, to L1 or to a register:
// what must come between writing data and telling others. Stores to different memory regions are not ordered, but L1
// handles one core's requests in order, so reading back a last store is enough.
RP_INLINE void rp_publish(void) {
    volatile uint32_t* word = &rp_core_state()->fence;
    *word = 0;
    rp_l1_commit((uint32_t)word);
}

// --- runtime arguments and semaphores --------------------------------------------------------------------------
RP_INLINE uint32_t rp_arg(uint32_t i) { return rp_load(RP_LOCAL->rta_base + 4 * i); }
RP_INLINE uint32_t rp_common_arg(uint32_t i) { return rp_load(RP_LOCAL->crta_base + 4 * i); }
RP_INLINE uint32_t rp_semaphore(uint32_t id) { return RP_LOCAL->sem_base + RP_SEMAPHORE_STRIDE * id; }

RP_INLINE void rp_semaphore_wait(uint32_t addr, uint32_t value) { RP_WAIT("SEMW", addr, rp_load(addr) == value); }
RP_INLINE void rp_semaphore_wait_min(uint32_t addr, uint32_t value) {
    RP_WAIT("SEMM", addr, rp_load(addr) >= value);
}

// --- NoC waits that leave waypoints ----------------------------------------------------------------------------
RP_INLINE void rp_wait_reads(uint32_t noc) {
    RP_WAIT("NRBW", noc, rp_noc_reads_done(noc));
    rp_invalidate_l1();
}
RP_INLINE void rp_wait_writes(uint32_t noc) {
    RP_WAIT("NWBW", noc, rp_noc_writes_done(noc));
    rp_invalidate_l1();
}
RP_INLINE void rp_wait_writes_sent(uint32_t noc) { RP_WAIT("NWFW", noc, rp_noc_writes_sent(noc)); }
RP_INLINE void rp_wait_posted_writes_sent(uint32_t noc) { RP_WAIT("NPFW", noc, rp_noc_posted_writes_sent(noc)); }
RP_INLINE void rp_wait_atomics(uint32_t noc) {
    RP_WAIT("NABW", noc, rp_noc_atomics_done(noc));
    rp_invalidate_l1();
}

// --- circular buffers ------------------------------------------------------------------------------------------
// One processor of the tile produces and one consumes. How many pages were pushed and popped stands in two stream
// registers of the tile, 16 bits that wrap; each side keeps its own count in its struct rp_cb and reads the other's.
RP_INLINE uint32_t rp_cb_received_reg(uint32_t cb) {
    return RP_STREAM_BASE(RP_STREAM_FIRST_CB + cb) + RP_STREAM_BUF_SIZE;
}
RP_INLINE uint32_t rp_cb_acked_reg(uint32_t cb) {
    return RP_STREAM_BASE(RP_STREAM_FIRST_CB + cb) + RP_STREAM_BUF_START;
}

// With REPRISE_WATCH what a kernel does with circular buffers is checked first: reprise/watch.h.
#if defined(REPRISE_WATCH)
enum rp_watch_cb_call { RP_WATCH_WAIT, RP_WATCH_RESERVE, RP_WATCH_PUSH, RP_WATCH_POP, RP_WATCH_SAW_PAGES, RP_WATCH_SAW_ROOM };
static void rp_watch_cb(uint32_t call, uint32_t cb, uint32_t pages);
#else
#define rp_watch_cb(call, cb, pages) ((void)0)
#endif

RP_INLINE uint32_t rp_cb_ready(uint32_t cb) {
    return (uint16_t)(rp_load(rp_cb_received_reg(cb)) - RP_LOCAL->cb[cb].tiles_acked);
}
RP_INLINE uint32_t rp_cb_room(uint32_t cb) {
    uint32_t used = (uint16_t)(RP_LOCAL->cb[cb].tiles_received - rp_load(rp_cb_acked_reg(cb)));
    return RP_LOCAL->cb[cb].fifo_num_pages - used;
}

// Pages ready for the consumer; pages free for the producer.
RP_INLINE uint32_t rp_cb_available(uint32_t cb) {
    uint32_t n = rp_cb_ready(cb);
    rp_watch_cb(RP_WATCH_SAW_PAGES, cb, n);
    return n;
}
RP_INLINE uint32_t rp_cb_free(uint32_t cb) {
    uint32_t n = rp_cb_room(cb);
    rp_watch_cb(RP_WATCH_SAW_ROOM, cb, n);
    return n;
}

RP_INLINE void rp_cb_wait_front(uint32_t cb, uint32_t pages) {
    rp_watch_cb(RP_WATCH_WAIT, cb, pages);
    RP_WAIT("CWFW", cb, rp_cb_ready(cb) >= pages);
}
RP_INLINE void rp_cb_reserve_back(uint32_t cb, uint32_t pages) {
    rp_watch_cb(RP_WATCH_RESERVE, cb, pages);
    RP_WAIT("CRBW", cb, rp_cb_room(cb) >= pages);
}

// Pages may not wrap around the buffer's end: push and pop amounts that divide its size.
RP_INLINE void rp_cb_push_back(uint32_t cb, uint32_t pages) {
    rp_watch_cb(RP_WATCH_PUSH, cb, pages);
    struct rp_cb* b = &RP_LOCAL->cb[cb];
    rp_publish();
    b->tiles_received = (uint16_t)(b->tiles_received + pages);
    rp_store(rp_cb_received_reg(cb), b->tiles_received);
    b->fifo_wr_ptr += pages * b->fifo_page_size;
    if (b->fifo_wr_ptr >= b->fifo_limit) {
        b->fifo_wr_ptr -= b->fifo_size;
    }
}
RP_INLINE void rp_cb_pop_front(uint32_t cb, uint32_t pages) {
    rp_watch_cb(RP_WATCH_POP, cb, pages);
    struct rp_cb* b = &RP_LOCAL->cb[cb];
    __asm__ volatile("" ::: "memory");
    b->tiles_acked = (uint16_t)(b->tiles_acked + pages);
    rp_store(rp_cb_acked_reg(cb), b->tiles_acked);
    b->fifo_rd_ptr += pages * b->fifo_page_size;
    if (b->fifo_rd_ptr >= b->fifo_limit) {
        b->fifo_rd_ptr -= b->fifo_size;
    }
}
RP_INLINE uint32_t rp_cb_write_ptr(uint32_t cb) { return RP_LOCAL->cb[cb].fifo_wr_ptr; }
RP_INLINE uint32_t rp_cb_read_ptr(uint32_t cb) { return RP_LOCAL->cb[cb].fifo_rd_ptr; }
RP_INLINE uint32_t rp_cb_page_size(uint32_t cb) { return RP_LOCAL->cb[cb].fifo_page_size; }

// --- interleaved buffers ---------------------------------------------------------------------------------------
// A page's place: its tile's coordinate on a NoC in register form, and the address there.
struct rp_place {
    uint32_t coord;
    uint32_t addr;
};

// Page p of an interleaved buffer is in bank p mod banks, as that bank's page p div banks. page_size is the buffer's
// page size rounded up to the bank's alignment: RP_DRAM_ALIGNMENT or RP_L1_ALIGNMENT.
RP_INLINE struct rp_place rp_dram_page(uint32_t noc, uint32_t base, uint32_t page_size, uint32_t page) {
    const struct rp_bank_table* table = (const struct rp_bank_table*)RP_L1_BANK_TABLE;
    uint32_t bank = page % table->num_dram;
    struct rp_place p = {rp_noc_coord_xy(table->dram_xy[noc][bank]),
                         base + page / table->num_dram * page_size + table->dram_offset[bank]};
    return p;
}
RP_INLINE struct rp_place rp_l1_page(uint32_t noc, uint32_t base, uint32_t page_size, uint32_t page) {
    const struct rp_bank_table* table = (const struct rp_bank_table*)RP_L1_BANK_TABLE;
    uint32_t bank = page % table->num_l1;
    struct rp_place p = {rp_noc_coord_xy(table->l1_xy[noc][bank]), base + page / table->num_l1 * page_size};
    return p;
}

#if defined(REPRISE_WATCH)
#include "reprise/watch.h"
#endif

#endif
