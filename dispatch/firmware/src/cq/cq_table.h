// Code generated from the descriptors in dispatch/cq/commands.go by "go generate ./dispatch/cq"; DO NOT EDIT.
//
// Fields that are misaligned are byte arrays; those of 8 bytes are otherwise two words.
#ifndef REPRISE_CQ_TABLE_H
#define REPRISE_CQ_TABLE_H

#include <stdint.h>

#include "reprise/abi.h"

#define CQ_HEADER_BYTES 16u
#define CQ_LARGE_HEADER_BYTES 32u

#define CQ_RELAY_PAGED_DRAM 32768u
#define CQ_RELAY_PAGED_LENGTH_ADJUST 32767u
#define CQ_RINGBUFFER_RESET 1u
#define CQ_DISPATCHER_MASTER 0u
#define CQ_DISPATCHER_SUBORDINATE 1u
#define CQ_PACKED_MULTICAST 1u
#define CQ_PACKED_NO_STRIDE 2u
#define CQ_PACKED_LARGE_UNLINK 1u
#define CQ_WAIT_BARRIER 1u
#define CQ_WAIT_NOTIFY_PREFETCH 2u
#define CQ_WAIT_MEMORY 4u
#define CQ_WAIT_STREAM 8u
#define CQ_WAIT_CLEAR_STREAM 16u
#define CQ_FLOW_LIMITED 1u
#define CQ_FLOW_LEAVE 2u
#define CQ_FLOW_SAME 4u
#define CQ_NEVER 0u
#define CQ_EQUAL 1u
#define CQ_NOT_EQUAL 2u
#define CQ_LESS 3u
#define CQ_LESS_EQUAL 4u
#define CQ_GREATER 5u
#define CQ_GREATER_EQUAL 6u
#define CQ_ANY_SET 7u
#define CQ_NONE_SET 8u
#define CQ_TURN_LOOP 1u
#define CQ_TURN_NEXT 2u
#define CQ_TURN_LEAVE 3u
#define CQ_TURN_TAKE 4u
#define CQ_TURN_ELSE 5u
#define CQ_TURN_JOIN 6u
#define CQ_TURN_CALL 7u
#define CQ_TURN_RETURN 8u
#define CQ_TURN_ABORT 9u
#define CQ_GO_NO_MULTICAST 255u
#define CQ_GO_NOC_DATA_WORDS 64u
#define CQ_LOOPS 16u
#define CQ_CALLS 8u
#define CQ_READ_ARGS 32u
#define CQ_READ_ARG_BYTES 8192u

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
    CQ_PREFETCH_LOOP_BEGIN = 224,
    CQ_PREFETCH_LOOP_END = 225,
    CQ_PREFETCH_BRANCH = 226,
    CQ_PREFETCH_CALL = 227,
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
    CQ_DISPATCH_NOTIFY_SUBORDINATE_GO_SIGNAL = 15,
    CQ_DISPATCH_SET_NUM_WORKER_SEMS = 16,
    CQ_DISPATCH_SET_GO_SIGNAL_NOC_DATA = 17,
    CQ_DISPATCH_SEQUENCE = 224,
    CQ_DISPATCH_FORWARD_SUBORDINATE = 225,
    CQ_DISPATCH_READ_ARG = 226,
    CQ_DISPATCH_FORWARD_WITH_ARGS = 227,
};

struct cq_relay_linear {
    uint8_t id;
    uint8_t pad1[2];
    uint8_t length[8];
    uint8_t noc[4];
    uint8_t addr[8];
    uint8_t pad23[9];
};
RP_STATIC_ASSERT(sizeof(struct cq_relay_linear) == 32, "cq_relay_linear");

struct cq_relay_linear_h {
    uint8_t id;
    uint8_t pad1[3];
    uint32_t noc;
    uint32_t addr_lo, addr_hi;
    uint32_t length;
    uint8_t pad20[12];
};
RP_STATIC_ASSERT(sizeof(struct cq_relay_linear_h) == 32, "cq_relay_linear_h");

struct cq_relay_paged {
    uint8_t id;
    uint8_t start;
    uint16_t flags;
    uint32_t base;
    uint32_t page_size;
    uint32_t pages;
};
RP_STATIC_ASSERT(sizeof(struct cq_relay_paged) == 16, "cq_relay_paged");

struct cq_relay_paged_packed {
    uint8_t id;
    uint8_t pad1[1];
    uint16_t count;
    uint32_t total;
    uint32_t stride;
    uint8_t pad12[4];
};
RP_STATIC_ASSERT(sizeof(struct cq_relay_paged_packed) == 16, "cq_relay_paged_packed");
#define CQ_RELAY_PAGED_PACKED_MAX 35u

struct cq_relay_paged_packed_sub {
    uint16_t start;
    uint16_t log2_page;
    uint32_t base;
    uint32_t length;
};
RP_STATIC_ASSERT(sizeof(struct cq_relay_paged_packed_sub) == 12, "cq_relay_paged_packed_sub");

struct cq_relay_inline {
    uint8_t id;
    uint8_t to;
    uint8_t pad2[2];
    uint32_t length;
    uint32_t stride;
    uint8_t pad12[4];
};
RP_STATIC_ASSERT(sizeof(struct cq_relay_inline) == 16, "cq_relay_inline");

struct cq_exec_buf {
    uint8_t id;
    uint8_t pad1[3];
    uint32_t base;
    uint32_t log2_page;
    uint32_t pages;
};
RP_STATIC_ASSERT(sizeof(struct cq_exec_buf) == 16, "cq_exec_buf");

struct cq_debug {
    uint8_t id;
    uint8_t pad1[1];
    uint16_t key;
    uint32_t size;
    uint32_t stride;
    uint8_t pad12[4];
};
RP_STATIC_ASSERT(sizeof(struct cq_debug) == 16, "cq_debug");

struct cq_paged_to_ringbuffer {
    uint8_t id;
    uint8_t reset;
    uint8_t log2_page;
    uint8_t start;
    uint32_t advance;
    uint32_t base;
    uint32_t length;
};
RP_STATIC_ASSERT(sizeof(struct cq_paged_to_ringbuffer) == 16, "cq_paged_to_ringbuffer");

struct cq_set_ringbuffer_offset {
    uint8_t id;
    uint8_t offset[4];
    uint8_t pad5[3];
    uint8_t write;
    uint8_t pad9[7];
};
RP_STATIC_ASSERT(sizeof(struct cq_set_ringbuffer_offset) == 16, "cq_set_ringbuffer_offset");

struct cq_relay_ringbuffer {
    uint8_t id;
    uint8_t pad1[1];
    uint16_t count;
    uint32_t stride;
    uint8_t pad8[8];
};
RP_STATIC_ASSERT(sizeof(struct cq_relay_ringbuffer) == 16, "cq_relay_ringbuffer");
#define CQ_RELAY_RINGBUFFER_MAX 52u

struct cq_relay_ringbuffer_sub {
    uint32_t start;
    uint32_t length;
};
RP_STATIC_ASSERT(sizeof(struct cq_relay_ringbuffer_sub) == 8, "cq_relay_ringbuffer_sub");

struct cq_loop_begin {
    uint8_t id;
    uint8_t pad1[1];
    uint16_t loop;
    uint32_t exit;
    uint32_t count;
    uint8_t pad12[4];
};
RP_STATIC_ASSERT(sizeof(struct cq_loop_begin) == 16, "cq_loop_begin");

struct cq_loop_end {
    uint8_t id;
    uint8_t limited;
    uint16_t loop;
    uint32_t body;
    uint8_t pad8[8];
};
RP_STATIC_ASSERT(sizeof(struct cq_loop_end) == 16, "cq_loop_end");

struct cq_branch {
    uint8_t id;
    uint8_t flags;
    uint8_t compare;
    uint8_t level;
    uint32_t otherwise;
    uint32_t noc;
    uint32_t addr;
    uint32_t value;
    uint8_t pad20[12];
};
RP_STATIC_ASSERT(sizeof(struct cq_branch) == 32, "cq_branch");

struct cq_write_linear {
    uint8_t id;
    uint8_t mcast;
    uint8_t offset_index;
    uint8_t pad3[1];
    uint32_t noc;
    uint32_t addr_lo, addr_hi;
    uint32_t length_lo, length_hi;
    uint8_t pad24[8];
};
RP_STATIC_ASSERT(sizeof(struct cq_write_linear) == 32, "cq_write_linear");

struct cq_write_linear_h_host {
    uint8_t id;
    uint8_t event;
    uint16_t pad1;
    uint32_t pad2;
    uint32_t length_lo, length_hi;
};
RP_STATIC_ASSERT(sizeof(struct cq_write_linear_h_host) == 16, "cq_write_linear_h_host");

struct cq_write_paged {
    uint8_t id;
    uint8_t memory;
    uint16_t start;
    uint32_t base;
    uint32_t page_size;
    uint32_t pages;
};
RP_STATIC_ASSERT(sizeof(struct cq_write_paged) == 16, "cq_write_paged");

struct cq_write_packed {
    uint8_t id;
    uint8_t flags;
    uint16_t count;
    uint16_t offset_index;
    uint16_t size;
    uint32_t addr;
    uint8_t pad12[4];
};
RP_STATIC_ASSERT(sizeof(struct cq_write_packed) == 16, "cq_write_packed");
#define CQ_WRITE_PACKED_MAX 1020u

struct cq_write_packed_large {
    uint8_t id;
    uint8_t type;
    uint16_t count;
    uint16_t alignment;
    uint16_t offset_index;
    uint8_t pad8[8];
};
RP_STATIC_ASSERT(sizeof(struct cq_write_packed_large) == 16, "cq_write_packed_large");
#define CQ_WRITE_PACKED_LARGE_MAX 35u

struct cq_write_packed_large_sub {
    uint32_t noc;
    uint32_t addr;
    uint16_t length_minus1;
    uint8_t dests;
    uint8_t unlink;
};
RP_STATIC_ASSERT(sizeof(struct cq_write_packed_large_sub) == 12, "cq_write_packed_large_sub");

struct cq_wait {
    uint8_t id;
    uint8_t flags;
    uint16_t stream;
    uint32_t addr;
    uint32_t count;
    uint8_t pad12[4];
};
RP_STATIC_ASSERT(sizeof(struct cq_wait) == 16, "cq_wait");

struct cq_delay {
    uint8_t id;
    uint8_t pad1[3];
    uint32_t loops;
    uint8_t pad8[8];
};
RP_STATIC_ASSERT(sizeof(struct cq_delay) == 16, "cq_delay");

struct cq_set_write_offset {
    uint8_t id;
    uint8_t count;
    uint16_t host_id;
    uint8_t pad4[12];
};
RP_STATIC_ASSERT(sizeof(struct cq_set_write_offset) == 16, "cq_set_write_offset");
#define CQ_SET_WRITE_OFFSET_MAX 4u

struct cq_send_go_signal {
    uint8_t id;
    uint8_t go[4];
    uint8_t multicast;
    uint8_t unicasts;
    uint8_t noc_start;
    uint32_t wait_count;
    uint32_t wait_stream;
};
RP_STATIC_ASSERT(sizeof(struct cq_send_go_signal) == 16, "cq_send_go_signal");

struct cq_notify_subordinate_go_signal {
    uint8_t id;
    uint8_t wait;
    uint16_t mask;
    uint8_t pad4[12];
};
RP_STATIC_ASSERT(sizeof(struct cq_notify_subordinate_go_signal) == 16, "cq_notify_subordinate_go_signal");

struct cq_set_num_worker_sems {
    uint8_t id;
    uint8_t pad1[3];
    uint32_t num;
    uint8_t pad8[8];
};
RP_STATIC_ASSERT(sizeof(struct cq_set_num_worker_sems) == 16, "cq_set_num_worker_sems");

struct cq_set_go_signal_noc_data {
    uint8_t id;
    uint8_t pad1[3];
    uint32_t count;
    uint8_t pad8[8];
};
RP_STATIC_ASSERT(sizeof(struct cq_set_go_signal_noc_data) == 16, "cq_set_go_signal_noc_data");
#define CQ_SET_GO_SIGNAL_NOC_DATA_MAX 65536u

struct cq_sequence {
    uint8_t id;
    uint8_t pad1[1];
    uint16_t count;
    uint8_t pad4[12];
};
RP_STATIC_ASSERT(sizeof(struct cq_sequence) == 16, "cq_sequence");

struct cq_forward_subordinate {
    uint8_t id;
    uint8_t wait;
    uint8_t pad2[14];
};
RP_STATIC_ASSERT(sizeof(struct cq_forward_subordinate) == 16, "cq_forward_subordinate");

struct cq_read_arg {
    uint8_t id;
    uint8_t offset_index;
    uint16_t count;
    uint8_t pad4[4];
    uint32_t noc;
    uint32_t addr;
};
RP_STATIC_ASSERT(sizeof(struct cq_read_arg) == 16, "cq_read_arg");
#define CQ_READ_ARG_MAX 508u

struct cq_read_arg_sub {
    uint32_t noc;
    uint16_t addr;
    uint8_t dests;
    uint8_t pad7[1];
};
RP_STATIC_ASSERT(sizeof(struct cq_read_arg_sub) == 8, "cq_read_arg_sub");

#endif
