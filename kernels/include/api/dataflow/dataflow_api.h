// The data-movement API under tt-metal's names, for kernels written against it (C++17, BRISC and NCRISC; the runtime
// arguments and circular buffers work on TRISCs too). Semantics follow tt_metal/hw/inc/api/dataflow/dataflow_api.h;
// the implementation is reprise/noc.h and reprise/kernel.h.
//
// A 64-bit NoC address holds the address in bits 35..0 and the tile's coordinate from bit 36: x, then y, 6 bits each;
// for a rectangle the end corner there and the start corner above it. Bit 60 marks host memory on Blackhole.
// Coordinates are virtual ones, the same on both NoCs.
#pragma once

#include <stdint.h>

#include "hostdevcommon/kernel_structs.h"
#include "reprise/arguments.h"
#include "reprise/kernel.h"

#define tt_l1_ptr
#define tt_reg_ptr
#define NUM_NOCS RP_NUM_NOCS
#define NUM_CIRCULAR_BUFFERS RP_NUM_CBS
#define L1_ALIGNMENT RP_L1_ALIGNMENT
#define DRAM_ALIGNMENT RP_DRAM_ALIGNMENT
#define PCIE_ALIGNMENT RP_PCIE_ALIGNMENT
#define NOC_MAX_BURST_SIZE RP_NOC_MAX_BURST
#define NOC_UNICAST_WRITE_VC RP_VC_UNICAST
#define NOC_MULTICAST_WRITE_VC RP_VC_MULTICAST
#define NOC_ADDR_LOCAL_BITS 36
#define NOC_ADDR_NODE_ID_BITS 6
#define MEM_ZEROS_BASE RP_L1_ZEROS
#define MEM_ZEROS_SIZE RP_ZEROS_SIZE
#define NOC_X(x) (x)
#define NOC_Y(y) (y)
#define WAYPOINT(s) ((void)0)
#if defined(REPRISE_WATCH)
#include "api/debug/assert.h"
#else
#define ASSERT(condition, ...) ((void)0)
#endif

// Variables of the firmware; the linker script places them.
extern "C" {
extern uint8_t my_x[RP_NUM_NOCS];  // own virtual coordinates, by NoC
extern uint8_t my_y[RP_NUM_NOCS];
extern const uint8_t noc_index;  // the NoC of this kernel
extern const uint8_t noc_mode;
}

enum class ProgrammableCoreType : uint8_t { TENSIX = 0, ACTIVE_ETH = 1, IDLE_ETH = 2 };

static FORCE_INLINE void invalidate_l1_cache() { rp_invalidate_l1(); }

static inline void riscv_wait(uint32_t cycles) {
    uint32_t start = rp_wall_clock_low();
    while (rp_wall_clock_low() - start < cycles) {
    }
}

template <typename T>
FORCE_INLINE constexpr T align_power_of_2(T addr, uint32_t alignment) {
    return (addr + (alignment - 1)) & ~(alignment - 1);
}
template <typename T>
FORCE_INLINE constexpr T align(T addr, uint32_t alignment) {
    return ((addr - 1) | (alignment - 1)) + 1;
}

// --- NoC addresses -----------------------------------------------------------------------------------------------
namespace reprise {
// A NoC address taken apart for reprise/noc.h.
FORCE_INLINE uint32_t coord(uint64_t noc_addr) {
#if defined(REPRISE_WORMHOLE)
    return (uint32_t)(noc_addr >> 32) & ~0xFu;
#else
    return (uint32_t)(noc_addr >> NOC_ADDR_LOCAL_BITS) & 0xFFFFFFu;
#endif
}
FORCE_INLINE uint32_t high(uint64_t noc_addr) {
#if defined(REPRISE_WORMHOLE)
    return (uint32_t)(noc_addr >> 32) & 0xFu;
#else
    return (uint32_t)(noc_addr >> 32) & 0x1000000Fu;
#endif
}
FORCE_INLINE uint32_t low(uint64_t noc_addr) { return (uint32_t)noc_addr; }
FORCE_INLINE uint64_t address(uint64_t noc_addr) { return (uint64_t)high(noc_addr) << 32 | low(noc_addr); }
// Put together from register form.
FORCE_INLINE uint64_t pack(uint32_t coord, uint64_t addr) {
#if defined(REPRISE_WORMHOLE)
    return (uint64_t)coord << 32 | addr;
#else
    return (uint64_t)coord << NOC_ADDR_LOCAL_BITS | addr;
#endif
}
FORCE_INLINE uint64_t pack(rp_place p) { return pack(p.coord, p.addr); }
FORCE_INLINE uint32_t write_kind(bool posted, uint32_t vc) {
    return RP_CTRL_WRITE | RP_CTRL_VC_STATIC | RP_CTRL_VC(vc) | (posted ? 0 : RP_CTRL_RESP);
}
FORCE_INLINE uint32_t multicast_kind(bool linked, bool loopback) {
    return RP_WRITE_MULTICAST | (linked ? RP_WRITE_LINKED : 0) | (loopback ? RP_WRITE_LOOPBACK : 0);
}
}  // namespace reprise

static FORCE_INLINE uint64_t get_noc_addr(uint32_t noc_x, uint32_t noc_y, uint32_t addr, [[maybe_unused]] uint8_t noc = noc_index) {
    return reprise::pack(rp_noc_coord(noc_x, noc_y), addr);
}
// noc_xy: x | y << 6
static FORCE_INLINE uint64_t get_noc_addr_helper(uint32_t noc_xy, uint32_t addr) {
    return reprise::pack(rp_noc_coord_xy(noc_xy), addr);
}
static FORCE_INLINE uint64_t get_noc_addr(uint32_t addr, uint8_t noc = noc_index) {
    return get_noc_addr(my_x[noc], my_y[noc], addr, noc);
}
// Start is the upper left corner and end the lower right one; on NoC 1 this function swaps them.
static FORCE_INLINE uint64_t get_noc_multicast_addr(uint32_t noc_x_start, uint32_t noc_y_start, uint32_t noc_x_end,
                                                    uint32_t noc_y_end, uint32_t addr, uint8_t noc = noc_index) {
    return reprise::pack(rp_noc_rect(noc, noc_x_start | noc_y_start << 6, noc_x_end | noc_y_end << 6), addr);
}

template <bool DRAM>
FORCE_INLINE uint64_t get_noc_addr_from_bank_id(uint32_t bank_id, uint32_t bank_address_offset, uint8_t noc = noc_index) {
    const rp_bank_table* table = (const rp_bank_table*)RP_L1_BANK_TABLE;
    if constexpr (DRAM) {
        return get_noc_addr_helper(table->dram_xy[noc][bank_id], table->dram_offset[bank_id] + bank_address_offset);
    } else {
        return get_noc_addr_helper(table->l1_xy[noc][bank_id], bank_address_offset);
    }
}

// --- interleaved buffers -----------------------------------------------------------------------------------------
template <bool DRAM>
struct InterleavedAddrGen {
    uint32_t bank_base_address;
    const uint32_t page_size;
    const uint32_t aligned_page_size = align_power_of_2(page_size, DRAM ? RP_DRAM_ALIGNMENT : RP_L1_ALIGNMENT);

    FORCE_INLINE uint64_t get_noc_addr(uint32_t id, uint32_t offset = 0, uint8_t noc = noc_index) const {
        if constexpr (DRAM) {
            return reprise::pack(rp_dram_page(noc, bank_base_address + offset, aligned_page_size, id));
        } else {
            return reprise::pack(rp_l1_page(noc, bank_base_address + offset, aligned_page_size, id));
        }
    }
    FORCE_INLINE void noc_async_read_page(uint32_t id, uint32_t dest_addr, uint32_t offset = 0, uint8_t noc = noc_index) const {
        uint64_t src = get_noc_addr(id, offset, noc);
        rp_noc_read(noc, reprise::coord(src), reprise::address(src), dest_addr, page_size);
    }
    FORCE_INLINE void noc_async_write_page(uint32_t id, uint32_t src_addr, uint32_t size, uint32_t offset = 0, uint8_t noc = noc_index) const {
        uint64_t dst = get_noc_addr(id, offset, noc);
        rp_noc_write(noc, reprise::coord(dst), reprise::address(dst), src_addr, size);
    }
};

// The same under the name of earlier kernels, with a format of the data that says nothing more.
enum class DataFormat : uint8_t {
    Float32 = 0, Float16 = 1, Bfp8 = 2, Bfp4 = 3, Tf32 = 4, Float16_b = 5, Bfp8_b = 6, Bfp4_b = 7, Int32 = 8, UInt16 = 9,
    Lf8 = 10, Bfp2 = 11, Int8 = 14, Bfp2_b = 15, UInt32 = 24, UInt8 = 30, Invalid = 0xFF
};
template <bool DRAM>
struct InterleavedAddrGenFast {
    uint32_t bank_base_address;
    uint32_t page_size;
    DataFormat data_format;

    FORCE_INLINE uint64_t get_noc_addr(uint32_t id, uint32_t offset = 0, uint8_t noc = noc_index) const {
        return InterleavedAddrGen<DRAM>{bank_base_address, page_size}.get_noc_addr(id, offset, noc);
    }
    FORCE_INLINE void noc_async_read_page(uint32_t id, uint32_t dest_addr, uint32_t offset = 0, uint8_t noc = noc_index) const {
        InterleavedAddrGen<DRAM>{bank_base_address, page_size}.noc_async_read_page(id, dest_addr, offset, noc);
    }
    FORCE_INLINE void noc_async_write_page(uint32_t id, uint32_t src_addr, uint32_t size, uint32_t offset = 0, uint8_t noc = noc_index) const {
        InterleavedAddrGen<DRAM>{bank_base_address, page_size}.noc_async_write_page(id, src_addr, size, offset, noc);
    }
};

template <bool DRAM>
struct InterleavedPow2AddrGen {
    const uint32_t bank_base_address;
    const uint32_t log_base_2_of_page_size;
    const uint32_t aligned_log_base_2_of_page_size =
        log_base_2_of_page_size > (DRAM && RP_DRAM_ALIGNMENT == 64 ? 6 : DRAM ? 5 : 4)
            ? log_base_2_of_page_size
            : (DRAM && RP_DRAM_ALIGNMENT == 64 ? 6 : DRAM ? 5 : 4);

    FORCE_INLINE uint64_t get_noc_addr(uint32_t id, uint32_t offset = 0, uint8_t noc = noc_index) const {
        uint32_t page_size = 1u << aligned_log_base_2_of_page_size;
        if constexpr (DRAM) {
            return reprise::pack(rp_dram_page(noc, bank_base_address + offset, page_size, id));
        } else {
            return reprise::pack(rp_l1_page(noc, bank_base_address + offset, page_size, id));
        }
    }
};

template <bool DRAM>
FORCE_INLINE uint64_t get_noc_addr(uint32_t id, const InterleavedAddrGen<DRAM>& s, uint32_t offset = 0, uint8_t noc = noc_index) {
    return s.get_noc_addr(id, offset, noc);
}
template <bool DRAM>
FORCE_INLINE uint64_t get_noc_addr(uint32_t id, const InterleavedPow2AddrGen<DRAM>& s, uint32_t offset = 0, uint8_t noc = noc_index) {
    return s.get_noc_addr(id, offset, noc);
}

// --- reads -------------------------------------------------------------------------------------------------------
static FORCE_INLINE void noc_async_read_one_packet(uint64_t src_noc_addr, uint32_t dst_local_l1_addr, uint32_t size,
                                                   uint8_t noc = noc_index) {
    rp_noc_read_packet(noc, reprise::coord(src_noc_addr), reprise::address(src_noc_addr), dst_local_l1_addr, size);
}
// max_page_size, when known at compile time to fit a packet, makes this one request.
template <uint32_t max_page_size = RP_NOC_MAX_BURST + 1>
FORCE_INLINE void noc_async_read(uint64_t src_noc_addr, uint32_t dst_local_l1_addr, uint32_t size, uint8_t noc = noc_index) {
    if constexpr (max_page_size <= RP_NOC_MAX_BURST) {
        noc_async_read_one_packet(src_noc_addr, dst_local_l1_addr, size, noc);
    } else {
        rp_noc_read(noc, reprise::coord(src_noc_addr), reprise::address(src_noc_addr), dst_local_l1_addr, size);
    }
}
static FORCE_INLINE void noc_async_read_one_packet_set_state(uint64_t src_noc_addr, uint32_t size, uint8_t noc = noc_index) {
    rp_noc_read_state_len(noc, reprise::coord(src_noc_addr), reprise::high(src_noc_addr), size);
}
static FORCE_INLINE void noc_async_read_one_packet_with_state(uint32_t src_local_l1_addr, uint32_t dst_local_l1_addr,
                                                              uint8_t noc = noc_index) {
    rp_noc_read_same_len(noc, src_local_l1_addr, dst_local_l1_addr);
}
static FORCE_INLINE void noc_async_read_set_state(uint64_t src_noc_addr, uint8_t noc = noc_index) {
    rp_noc_read_state(noc, reprise::coord(src_noc_addr), reprise::high(src_noc_addr));
}
static inline void noc_async_read_with_state(uint32_t src_local_l1_addr, uint32_t dst_local_l1_addr, uint32_t size,
                                             uint8_t noc = noc_index) {
    while (size > RP_NOC_MAX_BURST) {
        rp_noc_read_with_state(noc, src_local_l1_addr, dst_local_l1_addr, RP_NOC_MAX_BURST);
        src_local_l1_addr += RP_NOC_MAX_BURST;
        dst_local_l1_addr += RP_NOC_MAX_BURST;
        size -= RP_NOC_MAX_BURST;
    }
    rp_noc_read_with_state(noc, src_local_l1_addr, dst_local_l1_addr, size);
}
static FORCE_INLINE void noc_async_read_barrier(uint8_t noc = noc_index) { rp_wait_reads(noc); }

template <typename AddrGen>
FORCE_INLINE void noc_async_read_page(uint32_t id, const AddrGen& s, uint32_t dst_local_l1_addr, uint32_t offset = 0,
                                      uint8_t noc = noc_index) {
    s.noc_async_read_page(id, dst_local_l1_addr, offset, noc);
}
template <typename AddrGen>
FORCE_INLINE void noc_async_read_tile(uint32_t id, const AddrGen& s, uint32_t dst_local_l1_addr, uint32_t offset = 0,
                                      uint8_t noc = noc_index) {
    s.noc_async_read_page(id, dst_local_l1_addr, offset, noc);
}

// --- writes ------------------------------------------------------------------------------------------------------
template <bool posted = false>
FORCE_INLINE void noc_async_write_one_packet(uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint32_t size,
                                             uint8_t noc = noc_index, uint32_t vc = NOC_UNICAST_WRITE_VC) {
    rp_noc_write_packet(noc, RP_BUF_WRITE, reprise::write_kind(posted, vc), reprise::coord(dst_noc_addr),
                        reprise::address(dst_noc_addr), src_local_l1_addr, size, 1);
}
template <uint32_t max_page_size = RP_NOC_MAX_BURST + 1, bool posted = false>
FORCE_INLINE void noc_async_write(uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint32_t size, uint8_t noc = noc_index,
                                  uint32_t vc = NOC_UNICAST_WRITE_VC) {
    if constexpr (max_page_size <= RP_NOC_MAX_BURST) {
        noc_async_write_one_packet<posted>(src_local_l1_addr, dst_noc_addr, size, noc, vc);
    } else {
        uint32_t kind = reprise::write_kind(posted, vc);
        rp_noc_write_state(noc, RP_BUF_WRITE, kind, reprise::coord(dst_noc_addr), reprise::high(dst_noc_addr));
        rp_noc_write_any_with_state(noc, RP_BUF_WRITE, kind, reprise::low(dst_noc_addr), src_local_l1_addr, size, 1);
    }
}
// The length that with_state's writes have is set here; non_posted must be the same in both.
template <bool non_posted = true>
FORCE_INLINE void noc_async_write_one_packet_set_state(uint64_t dst_noc_addr, uint32_t size, uint8_t noc = noc_index,
                                                       uint8_t vc = NOC_UNICAST_WRITE_VC) {
    rp_noc_write_state(noc, RP_BUF_WRITE, reprise::write_kind(!non_posted, vc), reprise::coord(dst_noc_addr),
                       reprise::high(dst_noc_addr));
    rp_noc_set(noc, RP_BUF_WRITE, RP_NOC_LEN_BE, size);
}
template <bool non_posted = true>
FORCE_INLINE void noc_async_write_one_packet_with_state(uint32_t src_local_l1_addr, uint32_t dst_local_l1_addr,
                                                        uint8_t noc = noc_index) {
    rp_noc_ready(noc, RP_BUF_WRITE);
    rp_noc_set(noc, RP_BUF_WRITE, RP_NOC_TARG_LO, src_local_l1_addr);
    rp_noc_set(noc, RP_BUF_WRITE, RP_NOC_RET_LO, dst_local_l1_addr);
    rp_noc_send(noc, RP_BUF_WRITE);
    rp_noc_count_write(noc, non_posted ? RP_CTRL_RESP : 0, 1);
}

static FORCE_INLINE void noc_async_write_multicast_one_packet(uint32_t src_local_l1_addr, uint64_t dst_noc_addr_multicast,
                                                              uint32_t size, uint32_t num_dests, bool linked = false,
                                                              uint8_t noc = noc_index) {
    rp_noc_write_packet(noc, RP_BUF_WRITE, reprise::multicast_kind(linked, false), reprise::coord(dst_noc_addr_multicast),
                        reprise::low(dst_noc_addr_multicast), src_local_l1_addr, size, num_dests);
}
// num_dests: tiles of the rectangle but this one. This tile is left out even if it lies inside.
template <uint32_t max_page_size = RP_NOC_MAX_BURST + 1>
FORCE_INLINE void noc_async_write_multicast(uint32_t src_local_l1_addr, uint64_t dst_noc_addr_multicast, uint32_t size,
                                            uint32_t num_dests, bool linked = false, uint8_t noc = noc_index) {
    if constexpr (max_page_size <= RP_NOC_MAX_BURST) {
        noc_async_write_multicast_one_packet(src_local_l1_addr, dst_noc_addr_multicast, size, num_dests, linked, noc);
    } else {
        rp_noc_write_multicast(noc, reprise::multicast_kind(linked, false), reprise::coord(dst_noc_addr_multicast),
                               reprise::low(dst_noc_addr_multicast), src_local_l1_addr, size, num_dests);
    }
}
// num_dests: tiles of the rectangle, this one too.
static FORCE_INLINE void noc_async_write_multicast_loopback_src(uint32_t src_local_l1_addr, uint64_t dst_noc_addr_multicast,
                                                                uint32_t size, uint32_t num_dests, bool linked = false,
                                                                uint8_t noc = noc_index) {
    rp_noc_write_multicast(noc, reprise::multicast_kind(linked, true), reprise::coord(dst_noc_addr_multicast),
                           reprise::low(dst_noc_addr_multicast), src_local_l1_addr, size, num_dests);
}

template <typename AddrGen>
FORCE_INLINE void noc_async_write_page(uint32_t id, const AddrGen& s, uint32_t src_local_l1_addr, uint32_t size = 0,
                                       uint32_t offset = 0, uint8_t noc = noc_index) {
    s.noc_async_write_page(id, src_local_l1_addr, size ? size : s.page_size, offset, noc);
}
template <typename AddrGen>
FORCE_INLINE void noc_async_write_tile(uint32_t id, const AddrGen& s, uint32_t src_local_l1_addr, uint8_t noc = noc_index) {
    s.noc_async_write_page(id, src_local_l1_addr, s.page_size, 0, noc);
}

static FORCE_INLINE void noc_async_writes_flushed(uint8_t noc = noc_index) { rp_wait_writes_sent(noc); }
static FORCE_INLINE void noc_async_posted_writes_flushed(uint8_t noc = noc_index) { rp_wait_posted_writes_sent(noc); }
static FORCE_INLINE void noc_async_write_barrier(uint8_t noc = noc_index) { rp_wait_writes(noc); }
static FORCE_INLINE void noc_async_atomic_barrier(uint8_t noc = noc_index) { rp_wait_atomics(noc); }
static FORCE_INLINE void noc_async_full_barrier(uint8_t noc = noc_index) {
    rp_wait_reads(noc);
    rp_wait_writes(noc);
    rp_wait_posted_writes_sent(noc);
    rp_wait_atomics(noc);
}

// --- transaction ids ---------------------------------------------------------------------------------------------
static FORCE_INLINE void noc_async_read_set_trid(uint32_t trid, uint8_t noc = noc_index) { rp_noc_set_id(noc, RP_BUF_READ, trid); }
static FORCE_INLINE void noc_async_read_barrier_with_trid(uint32_t trid, uint8_t noc = noc_index) { rp_noc_id_barrier(noc, trid); }
static FORCE_INLINE void noc_async_write_set_trid(uint32_t trid, uint8_t noc = noc_index) { rp_noc_set_id(noc, RP_BUF_WRITE, trid); }
static FORCE_INLINE void noc_async_write_flushed_with_trid(uint32_t trid, uint8_t noc = noc_index) { rp_noc_id_write_flush(noc, trid); }
static FORCE_INLINE void noc_async_write_barrier_with_trid(uint32_t trid, uint8_t noc = noc_index) { rp_noc_id_barrier(noc, trid); }

// --- words and semaphores ----------------------------------------------------------------------------------------
enum class InlineWriteDst : uint8_t { DEFAULT, L1, REG };

// Writes a word. be, the byte mask, must be 0xF: partial words are not supported.
template <InlineWriteDst dst_type = InlineWriteDst::DEFAULT, bool posted = false>
FORCE_INLINE void noc_inline_dw_write(uint64_t addr, uint32_t val, [[maybe_unused]] uint8_t be = 0xF, uint8_t noc = noc_index) {
    if constexpr (dst_type == InlineWriteDst::REG) {
        rp_noc_reg_write(noc, reprise::coord(addr), reprise::low(addr), val, posted);
    } else if constexpr (dst_type == InlineWriteDst::L1) {
        rp_noc_word_write(noc, reprise::coord(addr), reprise::low(addr), val);
    } else {
        rp_noc_dword_write(noc, reprise::coord(addr), reprise::low(addr), val);
    }
}

// L1 address of one of the program's semaphores, the same on every core that has it. 16-byte aligned.
template <ProgrammableCoreType type = ProgrammableCoreType::TENSIX>
FORCE_INLINE uint32_t get_semaphore(uint32_t semaphore_id) {
    return rp_semaphore(semaphore_id);
}

// addr must be 16-byte aligned, as semaphores are.
template <bool posted = false>
FORCE_INLINE void noc_semaphore_inc(uint64_t addr, uint32_t incr, uint8_t noc_id = noc_index) {
    rp_noc_atomic_inc(noc_id, reprise::coord(addr), reprise::low(addr), incr);
}
// The word has its value when a NoC request that comes afterwards tells others of it.
static FORCE_INLINE void noc_semaphore_set(volatile tt_l1_ptr uint32_t* sem_addr, uint32_t val) {
    *sem_addr = val;
    rp_l1_commit((uint32_t)sem_addr);
}
static FORCE_INLINE void noc_semaphore_wait(volatile tt_l1_ptr uint32_t* sem_addr, uint32_t val) {
    rp_semaphore_wait((uint32_t)sem_addr, val);
}
static FORCE_INLINE void noc_semaphore_wait_min(volatile tt_l1_ptr uint32_t* sem_addr, uint32_t val) {
    rp_semaphore_wait_min((uint32_t)sem_addr, val);
}
// These three copy the 4-byte semaphore at src_local_l1_addr, as this core last stored it.
static FORCE_INLINE void noc_semaphore_set_remote(uint32_t src_local_l1_addr, uint64_t dst_noc_addr, uint8_t noc = noc_index) {
    rp_l1_commit(src_local_l1_addr);
    rp_noc_write_packet(noc, RP_BUF_WORD, RP_WRITE, reprise::coord(dst_noc_addr), reprise::low(dst_noc_addr),
                        src_local_l1_addr, 4, 1);
}
static FORCE_INLINE void noc_semaphore_set_multicast(uint32_t src_local_l1_addr, uint64_t dst_noc_addr_multicast,
                                                     uint32_t num_dests, bool linked = false, uint8_t noc = noc_index) {
    rp_l1_commit(src_local_l1_addr);
    rp_noc_write_packet(noc, RP_BUF_WRITE, reprise::multicast_kind(linked, false), reprise::coord(dst_noc_addr_multicast),
                        reprise::low(dst_noc_addr_multicast), src_local_l1_addr, 4, num_dests);
}
static FORCE_INLINE void noc_semaphore_set_multicast_loopback_src(uint32_t src_local_l1_addr, uint64_t dst_noc_addr_multicast,
                                                                  uint32_t num_dests, bool linked = false,
                                                                  uint8_t noc = noc_index) {
    rp_l1_commit(src_local_l1_addr);
    rp_noc_write_packet(noc, RP_BUF_WRITE, reprise::multicast_kind(linked, true), reprise::coord(dst_noc_addr_multicast),
                        reprise::low(dst_noc_addr_multicast), src_local_l1_addr, 4, num_dests);
}

// --- circular buffers --------------------------------------------------------------------------------------------
typedef rp_cb LocalCBInterface;
static FORCE_INLINE LocalCBInterface& get_local_cb_interface(uint32_t cb_id) { return RP_LOCAL->cb[cb_id]; }
static FORCE_INLINE void cb_reserve_back(int32_t operand, int32_t num_pages) {
    rp_cb_reserve_back((uint32_t)operand, (uint32_t)num_pages);
}
static FORCE_INLINE void cb_push_back(int32_t operand, int32_t num_pages) {
    rp_cb_push_back((uint32_t)operand, (uint32_t)num_pages);
}
static FORCE_INLINE void cb_wait_front(int32_t operand, int32_t num_pages) {
    rp_cb_wait_front((uint32_t)operand, (uint32_t)num_pages);
}
static FORCE_INLINE void cb_pop_front(int32_t operand, int32_t num_pages) {
    rp_cb_pop_front((uint32_t)operand, (uint32_t)num_pages);
}
static FORCE_INLINE bool cb_pages_reservable_at_back(int32_t operand, int32_t num_pages) {
    return rp_cb_free((uint32_t)operand) >= (uint32_t)num_pages;
}
static FORCE_INLINE bool cb_pages_available_at_front(int32_t operand, int32_t num_pages) {
    return rp_cb_available((uint32_t)operand) >= (uint32_t)num_pages;
}
static FORCE_INLINE uint32_t get_write_ptr(uint32_t operand) { return rp_cb_write_ptr(operand); }
static FORCE_INLINE uint32_t get_read_ptr(uint32_t operand) { return rp_cb_read_ptr(operand); }
// Bytes of a page, which is a tile where a buffer holds tiles.
static FORCE_INLINE uint32_t get_tile_size(uint32_t operand) { return rp_cb_page_size(operand); }
// The format of a circular buffer is not known on the device.
static FORCE_INLINE DataFormat get_dataformat(uint32_t) { return DataFormat::Invalid; }

#include "api/tensor/tensor_accessor.h"
