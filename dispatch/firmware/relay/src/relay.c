// Carries the command queues of a chip that has no PCI interface over an Ethernet link: this program runs on the Ethernet
// tiles at both ends. To the host the near tile looks like a prefetch core and a dispatch core: it has a fetch queue and the
// completion queue's read pointer. To the remote chip's prefetcher and dispatcher the L1 of a spare core looks like host memory, the
// mirror. The firmware of both is the same as on any chip.
//
// A message is a page of data and a header of 16 bytes after it, through transmit queue 1, which keeps packets in order and
// on silicon sends them again until they arrive (tt-isa-documentation WormholeB0/EthernetTile/EthernetTxRx.md); the base
// firmware has queue 0. Each queue and direction has SLOTS messages under way, so queues that wait for each other can't block
// each other, and what arrives always has a place. The receiver sends the number of the last message that it has taken.
//
// The processor belongs to the base firmware, which is called in every round. Nothing here waits but for the
// transmit queue: a message that can't be sent yet is tried again in the next round.

#include "relay.h"
#include "reprise/noc.h"

#define NOC 0u
#define RETURN_READ (RP_CTRL_READ | RP_CTRL_RESP | RP_CTRL_VC_STATIC | RP_CTRL_VC(RP_VC_UNICAST))

#define TXQ 0xFFB91000u  // transmit queue 1
#define TXQ_CMD 0x04u
#define TXQ_SOURCE 0x14u
#define TXQ_BYTES 0x18u
#define TXQ_DEST 0x1Cu
#define TXQ_DATA 2u

#define TOGGLE 0x80000000u
#define PAGE_UNITS (PAGE / 16u)
#define LAST 0x80000000u  // in a header: the batch ends with this message
#define STALL 0x8000u

#define RECORD_HEADER 16u  // of a completion record: the dispatcher's command, with the record's length
#define RECORD_LENGTH 8u

// A pointer into a completion queue as the dispatcher and the host have it.
struct pointer {
    uint32_t base, size, at, toggle;  // units of 16 bytes
};

static uint32_t word_of(const struct pointer* p) { return p->at | p->toggle; }

static void advance(struct pointer* p) {
    p->at += PAGE_UNITS;
    if (p->at >= p->base + p->size) {
        p->at = p->base;
        p->toggle ^= TOGGLE;
    }
}

static void begin(struct pointer* p, uint32_t base, uint32_t bytes) {
    p->base = p->at = base >> 4;
    p->size = bytes >> 4;
    p->toggle = 0;
}

struct near_queue {
    uint32_t entry;               // next of the fetch queue
    uint32_t issue;               // next byte of the issue queue
    uint32_t word, total, left;   // the batch being sent
    uint32_t sent, received;
    struct pointer completion;
};

struct far_queue {
    uint32_t entry;               // next of the prefetcher's fetch queue
    uint32_t mirror;              // where the next byte goes
    uint32_t left;                // of the batch being received
    uint32_t ends[BATCHES];       // of the batches that lie in the mirror
    uint32_t first, last;         // of them, counted
    uint32_t tail;                // where the last batch ended whose room is free
    uint32_t seen, taken;         // entry that the prefetcher has taken last; how many
    uint32_t sent, received;
    struct pointer completion;
    uint32_t record;              // bytes of the completion record being sent that are left
};

struct relay {
    const volatile struct relay_args* args;
    uint32_t coord, memory;  // as command buffers name tiles
    int stopped;
};

// Asked before each request for host memory: when a process is killed, the driver stores STOP and then takes its memory away.
static int stop(struct relay* r) {
    if (rp_load(STOP) != 0) {
        r->stopped = 1;
    }
    return r->stopped;
}

// As rp_l1_commit after a store of two bytes: a load waits for one that begins at the same address.
static void commit_half(uint32_t addr) {
    uint32_t v = *(volatile uint16_t*)addr;
    __asm__ volatile("addi x0, %0, 0" ::"r"(v) : "memory");
}

// The base firmware uses the same network interface, and nothing of it is under way while this runs.
static void request(uint32_t buf, uint32_t counter) {
    uint32_t before = rp_noc_counter(NOC, counter);
    rp_noc_send(NOC, buf);
    rp_noc_ready(NOC, buf);
    while (rp_noc_counter(NOC, counter) == before) {
    }
}

static void get(struct relay* r, uint32_t coord, uint32_t hi, uint32_t addr, uint32_t l1, uint32_t bytes) {
    rp_noc_ready(NOC, RP_BUF_READ);
    rp_noc_set(NOC, RP_BUF_READ, RP_NOC_PACKET_TAG, 0);
    rp_noc_set(NOC, RP_BUF_READ, RP_NOC_CTRL, RETURN_READ);
    rp_noc_set(NOC, RP_BUF_READ, RP_NOC_RET_LO, l1);
    rp_noc_set_ret(NOC, RP_BUF_READ, r->coord, 0);
    rp_noc_set(NOC, RP_BUF_READ, RP_NOC_TARG_LO, addr);
    rp_noc_set_targ(NOC, RP_BUF_READ, coord, hi);
    rp_noc_set(NOC, RP_BUF_READ, RP_NOC_LEN_BE, bytes);
    request(RP_BUF_READ, RP_COUNTER_RD_RESP);
}

static void put(struct relay* r, uint32_t coord, uint32_t hi, uint32_t addr, uint32_t l1, uint32_t bytes) {
    rp_noc_ready(NOC, RP_BUF_WORD);
    rp_noc_set(NOC, RP_BUF_WORD, RP_NOC_PACKET_TAG, 0);
    rp_noc_set(NOC, RP_BUF_WORD, RP_NOC_CTRL, RP_WRITE);
    rp_noc_set(NOC, RP_BUF_WORD, RP_NOC_TARG_LO, l1);
    rp_noc_set_targ(NOC, RP_BUF_WORD, r->coord, 0);
    rp_noc_set(NOC, RP_BUF_WORD, RP_NOC_RET_LO, addr);
    rp_noc_set_ret(NOC, RP_BUF_WORD, coord, hi);
    rp_noc_set(NOC, RP_BUF_WORD, RP_NOC_LEN_BE, bytes);
    request(RP_BUF_WORD, RP_COUNTER_WR_ACK);
}

// The source word agrees with the address in the low four bits, as writes want it.
static void put_word(struct relay* r, uint32_t coord, uint32_t hi, uint32_t addr, uint32_t q, uint32_t value) {
    uint32_t from = WORD(q) + (addr & 12);
    rp_store(from, value);
    rp_l1_commit(from);
    put(r, coord, hi, addr, from, 4);
}

static void transmit(struct relay* r, uint32_t from, uint32_t to, uint32_t bytes) {
    while (rp_load(TXQ + TXQ_CMD) != 0) {
        if (stop(r)) {
            return;
        }
    }
    rp_store(TXQ + TXQ_SOURCE, from);
    rp_store(TXQ + TXQ_BYTES, bytes);
    rp_store(TXQ + TXQ_DEST, to);
    rp_store(TXQ + TXQ_CMD, TXQ_DATA);
}

// Data and header stay until the other side has taken them.
static void send(struct relay* r, uint32_t q, uint32_t number, uint32_t from, uint32_t bytes, uint32_t flags, uint32_t word,
                 uint32_t total) {
    uint32_t slot = (number - 1) % SLOTS, header = HEADER_OUT(q, slot);
    rp_store(header, number);
    rp_store(header + 4, bytes | flags);
    rp_store(header + 8, word);
    rp_store(header + 12, total);
    rp_l1_commit(header + 12);
    transmit(r, from, IN(q, slot), (bytes + 15) & ~15u);
    transmit(r, header, HEADER_IN(q, slot), 16);
}

// The source is used again SLOTS messages later, which are not sent before this number has arrived.
static void take(struct relay* r, uint32_t q, uint32_t number) {
    uint32_t from = TAKING(q, (number - 1) % SLOTS);
    rp_store(from, number);
    rp_l1_commit(from);
    transmit(r, from, TAKEN(q), 16);
}

// --- near ------------------------------------------------------------------------------------------------------------

static void send_commands(struct relay* r, struct near_queue* n, uint32_t q) {
    const volatile struct near_args* a = &r->args->near[q];
    if (n->left == 0) {
        n->word = *(volatile uint16_t*)n->entry;
        if (n->word == 0) {
            return;
        }
        n->total = n->left = (n->word & ~STALL) << 4;
        if (n->issue + n->total > a->issue_base + a->issue_size) {
            n->issue = a->issue_base;
        }
    }
    if (n->sent - rp_load(TAKEN(q)) >= SLOTS) {
        return;
    }
    uint32_t bytes = n->left < PAGE ? n->left : PAGE, l1 = OUT(q, n->sent % SLOTS);
    if (stop(r)) {
        return;
    }
    get(r, r->memory, r->args->memory_hi, n->issue, l1, bytes);
    n->issue += bytes;
    n->left -= bytes;
    n->sent++;
    if (n->left == 0) {  // the host may write there again
        *(volatile uint16_t*)n->entry = 0;
        rp_store(FETCH_RD(q), n->entry);
        n->entry += 2;
        if (n->entry == a->fetch_end) {
            n->entry = FETCH(q);
        }
    }
    send(r, q, n->sent, l1, bytes, n->left == 0 ? LAST : 0, n->word, n->total);
}

static void receive_completions(struct relay* r, struct near_queue* n, uint32_t q) {
    uint32_t slot = n->received % SLOTS;
    if (rp_load(HEADER_IN(q, slot)) != n->received + 1) {
        return;
    }
    uint32_t rd = rp_load(COMPLETION_RD(q));
    if ((rd & ~TOGGLE) == n->completion.at && (rd & TOGGLE) != n->completion.toggle) {
        return;  // full
    }
    if (stop(r)) {
        return;
    }
    put(r, r->memory, r->args->memory_hi, n->completion.at << 4, IN(q, slot), rp_load(HEADER_IN(q, slot) + 4));
    advance(&n->completion);
    if (stop(r)) {
        return;
    }
    put_word(r, r->memory, r->args->memory_hi, r->args->near[q].completion_wr_word, q, word_of(&n->completion));
    n->received++;
    take(r, q, n->received);
}

// --- far -------------------------------------------------------------------------------------------------------------

// Forgets batches that the prefetcher has. Those of the entry taken last may still be on their way.
static void look(struct relay* r, struct far_queue* f, uint32_t q) {
    const volatile struct far_args* a = &r->args->far_queue[q];
    uint32_t word = rp_load(FETCHED(q)), end = a->fetch_queue + a->fetch_bytes;
    while (f->seen != word) {
        f->seen += 2;
        if (f->seen >= end) {
            f->seen = a->fetch_queue;
        }
        if (f->taken++ != 0) {
            f->tail = f->ends[f->first % BATCHES];
            f->first++;
        }
    }
}

// place finds room for a batch, by the prefetcher's rule: what doesn't fit in front of the end begins at the base.
static int place(struct relay* r, struct far_queue* f, uint32_t q, uint32_t bytes) {
    const volatile struct far_args* a = &r->args->far_queue[q];
    uint32_t at = f->mirror;
    if (at + bytes > a->issue_base + a->issue_size) {
        at = a->issue_base;
    }
    look(r, f, q);
    int whole = f->tail < f->mirror;  // what is taken up is one piece
    if (f->first != f->last &&
        (f->last - f->first == BATCHES || !((whole && at >= f->mirror) || at + bytes < f->tail) || (!whole && at < f->mirror))) {
        return 0;
    }
    f->mirror = at;
    return 1;
}

static void receive_commands(struct relay* r, struct far_queue* f, uint32_t q) {
    const volatile struct far_args* a = &r->args->far_queue[q];
    uint32_t slot = f->received % SLOTS, header = HEADER_IN(q, slot);
    if (rp_load(header) != f->received + 1) {
        return;
    }
    if (f->left == 0) {
        uint32_t total = rp_load(header + 12);
        if (!place(r, f, q, total)) {
            return;
        }
        f->left = total;
    }
    uint32_t flags = rp_load(header + 4), bytes = flags & ~LAST, word = rp_load(header + 8);
    put(r, r->memory, 0, f->mirror, IN(q, slot), bytes);
    f->mirror += bytes;
    f->left -= bytes;
    f->received++;
    if (flags & LAST) {
        f->left = 0;
        f->ends[f->last % BATCHES] = f->mirror;
        f->last++;
        uint32_t from = WORD(q) + (f->entry & 14);
        *(volatile uint16_t*)from = (uint16_t)word;
        commit_half(from);
        put(r, rp_noc_coord_xy(a->prefetch_xy), 0, f->entry, from, 2);
        f->entry += 2;
        if (f->entry == a->fetch_queue + a->fetch_bytes) {
            f->entry = a->fetch_queue;
        }
    }
    take(r, q, f->received);
}

static void send_completions(struct relay* r, struct far_queue* f, uint32_t q) {
    const volatile struct far_args* a = &r->args->far_queue[q];
    if (rp_load(COMPLETION_WR(q)) == word_of(&f->completion) || f->sent - rp_load(TAKEN(q)) >= SLOTS) {
        return;
    }
    // A record fills whole pages, but most are an event's, of some bytes: its first words tell.
    uint32_t l1 = OUT(q, f->sent % SLOTS), from = f->completion.at << 4;
    if (f->record == 0) {
        get(r, r->memory, 0, from, l1, RECORD_HEADER);
        f->record = rp_load(l1 + RECORD_LENGTH);
        if (f->record < RECORD_HEADER) {
            f->record = PAGE;  // it can't be; the host says so
        }
    }
    uint32_t bytes = f->record < PAGE ? f->record : PAGE;
    get(r, r->memory, 0, from, l1, bytes);
    f->record -= bytes;
    advance(&f->completion);
    put_word(r, rp_noc_coord_xy(a->dispatch_xy), 0, a->completion_rd_word, q, word_of(&f->completion));
    f->sent++;
    send(r, q, f->sent, l1, bytes, 0, 0, 0);
}

// --- rounds ----------------------------------------------------------------------------------------------------------

static void yield(void) { ((void (*)(void))rp_load(YIELD))(); }

static void run_near(struct relay* r, uint32_t queues) {
    struct near_queue n[QUEUES];
    for (uint32_t q = 0; q < queues; q++) {
        const volatile struct near_args* a = &r->args->near[q];
        n[q].entry = FETCH(q);
        n[q].issue = a->issue_base;
        n[q].left = n[q].sent = n[q].received = 0;
        begin(&n[q].completion, a->completion_base, a->completion_size);
    }
    while (!stop(r)) {
        for (uint32_t q = 0; q < queues; q++) {
            send_commands(r, &n[q], q);
            receive_completions(r, &n[q], q);
        }
        yield();
    }
}

static void run_far(struct relay* r, uint32_t queues) {
    struct far_queue f[QUEUES];
    for (uint32_t q = 0; q < queues; q++) {
        const volatile struct far_args* a = &r->args->far_queue[q];
        f[q].entry = a->fetch_queue;
        f[q].mirror = f[q].tail = a->issue_base;
        f[q].seen = a->fetch_queue + a->fetch_bytes;
        f[q].taken = f[q].left = f[q].first = f[q].last = f[q].sent = f[q].received = f[q].record = 0;
        begin(&f[q].completion, a->completion_base, a->completion_size);
    }
    while (!stop(r)) {
        for (uint32_t q = 0; q < queues; q++) {
            receive_commands(r, &f[q], q);
            send_completions(r, &f[q], q);
        }
        yield();
    }
}

void relay_main(void) {
    struct relay r;
    r.args = (const volatile struct relay_args*)ARGS;
    r.coord = rp_noc_coord_xy(r.args->self);
    r.memory = rp_noc_coord_xy(r.args->memory);
    r.stopped = 0;
    rp_store(STATE, STATE_RUNNING);
    if (r.args->far) {
        run_far(&r, r.args->queues);
    } else {
        run_near(&r, r.args->queues);
    }
    rp_store(LAUNCH, 0);
    rp_store(STATE, STATE_ENDED);
    rp_l1_commit(STATE);
}
