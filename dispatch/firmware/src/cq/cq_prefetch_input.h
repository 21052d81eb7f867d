// The prefetcher's input: commands from the issue queue in host memory, or from a trace in DRAM. Part of prefetch.c.
//
// Memory that is the source of a write must not change before the write has left. The code that writes doesn't
// wait for that; code that is about to overwrite such memory flushes first.
#ifndef REPRISE_CQ_PREFETCH_INPUT_H
#define REPRISE_CQ_PREFETCH_INPUT_H

#include "cq_args.h"
#include "cq_commands.h"
#include "cq_pages.h"

#define NOC 0u

// Transaction ids of reads, so that waiting for one kind doesn't wait for the others.
enum { READ_COMMANDS = 1, READ_TRACE = 2, READ_DATA = 3 };

// The hardware counts at most 255 open requests of an id.
#define MAX_OPEN_READS 128u

#define TRACE_MIN_PAGE_LOG 6u
#define TRACE_MAX_PAGE_LOG 15u

// How much of a trace is read ahead: the first part small, for the first command to start early.
#define TRACE_FIRST_BYTES (16u * 1024u)
#define TRACE_AHEAD_BYTES (32u * 1024u)

static struct cq_prefetch_args args;

// Commands that are in the command-data buffer: from ptr to end.
static struct {
    uint32_t ptr, end;
} commands;

// The fetch queue, and the one PCIe read that may be under way.
static struct {
    uint32_t entry;      // next entry to read
    uint32_t pcie;       // lower half of the host address after what was read or is being read
    uint32_t landing;    // where the read under way puts its bytes
    uint32_t in_flight;  // how many; 0 = no read under way
    int stalled;         // a stall entry was fetched: no more of them until its trace has run
} fetch;

// The trace that is being run.
static struct {
    int active;
    struct cq_pages pages;
    uint32_t pages_left;  // not asked for yet
    uint32_t base, page_log, count;  // of its pages
    uint32_t end;        // the buffer's end in whole pages
    uint32_t landing;    // the part being read ahead
    uint32_t in_flight;  // its bytes; 0 = none
    uint32_t part, at;   // where the part at hand begins: in the buffer, and in the trace
} trace;

// Sub-commands of the command that is being run.
static uint32_t table[CQ_RELAY_PAGED_PACKED_MAX * sizeof(struct cq_relay_paged_packed_sub) / 4];

static uint32_t first_word(void) { return rp_load(commands.ptr & ~3u); }

CQ_SHARED void read_l1(uint32_t coord, uint64_t addr, uint32_t l1, uint32_t bytes) {
    rp_noc_read(NOC, coord, addr, l1, bytes);
}

// Waits for the reads of one id, which only this buffer's requests have. A load of its counter may overtake the store that
// started the last read, and find the count of before; a load of the very register that was stored to may not
// (tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/MemoryOrdering.md).
CQ_SHARED void wait_reads(uint32_t id) {
    rp_noc_ready(NOC, RP_BUF_READ);
    while (rp_noc_counter(NOC, RP_COUNTER_OUTSTANDING_ID(id)) != 0) {
    }
    rp_invalidate_l1();
}

// read_whole_pages starts reads of the pages from the present one on that lie in so many bytes as a whole, moves past them and
// returns their bytes. The reads have the id that was set last.
CQ_SHARED uint32_t read_whole_pages(struct cq_pages* p, uint32_t l1, uint32_t bytes) {
    const uint16_t* xy = (const uint16_t*)(p->dram ? RP_BANK_TABLE->dram_xy[NOC] : RP_BANK_TABLE->l1_xy[NOC]);
    const uint32_t* offset = (const uint32_t*)RP_BANK_TABLE->dram_offset;
    uint32_t size = p->page_size, bank = p->bank, banks = p->banks, row = p->row, dram = p->dram;
    uint32_t start = l1, last = l1 + bytes - size, reads = 0;
    if (size - 1 >= RP_NOC_MAX_BURST || size > bytes) {
        return 0;
    }
    rp_noc_read_state_len(NOC, 0, 0, size);
    do {
        uint32_t coord = xy[bank], addr = dram ? row + offset[bank] : row;
        rp_noc_ready(NOC, RP_BUF_READ);
        rp_noc_set(NOC, RP_BUF_READ, RP_NOC_TARG_COORD, rp_noc_coord_xy(coord));
        rp_noc_set(NOC, RP_BUF_READ, RP_NOC_TARG_LO, addr);
        rp_noc_set(NOC, RP_BUF_READ, RP_NOC_RET_LO, l1);
        rp_noc_send(NOC, RP_BUF_READ);
        reads++;
        bank++;
        l1 += size;
        if (bank == banks) {
            bank = 0;
            row += size;
        }
    } while (l1 <= last);
    RP_LOCAL->reads_issued[NOC] += reads;
    p->bank = bank;
    p->row = row;
    return l1 - start;
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

// Starts the read for the next entry, if there is one and the buffer has room for it after the commands at hand, or
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
    wait_reads(READ_COMMANDS);
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
// A read that is under way while there are commands is not waited for: waiting for it would only add to its latency.
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

// Asks for the next part of the trace, of which there is more: whole pages, bytes at most, from landing on.
static void trace_request(uint32_t landing, uint32_t bytes) {
    uint32_t pages = cq_min(cq_min(bytes >> trace.page_log, MAX_OPEN_READS / 2), trace.pages_left);
    if (pages == 0) {
        pages = 1;
    }
    trace.landing = landing;
    trace.in_flight = pages << trace.page_log;
    trace.pages_left -= pages;
    rp_noc_write_flush(NOC);
    rp_noc_set_id(NOC, RP_BUF_READ, READ_TRACE);
    uint32_t left = trace.in_flight;
    left -= read_whole_pages(&trace.pages, landing, left);
    for (landing += trace.in_flight - left; left != 0; left -= trace.pages.page_size) {  // pages of several requests
        read_l1(cq_pages_coord(&trace.pages, NOC), cq_pages_address(&trace.pages), landing, trace.pages.page_size);
        cq_pages_next(&trace.pages);
        landing += trace.pages.page_size;
    }
}

// Makes the part that was read ahead the commands at hand, and reads further ahead. The commands before it have
// been used up, so all the rest of the buffer is free: after the new part, or from the base when it ends there.
static void trace_advance(void) {
    if (trace.in_flight == 0) {
        cq_park(CQ_BAD_TRACE, trace.pages.row);
    }
    wait_reads(READ_TRACE);
    trace.at += commands.end - trace.part;
    trace.part = trace.landing;
    commands.ptr = trace.landing;
    commands.end = trace.landing + trace.in_flight;
    if (trace.pages_left == 0) {
        trace.in_flight = 0;
        return;
    }
    uint32_t landing = commands.end == trace.end ? args.buffer : commands.end;
    trace_request(landing, cq_min(TRACE_AHEAD_BYTES, trace.end - landing));
}

static void check_trace_pages(uint32_t page_log, uint32_t pages) {
    if (page_log < TRACE_MIN_PAGE_LOG || page_log > TRACE_MAX_PAGE_LOG || pages == 0) {
        cq_park(CQ_BAD_LENGTH, first_word());
    }
}

// Reads the trace from one of its pages on. The commands at hand are used up.
static void trace_read_from(uint32_t page) {
    trace.pages_left = trace.count - page;
    trace.at = page << trace.page_log;
    trace.part = args.buffer;
    commands.ptr = args.buffer;
    commands.end = args.buffer;
    cq_pages_start(&trace.pages, 1, trace.base, 1u << trace.page_log, page);
    trace_request(args.buffer, TRACE_FIRST_BYTES);
}

static void trace_start(uint32_t base, uint32_t page_log, uint32_t pages) {
    trace.active = 1;
    trace.base = base;
    trace.page_log = page_log;
    trace.count = pages;
    trace.end = args.buffer + (args.buffer_size >> page_log << page_log);
    trace_read_from(0);
}

// The padding after the last command may still be coming in: it must not land on what comes next.
static void trace_stop(void) {
    if (trace.in_flight != 0) {
        wait_reads(READ_TRACE);
    }
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

#endif
