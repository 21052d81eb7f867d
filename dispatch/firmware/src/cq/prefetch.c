// The prefetcher: brings commands from host memory, or from a trace in DRAM, to the dispatcher.
//
// The host writes commands into the issue queue in its own memory and then their length into the fetch queue in this
// core's L1. The prefetcher reads them over PCIe into the command-data buffer and runs them: most relay their payload
// into a ring of the dispatcher (or of its subordinate, which sends go signals), some add data from DRAM. EXEC_BUF
// makes it read its commands from a trace until EXEC_BUF_END. A PCIe read takes microseconds, so one is always
// under way while the commands before it run.
#include "cq_args.h"
#include "cq_commands.h"
#include "cq_prefetch_control.h"
#include "cq_prefetch_input.h"
#include "cq_prefetch_source.h"
#include "cq_ring.h"

static struct cq_ring_writer subordinate;

// The ring buffer cache: offsets from its base.
static struct {
    uint32_t write, read;
} cache;

static uint32_t stalls;  // STALL commands so far

// --- relaying data -------------------------------------------------------------------------------------------------

// Relays a source after the header that RELAY_INLINE_NOFLUSH has put at the start of a page. One half of the
// scratch memory fills while the other one is being sent.
static void relay(struct source* s, uint64_t bytes) {
    uint32_t half = args.scratch_size / 2;
    uint32_t to = args.scratch, from = 0, filled = 0;
    data_barrier();  // a read for the ring buffer cache may be on its way to the same memory
    do {
        rp_noc_write_flush(NOC);
        uint32_t reading = 0, skew = 0;
        if (bytes != 0) {
            source_ready(s);
            // The NoC wants source and destination to agree in their low bits.
            skew = (uint32_t)s->addr & (RP_DRAM_ALIGNMENT - 1);
            reading = bytes < half - skew ? (uint32_t)bytes : half - skew;
            source_read(s, to + skew, reading);
            bytes -= reading;
        }
        if (filled != 0) {
            cq_ring_reserve(&master, filled);
            cq_ring_write(&master, NOC, from, filled);
            if (reading != 0) {
                cq_ring_publish_full(&master, NOC);
            }
        }
        data_barrier();
        from = to + skew;
        filled = reading;
        to = to == args.scratch ? args.scratch + half : args.scratch;
    } while (filled != 0);
    cq_ring_finish(&master, NOC);
}

// --- commands ------------------------------------------------------------------------------------------------------

CQ_SHARED void relay_linear(void) {
    const struct cq_relay_linear* c = (const struct cq_relay_linear*)commands.ptr;
    struct source s = {.kind = SOURCE_LINEAR, .coord = cq_u32(c->noc), .addr = cq_u64(c->addr)};
    uint64_t bytes = cq_u64(c->length);
    command_end_bare();
    source_linear_run(&s);
    relay(&s, bytes);
}

CQ_SHARED void relay_linear_h(void) {
    const struct cq_relay_linear_h* c = (const struct cq_relay_linear_h*)commands.ptr;
    struct source s = {.kind = SOURCE_LINEAR, .coord = c->noc, .addr = cq_pair(c->addr_lo, c->addr_hi)};
    uint32_t bytes = c->length;
    command_end_bare();
    source_linear_run(&s);
    relay(&s, bytes);
}

CQ_SHARED void relay_paged(void) {
    const struct cq_relay_paged* c = (const struct cq_relay_paged*)commands.ptr;
    struct source s = {.kind = SOURCE_PAGED};
    uint64_t bytes = (uint64_t)c->pages * c->page_size;
    uint32_t adjust = c->flags & CQ_RELAY_PAGED_LENGTH_ADJUST;
    if (bytes < adjust) {
        cq_park(CQ_BAD_LENGTH, first_word());
    }
    bytes -= adjust;
    cq_pages_start(&s.pages, (c->flags & CQ_RELAY_PAGED_DRAM) != 0, c->base, c->page_size, c->start);
    command_end_bare();
    source_page(&s);
    relay(&s, bytes);
}

// Does for a RELAY_PAGED_PACKED of one sub-command what relay does, in few instructions, if all of the command is at hand and
// half of the scratch memory holds its data. Returns whether it did.
static int relay_one_packed(const struct cq_relay_paged_packed* c) {
    const struct cq_relay_paged_packed_sub* sub = (const struct cq_relay_paged_packed_sub*)(c + 1);
    uint32_t at = commands.ptr, stride = c->stride, bytes = c->total;
    if (c->count != 1 || stride > commands.end - at || stride < sizeof *c + sizeof *sub) {
        return 0;
    }
    uint32_t base = sub->base, page_log = sub->log2_page;
    if (bytes == 0 || bytes > sub->length || bytes > args.scratch_size / 2 || (base & (RP_DRAM_ALIGNMENT - 1)) != 0 ||
        bytes >> page_log >= MAX_OPEN_READS || 1u << page_log > RP_NOC_MAX_BURST) {
        return 0;
    }
    struct cq_pages pages;
    cq_pages_start(&pages, 1, base, 1u << page_log, sub->start);
    commands.ptr = at + stride;
    data_barrier();
    rp_noc_write_flush(NOC);
    rp_noc_set_id(NOC, RP_BUF_READ, READ_DATA);
    uint32_t whole = read_whole_pages(&pages, args.scratch, bytes);
    if (whole != bytes) {
        rp_noc_read_packet(NOC, cq_pages_coord(&pages, NOC), cq_pages_address(&pages), args.scratch + whole, bytes - whole);
    }
    wait_reads(READ_DATA);
    cq_ring_reserve(&master, bytes);
    cq_ring_write(&master, NOC, args.scratch, bytes);
    cq_ring_finish(&master, NOC);
    return 1;
}

CQ_SHARED void relay_paged_packed(void) {
    const struct cq_relay_paged_packed* c = (const struct cq_relay_paged_packed*)commands.ptr;
    if (relay_one_packed(c)) {
        return;
    }
    uint32_t bytes = c->total, stride = c->stride;
    uint32_t table_bytes = c->count * sizeof(struct cq_relay_paged_packed_sub);
    struct source s = {.kind = SOURCE_PAGED_PACKED, .subs = c->count};
    command_skip(CQ_HEADER_BYTES);
    command_copy_table(table_bytes);
    command_end(stride, CQ_HEADER_BYTES + table_bytes);
    s.sub = (const struct cq_relay_paged_packed_sub*)table;
    source_sub(&s);
    relay(&s, bytes);
}

// Does for a RELAY_INLINE to the dispatcher what relay_inline does, in few instructions, if all of the command is at hand and
// one request carries its payload, as for nearly every command. Returns whether it did.
RP_INLINE int relay_inline_whole(void) {
    struct cq_ring_writer* w = &master;
    uint32_t at = commands.ptr;
    const struct cq_relay_inline* c = (const struct cq_relay_inline*)at;
    uint32_t length = c->length, stride = c->stride;
    if (stride > commands.end - at || length > stride - CQ_HEADER_BYTES || stride < CQ_HEADER_BYTES ||
        !cq_ring_write_whole(w, NOC, RP_BUF_WRITE, CQ_PAGE_LOG, at + CQ_HEADER_BYTES, length)) {
        return 0;
    }
    commands.ptr = at + stride;
    return 1;
}

// The same for RELAY_INLINE_NOFLUSH.
RP_INLINE int relay_inline_open(void) {
    struct cq_ring_writer* w = &master;
    uint32_t at = commands.ptr;
    const struct cq_relay_inline* c = (const struct cq_relay_inline*)at;
    uint32_t length = c->length, stride = c->stride;
    if (stride > commands.end - at || length > stride - CQ_HEADER_BYTES || stride < CQ_HEADER_BYTES ||
        length > RP_NOC_MAX_BURST || length >= w->end - w->cursor) {
        return 0;
    }
    cq_ring_reserve(w, length);
    w->room -= length;
    rp_noc_write_with_state(NOC, RP_BUF_WRITE, RP_WRITE, w->cursor, at + CQ_HEADER_BYTES, length, 1);
    w->cursor += length;
    commands.ptr = at + stride;
    return 1;
}

// Sends the payload of RELAY_INLINE and its relatives. Without flush the ring's last page stays open for the data
// that the next command brings.
CQ_SHARED void relay_inline(struct cq_ring_writer* w, int flush) {
    const struct cq_relay_inline* c = (const struct cq_relay_inline*)commands.ptr;
    uint32_t length = c->length, stride = c->stride;
    cq_ring_reserve(w, length);
    command_skip(CQ_HEADER_BYTES);
    for (uint32_t left = length; left != 0;) {
        uint32_t n = command_bytes(left);
        cq_ring_write(w, NOC, commands.ptr, n);
        commands.ptr += n;
        left -= n;
    }
    if (flush) {
        cq_ring_finish(w, NOC);
    }
    command_end(stride, CQ_HEADER_BYTES + length);
}

// The trace takes the place of the commands in the buffer, so nothing may follow in this fetch queue entry, and no
// further entry may have been fetched: that is what the entry's stall bit is for.
CQ_SHARED void exec_buf(void) {
    const struct cq_exec_buf* c = (const struct cq_exec_buf*)commands.ptr;
    uint32_t base = c->base, page_log = c->log2_page, pages = c->pages;
    if (trace.active || !fetch.stalled || fetch.in_flight != 0) {
        cq_park(CQ_BAD_STALL, first_word());
    }
    check_trace_pages(page_log, pages);
    control()->replays = control()->replays + 1;
    command_end_bare();
    if (commands.ptr != commands.end) {
        cq_park(CQ_BAD_STALL, first_word());
    }
    trace_start(base, page_log, pages);
}

// What is in it is for the prefetcher of another chip, which reads the trace there: this chip's dispatcher would skip it.
CQ_SHARED void exec_buf_end(void) {
    const struct cq_relay_inline* c = (const struct cq_relay_inline*)commands.ptr;
    uint32_t stride = c->stride;
    if (!trace.active) {
        cq_park(CQ_BAD_STALL, first_word());
    }
    command_skip(CQ_HEADER_BYTES);
    command_end(stride, CQ_HEADER_BYTES);
    trace_return();
}

// Waits until the dispatcher has notified as often as there were STALLs. More often is an error of the host's that
// must not pass for success: hence equality.
CQ_SHARED void stall(void) {
    uint32_t sync = cq_own_semaphore(CQ_SEM_SYNC);
    command_end_bare();
    stalls++;
    rp_invalidate_l1();
    if (rp_load(sync) != stalls) {
        rp_waypoint_detail("STAL", stalls);
        do {
            rp_invalidate_l1();
        } while (rp_load(sync) != stalls);
        rp_waypoint("RUN ");
    }
}

CQ_SHARED void debug(void) {
    const struct cq_debug* c = (const struct cq_debug*)commands.ptr;
    uint32_t stride = c->stride;
    command_skip(CQ_HEADER_BYTES);
    command_end(stride, CQ_HEADER_BYTES);
}

// Fills the cache. It doesn't wait for the reads: RELAY_RINGBUFFER does.
CQ_SHARED void paged_to_ringbuffer(void) {
    const struct cq_paged_to_ringbuffer* c = (const struct cq_paged_to_ringbuffer*)commands.ptr;
    struct source s = {.kind = SOURCE_PAGED};
    uint32_t length = c->length;
    uint32_t wp_update = c->advance;
    cq_pages_start(&s.pages, 1, c->base, 1u << c->log2_page, c->start);
    if (c->reset & CQ_RINGBUFFER_RESET) {
        cache.write = 0;
    }
    cache.read = cache.write;
    if (length == 0 || length > args.ring_size - cache.write) {
        cq_park(CQ_BAD_LENGTH, first_word());
    }
    command_end_bare();
    rp_noc_write_flush(NOC);
    source_page(&s);
    source_read(&s, args.ring_base + cache.write, length);
    cache.write += wp_update;
}

CQ_SHARED void set_ringbuffer_offset(void) {
    const struct cq_set_ringbuffer_offset* c = (const struct cq_set_ringbuffer_offset*)commands.ptr;
    if (c->write) {
        cache.write = cq_u32(c->offset);
    } else {
        cache.read = cq_u32(c->offset);
    }
    command_end_bare();
}

CQ_SHARED void relay_ringbuffer(void) {
    const struct cq_relay_ringbuffer* c = (const struct cq_relay_ringbuffer*)commands.ptr;
    uint32_t count = c->count, stride = c->stride;
    uint32_t table_bytes = count * sizeof(struct cq_relay_ringbuffer_sub);
    command_skip(CQ_HEADER_BYTES);
    command_copy_table(table_bytes);
    command_end(stride, CQ_HEADER_BYTES + table_bytes);
    data_barrier();
    const struct cq_relay_ringbuffer_sub* sub = (const struct cq_relay_ringbuffer_sub*)table;
    for (; count != 0; count--, sub++) {
        cq_ring_reserve(&master, sub->length);
        cq_ring_write(&master, NOC, args.ring_base + cache.read + sub->start, sub->length);
        cq_ring_publish_full(&master, NOC);
    }
    cq_ring_finish(&master, NOC);
}

// Runs the command at hand. Returns 0 after the last one.
RP_INLINE int run_command(void) {
    const uint8_t* c = (const uint8_t*)commands.ptr;
    uint32_t id = c[0];
    if (id == CQ_PREFETCH_RELAY_INLINE && c[1] == CQ_DISPATCHER_MASTER && relay_inline_whole()) {
        return 1;
    }
    switch (id) {
    case CQ_PREFETCH_RELAY_INLINE:
        relay_inline(c[1] == CQ_DISPATCHER_MASTER ? &master : &subordinate, 1);
        return 1;
    case CQ_PREFETCH_RELAY_INLINE_NOFLUSH:
        if (!relay_inline_open()) {
            relay_inline(&master, 0);
        }
        return 1;
    case CQ_PREFETCH_RELAY_LINEAR:
        relay_linear();
        return 1;
    case CQ_PREFETCH_RELAY_LINEAR_H:
        relay_linear_h();
        return 1;
    case CQ_PREFETCH_RELAY_PAGED:
        relay_paged();
        return 1;
    case CQ_PREFETCH_RELAY_PAGED_PACKED:
        relay_paged_packed();
        return 1;
    case CQ_PREFETCH_RELAY_RINGBUFFER:
        relay_ringbuffer();
        return 1;
    case CQ_PREFETCH_PAGED_TO_RINGBUFFER:
        paged_to_ringbuffer();
        return 1;
    case CQ_PREFETCH_SET_RINGBUFFER_OFFSET:
        set_ringbuffer_offset();
        return 1;
    case CQ_PREFETCH_EXEC_BUF:
        exec_buf();
        return 1;
    case CQ_PREFETCH_EXEC_BUF_END:
        exec_buf_end();
        return 1;
    case CQ_PREFETCH_STALL:
        stall();
        return 1;
    case CQ_PREFETCH_DEBUG:
        debug();
        return 1;
    case CQ_PREFETCH_LOOP_BEGIN:
        loop_begin();
        return 1;
    case CQ_PREFETCH_LOOP_END:
        loop_end();
        return 1;
    case CQ_PREFETCH_BRANCH:
        branch();
        return 1;
    case CQ_PREFETCH_CALL:
        call_trace();
        return 1;
    case CQ_PREFETCH_TERMINATE:
        return 0;
    default:
        cq_park(CQ_BAD_COMMAND, first_word());
    }
}

static void init_ring(struct cq_ring_writer* w, uint32_t ring, uint32_t pages, uint32_t page_log, uint32_t buf,
                      uint32_t credits, uint32_t published) {
    w->base = ring;
    w->end = ring + (pages << page_log);
    w->page_log = page_log;
    w->coord = rp_noc_coord_xy(args.dispatch_xy);
    w->buf = buf;
    w->credits = cq_own_semaphore(credits);
    w->published = cq_semaphore(args.dispatch_sem_base, published);
    cq_ring_writer_init(w, NOC);
}

static void init(void) {
    cq_load_args((uint32_t*)&args, sizeof(args));
    init_ring(&master, args.dispatch_ring, args.dispatch_ring_pages, CQ_PAGE_LOG, RP_BUF_WRITE, CQ_SEM_DISPATCH_CREDITS,
              CQ_SEM_DISPATCH_PAGES);
    init_ring(&subordinate, args.subordinate_ring, args.subordinate_ring_pages, CQ_SUBORDINATE_PAGE_LOG, RP_BUF_WORD,
              CQ_SEM_SUBORDINATE_CREDITS, CQ_SEM_SUBORDINATE_PAGES);
    rp_noc_clear_ids(NOC);
    fetch.entry = args.fetch_queue;
    fetch.pcie = args.issue_base;
    commands.ptr = args.buffer;
    commands.end = args.buffer;
}

void kernel_main(void) {
    init();
    do {
        if (trace.active) {
            command_bytes(1);
        } else {
            fetch_commands();
        }
    } while (run_command());
    // The dispatchers return their last pages when they end, which they were told before. Only then does
    // nothing write into this core any more.
    rp_waypoint("TERM");
    cq_ring_drain(&master);
    cq_ring_drain(&subordinate);
    rp_noc_full_barrier(NOC);
    rp_noc_set_id(NOC, RP_BUF_READ, 0);
}
