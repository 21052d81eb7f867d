// Arguments that the device computes: words of memory that become arguments of a program. Part of dispatch.c.
//
// READ_ARG comes before the commands of the program, and says where the word is and where it goes. What it says is carried out
// when everything else of the program was written: FORWARD_WITH_ARGS, which starts the program, waits for the programs before,
// reads the words and writes them over the arguments that the host has given.
#ifndef REPRISE_CQ_READ_ARG_H
#define REPRISE_CQ_READ_ARG_H

struct cq_arg_words {
    uint8_t landing[CQ_READ_ARGS][64];  // where words land, each with the same low bits as its address
    uint32_t placed[CQ_READ_ARGS][4];   // each word where the low four bits of a target's address want it
    uint8_t commands[CQ_READ_ARG_BYTES];
};

static uint32_t read_args;       // how many wait for a program
static uint32_t read_arg_bytes;  // of their commands

static struct cq_arg_words* arg_words(void) { return (struct cq_arg_words*)args.arg_words; }

// Keeps the command at the cursor, and skips it.
static void take_read_arg(void) {
    const struct cq_read_arg* c = (const struct cq_read_arg*)ring.cursor;
    uint32_t bytes = cq_align(sizeof *c + c->count * sizeof(struct cq_read_arg_sub), RP_L1_ALIGNMENT);
    if (read_args == CQ_READ_ARGS || bytes > cq_ring_here(&ring) || bytes > CQ_READ_ARG_BYTES - read_arg_bytes) {
        bad_command(CQ_BAD_LENGTH);
    }
    uint32_t to = (uint32_t)arg_words()->commands + read_arg_bytes;
    for (uint32_t i = 0; i < bytes; i += 4) {
        rp_store(to + i, rp_load(ring.cursor + i));
    }
    read_args++;
    read_arg_bytes += bytes;
    skip(bytes);
}

static const struct cq_read_arg* next_read_arg(const struct cq_read_arg* c) {
    uint32_t bytes = sizeof *c + c->count * sizeof(struct cq_read_arg_sub);
    return (const struct cq_read_arg*)((uint32_t)c + cq_align(bytes, RP_L1_ALIGNMENT));
}

static void read_words(const struct cq_read_arg* c) {
    for (uint32_t i = 0; i < read_args; i++, c = next_read_arg(c)) {
        uint32_t to = (uint32_t)arg_words()->landing[i] + (c->addr & (sizeof arg_words()->landing[i] - 4));
        rp_noc_read(NOC, c->noc, c->addr, to, 4);
    }
    rp_noc_ready(NOC, RP_BUF_READ);
    rp_noc_read_barrier(NOC);
}

// Writes a word that lies at all four places of 16 bytes.
static void write_word(const struct cq_read_arg* c, uint32_t placed) {
    const struct cq_read_arg_sub* t = (const struct cq_read_arg_sub*)(c + 1);
    uint32_t offset = offset_of(c->offset_index);
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t addr = t[i].addr + offset, from = placed + (addr & (RP_L1_ALIGNMENT - 4)), dests = t[i].dests;
        if (dests != 0) {
            rp_noc_write_barrier(NOC);  // as in write_multicast
            rp_noc_write_packet(NOC, RP_BUF_WRITE, RP_WRITE_DISPATCH_MULTICAST, t[i].noc, addr, from, 4, dests);
        } else {
            send_to(t[i].noc, 0, addr, from, 4);
        }
    }
}

// Carries out what was kept, for the go signal at the cursor.
static void write_read_args(void) {
    const struct cq_send_go_signal* go_signal = (const struct cq_send_go_signal*)(ring.cursor + CQ_HEADER_BYTES);
    const struct cq_read_arg* c = (const struct cq_read_arg*)arg_words()->commands;
    cq_wait_stream(go_signal->wait_stream, go_signal->wait_count);
    rp_noc_write_barrier(NOC);  // the arguments that the words replace have arrived
    read_words(c);
    for (uint32_t i = 0; i < read_args; i++, c = next_read_arg(c)) {
        uint32_t word = rp_load((uint32_t)arg_words()->landing[i] + (c->addr & (sizeof arg_words()->landing[i] - 4)));
        uint32_t placed = (uint32_t)arg_words()->placed[i];
        for (uint32_t j = 0; j < 16; j += 4) {
            rp_store(placed + j, word);
        }
        rp_l1_commit(placed + 12);
        write_word(c, placed);
    }
    read_args = 0;
    read_arg_bytes = 0;
}

#endif
