// Package probe measures a process by eBPF programs: system calls and ioctls on a card, time on
// processors, waiting for one and blocked, page faults, functions of the kernel driver, and markers
// in the process. The programs add up what they see and send only slow events; events that find no
// room are counted.
//
// What a kernel doesn't offer is left out and named in the [Snapshot]: [Detect] finds the features,
// [Choose] decides. Figures of /proc are always there.
//
// Probes of system calls and of the scheduler run for every event of the machine, and cost other
// processes a comparison. [Calibrate] measures the cost for the watched process.
package probe

// The programs are C in bpf/. Their compiled form is committed, so that building needs no clang.
//go:generate go tool bpf2go -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v2" -target bpfel -tags linux bpf bpf/probe.bpf.c
//go:generate go run names_gen.go
