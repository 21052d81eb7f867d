// The prefetcher: brings commands from host memory, or from a trace in DRAM, to the dispatcher.
//
// The host writes commands into the issue queue in its own memory and then their length into the fetch queue in this
// core's L1. The prefetcher reads them over PCIe into the command-data buffer and runs them: most relay their payload
// into a ring of the dispatcher (or of its subordinate, who sends go signals), some add data from DRAM. EXEC_BUF
// makes it read its commands from a trace until EXEC_BUF_END. A PCIe read takes microseconds, so one is always
// under way while the commands before it run.
//
// Memory that is the source of a write must not change before the write has left. Nobody waits for that after
// writing; whoever is about to overwrite such memory flushes first.
#include "cq_args.h"
#include "cq_commands.h"
#include "cq_pages.h"
#include "cq_ring.h"

#define NOC 0u

// Transaction ids of reads, so that waiting for one kind doesn't wait for the others.
enum { READ_COMMANDS = 1, READ_TRACE = 2, READ_DATA = 3 };

// The hardware counts at most 255 open requests of an id.
#define MAX_OPEN_READS 128u

// How much of a trace is read ahead: the first part small, for the first command to start early.
#define TRACE_FIRST_BYTES (16u * 1024u)
#define TRACE_AHEAD_BYTES (32u * 1024u)
#define TRACE_MIN_PAGE_LOG 6u
#define TRACE_MAX_PAGE_LOG 15u

static struct cq_prefetch_args args;

static struct cq_ring_writer master;
static struct cq_ring_writer subordinate;

// --- the commands at hand ------------------------------------------------------------------------------------------

// Commands that are in the command-data buffer: from ptr to end.
static struct {
    uint32_t ptr, end;
} commands;

// The fetch queue, and the one PCIe read that may be under way.
static struct {
    uint32_t entry;      // next entry to look at
    uint32_t pcie;       // lower half of the host address behind what was read or is being read
    uint32_t landing;    // where the read under way puts its bytes
    uint32_t in_flight;  // how many; 0 = no read under way
    int stalled;         // a stall entry was fetched: no more of them until its trace has run
} fetch;

// The trace that is being run.
static struct {
    int active;
    struct cq_pages pages;
    uint32_t pages_left;  // not asked for yet
    uint32_t page_log;
    uint32_t end;        // the buffer's end in whole pages
    uint32_t landing;    // the part being read ahead
    uint32_t in_flight;  // its bytes; 0 = none
} trace;

// The ring buffer cache: offsets from its base.
static struct {
    uint32_t write, read;
} cache;

static uint32_t stalls;              // STALL commands so far
static uint32_t data_reads;          // reads of READ_DATA since the last barrier
static uint32_t table[CQ_RELAY_PAGED_PACKED_MAX * sizeof(struct cq_relay_paged_packed_sub) / 4];

static uint32_t first_word(void) { return rp_load(commands.ptr & ~3u); }

CQ_SHARED void read_l1(uint32_t coord, uint64_t addr, uint32_t l1, uint32_t bytes) {
    rp_noc_read(NOC, coord, addr, l1, bytes);
}

// --- reading commands from the issue queue ---------------------------------------------------------------------------

static uint32_t fetch_entry(void) { return *(volatile uint16_t*)fetch.entry; }

// Frees the entry for the host. It can be full of queue entries while their bytes are still coming, which is why
// the word about the issue queue waits until they are here.
static void fetch_consume_entry(void) {
    *(volatile uint16_t*)fetch.entry = 0;
    rp_store(args.fetch_rd_word, fetch.entry);
    fetch.entry += 2;
    if (fetch.entry == args.fetch_queue + args.fetch_queue_bytes) {
        fetch.entry = args.fetch_queue;
    }
}

// Starts the read for the next entry, if there is one and the buffer has room for it behind the commands at hand, or
// at its base in front of them.
static void fetch_start(void) {
    uint32_t entry = fetch_entry();
    if (entry == 0) {
        return;
    }
    uint32_t bytes = (entry & ~CQ_FETCH_STALL) << CQ_FETCH_UNIT_LOG;
    if (bytes == 0 || bytes > args.buffer_size) {
        cq_park(CQ_BAD_ENTRY, entry);
    }
    uint32_t landing = commands.end;
    if (landing + bytes > args.buffer + args.buffer_size) {
        landing = args.buffer;
        if (commands.ptr != commands.end && landing + bytes > commands.ptr) {
            return;
        }
    }
    if (fetch.pcie + bytes > args.issue_base + args.issue_size) {
        fetch.pcie = args.issue_base;
    }
    rp_noc_write_flush(NOC);
    rp_noc_set_id(NOC, RP_BUF_READ, READ_COMMANDS);
    read_l1(rp_noc_coord_xy(args.pcie_xy), cq_pair(fetch.pcie, args.pcie_addr_hi), landing, bytes);
    fetch.pcie += bytes;
    fetch.landing = landing;
    fetch.in_flight = bytes;
    fetch.stalled = (entry & CQ_FETCH_STALL) != 0;
    fetch_consume_entry();
}

// Waits for the read under way. Its commands are the next ones: there are no others when this is called.
static void fetch_land(void) {
    rp_noc_id_barrier(NOC, READ_COMMANDS);
    rp_store(args.pcie_rd_word, fetch.pcie);
    commands.ptr = fetch.landing;
    commands.end = fetch.landing + fetch.in_flight;
    fetch.in_flight = 0;
}

static void fetch_wait_entry(void) {
    if (fetch_entry() != 0) {
        return;
    }
    rp_waypoint("IDLE");
    do {
        rp_invalidate_l1();
    } while (fetch_entry() == 0);
    rp_waypoint("RUN ");
}

// Returns with at least one command at hand, and with a read for what follows under way if the host has given it.
// A read that is under way while there are commands is left alone: waiting for it would only add to its latency.
static void fetch_commands(void) {
    for (;;) {
        if (fetch.in_flight == 0 && !fetch.stalled) {
            rp_invalidate_l1();
            fetch_start();
        }
        if (commands.ptr != commands.end) {
            return;
        }
        if (fetch.in_flight != 0) {
            fetch_land();
        } else if (fetch.stalled) {
            cq_park(CQ_BAD_STALL, 0);
        } else {
            fetch_wait_entry();
        }
    }
}

// --- reading commands from a trace ---------------------------------------------------------------------------------

// Asks for the next part of the trace: whole pages, bytes at most, from landing on.
static void trace_request(uint32_t landing, uint32_t bytes) {
    uint32_t pages = cq_min(cq_min(bytes >> trace.page_log, MAX_OPEN_READS / 2), trace.pages_left);
    if (pages == 0 && trace.pages_left != 0) {
        pages = 1;
    }
    trace.landing = landing;
    trace.in_flight = pages << trace.page_log;
    trace.pages_left -= pages;
    rp_noc_write_flush(NOC);
    rp_noc_set_id(NOC, RP_BUF_READ, READ_TRACE);
    for (; pages != 0; pages--) {
        read_l1(cq_pages_coord(&trace.pages, NOC), cq_pages_address(&trace.pages), landing, trace.pages.page_size);
        cq_pages_next(&trace.pages);
        landing += trace.pages.page_size;
    }
}

// Makes the part that was read ahead the commands at hand, and reads further ahead. The commands before it have
// been used up, so all the rest of the buffer is free: behind the new part, or from the base when it ends there.
static void trace_advance(void) {
    if (trace.in_flight == 0) {
        cq_park(CQ_BAD_TRACE, trace.pages.row);
    }
    rp_noc_id_barrier(NOC, READ_TRACE);
    commands.ptr = trace.landing;
    commands.end = trace.landing + trace.in_flight;
    uint32_t landing = commands.end == trace.end ? args.buffer : commands.end;
    trace_request(landing, cq_min(TRACE_AHEAD_BYTES, trace.end - landing));
}

static void trace_start(uint32_t base, uint32_t page_log, uint32_t pages) {
    trace.active = 1;
    trace.page_log = page_log;
    trace.pages_left = pages;
    trace.end = args.buffer + (args.buffer_size >> page_log << page_log);
    cq_pages_start(&trace.pages, 1, base, 1u << page_log, 0);
    trace_request(args.buffer, TRACE_FIRST_BYTES);
}

// The padding behind the last command may still be coming in: it must not land on what comes next.
static void trace_stop(void) {
    rp_noc_id_barrier(NOC, READ_TRACE);
    trace.active = 0;
    fetch.stalled = 0;
    commands.ptr = args.buffer;
    commands.end = args.buffer;
}

// --- using up commands ---------------------------------------------------------------------------------------------

// A command in the buffer is in one piece when it came from the issue queue. In a trace only headers are: payloads
// and tables go on in the next part.
CQ_SHARED void command_more(void) {
    if (!trace.active) {
        cq_park(CQ_BAD_LENGTH, commands.ptr);
    }
    trace_advance();
}

RP_INLINE uint32_t command_bytes(uint32_t wanted) {
    if (commands.ptr == commands.end) {
        command_more();
    }
    return cq_min(wanted, commands.end - commands.ptr);
}

CQ_SHARED void command_skip_on(uint32_t bytes) {
    while (bytes != 0) {
        uint32_t n = command_bytes(bytes);
        commands.ptr += n;
        bytes -= n;
    }
}

RP_INLINE void command_skip(uint32_t bytes) {
    if (bytes <= commands.end - commands.ptr) {
        commands.ptr += bytes;
    } else {
        command_skip_on(bytes);
    }
}

// Ends a command of which used bytes have been skipped.
static void command_end(uint32_t stride, uint32_t used) {
    if (stride < used) {
        cq_park(CQ_BAD_LENGTH, stride);
    }
    command_skip(stride - used);
}

// Commands without payload occupy one unit of the PCIe alignment.
static void command_end_bare(void) { command_skip(RP_PCIE_ALIGNMENT); }

// Copies a table of sub-commands into local RAM, where it survives the next part of a trace.
static void command_copy_table(uint32_t bytes) {
    uint32_t* to = table;
    if (bytes > sizeof(table)) {
        cq_park(CQ_BAD_LENGTH, bytes);
    }
    while (bytes != 0) {
        uint32_t n = command_bytes(bytes);
        for (uint32_t from = commands.ptr; from != commands.ptr + n; from += 4) {
            *to++ = rp_load(from);
        }
        commands.ptr += n;
        bytes -= n;
    }
}

// --- relaying data -------------------------------------------------------------------------------------------------

// Where relayed data comes from: a series of runs, each contiguous in the memory of one tile.
enum source_kind { SOURCE_LINEAR, SOURCE_PAGED, SOURCE_PAGED_PACKED };

struct source {
    enum source_kind kind;
    uint32_t coord;
    uint64_t addr;
    uint32_t run;  // bytes left in this run
    struct cq_pages pages;
    const struct cq_relay_paged_packed_sub* sub;  // PAGED_PACKED: this one, and how many there are from it on
    uint32_t subs;
    uint32_t sub_left;  // bytes of this one behind this run
};

CQ_SHARED void source_page(struct source* s) {
    s->coord = cq_pages_coord(&s->pages, NOC);
    s->addr = cq_pages_address(&s->pages);
    s->run = s->pages.page_size;
}

// One request may not cross a 4 GiB boundary.
static void source_linear_run(struct source* s) { s->run = 0x80000000u - ((uint32_t)s->addr & 0x7FFFFFFFu); }

static void source_sub_page(struct source* s) {
    source_page(s);
    s->run = cq_min(s->run, s->sub_left);
    s->sub_left -= s->run;
}

static void source_sub(struct source* s) {
    if (s->subs == 0) {
        cq_park(CQ_BAD_LENGTH, s->kind);
    }
    cq_pages_start(&s->pages, 1, s->sub->base, 1u << s->sub->log_page_size, s->sub->start_page);
    s->sub_left = s->sub->length;
    s->sub++;
    s->subs--;
    source_sub_page(s);
}

// Moves to the next run when this one is used up. Not sooner: behind the last run there is none.
static void source_ready(struct source* s) {
    if (s->run != 0) {
        return;
    }
    switch (s->kind) {
    case SOURCE_LINEAR:
        source_linear_run(s);
        break;
    case SOURCE_PAGED:
        cq_pages_next(&s->pages);
        source_page(s);
        break;
    case SOURCE_PAGED_PACKED:
        if (s->sub_left != 0) {
            cq_pages_next(&s->pages);
            source_sub_page(s);
        } else {
            source_sub(s);
        }
        break;
    }
}

CQ_SHARED void data_barrier(void) {
    if (data_reads != 0) {
        rp_noc_id_barrier(NOC, READ_DATA);
        data_reads = 0;
    }
}

static void data_read(uint32_t coord, uint64_t addr, uint32_t l1, uint32_t bytes) {
    data_reads += (bytes - 1) / RP_NOC_MAX_BURST + 1;
    if (data_reads > MAX_OPEN_READS) {
        rp_noc_id_barrier(NOC, READ_DATA);
        data_reads = (bytes - 1) / RP_NOC_MAX_BURST + 1;
    }
    read_l1(coord, addr, l1, bytes);
}

// Starts reading bytes of the source into L1.
static void source_read(struct source* s, uint32_t l1, uint32_t bytes) {
    rp_noc_set_id(NOC, RP_BUF_READ, READ_DATA);
    while (bytes != 0) {
        source_ready(s);
        uint32_t n = cq_min(bytes, s->run);
        data_read(s->coord, s->addr, l1, n);
        l1 += n;
        bytes -= n;
        s->addr += n;
        s->run -= n;
    }
}

// Relays a source behind the header that RELAY_INLINE_NOFLUSH has put at the start of a page. One half of the
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

static void relay_linear(void) {
    const struct cq_relay_linear* c = (const struct cq_relay_linear*)commands.ptr;
    struct source s = {.kind = SOURCE_LINEAR, .coord = cq_u32(c->noc_xy), .addr = cq_u64(c->addr)};
    uint64_t bytes = cq_u64(c->length);
    command_end_bare();
    source_linear_run(&s);
    relay(&s, bytes);
}

static void relay_linear_h(void) {
    const struct cq_relay_linear_h* c = (const struct cq_relay_linear_h*)commands.ptr;
    struct source s = {.kind = SOURCE_LINEAR, .coord = c->noc_xy, .addr = cq_pair(c->addr_lo, c->addr_hi)};
    uint32_t bytes = c->length;
    command_end_bare();
    source_linear_run(&s);
    relay(&s, bytes);
}

static void relay_paged(void) {
    const struct cq_relay_paged* c = (const struct cq_relay_paged*)commands.ptr;
    struct source s = {.kind = SOURCE_PAGED};
    uint64_t bytes = (uint64_t)c->pages * c->page_size - (c->flags & CQ_RELAY_PAGED_LENGTH_ADJUST);
    cq_pages_start(&s.pages, (c->flags & CQ_RELAY_PAGED_DRAM) != 0, c->base, c->page_size, c->start_page);
    command_end_bare();
    source_page(&s);
    relay(&s, bytes);
}

static void relay_paged_packed(void) {
    const struct cq_relay_paged_packed* c = (const struct cq_relay_paged_packed*)commands.ptr;
    uint32_t bytes = c->total_length, stride = c->stride;
    uint32_t table_bytes = c->count * sizeof(struct cq_relay_paged_packed_sub);
    struct source s = {.kind = SOURCE_PAGED_PACKED, .subs = c->count};
    command_skip(CQ_HEADER_BYTES);
    command_copy_table(table_bytes);
    command_end(stride, CQ_HEADER_BYTES + table_bytes);
    s.sub = (const struct cq_relay_paged_packed_sub*)table;
    source_sub(&s);
    relay(&s, bytes);
}

// Sends the payload of RELAY_INLINE and its relatives. Without flush the ring's last page stays open for the data
// that the next command brings.
static void relay_inline(struct cq_ring_writer* w, int flush) {
    const struct cq_relay_inline* c = (const struct cq_relay_inline*)commands.ptr;
    uint32_t length = c->length, stride = c->stride;
    cq_ring_reserve(w, length);
    command_skip(CQ_HEADER_BYTES);
    for (uint32_t left = length; left != 0;) {
        uint32_t n = command_bytes(left);
        cq_ring_write_short(w, NOC, commands.ptr, n);
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
static void exec_buf(void) {
    const struct cq_exec_buf* c = (const struct cq_exec_buf*)commands.ptr;
    uint32_t base = c->base, page_log = c->log_page_size, pages = c->pages;
    if (trace.active || !fetch.stalled || fetch.in_flight != 0) {
        cq_park(CQ_BAD_STALL, first_word());
    }
    if (page_log < TRACE_MIN_PAGE_LOG || page_log > TRACE_MAX_PAGE_LOG || pages == 0) {
        cq_park(CQ_BAD_LENGTH, first_word());
    }
    command_end_bare();
    if (commands.ptr != commands.end) {
        cq_park(CQ_BAD_STALL, first_word());
    }
    trace_start(base, page_log, pages);
}

static void exec_buf_end(void) {
    if (!trace.active) {
        cq_park(CQ_BAD_STALL, first_word());
    }
    relay_inline(&master, 1);
    trace_stop();
}

// Waits until the dispatcher has notified as often as there were STALLs. More often is an error of the host's that
// must not pass for success: hence equality.
static void stall(void) {
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

static void debug(void) {
    const struct cq_debug* c = (const struct cq_debug*)commands.ptr;
    uint32_t stride = c->stride;
    command_skip(CQ_HEADER_BYTES);
    command_end(stride, CQ_HEADER_BYTES);
}

// Fills the cache. Nobody waits for the reads here: RELAY_RINGBUFFER does.
static void paged_to_ringbuffer(void) {
    const struct cq_paged_to_ringbuffer* c = (const struct cq_paged_to_ringbuffer*)commands.ptr;
    struct source s = {.kind = SOURCE_PAGED};
    uint32_t length = c->length;
    uint32_t wp_update = c->wp_update;
    cq_pages_start(&s.pages, 1, c->base, 1u << c->log_page_size, c->start_page);
    if (c->flags & CQ_RINGBUFFER_RESET) {
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

static void set_ringbuffer_offset(void) {
    const struct cq_set_ringbuffer_offset* c = (const struct cq_set_ringbuffer_offset*)commands.ptr;
    if (c->update_wp) {
        cache.write = cq_u32(c->offset);
    } else {
        cache.read = cq_u32(c->offset);
    }
    command_end_bare();
}

static void relay_ringbuffer(void) {
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
static int run_command(void) {
    const uint8_t* c = (const uint8_t*)commands.ptr;
    switch (c[0]) {
    case CQ_PREFETCH_RELAY_INLINE:
        relay_inline(c[1] == CQ_DISPATCHER_MASTER ? &master : &subordinate, 1);
        return 1;
    case CQ_PREFETCH_RELAY_INLINE_NOFLUSH:
        relay_inline(&master, 0);
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
    // The dispatchers give their last pages back when they end, which they were told before. Only then is nobody
    // left who writes into this core.
    rp_waypoint("TERM");
    cq_ring_drain(&master);
    cq_ring_drain(&subordinate);
    rp_noc_full_barrier(NOC);
    rp_noc_set_id(NOC, RP_BUF_READ, 0);
}
