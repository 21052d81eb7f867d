// The commands of a command queue, as bytes in L1.
//
// Two languages share one ring of bytes: the prefetcher reads its own commands out of the issue queue (or out of a
// trace in DRAM), and most of those carry one dispatcher command as payload. Everything here is the wire format of
// tt-metal at the revision this runtime follows (tt_metal/impl/dispatch/kernels/cq_commands.hpp); the static
// assertions at the end pin every offset, because a host that was built elsewhere writes these bytes.
//
// Fields that the format leaves misaligned are byte arrays, read with cq_u32 and cq_u64: the cores round a
// misaligned address down.
#ifndef REPRISE_CQ_COMMANDS_H
#define REPRISE_CQ_COMMANDS_H

#include <stddef.h>
#include <stdint.h>

#include "reprise/abi.h"

#define CQ_HEADER_BYTES 16u       // every command but the large ones
#define CQ_LARGE_HEADER_BYTES 32u // RELAY_LINEAR, RELAY_LINEAR_H, WRITE_LINEAR, WRITE_LINEAR_H

enum cq_prefetch_id {
    CQ_PREFETCH_RELAY_LINEAR = 1,
    CQ_PREFETCH_RELAY_LINEAR_H = 2,
    CQ_PREFETCH_RELAY_PAGED = 3,
    CQ_PREFETCH_RELAY_PAGED_PACKED = 4,
    CQ_PREFETCH_RELAY_INLINE = 5,
    CQ_PREFETCH_RELAY_INLINE_NOFLUSH = 6,
    CQ_PREFETCH_EXEC_BUF = 7,
    CQ_PREFETCH_EXEC_BUF_END = 8,
    CQ_PREFETCH_STALL = 9,
    CQ_PREFETCH_DEBUG = 10,
    CQ_PREFETCH_TERMINATE = 11,
    CQ_PREFETCH_PAGED_TO_RINGBUFFER = 12,
    CQ_PREFETCH_SET_RINGBUFFER_OFFSET = 13,
    CQ_PREFETCH_RELAY_RINGBUFFER = 14,
    // Not in any revision of tt-metal.
    CQ_PREFETCH_LOOP_BEGIN = 0xE0,
    CQ_PREFETCH_LOOP_END = 0xE1,
    CQ_PREFETCH_BRANCH = 0xE2,
    CQ_PREFETCH_CALL = 0xE3,
};

enum cq_dispatch_id {
    CQ_DISPATCH_WRITE_LINEAR = 1,
    CQ_DISPATCH_WRITE_LINEAR_H = 2,
    CQ_DISPATCH_WRITE_LINEAR_H_HOST = 3,
    CQ_DISPATCH_WRITE_PAGED = 4,
    CQ_DISPATCH_WRITE_PACKED = 5,
    CQ_DISPATCH_WRITE_PACKED_LARGE = 6,
    CQ_DISPATCH_WAIT = 7,
    CQ_DISPATCH_SINK = 8,
    CQ_DISPATCH_DEBUG = 9,
    CQ_DISPATCH_DELAY = 10,
    CQ_DISPATCH_EXEC_BUF_END = 11,
    CQ_DISPATCH_SET_WRITE_OFFSET = 12,
    CQ_DISPATCH_TERMINATE = 13,
    CQ_DISPATCH_SEND_GO_SIGNAL = 14,
    CQ_DISPATCH_NOTIFY_SUBORDINATE = 15,
    CQ_DISPATCH_SET_NUM_WORKER_SEMS = 16,
    CQ_DISPATCH_SET_GO_SIGNAL_NOC_DATA = 17,
    // Not in any revision of tt-metal.
    CQ_DISPATCH_SEQUENCE = 0xE0,
    CQ_DISPATCH_FORWARD_SUBORDINATE = 0xE1,
    CQ_DISPATCH_READ_ARG = 0xE2,
    CQ_DISPATCH_FORWARD_WITH_ARGS = 0xE3,  // FORWARD_SUBORDINATE that carries out the READ_ARGs before
    CQ_DISPATCH_STAMP = 0xE4,
};

// RELAY_PAGED: flags hold the kind of memory and a number of bytes not to forward.
#define CQ_RELAY_PAGED_DRAM 0x8000u
#define CQ_RELAY_PAGED_LENGTH_ADJUST 0x7FFFu

#define CQ_RELAY_PAGED_PACKED_MAX 35u
#define CQ_RELAY_RINGBUFFER_MAX 52u

// PAGED_TO_RINGBUFFER
#define CQ_RINGBUFFER_RESET 0x01u

// RELAY_INLINE
#define CQ_DISPATCHER_MASTER 0u
#define CQ_DISPATCHER_SUBORDINATE 1u

// WRITE_PACKED (the type in bits 7..4 is for people only)
#define CQ_PACKED_MULTICAST 0x01u
#define CQ_PACKED_NO_STRIDE 0x02u

// WRITE_PACKED_LARGE
#define CQ_PACKED_LARGE_UNLINK 0x01u
#define CQ_PACKED_LARGE_MAX 35u

// The flags of an event's payload
#define CQ_EVENT_TIMED 0x01u

// WAIT
#define CQ_WAIT_BARRIER 0x01u
#define CQ_WAIT_NOTIFY_PREFETCH 0x02u
#define CQ_WAIT_MEMORY 0x04u
#define CQ_WAIT_STREAM 0x08u
#define CQ_WAIT_CLEAR_STREAM 0x10u

// LOOP_END and BRANCH
#define CQ_FLOW_LIMITED 0x01u
#define CQ_FLOW_LEAVE 0x02u
#define CQ_FLOW_SAME 0x04u

// BRANCH: how the word is compared with the value, as unsigned numbers
enum cq_compare {
    CQ_NEVER = 0,
    CQ_EQUAL,
    CQ_NOT_EQUAL,
    CQ_LESS,
    CQ_LESS_EQUAL,
    CQ_GREATER,
    CQ_GREATER_EQUAL,
    CQ_ANY_SET,
    CQ_NONE_SET,
};

#define CQ_GO_NO_MULTICAST 0xFFu
#define CQ_WRITE_OFFSETS 4u
#define CQ_GO_NOC_DATA_WORDS 64u

// Prefetcher commands.

struct cq_relay_linear {
    uint8_t id, pad[2];
    uint8_t length[8]; // bytes
    uint8_t noc_xy[4];
    uint8_t addr[8];
    uint8_t unused[9];
};

struct cq_relay_linear_h {
    uint8_t id, pad[3];
    uint32_t noc_xy;
    uint32_t addr_lo, addr_hi;
    uint32_t length; // bytes
    uint32_t unused[3];
};

struct cq_relay_paged {
    uint8_t id;
    uint8_t start_page;
    uint16_t flags;
    uint32_t base;
    uint32_t page_size;
    uint32_t pages;
};

struct cq_relay_paged_packed {
    uint8_t id, pad;
    uint16_t count;
    uint32_t total_length;
    uint32_t stride;
    uint32_t unused;
};

struct cq_relay_paged_packed_sub {
    uint16_t start_page;
    uint16_t log_page_size;
    uint32_t base;
    uint32_t length;
};

struct cq_relay_inline {
    uint8_t id;
    uint8_t dispatcher;
    uint16_t pad;
    uint32_t length; // of the payload after this header
    uint32_t stride; // to the next command
    uint32_t unused;
};

struct cq_exec_buf {
    uint8_t id, pad[3];
    uint32_t base;
    uint32_t log_page_size;
    uint32_t pages;
};

struct cq_debug {
    uint8_t id, pad;
    uint16_t key;
    uint32_t size;
    uint32_t stride; // to the next command
    uint32_t unused;
};

struct cq_paged_to_ringbuffer {
    uint8_t id;
    uint8_t flags;
    uint8_t log_page_size;
    uint8_t start_page;
    uint32_t wp_update;
    uint32_t base;
    uint32_t length;
};

struct cq_set_ringbuffer_offset {
    uint8_t id;
    uint8_t offset[4];
    uint8_t pad[3];
    uint8_t update_wp;
    uint8_t unused[7];
};

struct cq_relay_ringbuffer {
    uint8_t id, pad;
    uint16_t count;
    uint32_t stride;
    uint32_t unused[2];
};

struct cq_relay_ringbuffer_sub {
    uint32_t start;
    uint32_t length;
};

// Control flow in a trace. Targets are offsets in bytes from the start of the trace.

struct cq_loop_begin {
    uint8_t id, pad;
    uint16_t loop;
    uint32_t exit;
    uint32_t count;
    uint32_t unused;
};

struct cq_loop_end {
    uint8_t id;
    uint8_t flags;
    uint16_t loop;
    uint32_t body;
    uint32_t unused[2];
};

struct cq_branch {
    uint8_t id;
    uint8_t flags;
    uint8_t compare;
    uint8_t level;       // 0: a word in memory; 1: the iteration of the innermost loop, 2: of the loop around it, …
    uint32_t otherwise;  // where to go if the condition doesn't hold
    uint32_t noc_xy;
    uint32_t addr;
    uint32_t value;
    uint32_t unused[3];
};

// CALL has the fields of EXEC_BUF.

// Dispatcher commands.

struct cq_write_linear {
    uint8_t id;
    uint8_t multicast_dests; // 0 = unicast
    uint8_t offset_index;
    uint8_t pad;
    uint32_t noc_xy;
    uint32_t addr_lo, addr_hi;
    uint32_t length_lo, length_hi;
    uint32_t unused[2];
};

struct cq_write_host {
    uint8_t id;
    uint8_t is_event;
    uint16_t pad1;
    uint32_t pad2;
    uint32_t length_lo, length_hi; // including this header
};

// What an event's record carries after the command. tt-metal's dispatcher sends it as it came; this one puts the time in
// when the flags ask for it.
struct cq_event {
    uint32_t id;
    uint32_t flags;
    uint32_t time_lo, time_hi; // cycles of the dispatch tile's clock since reset
};

struct cq_write_paged {
    uint8_t id;
    uint8_t is_dram;
    uint16_t start_page;
    uint32_t base;
    uint32_t page_size;
    uint32_t pages;
};

struct cq_write_packed {
    uint8_t id;
    uint8_t flags;
    uint16_t count;
    uint16_t offset_index;
    uint16_t size;
    uint32_t addr;
    uint32_t unused;
};

struct cq_write_packed_large {
    uint8_t id;
    uint8_t type;
    uint16_t count;
    uint16_t alignment;
    uint16_t offset_index;
    uint32_t unused[2];
};

struct cq_write_packed_large_sub {
    uint32_t noc_xy;
    uint32_t addr;
    uint16_t length_minus1;
    uint8_t multicast_dests;
    uint8_t flags;
};

struct cq_wait {
    uint8_t id;
    uint8_t flags;
    uint16_t stream;
    uint32_t addr;
    uint32_t count;
    uint32_t unused;
};

struct cq_sink {
    uint8_t id, pad[3];
    uint32_t size; // payload bytes to drop
    uint32_t unused[2];
};

struct cq_delay {
    uint8_t id, pad[3];
    uint32_t delay;
    uint32_t unused[2];
};

struct cq_set_write_offset {
    uint8_t id;
    uint8_t count;
    uint16_t program_host_id;
    uint32_t unused[3];
};

struct cq_send_go {
    uint8_t id;
    uint8_t go_signal[4];
    uint8_t multicast_slot;
    uint8_t num_unicast;
    uint8_t noc_data_start;
    uint32_t wait_count;
    uint32_t wait_stream;
};

struct cq_notify_subordinate {
    uint8_t id;
    uint8_t wait;
    uint16_t mask;
    uint32_t unused[3];
};

struct cq_set_words {
    uint8_t id, pad[3];
    uint32_t count; // SET_NUM_WORKER_SEMS, SET_GO_SIGNAL_NOC_DATA
    uint32_t unused[2];
};

RP_INLINE uint32_t cq_u32(const uint8_t p[4]) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

RP_INLINE uint64_t cq_u64(const uint8_t p[8]) {
    return (uint64_t)cq_u32(p) | (uint64_t)cq_u32(p + 4) << 32;
}

RP_INLINE uint64_t cq_pair(uint32_t lo, uint32_t hi) {
    return (uint64_t)lo | (uint64_t)hi << 32;
}

// Several commands of the dispatcher in one page: they lie after this header, each at a multiple of 16 bytes, and all of
// them in the page that the header is in, but for what the last one writes.
struct cq_sequence {
    uint8_t id;
    uint8_t pad;
    uint16_t count;
    uint32_t pad1[3];
};

// A command for the subordinate, 16 bytes after this header. With wait set the subordinate gets it when all writes
// before have arrived.
struct cq_forward_subordinate {
    uint8_t id;
    uint8_t wait;
    uint16_t pad;
    uint32_t pad1[3];
};

// An entry of the log of control flow, which the dispatcher writes to DRAM with the time at which it comes to the command:
// all programs that a WAIT before it waits for are done. Only the prefetcher makes it.
struct cq_stamp {
    uint8_t id, pad[3];
    uint32_t noc_xy;  // of the tile that has the log
    uint32_t addr;    // of the entry, a multiple of 16
    uint32_t unused;
    uint32_t trace;   // the entry: the trace's address in every bank
    uint32_t what;    // offset of a command in the trace, and an enum cq_turn in its low bits
    uint32_t time_lo, time_hi;  // cycles of the dispatch tile's clock since reset
};

// What the prefetcher did at a command of control flow.
enum cq_turn {
    CQ_TURN_LOOP = 1,   // LOOP_BEGIN: the first iteration begins
    CQ_TURN_NEXT = 2,   // LOOP_END: an iteration has ended
    CQ_TURN_LEAVE = 3,  // BRANCH: the condition of a loop doesn't hold
    CQ_TURN_TAKE = 4,   // BRANCH: a condition holds
    CQ_TURN_ELSE = 5,   // BRANCH: it doesn't
    CQ_TURN_JOIN = 6,   // BRANCH: the end of what a condition was for
    CQ_TURN_CALL = 7,
    CQ_TURN_RETURN = 8, // to the command after a CALL
    CQ_TURN_ABORT = 9,  // LOOP_END: the host ends the replay
};

// A 32-bit word that becomes arguments of the program that the next FORWARD_WITH_ARGS starts: it is read when all programs
// before are done, and written to the targets in the list after this header.
struct cq_read_arg {
    uint8_t id;
    uint8_t offset_index;  // of the write offset that the targets' addresses are relative to
    uint16_t count;        // of targets
    uint32_t unused;
    uint32_t noc_xy;       // of the tile that has the word; here and after it as in BRANCH
    uint32_t addr;         // of the word, a multiple of 4
};

struct cq_arg_target {
    uint32_t noc_xy;  // a worker, or a rectangle of them
    uint16_t addr;
    uint8_t multicast_dests;  // 0 = unicast
    uint8_t pad;
};

#define CQ_AT(type, field, at) RP_STATIC_ASSERT(offsetof(struct type, field) == (at), #type "." #field)
#define CQ_SIZE(type, bytes) RP_STATIC_ASSERT(sizeof(struct type) == (bytes), #type)

CQ_SIZE(cq_relay_linear, 32);
CQ_AT(cq_relay_linear, length, 3);
CQ_AT(cq_relay_linear, noc_xy, 11);
CQ_AT(cq_relay_linear, addr, 15);
CQ_SIZE(cq_relay_linear_h, 32);
CQ_AT(cq_relay_linear_h, noc_xy, 4);
CQ_AT(cq_relay_linear_h, addr_lo, 8);
CQ_AT(cq_relay_linear_h, length, 16);
CQ_SIZE(cq_relay_paged, 16);
CQ_AT(cq_relay_paged, start_page, 1);
CQ_AT(cq_relay_paged, flags, 2);
CQ_AT(cq_relay_paged, base, 4);
CQ_AT(cq_relay_paged, page_size, 8);
CQ_AT(cq_relay_paged, pages, 12);
CQ_SIZE(cq_relay_paged_packed, 16);
CQ_AT(cq_relay_paged_packed, count, 2);
CQ_AT(cq_relay_paged_packed, total_length, 4);
CQ_AT(cq_relay_paged_packed, stride, 8);
CQ_SIZE(cq_relay_paged_packed_sub, 12);
CQ_AT(cq_relay_paged_packed_sub, log_page_size, 2);
CQ_AT(cq_relay_paged_packed_sub, base, 4);
CQ_AT(cq_relay_paged_packed_sub, length, 8);
CQ_SIZE(cq_relay_inline, 16);
CQ_AT(cq_relay_inline, dispatcher, 1);
CQ_AT(cq_relay_inline, length, 4);
CQ_AT(cq_relay_inline, stride, 8);
CQ_SIZE(cq_exec_buf, 16);
CQ_AT(cq_exec_buf, base, 4);
CQ_AT(cq_exec_buf, log_page_size, 8);
CQ_AT(cq_exec_buf, pages, 12);
CQ_SIZE(cq_debug, 16);
CQ_AT(cq_debug, key, 2);
CQ_AT(cq_debug, size, 4);
CQ_AT(cq_debug, stride, 8);
CQ_SIZE(cq_paged_to_ringbuffer, 16);
CQ_AT(cq_paged_to_ringbuffer, flags, 1);
CQ_AT(cq_paged_to_ringbuffer, log_page_size, 2);
CQ_AT(cq_paged_to_ringbuffer, start_page, 3);
CQ_AT(cq_paged_to_ringbuffer, wp_update, 4);
CQ_AT(cq_paged_to_ringbuffer, base, 8);
CQ_AT(cq_paged_to_ringbuffer, length, 12);
CQ_SIZE(cq_set_ringbuffer_offset, 16);
CQ_AT(cq_set_ringbuffer_offset, offset, 1);
CQ_AT(cq_set_ringbuffer_offset, update_wp, 8);
CQ_SIZE(cq_relay_ringbuffer, 16);
CQ_AT(cq_relay_ringbuffer, count, 2);
CQ_AT(cq_relay_ringbuffer, stride, 4);
CQ_SIZE(cq_relay_ringbuffer_sub, 8);
CQ_SIZE(cq_write_linear, 32);
CQ_AT(cq_write_linear, multicast_dests, 1);
CQ_AT(cq_write_linear, offset_index, 2);
CQ_AT(cq_write_linear, noc_xy, 4);
CQ_AT(cq_write_linear, addr_lo, 8);
CQ_AT(cq_write_linear, length_lo, 16);
CQ_SIZE(cq_write_host, 16);
CQ_AT(cq_write_host, is_event, 1);
CQ_AT(cq_write_host, pad1, 2);
CQ_AT(cq_write_host, pad2, 4);
CQ_AT(cq_write_host, length_lo, 8);
CQ_SIZE(cq_event, 16);
CQ_AT(cq_event, flags, 4);
CQ_AT(cq_event, time_lo, 8);
CQ_SIZE(cq_write_paged, 16);
CQ_AT(cq_write_paged, is_dram, 1);
CQ_AT(cq_write_paged, start_page, 2);
CQ_AT(cq_write_paged, base, 4);
CQ_AT(cq_write_paged, page_size, 8);
CQ_AT(cq_write_paged, pages, 12);
CQ_SIZE(cq_write_packed, 16);
CQ_AT(cq_write_packed, flags, 1);
CQ_AT(cq_write_packed, count, 2);
CQ_AT(cq_write_packed, offset_index, 4);
CQ_AT(cq_write_packed, size, 6);
CQ_AT(cq_write_packed, addr, 8);
CQ_SIZE(cq_write_packed_large, 16);
CQ_AT(cq_write_packed_large, type, 1);
CQ_AT(cq_write_packed_large, count, 2);
CQ_AT(cq_write_packed_large, alignment, 4);
CQ_AT(cq_write_packed_large, offset_index, 6);
CQ_SIZE(cq_write_packed_large_sub, 12);
CQ_AT(cq_write_packed_large_sub, addr, 4);
CQ_AT(cq_write_packed_large_sub, length_minus1, 8);
CQ_AT(cq_write_packed_large_sub, multicast_dests, 10);
CQ_AT(cq_write_packed_large_sub, flags, 11);
CQ_SIZE(cq_wait, 16);
CQ_AT(cq_wait, flags, 1);
CQ_AT(cq_wait, stream, 2);
CQ_AT(cq_wait, addr, 4);
CQ_AT(cq_wait, count, 8);
CQ_SIZE(cq_sink, 16);
CQ_AT(cq_sink, size, 4);
CQ_SIZE(cq_delay, 16);
CQ_AT(cq_delay, delay, 4);
CQ_SIZE(cq_set_write_offset, 16);
CQ_AT(cq_set_write_offset, count, 1);
CQ_AT(cq_set_write_offset, program_host_id, 2);
CQ_SIZE(cq_send_go, 16);
CQ_AT(cq_send_go, go_signal, 1);
CQ_AT(cq_send_go, multicast_slot, 5);
CQ_AT(cq_send_go, num_unicast, 6);
CQ_AT(cq_send_go, noc_data_start, 7);
CQ_AT(cq_send_go, wait_count, 8);
CQ_AT(cq_send_go, wait_stream, 12);
CQ_SIZE(cq_notify_subordinate, 16);
CQ_AT(cq_notify_subordinate, wait, 1);
CQ_AT(cq_notify_subordinate, mask, 2);
CQ_SIZE(cq_set_words, 16);
CQ_AT(cq_set_words, count, 4);
CQ_SIZE(cq_sequence, 16);
CQ_AT(cq_sequence, count, 2);
CQ_SIZE(cq_loop_begin, 16);
CQ_AT(cq_loop_begin, loop, 2);
CQ_AT(cq_loop_begin, exit, 4);
CQ_AT(cq_loop_begin, count, 8);
CQ_SIZE(cq_loop_end, 16);
CQ_AT(cq_loop_end, flags, 1);
CQ_AT(cq_loop_end, loop, 2);
CQ_AT(cq_loop_end, body, 4);
CQ_SIZE(cq_branch, 32);
CQ_AT(cq_branch, flags, 1);
CQ_AT(cq_branch, compare, 2);
CQ_AT(cq_branch, level, 3);
CQ_AT(cq_branch, otherwise, 4);
CQ_AT(cq_branch, noc_xy, 8);
CQ_AT(cq_branch, addr, 12);
CQ_AT(cq_branch, value, 16);
CQ_SIZE(cq_forward_subordinate, 16);
CQ_AT(cq_forward_subordinate, wait, 1);
CQ_SIZE(cq_stamp, 32);
CQ_AT(cq_stamp, trace, CQ_HEADER_BYTES);
CQ_SIZE(cq_read_arg, 16);
CQ_AT(cq_read_arg, offset_index, 1);
CQ_AT(cq_read_arg, count, 2);
CQ_AT(cq_read_arg, noc_xy, 8);
CQ_AT(cq_read_arg, addr, 12);
CQ_SIZE(cq_arg_target, 8);
CQ_AT(cq_arg_target, addr, 4);
CQ_AT(cq_arg_target, multicast_dests, 6);

#undef CQ_AT
#undef CQ_SIZE

#endif
