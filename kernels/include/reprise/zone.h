// Zones of a kernel, for C and C++ on any processor: how long parts of it take. After reprise_zone("name"); the rest of the block
// is a zone. reprise_zone_begin(z, "name") and reprise_zone_end(z) are one that ends elsewhere in the block of the first.
//
// A zone is a record in the ring of reprise/print.h, which is written at its end. A full ring waits for nobody: the zone is lost,
// and counted. Names stay in the kernel's file, as formats do. The host's side is package kernels/print.
//
// Without REPRISE_ZONES (kernels.Source.Zones) nothing here takes an instruction or a byte.
#ifndef REPRISE_ZONE_H
#define REPRISE_ZONE_H

#include "reprise/print.h"

#if !defined(REPRISE_ZONES)

#define reprise_zone(name) ((void)0)
#define reprise_zone_begin(zone, name) ((void)0)
#define reprise_zone_end(zone) ((void)0)

#else

struct rp_zone {
    uint32_t name;  // where it is in the section of formats
    uint32_t low, high;
};

// The record of a zone: its name, and the time of its start; the header has that of its end.
#define RP_ZONE_WORDS (RP_PRINT_HEADER + 3u)

// rp_zone_write writes the record, if the ring has room.
static __attribute__((noinline, unused)) void rp_zone_write(uint32_t name, uint32_t low, uint32_t high) {
    volatile struct rp_print_ring* r = rp_print_ring();
    uint32_t put = r->put;
    r->put = put | RP_PRINT_BUSY;
    uint32_t end_low = rp_load(RP_WALL_CLOCK_LOW);
    uint32_t end_high = rp_load(RP_WALL_CLOCK_HIGH);
    uint32_t tail = r->tail;
    uint32_t most = put + 2 * 4 * RP_ZONE_WORDS;  // a skipped rest is shorter than the record
    if (most - tail > RP_PRINT_SIZE) {
        rp_invalidate_l1();
        uint32_t taken = r->taken;
        if (taken - tail <= put - tail) {
            r->tail = tail = taken;
        }
        if (most - tail > RP_PRINT_SIZE) {
            r->made = r->made + 1;
            r->put = put;
            return;
        }
    }
    volatile uint32_t* w = rp_print_begin(RP_PRINT_KIND_ZONE | RP_ZONE_WORDS);
    w[-2] = end_low;
    w[-1] = end_high;
    w[0] = name;
    w[1] = low;
    w[2] = high;
    rp_print_end(RP_ZONE_WORDS);
}

RP_INLINE void rp_zone_starts(struct rp_zone* z) {
    z->low = rp_load(RP_WALL_CLOCK_LOW);
    z->high = rp_load(RP_WALL_CLOCK_HIGH);
}

RP_INLINE void rp_zone_ends(struct rp_zone* z) {
    __asm__ volatile("" ::: "memory");
    rp_zone_write(z->name, z->low, z->high);
}

#define reprise_zone(name) RP_ZONE(__attribute__((cleanup(rp_zone_ends))), RP_PRINT_PASTE(rp_zone_, __COUNTER__), name)
#define reprise_zone_begin(zone, name) RP_ZONE(, zone, name)
#define reprise_zone_end(zone) rp_zone_ends(&zone)
#define RP_ZONE(attribute, zone, text)                                                                             \
    RP_STATIC_ASSERT(sizeof(text) <= RP_PRINT_LONGEST + 1, "a zone's name of more than 199 characters");           \
    struct rp_zone zone attribute;                                                                                 \
    RP_PRINT_ENTRY(zone.name, text, sizeof(text), 0u, __LINE__, RP_PRINT_INFO, 0u, "\t.asciz \"" __FILE__ "\"\n"); \
    rp_zone_starts(&zone)

#endif  // REPRISE_ZONES

#endif
