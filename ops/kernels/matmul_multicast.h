// Tiles of an operand that a core reads for all cores of its row or column.
#pragma once
#include "api/dataflow/dataflow_api.h"

// Share is a core's place among those that take the same tiles: the first one reads each step and sends it to the others, which
// have said that they have room. Semaphores only count up, so nothing is reset while others may still read it.
//
// Arguments of the sender: how many receivers there are, and the corners of their rectangle, start | end << 12; of a receiver: kReceiver,
// and the sender. A coordinate is x | y << 6.
struct Share {
    uint32_t receivers, place;
    uint32_t ready, sent;  // semaphores
    uint32_t count;

    static constexpr uint32_t kReceiver = 0xFFFFFFFF;

    static Share read(uint32_t at, uint32_t ready, uint32_t sent) {
        return {rp_arg(at), rp_arg(at + 1), get_semaphore(ready), get_semaphore(sent), 0};
    }
    bool sends() const { return receivers != kReceiver; }

    // send sends bytes that lie at the same address everywhere.
    void send(uint32_t addr, uint32_t bytes) {
        count++;
        if (receivers == 0) {
            return;
        }
        volatile uint32_t* const word = reinterpret_cast<volatile uint32_t*>(sent);
        rp_semaphore_wait_min(ready, receivers * count);
        noc_semaphore_set(word, count);
        const uint32_t rect = rp_noc_rect(noc_index, place & 0xFFF, place >> 12);
        // Linked, so that the count can't overtake the data: the same path, on the same virtual channel.
        rp_noc_write_multicast(noc_index, RP_WRITE_MULTICAST | RP_WRITE_LINKED, rect, addr, addr, bytes, receivers);
        rp_noc_write_packet(noc_index, RP_BUF_WRITE, RP_WRITE_MULTICAST, rect, sent, sent, 4, receivers);
    }
    // flush waits until what was sent may be overwritten.
    void flush() const {
        if (sends() && receivers != 0) {
            rp_wait_writes_sent(noc_index);
        }
    }
    // receive asks for the next step, for which there is room, and waits for it.
    void receive() {
        count++;
        rp_noc_atomic_inc(noc_index, rp_noc_coord_xy(place), ready, 1);
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
