// The times of programs: when each was started and when its workers were done, in a ring in the dispatch core's L1 that the
// host reads while nothing stops for it.
//
// The subordinate notes that a program was started, and that it is done if it sees that while it has nothing else to do, or
// before it resets the workers. Otherwise the next program was started as soon as this one was done.
#ifndef REPRISE_CQ_TIMES_H
#define REPRISE_CQ_TIMES_H

#include "cq_core.h"
#include "reprise/abi.h"

#define CQ_TIMES_ENTRIES 1024u
#define CQ_TIMES_HEADER 16u

struct cq_times_entry {
    uint32_t start_lo, start_hi;
    uint32_t done_lo, done_hi;  // earlier than the start if it was not noted
};

struct cq_times {
    uint32_t base;     // L1: how many programs were started, and after CQ_TIMES_HEADER bytes the entries
    uint32_t stream;   // that counts the completions of the newest program if it isn't known to be done, otherwise 0
    uint32_t count;    // of this stream once it is
};

RP_INLINE struct cq_times_entry* cq_times_entry(const struct cq_times* t, uint32_t n) {
    return (struct cq_times_entry*)(t->base + CQ_TIMES_HEADER) + n % CQ_TIMES_ENTRIES;
}

// cq_times_starts notes how one sees that the program that is about to be started is done: by stream, once it has reached count.
RP_INLINE void cq_times_starts(struct cq_times* t, uint32_t stream, uint32_t count) {
    t->stream = stream;
    t->count = count;
}

// cq_times_started notes when it was started.
RP_INLINE void cq_times_started(struct cq_times* t, uint64_t now) {
    uint32_t n = rp_load(t->base);
    struct cq_times_entry* e = cq_times_entry(t, n);
    rp_store((uint32_t)&e->start_lo, (uint32_t)now);
    rp_store((uint32_t)&e->start_hi, (uint32_t)(now >> 32));
    rp_store(t->base, n + 1);
}

// cq_times_done notes when the newest program was done.
CQ_SHARED void cq_times_done(struct cq_times* t) {
    uint64_t now = rp_wall_clock();
    struct cq_times_entry* e = cq_times_entry(t, rp_load(t->base) - 1);
    rp_store((uint32_t)&e->done_lo, (uint32_t)now);
    rp_store((uint32_t)&e->done_hi, (uint32_t)(now >> 32));  // until then it isn't later than the start
    t->stream = 0;
}

// cq_times_look notes that the newest program is done, if it is.
RP_INLINE void cq_times_look(struct cq_times* t) {
    if (t->stream != 0 && rp_stream_reached(rp_stream_available(t->stream), t->count)) {
        cq_times_done(t);
    }
}

#endif
