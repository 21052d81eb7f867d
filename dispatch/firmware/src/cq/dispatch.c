// The dispatcher: takes commands out of the ring that the prefetcher fills and carries them out.
//
// Most commands write the data that follow them somewhere: to workers, to DRAM, to host memory. The NoC takes it straight
// out of the ring. Nothing here waits for a write to arrive unless a command says so (WAIT, NOTIFY_SUBORDINATE) or
// a multicast is next.
#include "cq_args.h"
#include "cq_commands.h"
#include "cq_completion.h"
#include "cq_go.h"
#include "cq_forward.h"
#include "cq_pages.h"
#include "cq_ring.h"

#define NOC 0u
#define PAGE_BYTES (1u << CQ_PAGE_LOG)
#define MAX_SYNC_WORDS 8u

static struct cq_dispatch_args args;
static struct cq_ring_reader ring;
static struct cq_completion completion;
static struct cq_go go;
static uint32_t write_offset[CQ_SET_WRITE_OFFSET_MAX];
static uint32_t forwarded;   // commands that the subordinate got
static uint32_t command_at;  // where the present command began

// Sub-commands that must outlive their place in the ring. Enough for one word for each of 140 workers.
#define TABLE_WORDS 160u
static uint32_t table[TABLE_WORDS];

static __attribute__((noreturn)) void bad_command(uint32_t why) { cq_park(why, rp_load(command_at)); }

static uint32_t offset_of(uint32_t index) {
    if (index >= CQ_SET_WRITE_OFFSET_MAX) {
        bad_command(CQ_BAD_LENGTH);
    }
    return write_offset[index];
}

// Sends bytes to where the write buffer's state leads.
CQ_SHARED void send(uint32_t kind, uint32_t addr, uint32_t l1, uint32_t bytes, uint32_t dests) {
    rp_noc_write_any_with_state(NOC, RP_BUF_WRITE, kind, addr, l1, bytes, dests);
}

CQ_SHARED void send_to(uint32_t coord, uint32_t addr_hi, uint32_t addr, uint32_t l1, uint32_t bytes) {
    rp_noc_write_state(NOC, RP_BUF_WRITE, RP_WRITE, coord, addr_hi);
    send(RP_WRITE, addr, l1, bytes, 1);
}

// A header lies in one page, all of which is here.
RP_INLINE void skip_header(void) { ring.cursor += CQ_HEADER_BYTES; }
RP_INLINE void skip(uint32_t bytes) { cq_ring_skip(&ring, NOC, bytes); }

// Copies a table that lies in the ring in one piece.
static void copy_table(uint32_t from, uint32_t words) {
    if (words > TABLE_WORDS || 4 * words > ring.fence - from) {
        bad_command(CQ_BAD_LENGTH);
    }
    uint32_t* to = table;
    for (uint32_t end = from + cq_align(4 * words, 16); from != end; from += 16, to += 4) {
        uint32_t a = rp_load(from), b = rp_load(from + 4), c = rp_load(from + 8), d = rp_load(from + 12);
        to[0] = a;
        to[1] = b;
        to[2] = c;
        to[3] = d;
    }
}

// Copies a table that lies at the cursor, and skips it together with its padding.
static void take_table(uint32_t words) {
    copy_table(ring.cursor, words);
    skip(cq_align(4 * words, RP_L1_ALIGNMENT));
}

// --- writes to one place -------------------------------------------------------------------------------------------

// A multicast reserves the whole tree of its path. Doing so while other writes are under way can lock the NoC, so
// everything has to arrive first. Only linked multicasts, which share one reservation, may follow each other.
static void write_multicast(uint32_t rect, uint32_t addr, uint32_t l1, uint32_t bytes, uint32_t dests) {
    while (bytes != 0) {
        uint32_t n = cq_min(bytes, RP_NOC_MAX_BURST);
        rp_noc_write_barrier(NOC);
        rp_noc_write_packet(NOC, RP_BUF_WRITE, RP_WRITE_DISPATCH_MULTICAST, rect, addr, l1, n, dests);
        addr += n;
        l1 += n;
        bytes -= n;
    }
}

CQ_SHARED void write_linear(void) {
    const struct cq_write_linear* c = (const struct cq_write_linear*)ring.cursor;
    uint32_t coord = c->noc, dests = c->mcast;
    uint64_t addr = cq_pair(c->addr_lo, c->addr_hi) + offset_of(c->offset_index);
    uint64_t left = cq_pair(c->length_lo, c->length_hi);
    skip(CQ_LARGE_HEADER_BYTES);
    while (left != 0) {
        uint32_t n = cq_ring_wait(&ring, NOC);
        // One request may not cross a 4 GiB boundary.
        n = cq_min(n, 0x80000000u - ((uint32_t)addr & 0x7FFFFFFFu));
        n = left < n ? (uint32_t)left : n;
        if (dests == 0) {
            send_to(coord, (uint32_t)(addr >> 32), (uint32_t)addr, ring.cursor, n);
        } else {
            write_multicast(coord, (uint32_t)addr, ring.cursor, n, dests);
        }
        ring.cursor += n;
        addr += n;
        left -= n;
    }
}

// A host that wants to know when an event happened says so in the payload, which has room for the answer: the time is
// put into the ring, from where the record is sent.
static void stamp_event(void) {
    uint32_t event = ring.cursor + CQ_HEADER_BYTES;
    if (cq_ring_here(&ring) < CQ_HEADER_BYTES + sizeof(struct cq_event)) {
        return;
    }
    if (rp_load(event + offsetof(struct cq_event, flags)) & CQ_EVENT_TIMED) {
        uint64_t now = rp_wall_clock();
        rp_store(event + offsetof(struct cq_event, time_lo), (uint32_t)now);
        rp_store(event + offsetof(struct cq_event, time_hi), (uint32_t)(now >> 32));
        rp_l1_commit(event + offsetof(struct cq_event, time_hi));
    }
}

// The record that the host finds begins with the command itself, whose length counts it.
CQ_SHARED void write_host(void) {
    const struct cq_write_linear_h_host* c = (const struct cq_write_linear_h_host*)ring.cursor;
    uint64_t left = cq_pair(c->length_lo, c->length_hi);
    if (c->event && left == CQ_HEADER_BYTES + sizeof(struct cq_event)) {
        stamp_event();
    }
    rp_noc_write_state(NOC, RP_BUF_WRITE, RP_WRITE, rp_noc_coord_xy(args.pcie_xy), args.pcie_addr_hi);
    while (left != 0) {
        uint32_t n = cq_ring_wait(&ring, NOC);
        n = left < n ? (uint32_t)left : n;
        cq_completion_push(&completion, NOC, ring.cursor, n);
        ring.cursor += n;
        left -= n;
    }
}

CQ_SHARED void write_paged(void) {
    const struct cq_write_paged* c = (const struct cq_write_paged*)ring.cursor;
    uint32_t page_size = c->page_size, pages = c->pages;
    struct cq_pages to;
    cq_pages_start(&to, c->memory != 0, c->base, page_size, c->start);
    skip_header();
    for (; pages != 0; pages--) {
        uint32_t coord = cq_pages_coord(&to, NOC), addr = cq_pages_address(&to);
        for (uint32_t left = page_size; left != 0;) {
            uint32_t n = cq_min(left, cq_ring_wait(&ring, NOC));
            send_to(coord, 0, addr, ring.cursor, n);
            ring.cursor += n;
            addr += n;
            left -= n;
        }
        cq_pages_next(&to);
    }
}

// --- writes to many cores ------------------------------------------------------------------------------------------

// One sub-command's destination: the first word of each is the coordinate, multicasts have the number of tiles
// after it.
static uint32_t packed_next(const uint32_t** sub, uint32_t kind, uint32_t* dests) {
    uint32_t coord = *(*sub)++;
    *dests = 1;
    if (kind & RP_CTRL_MULTICAST) {
        *dests = *(*sub)++;
        rp_noc_write_barrier(NOC);  // as in write_multicast
    }
    return coord;
}

// Sends one item out of the ring. Its bytes are in two pieces when a block ends inside.
static void packed_item(uint32_t kind, uint32_t addr, uint32_t size, uint32_t dests) {
    uint32_t pad = cq_align(size, RP_L1_ALIGNMENT) - size;
    while (size != 0) {
        uint32_t n = cq_min(size, cq_ring_wait(&ring, NOC));
        send(kind, addr, ring.cursor, n, dests);
        ring.cursor += n;
        addr += n;
        size -= n;
        if (size != 0 && (kind & RP_CTRL_MULTICAST)) {
            rp_noc_write_barrier(NOC);
        }
    }
    skip(pad);
}

// Sends one item to where the write buffer's address register leads on another core.
RP_INLINE void packed_send(uint32_t coord, uint32_t l1) {
    rp_noc_ready(NOC, RP_BUF_WRITE);
    rp_noc_set(NOC, RP_BUF_WRITE, RP_NOC_RET_COORD, coord);
    rp_noc_set(NOC, RP_BUF_WRITE, RP_NOC_TARG_LO, l1);
    rp_noc_send(NOC, RP_BUF_WRITE);
}

// Sends items that are here in whole to one core each. This is the hot loop of dispatching: every program has arguments for
// every core. Destination address and length don't change from core to core, so three stores make a request.
CQ_SHARED void packed_unicast_run(const uint32_t* sub, uint32_t count, uint32_t addr, uint32_t size, uint32_t l1,
                                  uint32_t stride) {
    rp_noc_write_state(NOC, RP_BUF_WRITE, RP_WRITE, 0, 0);
    rp_noc_set(NOC, RP_BUF_WRITE, RP_NOC_RET_LO, addr);
    rp_noc_set(NOC, RP_BUF_WRITE, RP_NOC_LEN_BE, size);
    RP_LOCAL->nonposted_writes_issued[NOC] += count;
    RP_LOCAL->nonposted_writes_acked[NOC] += count;
    for (const uint32_t* end = sub + (count & ~3u); sub != end; sub += 4) {
        uint32_t a = sub[0], b = sub[1], c = sub[2], d = sub[3];  // a load of L1 takes a while, so all at once
        packed_send(a, l1);
        packed_send(b, l1 += stride);
        packed_send(c, l1 += stride);
        packed_send(d, l1 += stride);
        l1 += stride;
    }
    for (const uint32_t* end = sub + (count & 3u); sub != end; sub++, l1 += stride) {
        packed_send(*sub, l1);
    }
}

// Every destination gets its own item.
static void packed_items(const uint32_t* sub, uint32_t count, uint32_t kind, uint32_t addr, uint32_t size) {
    uint32_t stride = cq_align(size, RP_L1_ALIGNMENT);
    while (count != 0) {
        uint32_t here = cq_ring_wait(&ring, NOC);
        if (!(kind & RP_CTRL_MULTICAST) && stride <= here) {
            uint32_t n = cq_min(count, here / stride);
            packed_unicast_run(sub, n, addr, size, ring.cursor, stride);
            ring.cursor += n * stride;
            sub += n;
            count -= n;
        } else {
            uint32_t dests, coord = packed_next(&sub, kind, &dests);
            rp_noc_write_state_coord(NOC, RP_BUF_WRITE, coord, 0);
            packed_item(kind, addr, size, dests);
            count--;
        }
    }
}

// Every destination gets the same item. It is at most a page long, so it lies in at most two pieces, of which the
// first one may be in the block that the reader has just begun to hold.
static void packed_same(const uint32_t* sub, uint32_t count, uint32_t kind, uint32_t addr, uint32_t size) {
    uint32_t first = cq_min(size, cq_ring_wait(&ring, NOC)), first_at = ring.cursor;
    ring.cursor += first;
    uint32_t second = size - first, second_at = 0;
    if (second != 0) {
        if (cq_ring_wait(&ring, NOC) < second) {
            bad_command(CQ_BAD_LENGTH);
        }
        second_at = ring.cursor;
        ring.cursor += second;
    }
    if (!(kind & RP_CTRL_MULTICAST) && second == 0) {
        packed_unicast_run(sub, count, addr, size, first_at, 0);
        count = 0;
    }
    for (; count != 0; count--) {
        uint32_t dests, coord = packed_next(&sub, kind, &dests);
        rp_noc_write_state_coord(NOC, RP_BUF_WRITE, coord, 0);
        send(kind, addr, first_at, first, dests);
        if (second != 0) {
            if (kind & RP_CTRL_MULTICAST) {
                rp_noc_write_barrier(NOC);
            }
            send(kind, addr + first, second_at, second, dests);
        }
    }
}

// A table too long for local RAM stays in the ring. The page it is in comes back to the producer at the end of the
// block after its own, so the command must end within one block's length: each that came inline does.
static const uint32_t* packed_table_in_place(uint32_t words, uint32_t items, uint32_t size) {
    const uint32_t* at = (const uint32_t*)ring.cursor;
    uint32_t table_bytes = cq_align(4 * words, RP_L1_ALIGNMENT);
    uint64_t bytes = CQ_HEADER_BYTES + table_bytes + (uint64_t)items * cq_align(size, RP_L1_ALIGNMENT);
    if (table_bytes > PAGE_BYTES - CQ_HEADER_BYTES || bytes > ring.block_bytes) {
        bad_command(CQ_BAD_LENGTH);
    }
    skip(table_bytes);
    return at;
}

// Whether the table can stay in the ring because the command, of so many bytes from the table on, ends in the block in which
// it began: the reader returns nothing of that meanwhile.
RP_INLINE int packed_ends_in_block(uint32_t bytes, uint32_t words) {
    return bytes <= ring.block_end - ring.cursor && 4 * words <= cq_ring_here(&ring);
}

// A command of which a part is still coming, or lies in the next block.
CQ_SHARED void packed_in_pieces(uint32_t flags, uint32_t count, uint32_t words, uint32_t addr, uint32_t size,
                                uint32_t bytes) {
    uint32_t kind = flags & CQ_PACKED_MULTICAST ? RP_WRITE_DISPATCH_MULTICAST : RP_WRITE;
    const uint32_t* sub = table;
    if (packed_ends_in_block(bytes, words)) {
        sub = (const uint32_t*)ring.cursor;
        ring.cursor += cq_align(4 * words, RP_L1_ALIGNMENT);
    } else if (words <= TABLE_WORDS) {
        take_table(words);
    } else {
        sub = packed_table_in_place(words, flags & CQ_PACKED_NO_STRIDE ? 1 : count, size);
    }
    rp_noc_write_state_kind(NOC, RP_BUF_WRITE, kind);
    if (flags & CQ_PACKED_NO_STRIDE) {
        packed_same(sub, count, kind, addr, size);
    } else {
        packed_items(sub, count, kind, addr, size);
    }
}

// Multicasts of items that are here in whole.
RP_INLINE void packed_multicast_run(const uint32_t* sub, uint32_t count, uint32_t addr, uint32_t size, uint32_t l1,
                                    uint32_t stride) {
    rp_noc_write_state_kind(NOC, RP_BUF_WRITE, RP_WRITE_DISPATCH_MULTICAST);
    rp_noc_set(NOC, RP_BUF_WRITE, RP_NOC_RET_LO, addr);
    rp_noc_set(NOC, RP_BUF_WRITE, RP_NOC_LEN_BE, size);
    RP_LOCAL->nonposted_writes_issued[NOC] += count;
    for (const uint32_t* end = sub + 2 * count; sub != end; sub += 2, l1 += stride) {
        uint32_t coord = sub[0], dests = sub[1];
        rp_noc_write_barrier(NOC);  // as in write_multicast
        rp_noc_write_state_coord(NOC, RP_BUF_WRITE, coord, 0);
        rp_noc_set(NOC, RP_BUF_WRITE, RP_NOC_TARG_LO, l1);
        rp_noc_send(NOC, RP_BUF_WRITE);
        RP_LOCAL->nonposted_writes_acked[NOC] += dests;
    }
}

CQ_SHARED void write_packed(void) {
    const struct cq_write_packed* c = (const struct cq_write_packed*)ring.cursor;
    uint32_t flags = c->flags, count = c->count, size = c->size;
    uint32_t addr = c->addr + offset_of(c->offset_index);
    uint32_t words = flags & CQ_PACKED_MULTICAST ? 2 * count : count;
    uint32_t stride = cq_align(size, RP_L1_ALIGNMENT);
    if (count == 0 || size == 0 || size > PAGE_BYTES) {
        bad_command(CQ_BAD_LENGTH);
    }
    uint32_t here = cq_ring_here(&ring) - CQ_HEADER_BYTES;
    uint32_t table_bytes = cq_align(4 * words, RP_L1_ALIGNMENT);
    uint32_t bytes = table_bytes + (flags & CQ_PACKED_NO_STRIDE ? stride : count * stride);
    ring.cursor += CQ_HEADER_BYTES;
    if (bytes > here) {
        packed_in_pieces(flags, count, words, addr, size, bytes);
        return;
    }
    const uint32_t* sub = (const uint32_t*)ring.cursor;
    uint32_t l1 = ring.cursor + table_bytes;
    ring.cursor += bytes;
    if (flags & CQ_PACKED_NO_STRIDE) {
        stride = 0;
    }
    if (flags & CQ_PACKED_MULTICAST) {
        packed_multicast_run(sub, count, addr, size, l1, stride);
    } else {
        packed_unicast_run(sub, count, addr, size, l1, stride);
    }
}

// A series of multicasts to one rectangle is linked: the path is reserved once. While a link is open the NoC takes
// no other request from this tile, not even the return of a credit, so it stays open only to data that is here
// already. Returns whether the link is open after these bytes.
static int linked_multicast(int open, int keep, uint32_t rect, uint32_t addr, uint32_t l1, uint32_t bytes,
                            uint32_t dests) {
    const uint32_t linked = RP_WRITE_DISPATCH_MULTICAST | RP_WRITE_LINKED;
    if (!open) {
        rp_noc_write_barrier(NOC);
        rp_noc_write_state(NOC, RP_BUF_WRITE, linked, rect, 0);
    }
    while (bytes > RP_NOC_MAX_BURST) {
        rp_noc_write_with_state(NOC, RP_BUF_WRITE, linked, addr, l1, RP_NOC_MAX_BURST, dests);
        addr += RP_NOC_MAX_BURST;
        l1 += RP_NOC_MAX_BURST;
        bytes -= RP_NOC_MAX_BURST;
    }
    if (!keep) {
        rp_noc_write_state_kind(NOC, RP_BUF_WRITE, RP_WRITE_DISPATCH_MULTICAST);
    }
    send(linked, addr, l1, bytes, dests);
    return keep;
}

// Runs sub-commands whose data are at the cursor: some are linked, or a part of the data is still coming.
CQ_SHARED void packed_large_in_pieces(const struct cq_write_packed_large_sub* sub, uint32_t count, uint32_t alignment,
                                      uint32_t offset) {
    copy_table((uint32_t)sub, count * sizeof *sub / 4);
    sub = (const struct cq_write_packed_large_sub*)table;
    uint32_t rect = 0;
    int open = 0, begin = 1;
    for (; count != 0; count--, sub++) {
        uint32_t addr = sub->addr + offset, left = sub->length_minus1 + 1u;
        uint32_t pad = cq_align(left, alignment) - left;
        int last = count == 1 || (sub->unlink & CQ_PACKED_LARGE_UNLINK);
        if (begin) {
            rect = sub->noc;  // the sub-commands up to the one that unlinks share it
        }
        begin = last;
        while (left != 0) {
            uint32_t here = cq_ring_wait(&ring, NOC);
            uint32_t n = cq_min(left, here);
            left -= n;
            int keep = left == 0 && !last && here > n + pad;
            open = linked_multicast(open, keep, rect, addr, ring.cursor, n, sub->dests);
            ring.cursor += n;
            addr += n;
        }
        skip(pad);
    }
}

CQ_SHARED void write_packed_large(void) {
    const struct cq_write_packed_large* c = (const struct cq_write_packed_large*)ring.cursor;
    uint32_t count = c->count, alignment = c->alignment, offset = offset_of(c->offset_index);
    if (count > CQ_WRITE_PACKED_LARGE_MAX) {
        bad_command(CQ_BAD_LENGTH);
    }
    const struct cq_write_packed_large_sub* sub = (const struct cq_write_packed_large_sub*)(ring.cursor + CQ_HEADER_BYTES);
    uint32_t table_bytes = cq_align(count * sizeof *sub, RP_L1_ALIGNMENT);
    uint32_t l1 = (uint32_t)sub + table_bytes;
    // Those up to the first that is linked, or isn't here in whole, are one request each.
    rp_noc_write_state(NOC, RP_BUF_WRITE, RP_WRITE_DISPATCH_MULTICAST, 0, 0);
    for (; count != 0; count--, sub++) {
        uint32_t coord = sub->noc, addr = sub->addr, dests = sub->dests, bytes = sub->length_minus1 + 1u;
        uint32_t next = l1 + cq_align(bytes, alignment);
        if (next > ring.fence || bytes > RP_NOC_MAX_BURST || (count != 1 && !(sub->unlink & CQ_PACKED_LARGE_UNLINK))) {
            ring.cursor = l1;
            packed_large_in_pieces(sub, count, alignment, offset);
            return;
        }
        rp_noc_write_barrier(NOC);  // as in write_multicast
        rp_noc_set(NOC, RP_BUF_WRITE, RP_NOC_RET_COORD, coord);
        rp_noc_set(NOC, RP_BUF_WRITE, RP_NOC_RET_LO, addr + offset);
        rp_noc_set(NOC, RP_BUF_WRITE, RP_NOC_TARG_LO, l1);
        rp_noc_set(NOC, RP_BUF_WRITE, RP_NOC_LEN_BE, bytes);
        rp_noc_send(NOC, RP_BUF_WRITE);
        rp_noc_count_write(NOC, RP_WRITE_DISPATCH_MULTICAST, dests);
        l1 = next;
    }
    ring.cursor = l1;
}

// --- synchronization -----------------------------------------------------------------------------------------------

static void wait_memory(uint32_t addr, uint32_t count) {
    rp_invalidate_l1();
    if ((int32_t)(rp_load(addr) - count) >= 0) {
        return;
    }
    rp_waypoint_detail("WMEM", addr);
    do {
        rp_invalidate_l1();
    } while ((int32_t)(rp_load(addr) - count) < 0);
    rp_waypoint("RUN ");
}

// The update register can't be read back, so nothing keeps a later load of the counter from overtaking the store but
// what the store queue holds: four entries, and these push it out.
static void clear_stream(uint32_t stream) {
    volatile uint32_t filler;
    rp_stream_clear(stream);
    for (uint32_t i = 0; i < 4; i++) {
        filler = i;
    }
    (void)filler;
}

CQ_SHARED void wait_for(uint32_t flags, const struct cq_wait* c) {
    uint32_t stream = c->stream, count = c->count, addr = c->addr;
    if (flags & CQ_WAIT_BARRIER) {
        rp_noc_write_barrier(NOC);
    }
    if (flags & CQ_WAIT_MEMORY) {
        wait_memory(addr, count);
    }
    if (flags & CQ_WAIT_STREAM) {
        cq_wait_stream(stream, count);
    }
    if (flags & CQ_WAIT_CLEAR_STREAM) {
        clear_stream(stream);
    }
    if (flags & CQ_WAIT_NOTIFY_PREFETCH) {
        rp_noc_atomic_inc(NOC, ring.coord, cq_semaphore(args.prefetch_sem_base, CQ_SEM_SYNC), 1);
    }
}

// Every program has a WAIT: for the workers, or without effect.
RP_INLINE void wait(void) {
    const struct cq_wait* c = (const struct cq_wait*)ring.cursor;
    uint32_t flags = c->flags;
    if (flags == CQ_WAIT_STREAM) {
        cq_wait_stream(c->stream, c->count);
    } else if (flags != 0) {
        wait_for(flags, c);
    }
    skip_header();
}

// Tells the subordinate that it may send one more go signal to each sub-device in the mask. What the workers need
// has arrived when wait is set: this is the barrier in front of every program.
CQ_SHARED void notify_subordinate(void) {
    const struct cq_notify_subordinate_go_signal* c = (const struct cq_notify_subordinate_go_signal*)ring.cursor;
    uint32_t mask = c->mask;
    if (mask >> MAX_SYNC_WORDS) {
        bad_command(CQ_BAD_LENGTH);
    }
    if (c->wait) {
        rp_noc_write_barrier(NOC);
    }
    for (uint32_t word = args.sync_base; mask != 0; mask >>= 1, word += CQ_SYNC_STRIDE) {
        if (mask & 1) {
            rp_store(word, rp_load(word) + 1);
        }
    }
    skip_header();
}

CQ_SHARED void send_go(void) {
    cq_send_any_go(&go, NOC, ring.cursor, 0);
    skip_header();
}

// Hands a command, mostly a go signal, to the subordinate without a page of its ring.
RP_INLINE void forward_subordinate(void) {
    const struct cq_forward_subordinate* c = (const struct cq_forward_subordinate*)ring.cursor;
    if (c->wait) {
        rp_noc_write_barrier(NOC);  // as in notify_subordinate
    }
    uint32_t command = ring.cursor + CQ_HEADER_BYTES;
    uint32_t index = cq_sync_index((const struct cq_send_go_signal*)command, args.first_stream);
    if (index >= MAX_SYNC_WORDS) {
        bad_command(CQ_BAD_LENGTH);
    }
    cq_forward(args.forwarded, forwarded++, command, rp_load(args.sync_base + CQ_SYNC_STRIDE * index));
    ring.cursor += 2 * CQ_HEADER_BYTES;
}

// --- settings ------------------------------------------------------------------------------------------------------

RP_INLINE void set_write_offset(void) {
    const struct cq_set_write_offset* c = (const struct cq_set_write_offset*)ring.cursor;
    uint32_t count = c->count;
    if (count > CQ_SET_WRITE_OFFSET_MAX) {
        bad_command(CQ_BAD_LENGTH);
    }
    uint32_t from = ring.cursor + CQ_HEADER_BYTES;
    if (count == 3) {  // as every program has, all of them in this page
        uint32_t a = rp_load(from), b = rp_load(from + 4), c = rp_load(from + 8);
        write_offset[0] = a;
        write_offset[1] = b;
        write_offset[2] = c;
        ring.cursor = from + 12;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        write_offset[i] = rp_load(from + 4 * i);
    }
    skip(CQ_HEADER_BYTES + 4 * count);
}

CQ_SHARED void set_noc_data(void) {
    const struct cq_set_go_signal_noc_data* c = (const struct cq_set_go_signal_noc_data*)ring.cursor;
    uint32_t words = c->count;
    if (words > CQ_GO_NOC_DATA_WORDS) {
        bad_command(CQ_BAD_LENGTH);
    }
    cq_copy_noc_data(&go, ring.cursor + CQ_HEADER_BYTES, words);
    skip(CQ_HEADER_BYTES + 4 * words);
}

#include "cq_read_arg.h"

// --- for tests of the queue ----------------------------------------------------------------------------------------

CQ_SHARED void sink(void) {
    const struct cq_sink* c = (const struct cq_sink*)ring.cursor;
    skip(CQ_HEADER_BYTES + c->size);
}

CQ_SHARED void debug(void) {
    const struct cq_debug* c = (const struct cq_debug*)ring.cursor;
    uint32_t stride = c->stride;
    skip(stride < CQ_HEADER_BYTES ? CQ_HEADER_BYTES : stride);
}

CQ_SHARED void delay(void) {
    const struct cq_delay* c = (const struct cq_delay*)ring.cursor;
    for (uint32_t n = c->loops; n != 0; n--) {
        __asm__ volatile("");
    }
    skip_header();
}

// Writes an entry of the log of control flow.
CQ_SHARED void stamp(void) {
    const struct cq_stamp* c = (const struct cq_stamp*)ring.cursor;
    uint32_t entry = ring.cursor + CQ_HEADER_BYTES;
    uint64_t now = rp_wall_clock();
    rp_store((uint32_t)&c->time_lo, (uint32_t)now);
    rp_store((uint32_t)&c->time_hi, (uint32_t)(now >> 32));
    rp_l1_commit((uint32_t)&c->time_hi);
    send_to(c->noc, 0, c->addr, entry, sizeof *c - CQ_HEADER_BYTES);
    skip(sizeof *c);
}

// Runs a command that few traces have. Returns 1 if it is to go on as a FORWARD_SUBORDINATE.
CQ_SHARED int run_rare_command(void) {
    switch (*(const uint8_t*)ring.cursor) {
    case CQ_DISPATCH_READ_ARG:
        take_read_arg();
        return 0;
    case CQ_DISPATCH_FORWARD_WITH_ARGS:
        write_read_args();
        return 1;
    case CQ_DISPATCH_STAMP:
        stamp();
        return 0;
    default:
        bad_command(CQ_BAD_COMMAND);
    }
}

// Runs the command at the cursor, of which the first page is here. Returns 0 after the last one.
RP_INLINE int run_command(void) {
    uint32_t id = *(const uint8_t*)ring.cursor;
    // Those that every program has come first: each comparison counts.
    if (id == CQ_DISPATCH_WRITE_PACKED) {
        write_packed();
        return 1;
    }
    if (id == CQ_DISPATCH_SET_WRITE_OFFSET) {
        set_write_offset();
        return 1;
    }
    if (id == CQ_DISPATCH_WAIT) {
        wait();
        return 1;
    }
    if (id == CQ_DISPATCH_FORWARD_SUBORDINATE) {
    forward:
        forward_subordinate();
        return 1;
    }
    if (id == CQ_DISPATCH_WRITE_PACKED_LARGE) {
        write_packed_large();
        return 1;
    }
    switch (id) {
    case CQ_DISPATCH_WRITE_LINEAR:
    case CQ_DISPATCH_WRITE_LINEAR_H:
        write_linear();
        return 1;
    case CQ_DISPATCH_WRITE_LINEAR_H_HOST:
        write_host();
        return 1;
    case CQ_DISPATCH_WRITE_PAGED:
        write_paged();
        return 1;
    case CQ_DISPATCH_NOTIFY_SUBORDINATE_GO_SIGNAL:
        notify_subordinate();
        return 1;
    case CQ_DISPATCH_SEND_GO_SIGNAL:
        send_go();
        return 1;
    case CQ_DISPATCH_SET_GO_SIGNAL_NOC_DATA:
        set_noc_data();
        return 1;
    case CQ_DISPATCH_EXEC_BUF_END:         // for the prefetcher of another chip, which this chip has not
    case CQ_DISPATCH_SET_NUM_WORKER_SEMS:  // for the subordinate
        skip_header();
        return 1;
    case CQ_DISPATCH_SINK:
        sink();
        return 1;
    case CQ_DISPATCH_DEBUG:
        debug();
        return 1;
    case CQ_DISPATCH_DELAY:
        delay();
        return 1;
    case CQ_DISPATCH_TERMINATE:
        skip_header();
        return 0;
    default:
        if (run_rare_command()) {
            goto forward;
        }
        return 1;
    }
}

static void init(void) {
    cq_load_args((uint32_t*)&args, sizeof(args));
    if (args.page_size != PAGE_BYTES || args.ring_pages % args.ring_blocks != 0) {
        cq_park(CQ_BAD_LENGTH, args.page_size);
    }
    ring.base = args.ring;
    ring.end = args.ring + args.ring_pages * PAGE_BYTES;
    ring.block_bytes = args.ring_pages / args.ring_blocks * PAGE_BYTES;
    ring.pages_word = cq_own_semaphore(CQ_SEM_DISPATCH_PAGES);
    ring.coord = rp_noc_coord_xy(args.prefetch_xy);
    ring.credits = cq_semaphore(args.prefetch_sem_base, CQ_SEM_DISPATCH_CREDITS);
    cq_ring_reader_init(&ring);
    cq_completion_init(&completion, &args);
    go.address = args.go_address;
    go.rect = rp_noc_rect(NOC, args.workers_start_xy, args.workers_end_xy);
    go.workers = args.num_workers;
    for (uint32_t i = 0; i < args.num_streams; i++) {
        clear_stream(args.first_stream + i);
    }
}

// Runs what begins at the page at the cursor: a command, or a sequence of them. Returns 0 after the last one.
RP_INLINE int run_page(void) {
    uint32_t left = 1;
    cq_ring_wait(&ring, NOC);
    if (*(const uint8_t*)ring.cursor == CQ_DISPATCH_SEQUENCE) {
        left = ((const struct cq_sequence*)ring.cursor)->count;
        skip_header();
    }
    for (; left != 0; left--) {
        ring.cursor = cq_align(ring.cursor, RP_L1_ALIGNMENT);
        cq_ring_wait(&ring, NOC);
        command_at = ring.cursor;
        if (!run_command()) {
            return 0;
        }
    }
    return 1;
}

void kernel_main(void) {
    int more;
    init();
    do {
        more = run_page();
        cq_ring_end_command(&ring);
    } while (more);
    rp_waypoint("TERM");
    cq_ring_return_all(&ring, NOC);
    rp_noc_full_barrier(NOC);
}
