// Package probe measures from the kernel's side what a process does: its system calls and how long
// each kind takes, the ioctls on a card, the time its threads spend on processors, waiting for one,
// and blocked, its page faults, functions of the kernel driver, and markers that it sets itself. It
// uses eBPF programs, which add up what they see in the kernel and send only what was slow;
// whatever finds no room there is counted.
//
// What a kernel doesn't offer is left out, and the [Snapshot] says so: [Detect] finds out, [Choose]
// decides. What can be had without eBPF, from /proc, is measured always.
//
// Probes of system calls and of the scheduler run for each of their events on the whole machine,
// for other processes too, which pay for a comparison. [Calibrate] measures what a probe costs the
// process that is watched.
package probe

// The programs are in bpf/, in C. Their compiled form is in the tree so that building needs no
// clang.
//go:generate go tool bpf2go -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v2" -target bpfel -tags linux bpf bpf/probe.bpf.c
//go:generate go run names_gen.go
