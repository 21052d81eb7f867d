// The dispatcher's subordinate: sends go signals, so that the dispatcher can prepare the next program while this core
// waits for the workers to finish the last one.
//
// It runs on the second data-movement processor of the dispatch core, with a NoC of its own. It must not start a
// program whose data the dispatcher hasn't delivered: the dispatcher counts what is safe in a sync word for each
// sub-device, and each go signal uses one up. Both see the same completion streams; the dispatcher clears them.
#include "cq_args.h"
#include "cq_commands.h"
#include "cq_go.h"
#include "cq_ring.h"

#define NOC 1u
#define MAX_SYNC_WORDS 8u

static struct cq_subordinate_args args;
static struct cq_go go;
static uint32_t pages_taken;
static uint32_t cursor;
static uint32_t gos_sent[MAX_SYNC_WORDS];

static void wait_page(void) {
    uint32_t word = cq_own_semaphore(CQ_SEM_SUBORDINATE_PAGES);
    rp_invalidate_l1();
    if (rp_load(word) == pages_taken) {
        rp_waypoint("IDLE");
        do {
            rp_invalidate_l1();
        } while (rp_load(word) == pages_taken);
        rp_waypoint("RUN ");
    }
    pages_taken++;
}

// The page's bytes may still be on their way out as the source of a go signal.
static void return_page(void) {
    rp_noc_write_flush(NOC);
    rp_noc_atomic_inc(NOC, rp_noc_coord_xy(args.prefetch_xy),
                      cq_semaphore(args.prefetch_sem_base, CQ_SEM_SUBORDINATE_CREDITS), 1);
    cursor += 1u << CQ_SUBORDINATE_PAGE_LOG;
    if (cursor == args.ring + (args.ring_pages << CQ_SUBORDINATE_PAGE_LOG)) {
        cursor = args.ring;
    }
}

static void wait_sync(uint32_t index) {
    uint32_t word = args.sync_base + CQ_SYNC_STRIDE * index;
    rp_invalidate_l1();
    if ((int32_t)(rp_load(word) - gos_sent[index]) <= 0) {
        rp_waypoint_detail("SYNC", index);
        do {
            rp_invalidate_l1();
        } while ((int32_t)(rp_load(word) - gos_sent[index]) <= 0);
        rp_waypoint("RUN ");
    }
    gos_sent[index]++;
}

static void send_go(void) {
    const struct cq_send_go* c = (const struct cq_send_go*)cursor;
    uint32_t index = c->wait_stream - args.first_stream;
    if (index >= MAX_SYNC_WORDS) {
        cq_park(CQ_BAD_LENGTH, rp_load(cursor));
    }
    wait_sync(index);
    cq_send_go(&go, NOC, cursor);
}

static void set_noc_data(void) {
    const struct cq_set_words* c = (const struct cq_set_words*)cursor;
    uint32_t words = c->count;
    if (words > ((1u << CQ_SUBORDINATE_PAGE_LOG) - CQ_HEADER_BYTES) / 4) {
        cq_park(CQ_BAD_LENGTH, rp_load(cursor));
    }
    cq_copy_noc_data(&go, cursor + CQ_HEADER_BYTES, words);
}

// Only hosts whose subordinate is a core of its own send this, to clear its streams. Here the streams are the
// dispatcher's, which clears them when it is told itself: clearing them twice would lose what came in between.
static void wait(void) {
    const struct cq_wait* c = (const struct cq_wait*)cursor;
    cq_wait_stream(c->stream, c->count);
}

// Runs the command at the cursor. Returns 0 after the last one.
static int run_command(void) {
    switch (*(const uint8_t*)cursor) {
    case CQ_DISPATCH_SEND_GO_SIGNAL:
        send_go();
        return 1;
    case CQ_DISPATCH_SET_GO_SIGNAL_NOC_DATA:
        set_noc_data();
        return 1;
    case CQ_DISPATCH_SET_NUM_WORKER_SEMS:
        return 1;  // how many streams to mirror on another core's dispatcher: none
    case CQ_DISPATCH_WAIT:
        wait();
        return 1;
    case CQ_DISPATCH_TERMINATE:
        return 0;
    default:
        cq_park(CQ_BAD_COMMAND, rp_load(cursor));
    }
}

void kernel_main(void) {
    int more;
    cq_load_args((uint32_t*)&args, sizeof(args));
    go.address = args.go_address;
    go.rect = rp_noc_rect(NOC, args.workers_start_xy, args.workers_end_xy);
    go.workers = args.num_workers;
    cursor = args.ring;
    do {
        wait_page();
        more = run_command();
        return_page();
    } while (more);
    rp_waypoint("TERM");
    rp_noc_full_barrier(NOC);
}
