// Where the prefetcher's relay commands get their data: linear memory, interleaved pages, or a list of those. Part of
// prefetch.c.
#ifndef REPRISE_CQ_PREFETCH_SOURCE_H
#define REPRISE_CQ_PREFETCH_SOURCE_H

#include "cq_prefetch_input.h"

static uint32_t data_reads;  // reads of READ_DATA since the last barrier

// A source is a series of runs, each contiguous in the memory of one tile.
enum source_kind { SOURCE_LINEAR, SOURCE_PAGED, SOURCE_PAGED_PACKED };

struct source {
    enum source_kind kind;
    uint32_t coord;
    uint64_t addr;
    uint32_t run;  // bytes left in this run
    struct cq_pages pages;  // the one after this run
    const struct cq_relay_paged_packed_sub* sub;  // PAGED_PACKED: this one, and how many there are from it on
    uint32_t subs;
    uint32_t sub_left;  // bytes of this one after this run
};

CQ_SHARED void source_page(struct source* s) {
    s->coord = cq_pages_coord(&s->pages, NOC);
    s->addr = cq_pages_address(&s->pages);
    s->run = s->pages.page_size;
    cq_pages_next(&s->pages);
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
    cq_pages_start(&s->pages, 1, s->sub->base, 1u << s->sub->log2_page, s->sub->start);
    s->sub_left = s->sub->length;
    s->sub++;
    s->subs--;
    source_sub_page(s);
}

// Moves to the next run when this one is used up. Not sooner: no run follows the last one.
static void source_ready(struct source* s) {
    if (s->run != 0) {
        return;
    }
    switch (s->kind) {
    case SOURCE_LINEAR:
        source_linear_run(s);
        break;
    case SOURCE_PAGED:
        source_page(s);
        break;
    case SOURCE_PAGED_PACKED:
        if (s->sub_left != 0) {
            source_sub_page(s);
        } else {
            source_sub(s);
        }
        break;
    }
}

CQ_SHARED void data_barrier(void) {
    if (data_reads != 0) {
        wait_reads(READ_DATA);
        data_reads = 0;
    }
}

static void data_read(uint32_t coord, uint64_t addr, uint32_t l1, uint32_t bytes) {
    data_reads += (bytes - 1) / RP_NOC_MAX_BURST + 1;
    if (data_reads > MAX_OPEN_READS) {
        wait_reads(READ_DATA);
        data_reads = (bytes - 1) / RP_NOC_MAX_BURST + 1;
    }
    read_l1(coord, addr, l1, bytes);
}

// Starts reading whole pages after this run, which takes few instructions for each. Returns their bytes.
static uint32_t source_read_pages(struct source* s, uint32_t l1, uint32_t bytes) {
    if (s->kind == SOURCE_PAGED_PACKED) {
        bytes = cq_min(bytes, s->sub_left);
    }
    bytes = cq_min(bytes, (MAX_OPEN_READS - data_reads) * s->pages.page_size);
    uint32_t before = RP_LOCAL->reads_issued[NOC];
    bytes = read_whole_pages(&s->pages, l1, bytes);
    data_reads += RP_LOCAL->reads_issued[NOC] - before;
    if (s->kind == SOURCE_PAGED_PACKED) {
        s->sub_left -= bytes;
    }
    return bytes;
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
        if (s->run == 0 && s->kind != SOURCE_LINEAR) {
            n = source_read_pages(s, l1, bytes);
            l1 += n;
            bytes -= n;
        }
    }
}

#endif
