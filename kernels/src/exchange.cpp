// Moves pages of an interleaved DRAM buffer over Ethernet links to and from the same buffer of neighbouring chips, and
// combines what arrives with what is there. No program runs on the Ethernet tiles: their transmit queues are registers that
// the NoC reaches (tt-isa-documentation {WormholeB0,BlackholeA0}/EthernetTile/BabyRISCV/README.md), and packets of transmit
// queue 1 are written to the other tile's L1 in order and, on silicon, sent again until they arrive
// (EthernetTile/EthernetTxRx.md). The base firmware of the tiles uses queue 0.
//
// For each direction of a link there are two slots of a page in the L1 of both tiles. A packet is a page, then one of 16 bytes
// with its number, which therefore arrives after it; the receiver sends the number back when it has taken the page. Tiles
// keep how many packets they have sent and received, so the next run goes on where this one ends.
//
// Runs on BRISC with NoC 0, on one core of each chip at a time for a link. Unique arguments: 0 mode, 1 the tile of the link
// to the previous chip and 2 to the next one, as raw NoC 0 coordinates x | y << 6, or 0xFFFFFFFF for none, 3 buffer address,
// 4 page size, 5 circular buffer of at least three pages of the page size and 64 bytes, 6 number of steps, 7 of the first
// argument that is a step. Mode 1 prepares the tiles instead, once before any chip exchanges.
// A step is three arguments: flags, first page to send, first page to receive. Flags:
//   bit 0 send, bit 1 to the next chip (otherwise the previous), bit 2 receive, bit 3 from the next chip,
//   bits 4..7 how what arrives is combined: 0 it replaces the page, 1 sum of int32, 2 largest int32, 3 sum of float32,
//   4 largest float32, 5 sum of bfloat16, 6 largest bfloat16, 7 sum of int16, 8 of int8, 9 sum of tiles of bfloat16,
//   10 of float32; bit 8 send each page on once it has arrived, bit 9 keep nothing of it here; bits 16..31 number of pages.
// Tiles are added by the engines (compute/sum.cpp), which take pages from circular buffers 1 and 2 and leave sums in 0: while
// they add two pages, the next one arrives.

#include "api/dataflow/dataflow_api.h"

namespace {

constexpr uint32_t PAGE_MAX = 4096;
constexpr uint32_t SLOT = PAGE_MAX + 64;
constexpr uint32_t OUT = 0x30000;             // two slots: what is sent, and its number after the page
constexpr uint32_t IN = OUT + 2 * SLOT;       // two slots: what has arrived
constexpr uint32_t TAKEN = IN + 2 * SLOT;     // number of the last packet that the other side has taken
constexpr uint32_t TAKING = TAKEN + 64;       // two places for numbers that are sent to the other side's TAKEN
constexpr uint32_t COUNTS = TAKING + 128;     // packets sent, packets received
constexpr uint32_t NONE = 0xFFFFFFFF;

constexpr uint32_t TXQ = 0xFFB91000;  // transmit queue 1
constexpr uint32_t TXQ_CMD = 0x04, TXQ_SOURCE = 0x14, TXQ_BYTES = 0x18, TXQ_DEST = 0x1C;
#if defined(REPRISE_WORMHOLE)
constexpr uint32_t TXQ_BUSY = 0x04, TXQ_BUSY_BITS = 0xFFFFFFFF;
#else
constexpr uint32_t TXQ_BUSY = 0x08, TXQ_BUSY_BITS = 1u << 16;
#endif

struct link {
    uint32_t tile;  // x | y << 6
    uint32_t sent, received, taken;
};

uint32_t scratch;  // 64 bytes of L1

uint64_t at(const link& l, uint32_t addr) { return get_noc_addr(l.tile & 63, l.tile >> 6, addr); }

volatile uint32_t* words(uint32_t addr) { return reinterpret_cast<volatile uint32_t*>(addr); }

// The scratch line has the bytes of the source at the same place in 64 bytes.
uint32_t peek(const link& l, uint32_t addr) {
    uint32_t to = scratch + (addr & 0x3C);
    noc_async_read(at(l, addr), to, 4);
    noc_async_read_barrier();
    invalidate_l1_cache();
    return *words(to);
}

// Writes a number and zeros up to 16 bytes.
void poke(const link& l, uint32_t addr, uint32_t value) {
    uint32_t from = scratch + (addr & 0x30);
    volatile uint32_t* w = words(from);
    w[1] = w[2] = w[3] = 0;
    w[0] = value;
    rp_l1_commit(from);
    noc_async_write(from, at(l, addr), 16);
    noc_async_write_barrier();
}

void set(const link& l, uint32_t reg, uint32_t value) {
    noc_inline_dw_write<InlineWriteDst::REG>(at(l, TXQ + reg), value);
}

void transmit(const link& l, uint32_t from, uint32_t to, uint32_t bytes) {
    while ((peek(l, TXQ + TXQ_BUSY) & TXQ_BUSY_BITS) != 0) {
    }
    set(l, TXQ_SOURCE, from);
    set(l, TXQ_BYTES, bytes);
    set(l, TXQ_DEST, to);
    noc_async_write_barrier();
    set(l, TXQ_CMD, 2);
    noc_async_write_barrier();
}

void send(link& l, uint32_t page, uint32_t bytes) {
    uint32_t slot = (l.sent & 1) * SLOT;
    while (l.sent - l.taken >= 2) {
        l.taken = peek(l, TAKEN);
    }
    noc_async_write(page, at(l, OUT + slot), bytes);
    l.sent++;
    poke(l, OUT + slot + PAGE_MAX, l.sent);
    transmit(l, OUT + slot, IN + slot, bytes);
    transmit(l, OUT + slot + PAGE_MAX, IN + slot + PAGE_MAX, 16);
}

void receive(link& l, uint32_t page, uint32_t bytes) {
    uint32_t slot = (l.received & 1) * SLOT, place = TAKING + (l.received & 1) * 64;
    l.received++;
    while (peek(l, IN + slot + PAGE_MAX) != l.received) {
    }
    noc_async_read(at(l, IN + slot), page, bytes);
    noc_async_read_barrier();
    poke(l, place, l.received);
    transmit(l, place, TAKEN, 16);
}

// IEEE 754 sum of two float32, rounded to nearest, ties to even; subnormals count. Any NaN gives 0x7FC00000.
uint32_t add_float(uint32_t a, uint32_t b) {
    if ((a & 0x7FFFFFFF) < (b & 0x7FFFFFFF)) {
        uint32_t t = a;
        a = b;
        b = t;
    }
    uint32_t ea = a >> 23 & 255, eb = b >> 23 & 255;
    if (ea == 255) {
        bool nan = (a & 0x7FFFFF) != 0 || (eb == 255 && ((b & 0x7FFFFF) != 0 || (a ^ b) >> 31 != 0));
        return nan ? 0x7FC00000 : a;
    }
    // Three more bits: guard, round, sticky.
    uint32_t ma = ((a & 0x7FFFFF) | (ea != 0 ? 1u << 23 : 0)) << 3, mb = ((b & 0x7FFFFF) | (eb != 0 ? 1u << 23 : 0)) << 3;
    int32_t e = ea != 0 ? (int32_t)ea : 1, shift = e - (eb != 0 ? (int32_t)eb : 1);
    if (shift > 26) {
        mb = mb != 0;
    } else if (shift > 0) {
        mb = mb >> shift | ((mb << (32 - shift)) != 0);
    }
    uint32_t sign = a & 0x80000000, m;
    if ((a ^ b) >> 31 != 0) {
        m = ma - mb;
        if (m == 0) {
            return ma == 0 ? (a & b & 0x80000000) : 0;
        }
    } else {
        m = ma + mb;
        if (m == 0) {
            return sign;
        }
    }
    if (m >> 27 != 0) {
        m = m >> 1 | (m & 1);
        e++;
    }
    while (m >> 26 == 0 && e > 1) {
        m <<= 1;
        e--;
    }
    uint32_t rest = m & 7;
    m >>= 3;
    if (rest > 4 || (rest == 4 && (m & 1) != 0)) {
        m++;
        if (m >> 24 != 0) {
            m >>= 1;
            e++;
        }
    }
    if (m >> 23 == 0) {
        return sign | m;  // subnormal
    }
    if (e >= 255) {
        return sign | 0x7F800000;
    }
    return sign | (uint32_t)e << 23 | (m & 0x7FFFFF);
}

bool is_nan(uint32_t a) { return (a & 0x7FFFFFFF) > 0x7F800000; }

// Orders float32 as numbers, -0 before 0.
int32_t rank(uint32_t a) { return (int32_t)a < 0 ? (int32_t)(0x7FFFFFFFu ^ a) : (int32_t)a; }

uint32_t max_float(uint32_t a, uint32_t b) {
    if (is_nan(a) || is_nan(b)) {
        return 0x7FC00000;
    }
    return rank(a) < rank(b) ? b : a;
}

// float32 to bfloat16, rounded to nearest, ties to even.
uint32_t narrow(uint32_t a) { return is_nan(a) ? 0x7FC0 : (a + 0x7FFF + (a >> 16 & 1)) >> 16; }

// Adds the integers of which top has the highest bits, each modulo its own range.
uint32_t add_packed(uint32_t a, uint32_t b, uint32_t top) { return ((a & ~top) + (b & ~top)) ^ ((a ^ b) & top); }

uint32_t combine_word(uint32_t how, uint32_t a, uint32_t b) {
    switch (how) {
    case 1: return a + b;
    case 2: return (int32_t)a < (int32_t)b ? b : a;
    case 3: return add_float(a, b);
    case 4: return max_float(a, b);
    case 5: return narrow(add_float(a << 16, b << 16)) | narrow(add_float(a & 0xFFFF0000, b & 0xFFFF0000)) << 16;
    case 7: return add_packed(a, b, 0x80008000);
    case 8: return add_packed(a, b, 0x80808080);
    default: return max_float(a << 16, b << 16) >> 16 | (max_float(a & 0xFFFF0000, b & 0xFFFF0000) & 0xFFFF0000);
    }
}

// Leaves in to what comes of to and from, in this order; a last word may have bytes behind the page.
void combine(uint32_t how, uint32_t to, uint32_t from, uint32_t bytes) {
    invalidate_l1_cache();
    for (uint32_t i = 0; i < bytes; i += 4) {
        *words(to + i) = combine_word(how, *words(to + i), *words(from + i));
    }
    rp_l1_commit(to + ((bytes - 1) & ~3u));
}

constexpr uint32_t TILES = 9;                        // from here on the engines combine
constexpr uint32_t SUMS = 0, OWN = 1, ARRIVED = 2;  // their circular buffers

// Receives a page, and passes it and the chip's own to the engines.
void receive_tile(link& l, const InterleavedAddrGen<true>& buffer, uint32_t page, uint32_t bytes) {
    cb_reserve_back(OWN, 1);
    cb_reserve_back(ARRIVED, 1);
    noc_async_read_page(page, buffer, get_write_ptr(OWN));
    receive(l, get_write_ptr(ARRIVED), bytes);
    cb_push_back(OWN, 1);
    cb_push_back(ARRIVED, 1);
}

// Takes a sum from the engines: writes it to its page, and sends it on if there is a link.
void take_sum(link* to, bool keep, const InterleavedAddrGen<true>& buffer, uint32_t page, uint32_t bytes) {
    cb_wait_front(SUMS, 1);
    uint32_t from = get_read_ptr(SUMS);
    if (keep) {
        noc_async_write_page(page, buffer, from);
    }
    if (to != nullptr) {
        send(*to, from, bytes);
    }
    noc_async_write_barrier();
    cb_pop_front(SUMS, 1);
}

void load(link& l, uint32_t tile) {
    l.tile = tile;
    if (tile != NONE) {
        l.sent = peek(l, COUNTS);
        l.received = peek(l, COUNTS + 4);
        l.taken = peek(l, TAKEN);
    }
}

void prepare(const link& l) {
    if (l.tile == NONE) {
        return;
    }
    poke(l, IN + PAGE_MAX, 0);
    poke(l, IN + SLOT + PAGE_MAX, 0);
    poke(l, TAKEN, 0);
    poke(l, COUNTS, 0);
}

void save(const link& l) {
    if (l.tile == NONE) {
        return;
    }
    uint32_t from = scratch + (COUNTS & 0x30);
    volatile uint32_t* w = words(from);
    w[2] = w[3] = 0;
    w[0] = l.sent;
    w[1] = l.received;
    rp_l1_commit(from + 4);  // of the last store
    noc_async_write(from, at(l, COUNTS), 16);
    noc_async_write_barrier();
}

}  // namespace

void kernel_main() {
    uint32_t cb = get_arg_val<uint32_t>(5), size = get_arg_val<uint32_t>(4);
    uint32_t bytes = (size + 15) & ~15u, room = (size + 63) & ~63u;
    uint32_t mine = (get_write_ptr(cb) + 63) & ~63u, theirs = mine + room;
    scratch = theirs + room;
    link links[2];
    if (get_arg_val<uint32_t>(0) == 1) {
        for (uint32_t i = 0; i < 2; i++) {
            links[i].tile = get_arg_val<uint32_t>(1 + i);
            prepare(links[i]);
        }
        return;
    }
    load(links[0], get_arg_val<uint32_t>(1));
    load(links[1], get_arg_val<uint32_t>(2));
    // Packets are of 16 bytes: what is after the page goes with it.
    for (uint32_t i = size & ~3u; i < bytes; i += 4) {
        *words(mine + i) = 0;
    }
    if (size != bytes) {
        rp_l1_commit(mine + bytes - 4);
    }
    const InterleavedAddrGen<true> buffer = {get_arg_val<uint32_t>(3), size};
    uint32_t steps = get_arg_val<uint32_t>(6), arg = get_arg_val<uint32_t>(7);
    for (; steps != 0; steps--, arg += 3) {
        uint32_t flags = get_arg_val<uint32_t>(arg), out = get_arg_val<uint32_t>(arg + 1), in = get_arg_val<uint32_t>(arg + 2);
        uint32_t how = flags >> 4 & 15;
        bool sum = (flags & 4) != 0 && how >= TILES, adding = false;
        link* on = (flags & 0x101) == 0x101 ? &links[flags >> 1 & 1] : nullptr;
        for (uint32_t n = flags >> 16; n != 0; n--, out++, in++) {
            if ((flags & 1) != 0 && (flags & 0x100) == 0) {
                noc_async_read_page(out, buffer, mine);
                noc_async_read_barrier();
                send(links[flags >> 1 & 1], mine, bytes);
            }
            if (sum) {
                receive_tile(links[flags >> 3 & 1], buffer, in, bytes);
                if (adding) {
                    take_sum(on, (flags & 0x200) == 0, buffer, in - 1, bytes);
                }
                adding = true;
            } else if ((flags & 4) != 0) {
                uint32_t page = how == 0 ? mine : theirs;
                receive(links[flags >> 3 & 1], page, bytes);
                if (how != 0) {
                    noc_async_read_page(in, buffer, mine);
                    noc_async_read_barrier();
                    combine(how, mine, theirs, size);
                }
                if ((flags & 0x200) == 0) {
                    noc_async_write_page(in, buffer, mine);
                    noc_async_write_barrier();
                }
                if (on != nullptr) {
                    send(*on, mine, bytes);
                }
            }
        }
        if (adding) {
            take_sum(on, (flags & 0x200) == 0, buffer, in - 1, bytes);
        }
    }
    save(links[0]);
    save(links[1]);
}
