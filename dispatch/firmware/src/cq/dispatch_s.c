// The dispatcher's subordinate: sends go signals, so that the dispatcher can prepare the next program while this core
// waits for the workers to finish the last one.
//
// It runs on the second data-movement processor of the dispatch core, with a NoC of its own. It must not start a
// program whose data the dispatcher hasn't delivered: the dispatcher counts what is safe in a sync word for each
// sub-device, and each go signal uses one up. Both see the same completion streams; the dispatcher clears them.
//
// Commands come from two sides: from the prefetcher, a page each, and from the dispatcher, which has waited for their data
// already. Go signals go out in the order in which the dispatcher got the one and the permission for the other: what it hands
// over says how many permissions it had given before.
#include "cq_args.h"
#include "cq_commands.h"
#include "cq_go.h"
#include "cq_forward.h"
#include "cq_ring.h"
#include "cq_times.h"

#define NOC 1u
#define MAX_SYNC_WORDS 8u

static struct cq_subordinate_args args;
static struct cq_go go;
static struct cq_times times;
static uint32_t pages_taken;
static uint32_t cursor;
static uint32_t forwarded_taken;
static uint32_t gos_sent[MAX_SYNC_WORDS];

static int run_forwarded(void);

// Whether the dispatcher has forwarded a command whose turn it is.
static int forwarded_ready(void) {
    if (rp_load(args.forwarded) == forwarded_taken) {
        return 0;
    }
    uint32_t at = cq_forward_entry(args.forwarded, forwarded_taken);
    uint32_t index = cq_sync_index((const struct cq_send_go_signal*)at, args.first_stream);
    return (int32_t)(rp_load(at + CQ_FORWARDED_SYNC) - gos_sent[index]) <= 0;
}

enum input { NOTHING, PAGE, FORWARDED };

static enum input look(void) {
    rp_invalidate_l1();
    if (rp_load(cq_own_semaphore(CQ_SEM_SUBORDINATE_PAGES)) != pages_taken) {
        return PAGE;
    }
    return forwarded_ready() ? FORWARDED : NOTHING;
}

static enum input wait_input(void) {
    enum input in = look();
    if (in == NOTHING) {
        rp_waypoint("IDLE");
        do {
            cq_times_look(&times);
            in = look();
        } while (in == NOTHING);
        rp_waypoint("RUN ");
    }
    return in;
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

// What the dispatcher has forwarded before it counted the sync word goes out first.
static void wait_sync(uint32_t index) {
    uint32_t word = args.sync_base + CQ_SYNC_STRIDE * index;
    int waiting = 0;
    for (;;) {
        rp_invalidate_l1();
        int reached = (int32_t)(rp_load(word) - gos_sent[index]) > 0;
        if (forwarded_ready()) {
            run_forwarded();
        } else if (reached) {
            break;
        } else if (!waiting) {
            rp_waypoint_detail("SYNC", index);
            waiting = 1;
        }
    }
    if (waiting) {
        rp_waypoint("RUN ");
    }
    gos_sent[index]++;
}

// Sends what is no program, but also waits for those before.
CQ_SHARED void reset(uint32_t command) {
    cq_send_go(&go, NOC, command, 0);
    if (times.stream != 0) {
        cq_times_done(&times);
    }
}

// Starts a program and notes when.
CQ_SHARED void start(uint32_t command) {
    const struct cq_send_go_signal* c = (const struct cq_send_go_signal*)command;
    if (c->go[3] != RP_SIGNAL_GO) {
        reset(command);
        return;
    }
    cq_times_starts(&times, c->wait_stream, c->wait_count + go.workers);
    cq_times_started(&times, cq_send_go(&go, NOC, command, 1));
}

static void send_go(void) {
    const struct cq_send_go_signal* c = (const struct cq_send_go_signal*)cursor;
    uint32_t index = c->wait_stream - args.first_stream;
    if (index >= MAX_SYNC_WORDS) {
        cq_park(CQ_BAD_LENGTH, rp_load(cursor));
    }
    wait_sync(index);
    start(cursor);
}

// Runs the command that the dispatcher has forwarded. Returns 0 after the last one. The command's place goes back when
// what is sent out of it has left.
static int run_forwarded(void) {
    uint32_t at = cq_forward_entry(args.forwarded, forwarded_taken);
    uint8_t id = *(const uint8_t*)at;
    if (id == CQ_DISPATCH_SEND_GO_SIGNAL) {
        start(at);
        rp_noc_write_flush(NOC);
    } else if (id != CQ_DISPATCH_TERMINATE) {
        cq_park(CQ_BAD_COMMAND, rp_load(at));
    }
    forwarded_taken++;
    rp_store(args.forwarded + CQ_FORWARDED_TAKEN, forwarded_taken);
    return id != CQ_DISPATCH_TERMINATE;
}

static void set_noc_data(void) {
    const struct cq_set_go_signal_noc_data* c = (const struct cq_set_go_signal_noc_data*)cursor;
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
    times.base = args.times;
    do {
        if (wait_input() == FORWARDED) {
            more = run_forwarded();
            continue;
        }
        pages_taken++;
        more = run_command();
        return_page();
    } while (more);
    rp_waypoint("TERM");
    rp_noc_full_barrier(NOC);
}
