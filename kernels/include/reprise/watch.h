// What a kernel reports when a check of it fails, for C and C++: assertions of reprise/assert.h, and the checks of circular buffers,
// NoC requests and stacks in the other headers. They are compiled in by REPRISE_WATCH (kernels.Source.Watch) only.
//
// A processor whose check fails writes one record to its place in L1, and stops for ever. The host's side is package kernels/watch,
// which docs/debugging.md describes. Texts, files and lines are where reprise/print.h keeps formats: in a section of the kernel's
// file that isn't loaded.
#ifndef REPRISE_WATCH_H
#define REPRISE_WATCH_H

#include "reprise/print.h"

#if defined(REPRISE_WATCH)

// Each processor has a record here. abi.L1Map has the same number.
#define RP_L1_WATCH 0x3100u
#define RP_WATCH_MAGIC 0x57540000u
#define RP_WATCH_ARGS 6u

// Where the host says what tiles there are: for each NoC two bits for each coordinate of 5 bits, x first. abi.L1Map has the same
// number.
#define RP_L1_TILES 0x1A00u
#define RP_TILES_SIZE 0x100u  // for a NoC
#define RP_TILE_NONE 0u
#define RP_TILE_L1 1u     // Tensix
#define RP_TILE_DRAM 2u
#define RP_TILE_OTHER 3u

// What failed: a check, and the case of it in the next byte.
#define RP_WATCH_ASSERT 1u
#define RP_WATCH_CB 2u
#define RP_WATCH_NOC 3u
#define RP_WATCH_STACK 4u

struct rp_watch_record {
    uint32_t what;     // RP_WATCH_MAGIC and what failed; 0 while nothing has
    uint32_t program;  // the id by which the host knows the program
    uint32_t text;     // where the entry with text, file and line is in the section
    uint32_t pc;       // of the instruction after the check
    uint32_t base;     // where the kernel begins
    uint32_t sp;
    uint32_t args[RP_WATCH_ARGS];  // what the check says of it
};

RP_INLINE volatile struct rp_watch_record* rp_watch_record(void) {
    return (volatile struct rp_watch_record*)RP_L1_WATCH + rp_processor();
}

// rp_watch_stop completes the record and stops the processor. pc is where the check was; 0 stands for the caller.
static __attribute__((noinline, noreturn, unused)) void rp_watch_stop(uint32_t what, uint32_t text, uint32_t pc) {
    // The section says that the kernel reports, even if it has no text.
    __asm__ volatile(".pushsection .reprise_print,\"\",@progbits\n\t.balign 4\n\t.word 0\n\t.popsection");
    volatile struct rp_watch_record* r = rp_watch_record();
    uint32_t base, sp;
    __asm__("lla %0, _start" : "=r"(base));
    __asm__ volatile("mv %0, sp" : "=r"(sp));
    r->program = ((const volatile struct rp_launch*)RP_LOCAL->launch)->host_assigned_id;
    r->text = text;
    r->pc = pc != 0 ? pc : (uint32_t)(uintptr_t)__builtin_return_address(0);
    r->base = base;
    r->sp = sp;
    rp_l1_commit((uint32_t)&r->sp);
    r->what = RP_WATCH_MAGIC | what;
    rp_waypoint("FAIL");
    for (;;) {
        rp_invalidate_l1();
    }
}

// RP_WATCH_TEXT makes an entry of a text, and has its place in to. Characters after the first RP_PRINT_LONGEST are cut off.
#define RP_WATCH_SIZE(s) (sizeof(s) > RP_PRINT_LONGEST + 1 ? RP_PRINT_LONGEST + 1 : sizeof(s))
#define RP_WATCH_TEXT(to, s) \
    RP_PRINT_ENTRY(to, s, RP_WATCH_SIZE(s), 0u, __LINE__, RP_PRINT_ERROR, 0u, "\t.asciz \"" __FILE__ "\"\n")

// --- stacks ------------------------------------------------------------------------------------------------------
// The stack grows down to the kernel's data, whose end is watched by lib/start.c when the kernel ends, and by each other check.
#define RP_WATCH_PAINT 0x57415443u
#define RP_WATCH_GUARD 4u  // words

extern uint32_t __bss_end[];

RP_INLINE uint32_t rp_sp(void) {
    uint32_t sp;
    __asm__ volatile("mv %0, sp" : "=r"(sp));
    return sp;
}

// rp_watch_stack_at reports a stack that reaches, or has reached, into the words above the kernel's data.
static __attribute__((noinline, unused)) void rp_watch_stack_at(uint32_t pc) {
    uint32_t end = (uint32_t)(uintptr_t)__bss_end;
    uint32_t low = rp_sp();
    for (uint32_t i = 0; i < RP_WATCH_GUARD; i++) {
        if (rp_load(end + 4 * i) != RP_WATCH_PAINT) {
            low = 0;
        }
    }
    if (low < end + 4 * RP_WATCH_GUARD) {
        rp_watch_record()->args[0] = end;
        rp_watch_stop(RP_WATCH_STACK, 0, pc);
    }
}

static __attribute__((noinline, unused)) void rp_watch_stack(void) {
    rp_watch_stack_at((uint32_t)(uintptr_t)__builtin_return_address(0));
}

// --- circular buffers --------------------------------------------------------------------------------------------
#define RP_WATCH_CB_NUMBER 1u  // there are 32
#define RP_WATCH_CB_ABSENT 2u  // not of this program on this core
#define RP_WATCH_CB_SIZE 3u    // more pages than it has
#define RP_WATCH_CB_PAGES 4u   // pushes or pops more than was reserved or waited for
#define RP_WATCH_CB_END 5u     // pages go around the end of the buffer

// What the kernel may push and pop.
static struct rp_watch_pages {
    uint16_t front, back;
} rp_watch_pages[RP_NUM_CBS] __attribute__((unused));

static __attribute__((noinline, unused)) void rp_watch_cb(uint32_t call, uint32_t cb, uint32_t pages) {
    uint32_t pc = (uint32_t)(uintptr_t)__builtin_return_address(0);
    rp_watch_stack_at(pc);
    uint32_t what = 0, may = 0, size = 0;
    if (cb >= RP_NUM_CBS) {
        what = RP_WATCH_CB_NUMBER;
    } else if (!(((const volatile struct rp_launch*)RP_LOCAL->launch)->local_cb_mask >> cb & 1)) {
        what = RP_WATCH_CB_ABSENT;
    } else {
        struct rp_cb* b = &RP_LOCAL->cb[cb];
        int front = call == RP_WATCH_WAIT || call == RP_WATCH_POP || call == RP_WATCH_SAW_PAGES;
        uint16_t* allowed = front ? &rp_watch_pages[cb].front : &rp_watch_pages[cb].back;
        may = *allowed;
        size = b->fifo_num_pages;
        if (call == RP_WATCH_PUSH || call == RP_WATCH_POP) {
            *allowed = (uint16_t)(may - pages);
            if (pages > may) {
                what = RP_WATCH_CB_PAGES;
            } else if ((front ? b->fifo_rd_ptr : b->fifo_wr_ptr) + pages * b->fifo_page_size > b->fifo_limit) {
                what = RP_WATCH_CB_END;
            }
        } else if (pages > size) {
            what = RP_WATCH_CB_SIZE;
        } else if (pages > may) {
            *allowed = (uint16_t)pages;
        }
    }
    if (what != 0) {
        volatile struct rp_watch_record* r = rp_watch_record();
        r->args[0] = call;
        r->args[1] = cb;
        r->args[2] = pages;
        r->args[3] = may;
        r->args[4] = size;
        rp_watch_stop(RP_WATCH_CB | what << 8, 0, pc);
    }
}

// --- NoC requests ------------------------------------------------------------------------------------------------
#define RP_DRAM_SIZE 0x80000000u   // of a tile of Wormhole, two banks
#define RP_DRAM_REGISTERS 0x100000u  // of such a tile, from 4 GiB on
#define RP_WATCH_NOC_LENGTH 1u     // none, or more than one request takes
#define RP_WATCH_NOC_LOCAL 2u      // beyond the own L1
#define RP_WATCH_NOC_TILE 3u       // no tile there
#define RP_WATCH_NOC_RANGE 4u      // beyond the tile's memory, and no register
#define RP_WATCH_NOC_ALIGNMENT 5u  // the addresses differ in low bits, or a word isn't aligned
#define RP_WATCH_NOC_FIRMWARE 6u   // would overwrite what lies in L1 before kernels
#define RP_WATCH_NOC_RECTANGLE 7u  // corners that are no workers, or against the NoC's direction
#define RP_WATCH_NOC_INLINE 8u     // an inline write to L1 of a Blackhole

static __attribute__((unused)) uint32_t rp_watch_tile(uint32_t noc, uint32_t xy) {
    uint32_t x = xy & 63, y = xy >> 6 & 63;
    if (x >= 32 || y >= 32) {
        return RP_TILE_NONE;
    }
    return rp_load(RP_L1_TILES + RP_TILES_SIZE * noc + 8 * y + 4 * (x >> 4)) >> 2 * (x & 15) & 3;
}

// rp_watch_noc checks the request that is set up in a command buffer.
static __attribute__((noinline, unused)) void rp_watch_noc(uint32_t noc, uint32_t buf) {
    uint32_t pc = (uint32_t)(uintptr_t)__builtin_return_address(0);
    rp_watch_stack_at(pc);
    uint32_t ctrl = rp_load(rp_noc_reg(noc, buf, RP_NOC_CTRL));
    uint32_t len = rp_load(rp_noc_reg(noc, buf, RP_NOC_LEN_BE));
    int atomic = ctrl & RP_CTRL_ATOMIC, in_line = ctrl & RP_CTRL_INLINE;
    int write = (ctrl & RP_CTRL_WRITE) && !in_line;  // of data in L1, to where RET says; TARG is the other end of the rest
    uint32_t local = rp_load(rp_noc_reg(noc, buf, write ? RP_NOC_TARG_LO : RP_NOC_RET_LO));
    uint32_t addr = rp_load(rp_noc_reg(noc, buf, write ? RP_NOC_RET_LO : RP_NOC_TARG_LO));
#if defined(REPRISE_WORMHOLE)
    uint32_t high = rp_load(rp_noc_reg(noc, buf, write ? RP_NOC_RET_COORD : RP_NOC_TARG_COORD));
    uint32_t coord = high >> RP_NOC_COORD_SHIFT & 0xFFFFFFu;
    high &= 15;
#else
    uint32_t high = rp_load(rp_noc_reg(noc, buf, write ? RP_NOC_RET_MID : RP_NOC_TARG_MID));
    uint32_t coord = rp_load(rp_noc_reg(noc, buf, write ? RP_NOC_RET_COORD : RP_NOC_TARG_COORD)) & 0xFFFFFFu;
#endif
    if (!(ctrl & RP_CTRL_MULTICAST)) {
        coord &= 0xFFF;
    }
    if (atomic || in_line) {
        len = 4;
    }
    uint32_t kind = rp_watch_tile(noc, coord);
    uint32_t aligned = write || !(kind == RP_TILE_DRAM || (kind == RP_TILE_OTHER && high != 0)) ? RP_L1_ALIGNMENT - 1
                       : kind == RP_TILE_DRAM                                                   ? RP_DRAM_ALIGNMENT - 1
                                                                                                : RP_PCIE_ALIGNMENT - 1;
    int reg = kind == RP_TILE_L1 && high == 0 && addr >= RP_LOCAL_RAM;
    uint32_t what = 0;
    if (len == 0 || len > RP_NOC_MAX_BURST) {
        what = RP_WATCH_NOC_LENGTH;
    } else if (!atomic && !in_line && (local >= RP_L1_SIZE || local + len > RP_L1_SIZE)) {
        what = RP_WATCH_NOC_LOCAL;
    } else if (!write && !atomic && !in_line && local < RP_L1_KERNEL_CONFIG) {
        what = RP_WATCH_NOC_FIRMWARE;
    } else if (ctrl & RP_CTRL_MULTICAST) {
        uint32_t from = coord >> 12, to = coord & 0xFFF;
        if (noc != 0) {
            from = coord & 0xFFF;
            to = coord >> 12;
        }
        if (kind != RP_TILE_L1 || rp_watch_tile(noc, coord >> 12) != RP_TILE_L1 || (from & 63) > (to & 63) || from >> 6 > to >> 6) {
            what = RP_WATCH_NOC_RECTANGLE;
        }
    } else if (kind == RP_TILE_NONE) {
        what = RP_WATCH_NOC_TILE;
    }
    if (what == 0 && kind == RP_TILE_L1) {
        if (reg ? len != 4 : high != 0 || addr >= RP_L1_SIZE || addr + len > RP_L1_SIZE) {
            what = RP_WATCH_NOC_RANGE;
        } else if ((write || atomic || in_line) && addr < RP_L1_KERNEL_CONFIG) {
            what = RP_WATCH_NOC_FIRMWARE;
        } else if (reg && atomic) {
            what = RP_WATCH_NOC_RANGE;
        }
#if defined(REPRISE_BLACKHOLE)
        if (what == 0 && in_line && !reg) {
            what = RP_WATCH_NOC_INLINE;
        }
#endif
    }
#if defined(REPRISE_WORMHOLE)
    if (what == 0 && kind == RP_TILE_DRAM && (high == 0 ? addr >= RP_DRAM_SIZE || addr + len > RP_DRAM_SIZE : high != 1 || addr >= RP_DRAM_REGISTERS)) {
        what = RP_WATCH_NOC_RANGE;
    }
#else
    if (what == 0 && kind == RP_TILE_DRAM && (high != 0 || addr + len - 1 < addr)) {
        what = RP_WATCH_NOC_RANGE;
    }
#endif
    if (what == 0 && (atomic || in_line || reg ? addr & 3 : 0)) {
        what = RP_WATCH_NOC_ALIGNMENT;
    }
    if (what == 0 && !atomic && !in_line && ((local ^ addr) & (reg && !write ? 3 : aligned))) {
        what = RP_WATCH_NOC_ALIGNMENT;
    }
    if (what != 0) {
        volatile struct rp_watch_record* r = rp_watch_record();
        r->args[0] = (ctrl & 0xFFFFFF) | noc << 24;
        r->args[1] = coord;
        r->args[2] = addr;
        r->args[3] = high;
        r->args[4] = local;
        r->args[5] = len;
        rp_watch_stop(RP_WATCH_NOC | what << 8, aligned + 1, pc);
    }
}

#endif  // REPRISE_WATCH

#endif
