// SPDX-License-Identifier: Dual BSD/GPL
//
// What the programs need of the kernel, written down here so that they build with clang alone: helper numbers are ABI
// (include/uapi/linux/bpf.h), and of the kernel's own structures only the fields that are read, whose places are filled
// in when a program is loaded (CO-RE).
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

// Definitions of maps, in the form of libbpf.
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_F_MMAPABLE = 1 << 10,
	BPF_NOEXIST = 1,
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*bpf_probe_read_kernel)(void *dst, u32 size, const void *from) = (void *)113;
struct bpf_pidns_info {
	u32 pid;
	u32 tgid;
};
static long (*bpf_get_ns_current_pid_tgid)(u64 dev, u64 ino, struct bpf_pidns_info *to, u32 size) = (void *)120;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;

// Arguments of a raw tracepoint.
struct raw_args {
	u64 args[8];
};

#define CORE __attribute__((preserve_access_index))

// include/linux/sched.h. The state was called so until Linux 5.14 and is a long; its low 32 bits are what counts.
struct task_struct {
	unsigned int __state;
	int pid;
	int tgid;
} CORE;

struct task_struct___old {
	volatile long state;
} CORE;

#define FIELD_EXISTS 2 // BPF_FIELD_EXISTS, tools/lib/bpf/bpf_core_read.h
#define core_field_exists(field) __builtin_preserve_field_info(field, FIELD_EXISTS)
#define core_read(dst, place) bpf_probe_read_kernel(dst, sizeof(*(dst)), __builtin_preserve_access_index(place))
