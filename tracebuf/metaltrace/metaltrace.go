// Package metaltrace imports traces that tt-metal recorded. Such a trace is commands in a chip's
// DRAM, which name the programs' kernels by their place in DRAM: there are no names, buffers or
// firmware. [Read] decodes the commands and reads the kernels, [Trace.Identify] finds the kernels'
// files in tt-metal's kernel cache and so their base firmware, and [Trace.File] makes a trace file
// that runs on this runtime's command queues.
//
// The package knows no devices: it reads memory through [Memory].
package metaltrace

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

var (
	// ErrUnsupported: this runtime can't run the commands, such as programs on Ethernet cores.
	ErrUnsupported = errors.New("it can't be imported")
	// ErrNotTrace: commands contradict each other.
	ErrNotTrace = errors.New("not a trace of tt-metal")
	// ErrUnknownKernel: the kernel cache lacks a kernel.
	ErrUnknownKernel = errors.New("a kernel that isn't in the kernel cache")
	// ErrSeveral: the trace fits more than one base firmware.
	ErrSeveral = errors.New("several base firmwares have all kernels of the trace")
)

// An ImportError says which command of a trace can't be imported, and why.
type ImportError struct {
	Offset  int
	Command string // without prefix, as "RELAY_RINGBUFFER"
	Why     string
	Err     error // ErrUnsupported, ErrNotTrace, or the error of a Memory
}

func (e *ImportError) Error() string {
	return fmt.Sprintf("metaltrace: %s at +%#x: %s: %v", e.Command, e.Offset, e.Why, e.Err)
}

func (e *ImportError) Unwrap() error { return e.Err }

func refuse(offset int, command string, err error, format string, args ...any) error {
	return &ImportError{Offset: offset, Command: command, Why: fmt.Sprintf(format, args...), Err: err}
}

func unsupported(r *cq.Reading, format string, args ...any) error {
	return refuse(r.Offset, r.Name, ErrUnsupported, format, args...)
}

func notTrace(r *cq.Reading, format string, args ...any) error {
	return refuse(r.Offset, r.Name, ErrNotTrace, format, args...)
}

// Trace is a trace of tt-metal with the kernels of its programs.
type Trace struct {
	Layout   cq.Layout
	Revision string // as package cq names it
	Size     int    // with the EXEC_BUF_END
	Steps    []Step
}

// Step is one run of a program.
type Step struct {
	Offset, Size int    // in the trace
	HostID       uint32 // of tt-metal
	// L1 addresses.
	Config, Text uint32
	Binaries     int // sent for this run
	// WaitCount is what the go signal waits for: completions of the sub-device's earlier steps.
	WaitCount uint32
	SubDevice int      // 0 without sub-devices
	Launches  []Launch // set by Identify

	commands []command
}

// Launch is what a launch message starts on a rectangle of cores.
type Launch struct {
	Start, End chip.XY // virtual
	Kernels    []Kernel
	Circular   []CircularBuffer
}

// CircularBuffer is the memory of a circular buffer, in the L1 of each core.
type CircularBuffer struct {
	Addr, Size uint32 // bytes
}

// Kernel is a kernel that a launch message starts.
type Kernel struct {
	Processor chip.Processor
	Addr      uint32 // of its text in L1
	Name      string // in the kernel cache, or empty
	Text      []byte // and initial data; up to the end of what was written if it isn't in the cache
	// Args and Common are its unique and its common runtime arguments on the core at the launch's
	// Start. A trace doesn't have their number, so zeros may follow up to a multiple of 16 bytes. A
	// kernel without arguments may seem to have those of the next processor's kernel, and one with
	// common ones only may have these in Args.
	Args, Common []uint32

	args, common region // in L1
}

// command is a dispatcher's command, as the pinned revision has it.
type command struct {
	offset int
	cmd    cq.DispatchCommand
	// header: the data come from DRAM, as blocks.
	header bool
	blocks [][]byte
}

// Limits of the bytes of kernels for a command, which go through a core's L1, and for a trace.
const (
	maxLoad    = 1 << 21
	maxKernels = 1 << 30
)

// Memory is the DRAM of the chip that has a trace, or a copy of it.
type Memory interface {
	// ReadDRAM fills b from an address of a DRAM bank, counted as package chip does.
	ReadDRAM(bank int, addr uint64, b []byte) error
}

// ReadInterleaved fills b from an interleaved buffer at addr in every bank, from page first on:
// page p is in bank p mod banks, in row p div banks.
func ReadInterleaved(m Memory, banks int, addr uint64, pageSize, first int, b []byte) error {
	if banks < 1 || pageSize < 1 || first < 0 {
		return fmt.Errorf("metaltrace: page %d of %d B over %d banks", first, pageSize, banks)
	}
	for p := first; len(b) > 0; p++ {
		n := min(pageSize, len(b))
		if err := m.ReadDRAM(p%banks, addr+uint64(p/banks)*uint64(pageSize), b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

type place struct {
	start, logPage uint32
	base, length   uint32
}

// kernelMemory reads each run of kernels once.
type kernelMemory struct {
	m     Memory
	banks int
	seen  map[place][]byte
	total int
}

func (k *kernelMemory) read(p place) ([]byte, error) {
	if b, ok := k.seen[p]; ok {
		return b, nil
	}
	if p.logPage < 9 || p.logPage > 16 { // tt-metal's have 2^11 B
		return nil, fmt.Errorf("pages of 2^%d B: %w", p.logPage, ErrNotTrace)
	}
	if p.length > maxLoad {
		return nil, fmt.Errorf("%d B of kernels at once, more than L1 has: %w", p.length, ErrNotTrace)
	}
	if k.total += int(p.length); k.total > maxKernels {
		return nil, fmt.Errorf("more than %d B of kernels: %w", maxKernels, ErrNotTrace)
	}
	b := make([]byte, p.length)
	if err := ReadInterleaved(k.m, k.banks, uint64(p.base), 1<<p.logPage, int(p.start), b); err != nil {
		return nil, err
	}
	k.seen[p] = b
	return b, nil
}
