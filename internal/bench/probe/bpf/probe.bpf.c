// SPDX-License-Identifier: Dual BSD/GPL
//
// What a process does: system calls, time off the processor, page faults. Everything is added up here, by thread and
// stage, so that measuring costs the process no wake-ups; only what takes longer than slow_ns is also put into a ring.
// What finds no room is counted.
#include "kernel.h"

char programs_license[] SEC("license") = "Dual BSD/GPL";

#define SLOTS 32 // of a histogram: slot n counts durations from 2^n ns on, up to twice that

// Set before the programs are loaded.
const volatile u32 target;	  // process, in the numbering of the first namespace; 0 if that isn't known
const volatile u32 ns_target;	  // process, in its own namespace, ns_dev and ns_ino
const volatile u64 ns_dev;
const volatile u64 ns_ino;
const volatile u32 arg0_offset;	  // of a system call's arguments in struct pt_regs
const volatile u32 arg1_offset;
const volatile u32 ioctl_number;  // of the ioctl system call
const volatile u32 exit_number;	  // of the one by which a thread ends
const volatile u64 slow_ns;

// The stage is written by the measured process itself, by a store to the map's memory: no system call.
struct control {
	u32 stage;
	u32 learned; // target, once it has been seen
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct control);
} control SEC(".maps");

// What a thread is in the middle of. Its record goes when it ends: the next one of its number may be another process's.
struct thread {
	u64 call_at;
	u64 call_off; // time off the processor in this call
	u32 call_nr;
	u32 call_fd;
	u32 call_cmd;
	u32 call_stage;
	u64 off_at; // left the processor
	u64 woken_at;
	u64 on_at;
	u64 fault_at;
	u32 in_call;
	u32 ready;  // left the processor although it could have run
	u32 tid;    // in the process's own namespace
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

struct call_key {
	u32 tid;
	u32 stage;
	u32 nr;
	u32 fd;	 // of an ioctl, otherwise 0
	u32 cmd; // of an ioctl
};

// Times are in ns.
struct durations {
	u64 count;
	u64 total;
	u64 max;
	u64 slots[SLOTS];
};

struct call {
	u64 errors;
	u64 off; // the processor
	struct durations durations;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct call_key);
	__type(value, struct call);
} calls SEC(".maps");

struct activity_key {
	u32 tid;
	u32 stage;
};

struct activity {
	u64 on; // the processor
	struct durations off;   // of which
	struct durations ready; // waiting for a processor
	u64 voluntary;
	u64 preempted;
	struct durations faults;
	u64 major;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct activity_key);
	__type(value, struct activity);
} activities SEC(".maps");

enum lost {
	LOST_RING,
	LOST_THREADS,
	LOST_CALLS,
	LOST_ACTIVITIES,
	LOST_KINDS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOST_KINDS);
	__type(key, u32);
	__type(value, u64);
} lost SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

enum kind { EVENT_CALL, EVENT_BLOCKED, EVENT_READY, EVENT_FAULT };

struct event {
	u64 at; // its start, CLOCK_MONOTONIC
	u64 ns;
	u32 kind;
	u32 tid;
	u32 stage;
	u32 what; // system call
};


INLINE void lose(u32 kind)
{
	u64 *n = bpf_map_lookup_elem(&lost, &kind);
	if (n)
		*n += 1;
}

INLINE u32 stage(void)
{
	u32 zero = 0;
	struct control *c = bpf_map_lookup_elem(&control, &zero);
	return c ? *(volatile u32 *)&c->stage : 0;
}

// The slot of a duration: its highest bit, found in steps because BPF has no instruction for it.
INLINE u32 slot(u64 v)
{
	u32 n = 0;
	if (v >> 32)
		return SLOTS - 1;
	u32 w = v;
	if (w >> 16) { w >>= 16; n += 16; }
	if (w >> 8) { w >>= 8; n += 8; }
	if (w >> 4) { w >>= 4; n += 4; }
	if (w >> 2) { w >>= 2; n += 2; }
	if (w >> 1) n += 1;
	return n;
}

#define add(place, v) __sync_fetch_and_add(&(place), (v))

INLINE void took(struct durations *d, u64 ns)
{
	add(d->count, 1);
	add(d->total, ns);
	if (ns > d->max)
		d->max = ns;
	u32 n = slot(ns) & (SLOTS - 1);
	add(d->slots[n], 1);
}

// is_target says whether the current process is the one that is watched, and learns its number if that isn't known.
INLINE int is_target(u32 tgid)
{
	if (target)
		return tgid == target;
	u32 zero = 0;
	struct control *c = bpf_map_lookup_elem(&control, &zero);
	if (!c)
		return 0;
	if (c->learned)
		return tgid == c->learned;
	struct bpf_pidns_info in = {};
	if (bpf_get_ns_current_pid_tgid(ns_dev, ns_ino, &in, sizeof(in)) || in.tgid != ns_target)
		return 0;
	c->learned = tgid;
	return 1;
}

// current returns the record of the current thread if its process is watched.
INLINE struct thread *current(u32 *tid)
{
	u64 id = bpf_get_current_pid_tgid();
	if (!is_target(id >> 32))
		return 0;
	*tid = id;
	struct thread *t = bpf_map_lookup_elem(&threads, tid);
	if (t)
		return t;
	struct thread fresh = {.tid = *tid};
	if (!target) {
		struct bpf_pidns_info in = {};
		if (!bpf_get_ns_current_pid_tgid(ns_dev, ns_ino, &in, sizeof(in)))
			fresh.tid = in.pid;
	}
	bpf_map_update_elem(&threads, tid, &fresh, BPF_NOEXIST);
	t = bpf_map_lookup_elem(&threads, tid);
	if (!t)
		lose(LOST_THREADS);
	return t;
}

static const struct activity no_activity;

INLINE struct activity *activity(u32 tid, u32 in)
{
	struct activity_key k = {.tid = tid, .stage = in};
	struct activity *a = bpf_map_lookup_elem(&activities, &k);
	if (a)
		return a;
	bpf_map_update_elem(&activities, &k, &no_activity, BPF_NOEXIST);
	a = bpf_map_lookup_elem(&activities, &k);
	if (!a)
		lose(LOST_ACTIVITIES);
	return a;
}

INLINE void slow(u32 kind, u32 tid, u32 in, u32 what, u64 at, u64 ns)
{
	if (ns < slow_ns)
		return;
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		lose(LOST_RING);
		return;
	}
	e->at = at;
	e->ns = ns;
	e->kind = kind;
	e->tid = tid;
	e->stage = in;
	e->what = what;
	bpf_ringbuf_submit(e, 0);
}

// System calls.

SEC("raw_tracepoint/sys_enter")
int enter_call(struct raw_args *ctx)
{
	u32 tid;
	struct thread *t = current(&tid);
	if (!t)
		return 0;
	t->call_nr = ctx->args[1];
	if (t->call_nr == exit_number) { // which doesn't return
		t->in_call = 0;
		if (!t->on_at) // otherwise the last switch sees to it
			bpf_map_delete_elem(&threads, &tid);
		return 0;
	}
	t->call_fd = 0;
	t->call_cmd = 0;
	if (t->call_nr == ioctl_number) {
		const char *regs = (const char *)ctx->args[0];
		u64 v = 0;
		bpf_probe_read_kernel(&v, sizeof(v), regs + arg0_offset);
		t->call_fd = v;
		bpf_probe_read_kernel(&v, sizeof(v), regs + arg1_offset);
		t->call_cmd = v;
	}
	t->call_stage = stage();
	t->call_off = 0;
	t->in_call = 1;
	t->call_at = bpf_ktime_get_ns();
	return 0;
}

static const struct call no_call;

SEC("raw_tracepoint/sys_exit")
int exit_call(struct raw_args *ctx)
{
	u64 now = bpf_ktime_get_ns();
	u32 tid;
	struct thread *t = current(&tid);
	if (!t || !t->in_call)
		return 0;
	t->in_call = 0;
	struct call_key k = {.tid = t->tid, .stage = t->call_stage, .nr = t->call_nr, .fd = t->call_fd, .cmd = t->call_cmd};
	struct call *c = bpf_map_lookup_elem(&calls, &k);
	if (!c) {
		bpf_map_update_elem(&calls, &k, &no_call, BPF_NOEXIST);
		c = bpf_map_lookup_elem(&calls, &k);
		if (!c) {
			lose(LOST_CALLS);
			return 0;
		}
	}
	u64 ns = now - t->call_at;
	s64 result = ctx->args[1];
	if (result < 0 && result >= -4095)
		add(c->errors, 1);
	add(c->off, t->call_off);
	took(&c->durations, ns);
	slow(EVENT_CALL, t->tid, t->call_stage, t->call_nr, t->call_at, ns);
	return 0;
}

// Time on and off the processor.

INLINE void leave(struct thread *t, u32 in, int ready)
{
	u64 now = bpf_ktime_get_ns();
	struct activity *a = activity(t->tid, in);
	if (a) {
		if (t->on_at)
			add(a->on, now - t->on_at);
		if (ready)
			add(a->preempted, 1);
		else
			add(a->voluntary, 1);
	}
	t->on_at = 0;
	t->off_at = now;
	t->woken_at = ready ? now : 0;
	t->ready = ready;
}

INLINE void arrive(struct thread *t, u32 in)
{
	u64 now = bpf_ktime_get_ns();
	u64 off_at = t->off_at, woken = t->woken_at;
	t->on_at = now;
	t->off_at = 0;
	t->woken_at = 0;
	if (!off_at)
		return;
	u64 off = now - off_at;
	u64 waited = woken >= off_at ? now - woken : 0;
	if (t->in_call)
		t->call_off += off;
	struct activity *a = activity(t->tid, in);
	if (!a)
		return;
	took(&a->off, off);
	slow(EVENT_BLOCKED, t->tid, in, t->in_call ? t->call_nr : ~0U, off_at, off - waited);
	if (!woken)
		return;
	took(&a->ready, waited);
	slow(EVENT_READY, t->tid, in, t->ready, woken, waited);
}

INLINE void switched(int ready, int dead, u32 next)
{
	u32 tid;
	struct thread *t = current(&tid);
	u32 in = stage();
	if (t) {
		leave(t, in, ready);
		if (dead)
			bpf_map_delete_elem(&threads, &tid);
	}
	t = bpf_map_lookup_elem(&threads, &next);
	if (t)
		arrive(t, in);
}

INLINE void woke(u32 tid)
{
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);
	if (t && t->off_at && !t->woken_at)
		t->woken_at = bpf_ktime_get_ns();
}

#define TASK_DEAD 0x80 // include/linux/sched.h, as since 4.14

SEC("raw_tracepoint/sched_switch")
int switch_task(struct raw_args *ctx)
{
	struct task_struct *prev = (void *)ctx->args[1], *next = (void *)ctx->args[2];
	u32 state = 0, pid = 0;
	if (core_field_exists(prev->__state))
		core_read(&state, &prev->__state);
	else
		core_read(&state, (u32 *)&((struct task_struct___old *)prev)->state);
	core_read(&pid, (u32 *)&next->pid);
	switched((ctx->args[0] & 1) || state == 0, (state & TASK_DEAD) != 0, pid);
	return 0;
}

SEC("raw_tracepoint/sched_wakeup")
int wake_task(struct raw_args *ctx)
{
	struct task_struct *p = (void *)ctx->args[0];
	u32 pid = 0;
	core_read(&pid, (u32 *)&p->pid);
	woke(pid);
	return 0;
}

// The same for kernels without BTF, from what tracefs describes. The layouts have been the same since 2.6.
struct switch_args {
	u64 common;
	char prev_comm[16];
	s32 prev_pid;
	s32 prev_prio;
	s64 prev_state;
	char next_comm[16];
	s32 next_pid;
	s32 next_prio;
};

#define EXITED 0x30 // EXIT_DEAD | EXIT_ZOMBIE, which is what this tracepoint makes of TASK_DEAD

SEC("tracepoint/sched/sched_switch")
int switch_traced(struct switch_args *ctx)
{
	switched((ctx->prev_state & 0xFF) == 0, (ctx->prev_state & EXITED) != 0, ctx->next_pid);
	return 0;
}

struct wake_args {
	u64 common;
	char comm[16];
	s32 pid;
};

SEC("tracepoint/sched/sched_wakeup")
int wake_traced(struct wake_args *ctx)
{
	woke(ctx->pid);
	return 0;
}

// Page faults.

SEC("fentry/handle_mm_fault")
int enter_fault(u64 *ctx)
{
	u32 tid;
	struct thread *t = current(&tid);
	if (t)
		t->fault_at = bpf_ktime_get_ns();
	return 0;
}

#define VM_FAULT_MAJOR 4

SEC("fexit/handle_mm_fault")
int exit_fault(u64 *ctx) // vma, address, flags, regs, the result
{
	u64 now = bpf_ktime_get_ns();
	u32 tid;
	struct thread *t = current(&tid);
	if (!t || !t->fault_at)
		return 0;
	u64 ns = now - t->fault_at, at = t->fault_at;
	t->fault_at = 0;
	u32 in = stage();
	struct activity *a = activity(t->tid, in);
	if (!a)
		return 0;
	if (ctx[4] & VM_FAULT_MAJOR)
		add(a->major, 1);
	took(&a->faults, ns);
	slow(EVENT_FAULT, t->tid, in, 0, at, ns);
	return 0;
}

SEC("raw_tracepoint/page_fault_user")
int count_fault(struct raw_args *ctx)
{
	u32 tid;
	struct thread *t = current(&tid);
	if (!t)
		return 0;
	struct activity *a = activity(t->tid, stage());
	if (a)
		add(a->faults.count, 1);
	return 0;
}
