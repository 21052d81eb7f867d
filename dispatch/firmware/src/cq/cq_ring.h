// The rings between the prefetcher and the two dispatchers.
//
// A ring is a number of pages in the consumer's L1. Two semaphores guard it, each of which only ever grows, so that
// neither side has to know the other's pointers: the producer's counts pages that it may use (the whole ring at the
// start), the consumer's counts pages that are filled. Both sides compare with a private count of what they have
// used up, modulo 2^32.
//
// A command begins at a page, and its last page is used up to the end: a page belongs to one command.
#ifndef REPRISE_CQ_RING_H
#define REPRISE_CQ_RING_H

#include "cq_args.h"
#include "cq_core.h"
#include "reprise/noc.h"

// --- producer ----------------------------------------------------------------------------------------------------

struct cq_ring_writer {
    uint32_t base, end;
    uint32_t page_log;
    uint32_t coord;      // the consumer
    uint32_t buf;        // command buffer whose state points there
    uint32_t credits;    // own semaphore
    uint32_t published;  // the consumer's semaphore
    uint32_t limit;      // what it held when last polled
    uint32_t taken;      // pages ever acquired
    uint32_t cursor;     // where the next byte goes
    uint32_t room;       // acquired bytes from cursor on
    uint32_t unpublished;  // pages acquired and not yet published
};

RP_INLINE void cq_ring_writer_init(struct cq_ring_writer* w, uint32_t noc) {
    w->cursor = w->base;
    rp_noc_write_state(noc, w->buf, RP_WRITE, w->coord, 0);
}

RP_INLINE int cq_ring_suffices(const struct cq_ring_writer* w, uint32_t limit, uint32_t pages) {
    return (int32_t)(limit - w->taken - pages) >= 0;
}

// Looks at the semaphore, which is a trip to L1, until it allows pages more pages.
CQ_SHARED void cq_ring_wait_credits(struct cq_ring_writer* w, uint32_t pages) {
    rp_invalidate_l1();
    uint32_t limit = rp_load(w->credits);
    if (!cq_ring_suffices(w, limit, pages)) {
        rp_waypoint_detail("RING", pages);
        do {
            rp_invalidate_l1();
            limit = rp_load(w->credits);
        } while (!cq_ring_suffices(w, limit, pages));
        rp_waypoint("RUN ");
    }
    w->limit = limit;
}

// cq_ring_reserve makes sure that bytes more bytes can be written, and waits for the consumer if need be.
RP_INLINE void cq_ring_reserve(struct cq_ring_writer* w, uint32_t bytes) {
    if (bytes <= w->room) {
        return;
    }
    uint32_t pages = ((bytes - w->room - 1) >> w->page_log) + 1;
    if (!cq_ring_suffices(w, w->limit, pages)) {
        cq_ring_wait_credits(w, pages);
    }
    w->taken += pages;
    w->unpublished += pages;
    w->room += pages << w->page_log;
}

// cq_ring_write sends bytes for which there is room. The source must stay until the writes are flushed.
CQ_SHARED void cq_ring_write(struct cq_ring_writer* w, uint32_t noc, uint32_t l1, uint32_t bytes) {
    w->room -= bytes;
    while (bytes != 0) {
        uint32_t n = cq_min(bytes, w->end - w->cursor);
        rp_noc_write_any_with_state(noc, w->buf, RP_WRITE, w->cursor, l1, n, 1);
        l1 += n;
        bytes -= n;
        w->cursor += n;
        if (w->cursor == w->end) {
            w->cursor = w->base;
        }
    }
}

// The ring whose semaphore the atomic buffer's registers lead to, as rp_noc_atomic_inc sets them: they keep what isn't stored
// anew. A kernel that writes to rings sends no other atomics.
static const struct cq_ring_writer* cq_ring_publishes;

CQ_SHARED void cq_ring_publish_state(const struct cq_ring_writer* w, uint32_t noc) {
    rp_noc_ready(noc, RP_BUF_ATOMIC);
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_TARG_LO, w->published);
    rp_noc_set_targ(noc, RP_BUF_ATOMIC, w->coord, 0);
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_CTRL,
               RP_CTRL_ATOMIC | RP_CTRL_RESP | RP_CTRL_VC_STATIC | RP_CTRL_VC(RP_VC_UNICAST));
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_LEN_BE, 1u << 12 | 31u << 2 | ((w->published >> 2) & 3u));
    cq_ring_publishes = w;
}

// No barrier and no flush in front of the increment: it follows the writes to the same tile on the same static
// virtual channel, where nothing overtakes (tt-isa-documentation WormholeB0/NoC/Ordering.md).
RP_INLINE void cq_ring_publish_some(struct cq_ring_writer* w, uint32_t noc, uint32_t pages) {
    if (cq_ring_publishes != w) {
        cq_ring_publish_state(w, noc);
    }
    rp_noc_ready(noc, RP_BUF_ATOMIC);
    rp_noc_set(noc, RP_BUF_ATOMIC, RP_NOC_AT_DATA, pages);
    rp_noc_send(noc, RP_BUF_ATOMIC);
    RP_LOCAL->nonposted_atomics_acked[noc]++;
}

RP_INLINE void cq_ring_publish(struct cq_ring_writer* w, uint32_t noc, uint32_t pages) {
    if (pages != 0) {
        cq_ring_publish_some(w, noc, pages);
        w->unpublished -= pages;
    }
}

// cq_ring_publish_full publishes the pages that are full, so that the consumer can begin on a long command.
RP_INLINE void cq_ring_publish_full(struct cq_ring_writer* w, uint32_t noc) {
    uint32_t page = 1u << w->page_log;
    cq_ring_publish(w, noc, w->unpublished - ((w->room + page - 1) >> w->page_log));
}

// cq_ring_finish ends a command: the rest of its last page stays unused.
CQ_SHARED void cq_ring_finish(struct cq_ring_writer* w, uint32_t noc) {
    w->cursor += w->room;
    w->room = 0;
    if (w->cursor == w->end) {
        w->cursor = w->base;
    }
    cq_ring_publish(w, noc, w->unpublished);
}

// cq_ring_write_whole writes and publishes a command of its own pages if one request can carry it there, and returns
// whether it did: the short way of cq_ring_reserve, cq_ring_write and cq_ring_finish. buf and page_log are the writer's, as
// constants.
RP_INLINE int cq_ring_write_whole(struct cq_ring_writer* w, uint32_t noc, uint32_t buf, uint32_t page_log, uint32_t l1,
                                  uint32_t bytes) {
    uint32_t cursor = w->cursor;
    uint32_t pages = (bytes + (1u << page_log) - 1) >> page_log;
    uint32_t next = cursor + (pages << page_log);
    // bytes - 1: none at all take the long way too.
    if (w->room != 0 || bytes - 1 >= RP_NOC_MAX_BURST || next > w->end) {
        return 0;
    }
    if (!cq_ring_suffices(w, w->limit, pages)) {
        cq_ring_wait_credits(w, pages);
    }
    w->taken += pages;
    w->cursor = next == w->end ? w->base : next;
    rp_noc_write_with_state(noc, buf, RP_WRITE, cursor, l1, bytes, 1);
    cq_ring_publish_some(w, noc, pages);
    return 1;
}

// cq_ring_drain waits until the consumer has returned every page.
RP_INLINE void cq_ring_drain(struct cq_ring_writer* w) { cq_ring_wait_credits(w, (w->end - w->base) >> w->page_log); }

// --- consumer ----------------------------------------------------------------------------------------------------

// The reader returns pages by the block. What it reads is mostly sent on by the NoC straight out of the ring, so a
// block may go back only when the writes out of it have left. Waiting for them at the block's end would stop the
// pipeline; they have left for sure when the next block has been worked through, so a block is held that long. This
// withholds up to two blocks from the producer.
struct cq_ring_reader {
    uint32_t base, end;
    uint32_t block_bytes;
    uint32_t pages_word;  // own semaphore
    uint32_t coord;       // the producer
    uint32_t credits;     // its semaphore
    uint32_t arrived;     // pages ever published, as last seen
    uint32_t taken;       // pages ever taken, up to fence
    uint32_t cursor;      // next byte to use
    uint32_t fence;       // bytes up to here have arrived; never past block_end
    uint32_t block_end;
    int holding;
};

RP_INLINE void cq_ring_reader_init(struct cq_ring_reader* r) {
    r->cursor = r->base;
    r->fence = r->base;
    r->block_end = r->base + r->block_bytes;
}

RP_INLINE void cq_ring_return(struct cq_ring_reader* r, uint32_t noc, uint32_t bytes) {
    rp_noc_atomic_inc(noc, r->coord, r->credits, bytes >> CQ_PAGE_LOG);
}

// The wait is for later writes too, once for each block: nothing tells which writes' data have been read.
RP_INLINE void cq_ring_return_held(struct cq_ring_reader* r, uint32_t noc) {
    if (r->holding) {
        rp_noc_id_write_flush(noc, 0);
        cq_ring_return(r, noc, r->block_bytes);
    }
}

RP_INLINE void cq_ring_next_block(struct cq_ring_reader* r, uint32_t noc) {
    cq_ring_return_held(r, noc);
    r->holding = 1;
    if (r->block_end == r->end) {
        r->block_end = r->base;
        r->cursor = r->base;
        r->fence = r->base;
    }
    r->block_end += r->block_bytes;
}

RP_INLINE void cq_ring_take(struct cq_ring_reader* r) {
    if (r->arrived == r->taken) {
        rp_invalidate_l1();
        r->arrived = rp_load(r->pages_word);
        if (r->arrived == r->taken) {
            rp_waypoint("IDLE");
            uint32_t arrived;
            do {
                rp_invalidate_l1();
                arrived = rp_load(r->pages_word);
            } while (arrived == r->taken);
            r->arrived = arrived;
            rp_waypoint("RUN ");
        }
    }
    uint32_t pages = cq_min(r->arrived - r->taken, (r->block_end - r->fence) >> CQ_PAGE_LOG);
    r->taken += pages;
    r->fence += pages << CQ_PAGE_LOG;
}

CQ_SHARED void cq_ring_more(struct cq_ring_reader* r, uint32_t noc) {
    if (r->fence == r->block_end) {
        cq_ring_next_block(r, noc);
    }
    cq_ring_take(r);
}

// cq_ring_wait returns how many bytes lie at the cursor, at least one, and waits for the producer if need be. A
// command's bytes follow each other from one call to the next, although the ring wraps in between.
RP_INLINE uint32_t cq_ring_wait(struct cq_ring_reader* r, uint32_t noc) {
    if (r->cursor == r->fence) {
        cq_ring_more(r, noc);
    }
    return r->fence - r->cursor;
}

// cq_ring_here says how many bytes lie at the cursor without waiting for more.
RP_INLINE uint32_t cq_ring_here(const struct cq_ring_reader* r) { return r->fence - r->cursor; }

CQ_SHARED void cq_ring_skip_on(struct cq_ring_reader* r, uint32_t noc, uint32_t bytes) {
    while (bytes != 0) {
        uint32_t n = cq_min(bytes, cq_ring_wait(r, noc));
        r->cursor += n;
        bytes -= n;
    }
}

RP_INLINE void cq_ring_skip(struct cq_ring_reader* r, uint32_t noc, uint32_t bytes) {
    if (bytes <= cq_ring_here(r)) {
        r->cursor += bytes;
    } else {
        cq_ring_skip_on(r, noc, bytes);
    }
}

// cq_ring_end_command moves to the next page, where the next command begins.
RP_INLINE void cq_ring_end_command(struct cq_ring_reader* r) { r->cursor = cq_align(r->cursor, 1u << CQ_PAGE_LOG); }

// cq_ring_return_all returns everything that was used, for good.
RP_INLINE void cq_ring_return_all(struct cq_ring_reader* r, uint32_t noc) {
    rp_noc_write_flush(noc);
    cq_ring_return_held(r, noc);
    uint32_t used = r->cursor - (r->block_end - r->block_bytes);
    if (used != 0) {
        cq_ring_return(r, noc, used);
    }
}

#endif
