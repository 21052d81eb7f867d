// What host, base firmware and kernels agree on: the mailbox in L1, the launch and go messages, and the block at
// the start of each processor's local RAM. Valid C11 and C++17.
//
// The mailbox offsets, the 96-byte launch message and the 4-byte go message are those of tt-metal at the revision
// this runtime follows (tt_metal/hw/inc/hostdev/dev_msgs.h); core info, core state and struct rp_local are ours.
#ifndef REPRISE_ABI_H
#define REPRISE_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "reprise/arch.h"

#if defined(__cplusplus)
#define RP_STATIC_ASSERT(cond, text) static_assert(cond, text)
#else
#define RP_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#endif
#define RP_INLINE static inline __attribute__((always_inline, unused))

// Processors in the order of the launch message's arrays and of its enables bits.
enum rp_processor {
    RP_BRISC = 0,
    RP_NCRISC = 1,
    RP_TRISC0 = 2,
    RP_TRISC1 = 3,
    RP_TRISC2 = 4,
    RP_NUM_PROCESSORS = 5
};

// Values of a go message's signal byte.
enum rp_signal {
    RP_SIGNAL_DONE = 0x00,
    RP_SIGNAL_INIT = 0x40,                  // host: firmware has not started yet
    RP_SIGNAL_GO = 0x80,                    // run launch[read pointer]
    RP_SIGNAL_RESET_READ_PTR = 0xC0,        // read pointer = 0, DONE, one completion
    RP_SIGNAL_RESET_READ_PTR_HOST = 0xE0,   // read pointer = 0 while the signal stands, no reply
    RP_SIGNAL_REPLAY_TRACE = 0xF0           // as 0xC0; upstream also counts traces for its profiler
};

// Values of a subordinate's byte in the sync word.
enum rp_sync {
    RP_SYNC_DONE = 0x00,
    RP_SYNC_LOAD = 0x01,  // NCRISC: a kernel is coming, prepare it
    RP_SYNC_INIT = 0x40,
    RP_SYNC_GO = 0x80
};
#define RP_SYNC_ALL_DONE 0x00000000u
#define RP_SYNC_ALL_INIT 0x40404040u

enum rp_mode {
    RP_MODE_DEVICE = 0,  // launched by the dispatcher: completion, entry cleared, ring advances
    RP_MODE_HOST = 1     // launched by the host: it polls for DONE, nothing else changes
};

#define RP_PRELOAD 0x80u
#define RP_LAUNCH_ENTRIES 8u
#define RP_GO_ENTRIES 9u
#define RP_NUM_CBS 32u
#define RP_SEMAPHORE_STRIDE 16u  // bytes between semaphores of one core

struct rp_launch_args {
    uint16_t unique;  // offsets from the kernel config base
    uint16_t common;
};

// The launch message. preload must stay the last byte: whoever sees it set sees the whole message.
struct rp_launch {
    uint32_t kernel_config_base[3];  // Tensix, active Ethernet, idle Ethernet: this runtime uses [0]
    uint16_t sem_offset[3];
    uint16_t local_cb_offset;
    uint16_t remote_cb_offset;
    struct rp_launch_args args[RP_NUM_PROCESSORS];
    uint8_t mode;
    uint8_t pad0;
    uint32_t kernel_text_offset[RP_NUM_PROCESSORS];
    uint32_t local_cb_mask;
    uint8_t brisc_noc_id;
    uint8_t brisc_noc_mode;
    uint8_t min_remote_cb_start_index;
    uint8_t exit_erisc_kernel;
    uint32_t host_assigned_id;
    uint32_t enables;
    uint16_t watcher_kernel_ids[RP_NUM_PROCESSORS];
    uint16_t ncrisc_kernel_size16;
    uint8_t sub_device_origin_x;
    uint8_t sub_device_origin_y;
    uint8_t pad1;
    uint8_t preload;
};

struct rp_go {
    uint8_t stream_offset;  // completion stream = first dispatch stream + this
    uint8_t master_x;       // core that counts completions, virtual coordinates
    uint8_t master_y;
    uint8_t signal;
};

// Who a core is, written by the host at bring-up.
struct rp_core_info {
    uint32_t magic;
    uint8_t logical_x, logical_y, kind, pad;
    uint32_t flags;
    uint32_t reserved[13];
};

// Where a processor is: see rp_waypoint.
struct rp_core_state {
    uint32_t waypoint;  // four ASCII characters, first one in the lowest byte
    uint32_t detail;    // what the waypoint waits for, if it waits
    uint32_t kernels;   // kernels started since boot
    uint32_t fence;     // see rp_publish
};

struct rp_mailbox {
    uint8_t reserved0[8];
    uint8_t sync[4];  // NCRISC, TRISC0, TRISC1, TRISC2
    uint32_t launch_read_ptr;
    struct rp_launch launch[RP_LAUNCH_ENTRIES];
    struct rp_go go[RP_GO_ENTRIES];
    uint8_t reserved1[12];
    uint32_t go_index;
    uint8_t reserved2[0x2C];
    struct rp_core_info core_info;
    uint8_t reserved3[0x10];
    struct rp_core_state core_state[RP_NUM_PROCESSORS];
};

#define RP_CORE_INFO_MAGIC 0x31525052u  // "RPR1"
#define RP_CORE_KIND_WORKER 0u
#define RP_CORE_KIND_DISPATCH 1u

// Where each bank is, written by the host at bring-up. Coordinates are x | y << 6 as software gives them on that NoC.
#define RP_MAX_DRAM_BANKS 16u
#define RP_MAX_L1_BANKS 160u
struct rp_bank_table {
    uint32_t num_dram;
    uint32_t num_l1;
    uint16_t dram_xy[RP_NUM_NOCS][RP_MAX_DRAM_BANKS];
    uint32_t dram_offset[RP_MAX_DRAM_BANKS];
    uint16_t l1_xy[RP_NUM_NOCS][RP_MAX_L1_BANKS];
};

// Configuration of one circular buffer as the host puts it into a kernel config slot.
struct rp_cb_config {
    uint32_t address, size, num_pages, page_size;  // bytes
};

// One circular buffer as a processor sees it; the field names are tt-metal's LocalCBInterface. Addresses in bytes.
struct rp_cb {
    uint32_t fifo_size;
    uint32_t fifo_limit;  // first byte after the buffer
    uint32_t fifo_page_size;
    uint32_t fifo_num_pages;
    uint32_t fifo_rd_ptr;
    uint32_t fifo_wr_ptr;
    uint16_t tiles_acked;     // pages popped by this processor
    uint16_t tiles_received;  // pages pushed by this processor
    uint32_t fifo_wr_tile_ptr;
};

// The first 0x480 bytes of each processor's local RAM. The firmware fills it before each kernel.
struct rp_local {
    uint32_t rta_base;   // L1 address of the unique runtime arguments
    uint32_t crta_base;  // L1 address of the common runtime arguments
    uint32_t sem_base;   // L1 address of semaphore 0
    uint32_t launch;     // L1 address of the launch message
    uint8_t my_x[RP_NUM_NOCS];  // own virtual coordinates on each NoC
    uint8_t my_y[RP_NUM_NOCS];
    uint8_t noc_index;  // the NoC this kernel uses
    uint8_t noc_mode;   // 0: each data-movement processor has a NoC of its own
    uint8_t logical_x, logical_y;
    uint32_t go;         // L1 address of the go message
    uint32_t processor;  // enum rp_processor
    // Requests issued, by NoC, in the units of the hardware counters they are compared with.
    uint32_t reads_issued[RP_NUM_NOCS];
    uint32_t nonposted_writes_issued[RP_NUM_NOCS];
    uint32_t nonposted_writes_acked[RP_NUM_NOCS];   // acknowledgements to expect: one for each destination
    uint32_t nonposted_atomics_acked[RP_NUM_NOCS];
    uint32_t posted_writes_issued[RP_NUM_NOCS];
    uint8_t relative_x, relative_y;  // logical coordinates from the sub-device's origin
    uint8_t pad[2];
    uint32_t core_state;  // L1 address of this processor's struct rp_core_state
    uint32_t write_ids[RP_NUM_NOCS];  // mask of the transaction ids, other than 0, that writes were given
    uint32_t reserved[10];
    struct rp_cb cb[RP_NUM_CBS];
};

RP_STATIC_ASSERT(sizeof(struct rp_launch) == 96, "launch message");
RP_STATIC_ASSERT(offsetof(struct rp_launch, sem_offset) == 12, "launch message");
RP_STATIC_ASSERT(offsetof(struct rp_launch, local_cb_offset) == 18, "launch message");
RP_STATIC_ASSERT(offsetof(struct rp_launch, args) == 22, "launch message");
RP_STATIC_ASSERT(offsetof(struct rp_launch, mode) == 42, "launch message");
RP_STATIC_ASSERT(offsetof(struct rp_launch, kernel_text_offset) == 44, "launch message");
RP_STATIC_ASSERT(offsetof(struct rp_launch, local_cb_mask) == 64, "launch message");
RP_STATIC_ASSERT(offsetof(struct rp_launch, brisc_noc_id) == 68, "launch message");
RP_STATIC_ASSERT(offsetof(struct rp_launch, host_assigned_id) == 72, "launch message");
RP_STATIC_ASSERT(offsetof(struct rp_launch, enables) == 76, "launch message");
RP_STATIC_ASSERT(offsetof(struct rp_launch, ncrisc_kernel_size16) == 90, "launch message");
RP_STATIC_ASSERT(offsetof(struct rp_launch, preload) == 95, "launch message");
RP_STATIC_ASSERT(sizeof(struct rp_go) == 4, "go message");
RP_STATIC_ASSERT(offsetof(struct rp_mailbox, sync) == 0x08, "mailbox");
RP_STATIC_ASSERT(offsetof(struct rp_mailbox, launch_read_ptr) == 0x0C, "mailbox");
RP_STATIC_ASSERT(offsetof(struct rp_mailbox, launch) == 0x10, "mailbox");
RP_STATIC_ASSERT(offsetof(struct rp_mailbox, go) == 0x310, "mailbox");
RP_STATIC_ASSERT(offsetof(struct rp_mailbox, go_index) == 0x340, "mailbox");
RP_STATIC_ASSERT(offsetof(struct rp_mailbox, core_info) == 0x370, "mailbox");
RP_STATIC_ASSERT(offsetof(struct rp_mailbox, core_state) == 0x3C0, "mailbox");
RP_STATIC_ASSERT(sizeof(struct rp_cb) == 32, "circular buffer");
RP_STATIC_ASSERT(offsetof(struct rp_local, my_x) == 0x10, "local block");
RP_STATIC_ASSERT(offsetof(struct rp_local, noc_index) == 0x14, "local block");
RP_STATIC_ASSERT(offsetof(struct rp_local, go) == 0x18, "local block");
RP_STATIC_ASSERT(offsetof(struct rp_local, reads_issued) == 0x20, "local block");
RP_STATIC_ASSERT(offsetof(struct rp_local, posted_writes_issued) == 0x40, "local block");
RP_STATIC_ASSERT(offsetof(struct rp_local, core_state) == 0x4C, "local block");
RP_STATIC_ASSERT(offsetof(struct rp_local, cb) == 0x80, "local block");
RP_STATIC_ASSERT(sizeof(struct rp_local) == 0x480, "local block");

#define RP_LOCAL ((struct rp_local*)RP_LOCAL_RAM)
#define RP_MAILBOX ((volatile struct rp_mailbox*)RP_L1_MAILBOX)
#define RP_BANK_TABLE ((const volatile struct rp_bank_table*)RP_L1_BANK_TABLE)

// A firmware is built for one processor and knows it; a data-movement kernel may run on either of two.
#if defined(REPRISE_PROCESSOR)
#define rp_processor() ((uint32_t)REPRISE_PROCESSOR)
#define rp_core_state() (&RP_MAILBOX->core_state[REPRISE_PROCESSOR])
#else
#define rp_processor() (RP_LOCAL->processor)
#define rp_core_state() ((volatile struct rp_core_state*)RP_LOCAL->core_state)
#endif

// Four characters for the waypoint word of this processor's core state.
#define RP_WAYPOINT_WORD(s)                                                                     \
    ((uint32_t)(uint8_t)(s)[0] | (uint32_t)(uint8_t)(s)[1] << 8 | (uint32_t)(uint8_t)(s)[2] << 16 | \
     (uint32_t)(uint8_t)(s)[3] << 24)

// rp_waypoint says where this processor is: one store, so that a report of a hang can tell. s has four characters.
#define rp_waypoint(s) (rp_core_state()->waypoint = RP_WAYPOINT_WORD(s))
#define rp_waypoint_detail(s, d)                   \
    do {                                           \
        rp_core_state()->detail = (uint32_t)(d);   \
        rp_waypoint(s);                            \
    } while (0)

RP_INLINE volatile uint32_t* rp_word(uint32_t addr) { return (volatile uint32_t*)addr; }
RP_INLINE uint32_t rp_load(uint32_t addr) { return *rp_word(addr); }
RP_INLINE void rp_store(uint32_t addr, uint32_t value) { *rp_word(addr) = value; }

// rp_invalidate_l1 makes the next loads from L1 see what others wrote. Blackhole's cores have a small data cache
// that nothing keeps coherent; a fence drops it. Wormhole's have none, and its fence must not be used.
RP_INLINE void rp_invalidate_l1(void) {
#if defined(REPRISE_BLACKHOLE)
    __asm__ volatile("fence" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

// rp_l1_commit returns when the store this core last made to the word at addr has reached L1, so that a NoC request
// started afterwards reads it. Stores to L1 and to NoC registers are different memory regions that the load/store
// unit doesn't order (tt-isa-documentation TensixTile/BabyRISCV/MemoryOrdering.md): read it back and use the result.
RP_INLINE void rp_l1_commit(uint32_t addr) {
    rp_invalidate_l1();
    uint32_t v = *rp_word(addr);
    __asm__ volatile("addi x0, %0, 0" ::"r"(v) : "memory");
}

// As rp_l1_commit after a byte store: the load unit only waits for a store that begins at the same address.
RP_INLINE void rp_l1_commit_byte(uint32_t addr) {
    rp_invalidate_l1();
    uint32_t v = *(volatile uint8_t*)addr;
    __asm__ volatile("addi x0, %0, 0" ::"r"(v) : "memory");
}

// rp_wall_clock counts cycles of the tile's clock since reset.
RP_INLINE uint64_t rp_wall_clock(void) {
    uint32_t low = rp_load(RP_WALL_CLOCK_LOW);
    uint32_t high = rp_load(RP_WALL_CLOCK_HIGH);
    return (uint64_t)high << 32 | low;
}

RP_INLINE uint32_t rp_wall_clock_low(void) { return rp_load(RP_WALL_CLOCK_LOW); }

// --- overlay streams of the own tile, used as counters ----------------------------------------------------------
RP_INLINE uint32_t rp_stream_available(uint32_t stream) {
    return rp_load(RP_STREAM_BASE(stream) + RP_STREAM_SPACE_AVAILABLE) & RP_STREAM_MASK;
}
RP_INLINE void rp_stream_add(uint32_t stream, uint32_t n) {
    rp_store(RP_STREAM_BASE(stream) + RP_STREAM_UPDATE, n << RP_STREAM_INCREMENT_SHIFT);
}
// rp_stream_clear subtracts what is there; nothing may be adding at the same time.
RP_INLINE void rp_stream_clear(uint32_t stream) { rp_stream_add(stream, 0u - rp_stream_available(stream)); }
// rp_stream_reached compares modulo 2^17: true while available is at most 2^16 - 1 past count.
RP_INLINE int rp_stream_reached(uint32_t available, uint32_t count) {
    return (int32_t)((available - count) << (32 - 17)) >= 0;
}

#endif
