// Go signals: what starts the workers.
#ifndef REPRISE_CQ_GO_H
#define REPRISE_CQ_GO_H

#include "cq_commands.h"
#include "cq_core.h"
#include "reprise/noc.h"

struct cq_go {
    uint32_t address;  // L1 of the workers: their go message 0
    uint32_t rect;     // all workers, as this NoC wants it
    uint32_t workers;
    uint32_t noc_data[CQ_GO_NOC_DATA_WORDS];  // coordinates for unicast go signals
};

CQ_SHARED void cq_wait_stream(uint32_t stream, uint32_t count) {
    if (rp_stream_reached(rp_stream_available(stream), count)) {
        return;
    }
    rp_waypoint_detail("WRKR", stream << 24 | (count & 0xFFFFFFu));
    while (!rp_stream_reached(rp_stream_available(stream), count)) {
    }
    rp_waypoint("RUN ");
}

// The NoC wants source and destination to agree in their low four bits, and the word in the command agrees with
// nothing. So it is put where its slot wants it, into the command's own 16 bytes, which are ours by now.
RP_INLINE uint32_t cq_place_go(uint32_t command, uint32_t to, uint32_t word) {
    uint32_t at = command + (to & (RP_L1_ALIGNMENT - 4));
    rp_store(at, word);
    rp_l1_commit(at);
    return at;
}

// cq_wait_workers waits until the workers have finished what was sent before, and returns when that was if it is wanted.
RP_INLINE uint64_t cq_wait_workers(uint32_t stream, uint32_t count, int timed) {
    cq_wait_stream(stream, count);
    return timed ? rp_wall_clock() : 0;
}

// cq_multicast_go starts all workers by a word after the command's header, once they have finished what was sent before.
RP_INLINE uint64_t cq_multicast_go(const struct cq_go* go, uint32_t noc, uint32_t command, uint32_t slot, uint32_t word,
                                   int timed) {
    uint32_t stream = ((const struct cq_send_go_signal*)command)->wait_stream;
    uint32_t count = ((const struct cq_send_go_signal*)command)->wait_count;
    uint32_t to = go->address + 4 * slot;
    uint32_t from = cq_place_go(command, to, word);
    // A multicast reserves its whole tree. Reserving one while another's writes are under way can lock both.
    rp_noc_write_barrier(noc);
    rp_noc_write_state(noc, RP_BUF_WRITE, RP_WRITE_DISPATCH_MULTICAST, go->rect, 0);
    uint64_t now = cq_wait_workers(stream, count, timed);
    rp_noc_write_with_state(noc, RP_BUF_WRITE, RP_WRITE_DISPATCH_MULTICAST, to, from, 4, go->workers);
    return now;
}

// cq_send_any_go is cq_send_go, also for commands that start workers one by one, or none.
CQ_SHARED uint64_t cq_send_any_go(const struct cq_go* go, uint32_t noc, uint32_t command, int timed) {
    const struct cq_send_go_signal* c = (const struct cq_send_go_signal*)command;
    uint32_t word = cq_u32(c->go);
    uint32_t num_unicast = c->unicasts;
    uint32_t unicast = c->noc_start;
    uint64_t now;
    if (unicast + num_unicast > CQ_GO_NOC_DATA_WORDS) {
        cq_park(CQ_BAD_LENGTH, rp_load(command));
    }
    if (c->multicast != CQ_GO_NO_MULTICAST) {
        now = cq_multicast_go(go, noc, command, c->multicast, word, timed);
    } else {
        now = cq_wait_workers(c->wait_stream, c->wait_count, timed);
    }
    if (num_unicast != 0) {
        uint32_t from = cq_place_go(command, go->address, word);
        for (; num_unicast != 0; num_unicast--, unicast++) {
            rp_noc_write_packet(noc, RP_BUF_WRITE, RP_WRITE, go->noc_data[unicast], go->address, from, 4, 1);
        }
    }
    return now;
}

// cq_send_go waits until the workers have finished what was sent before, then starts them. Returns the time in between if it
// is wanted, otherwise 0. The command's bytes are gone afterwards, and must stay until the writes are flushed.
RP_INLINE uint64_t cq_send_go(const struct cq_go* go, uint32_t noc, uint32_t command, int timed) {
    uint32_t low = rp_load(command), high = rp_load(command + 4);  // quicker than the fields, byte by byte
    uint32_t slot = high >> 8 & 0xFFu;
    if (slot == CQ_GO_NO_MULTICAST || high >> 16 != 0) {
        return cq_send_any_go(go, noc, command, timed);
    }
    return cq_multicast_go(go, noc, command, slot, low >> 8 | high << 24, timed);
}

// cq_copy_noc_data takes the words of SET_GO_SIGNAL_NOC_DATA, which lie after its header in one piece.
static inline void cq_copy_noc_data(struct cq_go* go, uint32_t from, uint32_t words) {
    for (uint32_t i = 0; i < words; i++) {
        go->noc_data[i] = rp_load(from + 4 * i);
    }
}

#endif
