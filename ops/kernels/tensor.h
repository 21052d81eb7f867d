// Tensors in kernels: the address of each element, for any layout and memory configuration.
#pragma once
#include "api/dataflow/dataflow_api.h"

// Data types, with the host's numbers.
enum DataType : uint32_t { kUint8, kUint16, kUint32, kInt32, kBfloat16, kFloat32 };

static inline bool is_float(uint32_t type) { return type >= kBfloat16; }

// Bits of a single-precision float.
constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7F800000;

// load and store use 32 bits for an element: an integer, or the bits of a single-precision float.
static inline uint32_t load(uint32_t type, uint32_t addr) {
    switch (type) {
    case kUint8: return *reinterpret_cast<const uint8_t*>(addr);
    case kUint16: return *reinterpret_cast<const uint16_t*>(addr);
    case kBfloat16: return static_cast<uint32_t>(*reinterpret_cast<const uint16_t*>(addr)) << 16;
    default: return *reinterpret_cast<const uint32_t*>(addr);
    }
}

static inline void store(uint32_t type, uint32_t addr, uint32_t v) {
    switch (type) {
    case kUint8: *reinterpret_cast<uint8_t*>(addr) = v; break;
    case kUint16: *reinterpret_cast<uint16_t*>(addr) = v; break;
    case kBfloat16: *reinterpret_cast<uint16_t*>(addr) = v >> 16; break;
    default: *reinterpret_cast<uint32_t*>(addr) = v;
    }
}

static inline uint32_t size_of(uint32_t type) { return type == kUint8 ? 1 : type == kUint16 || type == kBfloat16 ? 2 : 4; }

// The first words of a tensor in the common arguments. The banks of its shards follow, four to a word.
constexpr uint32_t kFlagL1 = 1, kFlagTile = 2, kFlagSharded = 4;
constexpr uint32_t kHeader = 16;

struct Tensor {
    uint32_t base, bytes, stride, flags;  // address in each bank, bytes of a page, from page to page in a bank
    uint32_t dims[4];
    uint32_t page_width;             // elements
    uint32_t wide, high;             // pages in a row; rows of pages in a matrix
    uint32_t shard_high, shard_wide;  // pages
    uint32_t shards_wide;
    uint32_t type;
    uint32_t banks;    // index of the first argument after the header
    uint32_t scratch;  // L1 address of a buffer for one page
    uint32_t cached;   // index of the page in it

    // read reads the tensor from the common arguments, from an index on, and returns the index after it.
    uint32_t read(uint32_t at, uint32_t room) {
        base = rp_common_arg(at);
        bytes = rp_common_arg(at + 1);
        stride = rp_common_arg(at + 2);
        flags = rp_common_arg(at + 3);
        for (uint32_t i = 0; i < 4; i++) {
            dims[i] = rp_common_arg(at + 4 + i);
        }
        page_width = rp_common_arg(at + 8);
        wide = rp_common_arg(at + 9);
        high = rp_common_arg(at + 10);
        shard_high = rp_common_arg(at + 11);
        shard_wide = rp_common_arg(at + 12);
        shards_wide = rp_common_arg(at + 13);
        type = rp_common_arg(at + 14);
        banks = at + kHeader;
        scratch = room;
        cached = 0xFFFFFFFF;
        return at + kHeader + rp_common_arg(at + 15);
    }

    rp_place place(uint32_t page) const {
        const rp_bank_table* table = reinterpret_cast<const rp_bank_table*>(RP_L1_BANK_TABLE);
        if (flags & kFlagSharded) {
            const uint32_t row = page / wide, column = page % wide;
            const uint32_t shard = row / shard_high * shards_wide + column / shard_wide;
            const uint32_t slot = row % shard_high * shard_wide + column % shard_wide;
            const uint32_t bank = rp_common_arg(banks + shard / 4) >> shard % 4 * 8 & 0xFF;
            // An interleaved buffer has this page at the same place.
            page = slot * (flags & kFlagL1 ? table->num_l1 : table->num_dram) + bank;
        }
        return flags & kFlagL1 ? rp_l1_page(noc_index, base, stride, page) : rp_dram_page(noc_index, base, stride, page);
    }

    void fetch(uint32_t page) {
        if (page == cached) {
            return;
        }
        const rp_place p = place(page);
        rp_noc_read(noc_index, p.coord, p.addr, scratch, bytes);
        rp_wait_reads(noc_index);
        cached = page;
    }

    // copy begins to read a page to L1.
    void copy(uint32_t page, uint32_t to) const {
        const rp_place p = place(page);
        rp_noc_read(noc_index, p.coord, p.addr, to, bytes);
    }

    // flush writes the page buffer to a page and waits until it can be reused. The padding up to the next page is written
    // too, because copies of pages include it.
    void flush(uint32_t page) {
        const rp_place p = place(page);
        rp_publish();
        rp_noc_write(noc_index, p.coord, p.addr, scratch, stride);
        rp_wait_writes_sent(noc_index);
    }

    // find returns the L1 address of an element, and how many elements of its row follow it contiguously.
    uint32_t find(uint32_t matrix, uint32_t h, uint32_t w, uint32_t* run) {
        if (flags & kFlagTile) {
            fetch((matrix * high + h / 32) * wide + w / 32);
            *run = 16 - w % 16;
            return scratch + (((h / 16 % 2 * 2 + w / 16 % 2) << 8) + h % 16 * 16 + w % 16) * size_of(type);
        }
        fetch((matrix * high + h) * wide + w / page_width);
        *run = page_width - w % page_width;
        return scratch + w % page_width * size_of(type);
    }

    // Indices wrap at the end of a dimension, so a dimension of 1 is repeated.
    uint32_t matrix(uint32_t n, uint32_t c) const { return n % dims[0] * dims[1] + c % dims[1]; }
};

// A run of elements that is contiguous in the page and in its row.
struct Run {
    uint32_t n, c, h, w, count, addr;
};

// each_run calls f for every run of a page inside the tensor, and skips the padding.
template <class F>
static inline void each_run(const Tensor& t, uint32_t page, F f) {
    const uint32_t row = page / t.wide, column = page % t.wide;
    const uint32_t matrix = row / t.high, n = matrix / t.dims[1], c = matrix % t.dims[1];
    if (!(t.flags & kFlagTile)) {
        const uint32_t w = column * t.page_width, left = t.dims[3] - w;
        f(Run{n, c, row % t.high, w, left < t.page_width ? left : t.page_width, t.scratch});
        return;
    }
    for (uint32_t i = 0; i < 64; i++) {  // 4 faces of 16 rows
        const uint32_t h = row % t.high * 32 + (i >> 5) * 16 + i % 16;
        const uint32_t w = column * 32 + (i >> 4 & 1) * 16;
        if (h < t.dims[2] && w < t.dims[3]) {
            const uint32_t left = t.dims[3] - w;
            f(Run{n, c, h, w, left < 16 ? left : 16, t.scratch + i * 16 * size_of(t.type)});
        }
    }
}

// clear fills a tensor's page buffer with zeros, padding up to the next page included.
static inline void clear(const Tensor& t) {
    for (uint32_t i = 0; i < t.stride; i += 4) {
        *reinterpret_cast<uint32_t*>(t.scratch + i) = 0;
    }
}
