// Tiles of an operand that a core reads for all cores of its row or column.
#pragma once
#include "api/dataflow/dataflow_api.h"
#include "matmul_blocks.h"

// Share is a core's place among those that take the same tiles: the first one reads each step and sends it to the others, which
// have said that they have room. Semaphores only count up, so nothing is reset while others may still read it.
//
struct Share {
    uint32_t index, cores;              // this core's place, and how many there are
    uint32_t first, second, last;       // places in NoC addresses, x | y << 6
    uint32_t ready, sent;               // semaphores
    uint32_t count;

    // of_row and of_column return those of this core, for a product in blocks.
    static Share of_row(const Blocks& b) {
        const uint32_t x = rp_common_arg(18), y = static_cast<uint32_t>(my_y[noc_index]) << 6;
        return {b.x(), rp_common_arg(2) / b.nominal_columns, (x & 63) | y, (x >> 6 & 63) | y, x >> 12 | y,
                get_semaphore(kReadyLeft), get_semaphore(kSentLeft), 0};
    }
    static Share of_column(const Blocks& b) {
        const uint32_t x = my_x[noc_index], y = rp_common_arg(19);
        return {b.y(), rp_common_arg(0) / b.nominal_rows, x | (y & 63) << 6, x | (y >> 6 & 63) << 6, x | y >> 12 << 6,
                get_semaphore(kReadyRight), get_semaphore(kSentRight), 0};
    }
    bool sends() const { return index == 0; }
    uint32_t receivers() const { return cores - 1; }

    // send sends bytes that lie at the same address everywhere.
    void send(uint32_t addr, uint32_t bytes) {
        count++;
        if (receivers() == 0) {
            return;
        }
        volatile uint32_t* const word = reinterpret_cast<volatile uint32_t*>(sent);
        rp_semaphore_wait_min(ready, receivers() * count);
        noc_semaphore_set(word, count);
        const uint32_t rect = rp_noc_rect(noc_index, second, last);
        // Linked, so that the count can't overtake the data: the same path, on the same virtual channel.
        rp_noc_write_multicast(noc_index, RP_WRITE_MULTICAST | RP_WRITE_LINKED, rect, addr, addr, bytes, receivers());
        rp_noc_write_packet(noc_index, RP_BUF_WRITE, RP_WRITE_MULTICAST, rect, sent, sent, 4, receivers());
    }
    // flush waits until what was sent may be overwritten.
    void flush() const {
        if (sends() && receivers() != 0) {
            rp_wait_writes_sent(noc_index);
        }
    }
    // receive asks for the next step, for which there is room, and waits for it.
    void receive() {
        count++;
        rp_noc_atomic_inc(noc_index, rp_noc_coord_xy(first), ready, 1);
        rp_semaphore_wait_min(sent, count);
    }
    void finish() const {
        if (sends()) {
            rp_wait_writes(noc_index);
        } else {
            rp_wait_atomics(noc_index);
        }
    }
};
