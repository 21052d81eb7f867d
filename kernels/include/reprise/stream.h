// Streams: rings of messages in pinned host memory, between the host (Go package stream) and one kernel at a time. For C and
// C++, on BRISC and NCRISC, on either NoC.
//
//     struct stream out;
//     stream_open(&out, 0);                 // runtime arguments 0 to 4 are what Stream.Args returned
//     stream_push_word(&out, token);        // a message of 4 bytes
//     stream_push(&out, l1, 1216);          // one of 1,216 bytes, from L1
//     stream_close(&out);                   // the host reads io.EOF next; nothing of the kernel is on its way any more
//
// A stream has one reader and one writer. Where it stands is in host memory, so the kernel at its end may be another one, on
// another core, each time, as long as one has flushed (stream_flush, stream_close, stream_fail) before the next one opens.
//
// What it costs, on silicon, where a read of host memory over PCIe takes about a microsecond and a write doesn't wait:
//   stream_open   one read
//   stream_push   two writes, three above 48 bytes; one read where the room that the kernel knows of is used up
//   stream_pop    the time of one read, and a write; that of one more where the kernel knows of no message, and where a message of
//                 more than 48 bytes is longer than the last one or its end wasn't there yet
//   a wait        a read for each poll
// A position in the ring is asked for only when what the kernel last saw of it isn't enough.
//
// The functions use command buffers RP_BUF_READ and RP_BUF_WRITE: what rp_noc_read_state and rp_noc_write_state (or tt-metal's
// *_set_state) set there must be set again afterwards. Transaction ids must be 0.
//
// The ring: positions count bytes, modulo 2^32, and are multiples of 64. A message is a line of 64 bytes: its length, kind and
// code, its position, and up to 48 bytes of data; longer ones have their data after that line. Each end publishes its position
// after the data: with writes, the data before it take the same path, where they stay in order, as do the writes of PCIe.
#ifndef REPRISE_STREAM_H
#define REPRISE_STREAM_H

#include "reprise/kernel.h"

#define STREAM_ARGS 5u  // runtime arguments of a stream

enum stream_result {
    STREAM_OK = 0,
    STREAM_WAIT = 1,      // try: there is no message, or no room
    STREAM_END = 2,       // pop: the host has closed the stream; the next pop waits for what it writes afterwards
    STREAM_FAILED = 3,    // pop: the host has closed it with an error, see struct stream.code
    STREAM_STOPPED = 4,   // push: the host reads no more
    STREAM_TOO_LONG = 5,  // the message is longer than the ring holds, or than the caller's room; it stays where it is
    STREAM_DAMAGED = 6,   // pop: what is in the ring is no message: it has two readers or two writers
};

// Layout of the host memory and of the piece of L1 that go with a stream; package stream has the same numbers.
#define STREAM_LINE 64u
#define STREAM_INLINE 48u   // data in a message's first line, from byte 16 on
#define STREAM_HOST_LINE 64u  // the host's position, whether it has stopped reading; the kernel's are at 0
#define STREAM_RING 128u
#define STREAM_L1_SEND 128u  // after room for what is read: a message's first line
#define STREAM_L1_POS 192u   // position, stopped, code
enum stream_kind { STREAM_KIND_DATA = 0, STREAM_KIND_END = 1, STREAM_KIND_FAILED = 2 };

struct stream {
    uint32_t noc;
    uint32_t coord;   // PCIe tile
    uint32_t lo, hi;  // host memory
    uint32_t size;    // of the ring, a power of two
    uint32_t l1;
    uint32_t pos;      // of this end
    uint32_t peer;     // of the host's, as last seen
    uint32_t stopped;  // the host reads no more, as last seen
    uint32_t code;     // of STREAM_FAILED
    uint32_t last;     // bytes of the last message that was read and has data after its first line
};

RP_INLINE uint64_t stream_address(const struct stream* s, uint32_t offset) {
    return (uint64_t)s->hi << 32 | (s->lo + offset);
}

// stream_fetch reads host memory to the stream's L1 and waits for it. It leaves no waypoint: a wait that polls must not look
// like progress.
static inline __attribute__((unused)) void stream_fetch(const struct stream* s, uint32_t offset, uint32_t l1, uint32_t bytes) {
    rp_noc_read(s->noc, s->coord, stream_address(s, offset), l1, bytes);
    rp_noc_read_barrier(s->noc);
}

// stream_ask asks where the host is.
static inline __attribute__((unused)) void stream_ask(struct stream* s) {
    stream_fetch(s, STREAM_HOST_LINE, s->l1, STREAM_LINE);
    s->peer = rp_load(s->l1);
    s->stopped = rp_load(s->l1 + 4);
}

// stream_open_at takes the stream's arguments from L1 address args.
static inline __attribute__((unused)) void stream_open_at(struct stream* s, uint32_t args) {
    uint32_t tiles = rp_load(args);
    s->noc = RP_LOCAL->noc_index;
    s->coord = rp_noc_coord_xy(s->noc ? tiles >> 16 : tiles & 0xFFFFu);
    s->lo = rp_load(args + 4);
    s->hi = rp_load(args + 8);
    s->size = rp_load(args + 12);
    s->l1 = rp_load(args + 16);
    s->code = s->last = 0;
    stream_fetch(s, 0, s->l1, 2 * STREAM_LINE);
    s->pos = rp_load(s->l1);
    s->peer = rp_load(s->l1 + STREAM_HOST_LINE);
    s->stopped = rp_load(s->l1 + STREAM_HOST_LINE + 4);
}

// stream_open opens the stream whose arguments begin at unique runtime argument first; stream_open_common at a common one.
RP_INLINE void stream_open(struct stream* s, uint32_t first) { stream_open_at(s, RP_LOCAL->rta_base + 4 * first); }
RP_INLINE void stream_open_common(struct stream* s, uint32_t first) { stream_open_at(s, RP_LOCAL->crta_base + 4 * first); }

// stream_publish tells the host this end's position. The state of RP_BUF_WRITE leads to host memory. The word in L1 is the
// source of the write, so the last one must have left before it changes; the caller's data have left then, too.
static inline __attribute__((unused)) void stream_publish(struct stream* s, uint32_t bytes) {
    uint32_t l1 = s->l1 + STREAM_L1_POS;
    rp_noc_write_flush(s->noc);
    rp_store(l1, s->pos);
    rp_l1_commit(l1);
    rp_noc_write_with_state(s->noc, RP_BUF_WRITE, RP_WRITE, s->lo, l1, bytes, 1);
}

// stream_flush waits until all that the kernel has written has arrived. A kernel calls it, or stream_close or stream_fail, for
// each stream before it ends.
RP_INLINE void stream_flush(struct stream* s) { rp_wait_writes(s->noc); }

// --- writing ---------------------------------------------------------------------------------------------------
// stream_room waits until the ring has room for need bytes; once around if wait is 0.
static inline __attribute__((unused)) int stream_room(struct stream* s, uint32_t need, int wait) {
    int asked = 0;
    while (!s->stopped && s->size - (s->pos - s->peer) < need) {
        if (asked && !wait) {
            return STREAM_WAIT;
        }
        if (asked == 1) {
            rp_waypoint_detail("SPSH", s->lo);
        }
        stream_ask(s);
        asked = asked ? 2 : 1;
    }
    if (asked == 2) {
        rp_waypoint("RUN ");
    }
    return s->stopped ? STREAM_STOPPED : STREAM_OK;
}

static inline __attribute__((unused)) int stream_put(struct stream* s, enum stream_kind kind, uint32_t code, uint32_t l1,
                                                     uint32_t bytes, int wait) {
    if (bytes > s->size - STREAM_LINE) {
        return STREAM_TOO_LONG;
    }
    uint32_t after = bytes > STREAM_INLINE ? bytes : 0;
    uint32_t need = STREAM_LINE + ((after + STREAM_LINE - 1) & ~(STREAM_LINE - 1));
    int r = stream_room(s, need, wait);
    if (r != STREAM_OK) {
        return r;
    }
    uint32_t head = s->l1 + STREAM_L1_SEND, n = 16;
    rp_store(head, bytes);
    rp_store(head + 4, (uint32_t)kind);
    rp_store(head + 8, code);
    rp_store(head + 12, s->pos);
    if (!after) {
        for (; n < 16 + bytes; n += 4) {
            rp_store(head + n, rp_load(l1 + n - 16));
        }
    }
    rp_l1_commit(head + n - 4);
    uint32_t mask = s->size - 1, ring = s->lo + STREAM_RING;
    rp_noc_write_state(s->noc, RP_BUF_WRITE, RP_WRITE, s->coord, s->hi);
    rp_noc_write_with_state(s->noc, RP_BUF_WRITE, RP_WRITE, ring + (s->pos & mask), head, n, 1);
    if (after) {
        uint32_t at = (s->pos + STREAM_LINE) & mask, first = s->size - at;
        first = first < after ? first : after;
        rp_noc_write_any_with_state(s->noc, RP_BUF_WRITE, RP_WRITE, ring + at, l1, first, 1);
        rp_noc_write_any_with_state(s->noc, RP_BUF_WRITE, RP_WRITE, ring, l1 + first, after - first, 1);
    }
    s->pos += need;
    stream_publish(s, 4);
    return STREAM_OK;
}

// stream_push writes a message of bytes bytes from L1 and waits while there is no room. l1 is a multiple of 4, and of 16 for
// more than 48 bytes; it may change when the function returns. STREAM_OK, STREAM_STOPPED or STREAM_TOO_LONG.
RP_INLINE int stream_push(struct stream* s, uint32_t l1, uint32_t bytes) {
    return stream_put(s, STREAM_KIND_DATA, 0, l1, bytes, 1);
}
// stream_try_push returns STREAM_WAIT instead of waiting.
RP_INLINE int stream_try_push(struct stream* s, uint32_t l1, uint32_t bytes) {
    return stream_put(s, STREAM_KIND_DATA, 0, l1, bytes, 0);
}
// stream_push_word writes a message of 4 bytes.
RP_INLINE int stream_push_word(struct stream* s, uint32_t word) {
    uint32_t l1 = s->l1 + STREAM_L1_SEND + 16;
    rp_store(l1, word);
    return stream_put(s, STREAM_KIND_DATA, 0, l1, 4, 1);
}

// stream_close says that nothing more comes, and flushes: the host reads io.EOF after the messages. Another stream_push, of this
// kernel or the next, begins anew.
RP_INLINE int stream_close(struct stream* s) {
    int r = stream_put(s, STREAM_KIND_END, 0, 0, 0, 1);
    stream_flush(s);
    return r;
}
// stream_fail is stream_close with an error of the kernel's: the host reads a *stream.KernelError with the code.
RP_INLINE int stream_fail(struct stream* s, uint32_t code) {
    int r = stream_put(s, STREAM_KIND_FAILED, code, 0, 0, 1);
    stream_flush(s);
    return r;
}

// stream_stopped asks whether the host reads no more, where a kernel shouldn't go on until the ring is full.
static inline __attribute__((unused)) int stream_stopped(struct stream* s) {
    stream_ask(s);
    return s->stopped != 0;
}

// --- reading ---------------------------------------------------------------------------------------------------
// stream_drop ends the message at this end's position.
static inline __attribute__((unused)) void stream_drop(struct stream* s, uint32_t bytes) {
    s->pos += bytes;
    rp_noc_write_state(s->noc, RP_BUF_WRITE, RP_WRITE, s->coord, s->hi);
    stream_publish(s, 4);
}

// stream_read_data starts to read the data of the message at this end's position.
static inline __attribute__((unused)) void stream_read_data(const struct stream* s, uint32_t l1, uint32_t bytes) {
    uint32_t at = (s->pos + STREAM_LINE) & (s->size - 1), first = s->size - at;
    first = first < bytes ? first : bytes;
    rp_noc_read(s->noc, s->coord, stream_address(s, STREAM_RING + at), l1, first);
    rp_noc_read(s->noc, s->coord, stream_address(s, STREAM_RING), l1 + first, bytes - first);
}

static inline __attribute__((unused)) int stream_take(struct stream* s, uint32_t l1, uint32_t max, uint32_t* bytes, int wait) {
    int asked = 0;
    while (s->peer == s->pos) {
        if (asked && !wait) {
            return STREAM_WAIT;
        }
        if (asked == 1) {
            rp_waypoint_detail("SPOP", s->lo);
        }
        stream_ask(s);
        asked = asked ? 2 : 1;
    }
    if (asked == 2) {
        rp_waypoint("RUN ");
    }
    // Together with the first line, the data of a message that is as long as the last one.
    uint32_t have = 0;
    if (s->last <= max && s->peer - s->pos >= STREAM_LINE + s->last && l1 % RP_PCIE_ALIGNMENT == 0) {
        have = s->last;
    }
    stream_read_data(s, l1, have);
    stream_fetch(s, STREAM_RING + (s->pos & (s->size - 1)), s->l1, STREAM_LINE);
    uint32_t n = rp_load(s->l1), kind = rp_load(s->l1 + 4);
    *bytes = n;
    if (rp_load(s->l1 + 12) != s->pos || n > s->size - STREAM_LINE) {
        return STREAM_DAMAGED;
    }
    if (kind != STREAM_KIND_DATA) {
        s->code = rp_load(s->l1 + 8);
        stream_drop(s, STREAM_LINE);
        return kind == STREAM_KIND_END ? STREAM_END : STREAM_FAILED;
    }
    if (n > max) {
        return STREAM_TOO_LONG;
    }
    if (n <= STREAM_INLINE) {
        for (uint32_t i = 0; i < n; i += 4) {
            rp_store(l1 + i, rp_load(s->l1 + 16 + i));
        }
        if (n) {
            rp_l1_commit(l1 + ((n - 1) & ~3u));
        }
        stream_drop(s, STREAM_LINE);
        return STREAM_OK;
    }
    if (n > have) {
        stream_read_data(s, l1, n);
        rp_noc_read_barrier(s->noc);
    }
    s->last = n;
    stream_drop(s, STREAM_LINE + ((n + STREAM_LINE - 1) & ~(STREAM_LINE - 1)));
    return STREAM_OK;
}

// stream_pop waits for the next message and reads it to L1, where there is room for max bytes, a multiple of 4. l1 is a multiple
// of 4, and for messages of more than 48 bytes of RP_PCIE_ALIGNMENT. *bytes is the message's length; what lies after it in the
// room may have changed. STREAM_OK, STREAM_END, STREAM_FAILED, STREAM_TOO_LONG or STREAM_DAMAGED.
RP_INLINE int stream_pop(struct stream* s, uint32_t l1, uint32_t max, uint32_t* bytes) {
    return stream_take(s, l1, max, bytes, 1);
}
// stream_try_pop returns STREAM_WAIT instead of waiting.
RP_INLINE int stream_try_pop(struct stream* s, uint32_t l1, uint32_t max, uint32_t* bytes) {
    return stream_take(s, l1, max, bytes, 0);
}
// stream_pop_word reads a message of up to 4 bytes.
RP_INLINE int stream_pop_word(struct stream* s, uint32_t* word) {
    uint32_t l1 = s->l1 + STREAM_L1_SEND, bytes;
    rp_store(l1, 0);
    int r = stream_take(s, l1, 4, &bytes, 1);
    *word = rp_load(l1);
    return r;
}

// stream_stop says that the kernel reads no more, and flushes: writes of the host fail with a *stream.KernelError with the code
// until Stream.Reset.
static inline __attribute__((unused)) void stream_stop(struct stream* s, uint32_t code) {
    uint32_t l1 = s->l1 + STREAM_L1_POS;
    rp_noc_write_state(s->noc, RP_BUF_WRITE, RP_WRITE, s->coord, s->hi);
    for (uint32_t stopped = 0; stopped < 2; stopped++) {  // the code is there before the word that makes the host read it
        rp_noc_write_flush(s->noc);
        rp_store(l1 + 4, stopped);
        rp_store(l1 + 8, code);
        rp_l1_commit(l1 + 8);
        stream_publish(s, 12);
    }
    stream_flush(s);
}

#endif
