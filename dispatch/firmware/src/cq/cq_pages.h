// Interleaved buffers: page p lies in bank p mod n, at row p div n of that bank.
#ifndef REPRISE_CQ_PAGES_H
#define REPRISE_CQ_PAGES_H

#include "cq_core.h"
#include "reprise/noc.h"

// cq_pages walks the pages of a buffer in order. One division at the start, none for each page.
struct cq_pages {
    uint32_t bank, banks;
    uint32_t row;  // address of this page in its bank, without the bank's own offset
    uint32_t page_size;
    int dram;
};

CQ_SHARED void cq_pages_start(struct cq_pages* p, int dram, uint32_t base, uint32_t page_size, uint32_t page) {
    p->dram = dram;
    p->banks = dram ? RP_BANK_TABLE->num_dram : RP_BANK_TABLE->num_l1;
    uint32_t rows = page / p->banks;
    p->bank = page - rows * p->banks;
    p->row = base + rows * page_size;
    p->page_size = page_size;
}

RP_INLINE void cq_pages_next(struct cq_pages* p) {
    if (++p->bank == p->banks) {
        p->bank = 0;
        p->row += p->page_size;
    }
}

// Where the page is: coordinate register form, and address there.
RP_INLINE uint32_t cq_pages_coord(const struct cq_pages* p, uint32_t noc) {
    return rp_noc_coord_xy(p->dram ? RP_BANK_TABLE->dram_xy[noc][p->bank] : RP_BANK_TABLE->l1_xy[noc][p->bank]);
}

RP_INLINE uint32_t cq_pages_address(const struct cq_pages* p) {
    return p->dram ? p->row + RP_BANK_TABLE->dram_offset[p->bank] : p->row;
}

#endif
