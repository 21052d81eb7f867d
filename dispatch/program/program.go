// Package program turns programs into commands: kernels with their arguments, circular buffers and
// semaphores become an [Image], the commands of one run. It keeps account of what a command stream
// has put on the workers ([State]) and accesses no device.
package program

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

// MaxArgs is how many 32-bit runtime arguments a kernel may have. Source: tt-metal kernel_types.hpp
// (max_runtime_args).
const MaxArgs = 341

// MaxCircularPages is the most pages of a circular buffer: kernels count pushed and popped pages in
// 16 bits, and tell a full buffer from an empty one by the difference. Source: tt-metal
// circular_buffer_interface.h (tiles_acked, tiles_received), and this runtime's reprise/kernel.h.
const MaxCircularPages = 1<<16 - 1

// MaxSemaphores is for a core and a program. Source: tt-metal NUM_SEMAPHORES.
const MaxSemaphores = 16

// Kernel is device code for one of the five processors on a set of cores.
type Kernel struct {
	Name      string
	Processor chip.Processor
	Cores     []chip.Range // logical cores; ranges may not overlap
	Formats   []byte       // package kernels/print; or nil
	Text      []byte       // flat, position-independent image; the entry is its first byte
	File      []byte       // Text's ELF file, for call stacks, or nil
	Common    []uint32     // the same on every core
	Args      []CoreArgs
	NOC       chip.NOC // of a BRISC kernel; NCRISC takes the other one
}

// CoreArgs are the unique runtime arguments of one core.
type CoreArgs struct {
	Core chip.Core
	Args []uint32
}

// CircularBuffer is a ring of pages in a core's L1 between kernels of the core.
type CircularBuffer struct {
	Index    int // 0..31, or below the layout's CircularBuffers
	Cores    []chip.Range
	Addr     uint32 // L1 address of its first page, a multiple of 16
	PageSize uint32 // bytes, a multiple of 16
	Pages    uint32
	Given    bool // in memory that the caller allocated
}

// Semaphore is a 32-bit word in L1 by which kernels of different cores signal each other.
type Semaphore struct {
	ID      int // 0..15
	Cores   []chip.Range
	Initial uint32
}

// Program is what runs on the workers between two go signals.
type Program struct {
	Name            string
	Kernels         []Kernel
	CircularBuffers []CircularBuffer
	Semaphores      []Semaphore
}

// ProgramError names the part of a program that can't be run.
type ProgramError struct {
	Program string
	Part    string // "kernel reader on (0,0)-(7,7)", "circular buffer 3", ...
	Why     string
	Err     error
}

func (e *ProgramError) Unwrap() error { return e.Err }

func (e *ProgramError) Error() string {
	return fmt.Sprintf("dispatch: program %q: %s: %s", e.Program, e.Part, e.Why)
}

func (p *Program) fail(part, format string, a ...any) error {
	return &ProgramError{Program: p.Name, Part: part, Why: fmt.Sprintf(format, a...)}
}

func (p *Program) validate(grid chip.Range, l *abi.Layout) error {
	if len(p.Kernels) == 0 {
		return p.fail("program", "it has no kernel: add at least one")
	}
	taken := map[coreProcessor]string{}
	for i := range p.Kernels {
		k := &p.Kernels[i]
		if err := p.validateKernel(k, grid, taken); err != nil {
			return err
		}
		if room := l.Boot.IRAMSize; k.Processor == chip.NCRISC && room > 0 && uint32(len(k.Text)) > room {
			return p.fail(fmt.Sprintf("kernel %q", k.Name), "it has %d B, and NCRISC's instruction RAM %d: make it smaller", len(k.Text), room)
		}
	}
	if err := p.validateCircularBuffers(grid, l); err != nil {
		return err
	}
	return p.validateSemaphores(grid)
}

type coreProcessor struct {
	core chip.Core
	proc chip.Processor
}

func (p *Program) validateKernel(k *Kernel, grid chip.Range, taken map[coreProcessor]string) error {
	part := fmt.Sprintf("kernel %q", k.Name)
	if k.Processor > chip.TRISC2 {
		return p.fail(part, "processor %d doesn't exist: use BRISC, NCRISC or TRISC0 to TRISC2", k.Processor)
	}
	if k.NOC > chip.NOC1 {
		return p.fail(part, "network %d doesn't exist: use chip.NOC0 or chip.NOC1", k.NOC)
	}
	if len(k.Text) == 0 {
		return p.fail(part, "its image is empty")
	}
	if len(k.Text)%16 != 0 {
		return p.fail(part, "its image has %d B, no multiple of 16: take images of package kernels as they are", len(k.Text))
	}
	if err := p.validateCores(part, k.Cores, grid); err != nil {
		return err
	}
	for _, r := range k.Cores {
		for c := range r.Cores() {
			cp := coreProcessor{c, k.Processor}
			if other, ok := taken[cp]; ok {
				return p.fail(part, "core %v already runs kernel %q on %v: one processor runs one kernel of a program", c, other, k.Processor)
			}
			taken[cp] = k.Name
		}
	}
	seen := map[chip.Core]bool{}
	for _, a := range k.Args {
		if n := len(a.Args) + len(k.Common); n > MaxArgs {
			return p.fail(part, "core %v has %d unique and %d common runtime arguments, together at most %d fit: pass a buffer's address instead",
				a.Core, len(a.Args), len(k.Common), MaxArgs)
		}
		if taken[coreProcessor{a.Core, k.Processor}] != k.Name {
			return p.fail(part, "it has runtime arguments for core %v but doesn't run there", a.Core)
		}
		if seen[a.Core] {
			return p.fail(part, "runtime arguments of core %v are given twice", a.Core)
		}
		seen[a.Core] = true
	}
	if len(k.Common) > MaxArgs {
		return p.fail(part, "%d common runtime arguments, at most %d fit: pass a buffer's address instead", len(k.Common), MaxArgs)
	}
	return nil
}

func (p *Program) validateCores(part string, cores []chip.Range, grid chip.Range) error {
	if len(cores) == 0 {
		return p.fail(part, "it has no cores: give at least one range")
	}
	for _, r := range cores {
		if r.Start.X > r.End.X || r.Start.Y > r.End.Y {
			return p.fail(part, "range %v ends before it starts", r)
		}
		if !grid.Contains(r.Start) || !grid.Contains(r.End) {
			return p.fail(part, "range %v is not inside the worker grid %v", r, grid)
		}
	}
	return nil
}

func (p *Program) validateCircularBuffers(grid chip.Range, l *abi.Layout) error {
	l1Base, l1End := l.L1.Unreserved, l.L1.Size
	for i, b := range p.CircularBuffers {
		part := fmt.Sprintf("circular buffer %d", b.Index)
		if b.Index < 0 || b.Index >= l.Launch.CircularBuffers {
			return p.fail(part, "indices run from 0 to %d", l.Launch.CircularBuffers-1)
		}
		if err := p.validateCores(part, b.Cores, grid); err != nil {
			return err
		}
		if b.PageSize == 0 || b.PageSize%16 != 0 || b.Pages == 0 {
			return p.fail(part, "%d pages of %d B: there must be a page, of a non-zero multiple of 16 B", b.Pages, b.PageSize)
		}
		if b.Pages > MaxCircularPages {
			return p.fail(part, "%d pages, and kernels count up to %d: make the pages larger", b.Pages, MaxCircularPages)
		}
		size := uint64(b.PageSize) * uint64(b.Pages)
		if b.Addr%16 != 0 || b.Addr < l1Base || uint64(b.Addr)+size > uint64(l1End) {
			return p.fail(part, "%d B at %#x don't lie 16-aligned in the free L1 %#x..%#x", size, b.Addr, l1Base, l1End)
		}
		for _, o := range p.CircularBuffers[:i] {
			if !rangesOverlap(b.Cores, o.Cores) {
				continue
			}
			if o.Index == b.Index {
				return p.fail(part, "it is given twice for the same core")
			}
			if !(b.Given && o.Given) && b.Addr < o.Addr+o.PageSize*o.Pages && o.Addr < b.Addr+b.PageSize*b.Pages {
				return p.fail(part, "its memory at %#x overlaps that of circular buffer %d at %#x", b.Addr, o.Index, o.Addr)
			}
		}
	}
	return nil
}

func (p *Program) validateSemaphores(grid chip.Range) error {
	for i, s := range p.Semaphores {
		part := fmt.Sprintf("semaphore %d", s.ID)
		if s.ID < 0 || s.ID >= MaxSemaphores {
			return p.fail(part, "ids run from 0 to %d", MaxSemaphores-1)
		}
		if err := p.validateCores(part, s.Cores, grid); err != nil {
			return err
		}
		for _, o := range p.Semaphores[:i] {
			if o.ID == s.ID && rangesOverlap(s.Cores, o.Cores) {
				return p.fail(part, "it is given twice for the same core")
			}
		}
	}
	return nil
}

func rangesOverlap(a, b []chip.Range) bool {
	return slices.ContainsFunc(a, func(x chip.Range) bool { return slices.ContainsFunc(b, x.Overlaps) })
}
