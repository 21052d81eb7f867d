// Control flow in a trace: loops, conditions, and calls of other traces. Part of prefetch.c.
//
// The host sees the loops in this core's L1, and asks there for a replay to end early: it stores the number of the newest
// replay that it has given to the queue. Loops end only where one iteration's programs are done, all counts are as the
// trace began with, and nothing of the next iteration was sent, so a replay that ends there leaves the queue as it leaves
// it at its end.
#ifndef REPRISE_CQ_PREFETCH_CONTROL_H
#define REPRISE_CQ_PREFETCH_CONTROL_H

#include "cq_prefetch_input.h"
#include "cq_ring.h"

struct cq_loop {
    uint32_t loop;   // its number in its trace
    uint32_t left;   // iterations, with the present one
    uint32_t count;  // of iterations, or the most of them
    uint32_t replay; // the trace it is in: address in every bank
};

// What host and prefetcher tell each other, at args.control.
struct cq_control {
    uint32_t abort;    // written by the host: replays up to this number end at the next end of an iteration
    uint32_t aborted;  // how many replays have
    uint32_t replays;  // begun so far, with the present one
    uint32_t depth;    // of loops
    struct cq_loop loops[CQ_LOOPS];
    uint32_t log_limit;     // written by the host: entries that the log has room for; 0 = no log
    uint32_t log_xy;        // written by the host: the tile that has the log
    uint32_t log_addr;      // written by the host: where it begins
    uint32_t logged;        // entries since the host has stored 0 here, with those that there was no room for
    struct cq_stamp stamp;  // the newest entry, on its way to the dispatcher
    uint8_t word[64];  // where the word of a condition lands, with the same low bits as its address
};

_Static_assert(offsetof(struct cq_control, word) % 64 == 0, "word is no unit of the NoC");
_Static_assert(offsetof(struct cq_control, stamp) % 16 == 0, "stamp is not aligned as a page of the ring");

static struct cq_ring_writer master;  // the ring of the dispatcher

// Traces that have called the present one.
static struct {
    uint32_t base, page_log, count;
    uint32_t resume;  // offset of the next command
} calls[CQ_CALLS];
static uint32_t call_depth;

static uint32_t loop_depth;
static uint32_t branch_word;  // that a BRANCH has compared last

static volatile struct cq_control* control(void) { return (volatile struct cq_control*)args.control; }

// Returns the loop at a level: 1 for the innermost, 2 for the one around it.
static volatile struct cq_loop* loop_at(uint32_t level) {
    if (loop_depth < level) {
        cq_park(CQ_BAD_COMMAND, first_word());
    }
    return &control()->loops[loop_depth - level];
}

static volatile struct cq_loop* innermost(void) { return loop_at(1); }

static void set_loop_depth(uint32_t depth) {
    loop_depth = depth;
    control()->depth = depth;
}

// Has the dispatcher write an entry of the log, with the time at which everything before is done.
CQ_SHARED void log_entry(uint32_t turn) {
    volatile struct cq_control* s = control();
    uint32_t n = s->logged;
    if (n < s->log_limit) {
        rp_noc_write_flush(NOC);  // the entry before has left
        *(volatile uint32_t*)&s->stamp = CQ_DISPATCH_STAMP;
        s->stamp.noc = s->log_xy;
        s->stamp.addr = s->log_addr + n * (sizeof s->stamp - CQ_HEADER_BYTES);
        s->stamp.trace = trace.base;
        s->stamp.what = (trace.at + (commands.ptr - trace.part)) | turn;
        rp_l1_commit((uint32_t)&s->stamp.what);
        cq_ring_reserve(&master, sizeof s->stamp);
        cq_ring_write(&master, NOC, (uint32_t)&s->stamp, sizeof s->stamp);
        cq_ring_finish(&master, NOC);
    }
    s->logged = n + 1;
}

RP_INLINE void log_turn(uint32_t turn) {
    if (control()->log_limit != 0) {
        log_entry(turn);
    }
}

// Goes on at an offset in the trace: in the part at hand, as short loops do, or by reading from there on.
static void trace_seek(uint32_t to) {
    uint32_t in_part = to - trace.at;
    if (in_part < commands.end - trace.part) {
        commands.ptr = trace.part + in_part;
        return;
    }
    uint32_t page = to >> trace.page_log;
    if (page >= trace.count) {
        cq_park(CQ_BAD_TRACE, to);
    }
    wait_reads(READ_TRACE);  // the part being read ahead would land on the new one
    trace_read_from(page);
    trace_advance();
    commands.ptr += to - trace.at;
}

static void need_trace(void) {
    if (!trace.active) {
        cq_park(CQ_BAD_STALL, first_word());
    }
}

static void loop_begin(void) {
    const struct cq_loop_begin* c = (const struct cq_loop_begin*)commands.ptr;
    need_trace();
    if (c->count == 0) {
        trace_seek(c->exit);
        return;
    }
    if (loop_depth == CQ_LOOPS) {
        cq_park(CQ_BAD_LENGTH, first_word());
    }
    volatile struct cq_loop* l = &control()->loops[loop_depth];
    l->loop = c->loop;
    l->left = c->count;
    l->count = c->count;
    l->replay = trace.base;
    set_loop_depth(loop_depth + 1);
    log_turn(CQ_TURN_LOOP);
    command_end_bare();
}

// Ends the replay where an iteration has ended.
static void abort_replay(void) {
    volatile struct cq_control* s = control();
    log_turn(CQ_TURN_ABORT);
    s->aborted = s->aborted + 1;
    set_loop_depth(0);
    call_depth = 0;
    trace_stop();
}

static void loop_end(void) {
    const struct cq_loop_end* c = (const struct cq_loop_end*)commands.ptr;
    need_trace();
    volatile struct cq_loop* l = innermost();
    uint32_t limited = c->limited & CQ_FLOW_LIMITED, body = c->body;
    rp_invalidate_l1();
    if ((int32_t)(control()->abort - control()->replays) >= 0) {
        abort_replay();
        return;
    }
    log_turn(CQ_TURN_NEXT);
    uint32_t left = l->left - 1;
    l->left = left;
    if (left == 0 && !limited) {
        set_loop_depth(loop_depth - 1);
        command_end_bare();
    } else {
        trace_seek(body);
    }
}

static uint32_t read_word(uint32_t coord, uint32_t addr) {
    uint32_t at = (uint32_t)control()->word + (addr & (sizeof control()->word - 4));
    rp_noc_set_id(NOC, RP_BUF_READ, READ_DATA);
    read_l1(coord, addr, at, 4);
    wait_reads(READ_DATA);
    rp_invalidate_l1();
    return rp_load(at);
}

static int compare(uint32_t how, uint32_t word, uint32_t value) {
    switch (how) {
    case CQ_NEVER:
        return 0;
    case CQ_EQUAL:
        return word == value;
    case CQ_NOT_EQUAL:
        return word != value;
    case CQ_LESS:
        return word < value;
    case CQ_LESS_EQUAL:
        return word <= value;
    case CQ_GREATER:
        return word > value;
    case CQ_GREATER_EQUAL:
        return word >= value;
    case CQ_ANY_SET:
        return (word & value) != 0;
    case CQ_NONE_SET:
        return (word & value) == 0;
    default:
        cq_park(CQ_BAD_COMMAND, first_word());
    }
}

static void branch(void) {
    const struct cq_branch* c = (const struct cq_branch*)commands.ptr;
    uint32_t flags = c->flags, how = c->compare;
    need_trace();
    if (c->level != 0) {
        volatile struct cq_loop* l = loop_at(c->level);
        branch_word = l->count - l->left;
    } else if (how != CQ_NEVER && !(flags & CQ_FLOW_SAME)) {
        branch_word = read_word(c->noc, c->addr);
    }
    if (compare(how, branch_word, c->value)) {
        if (flags & CQ_FLOW_LIMITED) {
            volatile struct cq_loop* l = innermost();
            if (l->left == 0) {
                cq_park(CQ_BAD_LOOP, l->loop);
            }
        } else {
            log_turn(CQ_TURN_TAKE);
        }
        command_end_bare();
        return;
    }
    if (flags & CQ_FLOW_LEAVE) {
        (void)innermost();
        set_loop_depth(loop_depth - 1);
        log_turn(CQ_TURN_LEAVE);
    } else {
        log_turn(how == CQ_NEVER ? CQ_TURN_JOIN : CQ_TURN_ELSE);
    }
    trace_seek(c->otherwise);
}

static void call_trace(void) {
    const struct cq_exec_buf* c = (const struct cq_exec_buf*)commands.ptr;
    uint32_t base = c->base, page_log = c->log2_page, pages = c->pages;
    need_trace();
    check_trace_pages(page_log, pages);
    if (call_depth == CQ_CALLS) {
        cq_park(CQ_BAD_LENGTH, first_word());
    }
    log_turn(CQ_TURN_CALL);
    calls[call_depth].base = trace.base;
    calls[call_depth].page_log = trace.page_log;
    calls[call_depth].count = trace.count;
    calls[call_depth].resume = trace.at + (commands.ptr - trace.part) + RP_PCIE_ALIGNMENT;
    call_depth++;
    wait_reads(READ_TRACE);
    trace_start(base, page_log, pages);
}

// Ends the present trace: goes on in the one that called it, or with the commands of the host.
static void trace_return(void) {
    if (call_depth == 0) {
        trace_stop();
        return;
    }
    call_depth--;
    wait_reads(READ_TRACE);
    uint32_t resume = calls[call_depth].resume;
    trace.base = calls[call_depth].base;
    trace.page_log = calls[call_depth].page_log;
    trace.count = calls[call_depth].count;
    trace.end = args.buffer + (args.buffer_size >> trace.page_log << trace.page_log);
    trace_read_from(resume >> trace.page_log);
    trace_advance();
    commands.ptr += resume - trace.at;
    log_turn(CQ_TURN_RETURN);
}

#endif
