// Package live makes call stacks of the processors of a running device. It pauses a processor while
// it reads registers and stack, and identifies the kernel by the launch message and the bytes in
// L1. Snapshots can be unwound later.
package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/debug/stack"
)

// Stack is the call stack of one processor.
type Stack struct {
	Processor chip.Processor `json:"processor"`
	Frames    []stack.Frame  `json:"frames,omitempty"`
	// Note says why the stack is incomplete or guessed: without a debug interface or a pause only
	// pc is known, and on Blackhole the stack's memory.
	Note string `json:"note,omitempty"`
}

// A Place is one processor of a device.
type Place struct {
	Core      chip.Core // logical
	XY        chip.XY   // virtual
	Processor chip.Processor
}

// Snapshot is the raw data of a call stack, read during a pause.
type Snapshot struct {
	Core chip.Core `json:"core"` // logical
	Stack
	PC        uint32   `json:"pc,omitempty"`
	Registers []uint32 `json:"registers,omitempty"`
	Memory    []byte   `json:"memory,omitempty"` // from the stack pointer on, up to maxStack bytes
	// Start is the memory's address if registers are unknown: the stack's end is somewhere inside.
	Start uint32 `json:"start,omitempty"`
	Err   error  `json:"-"`
}

const (
	maxStack  = 4096 // saved bytes of a stack, half of the largest local RAM
	maxSearch = 2048 // of a stack with an unknown end
)

// Take takes snapshots of processors, without frames. It pauses all at once, waits for patience,
// and resumes those that ran. A stuck processor pauses when its instruction ends; Detach of
// core.Core then resumes it. The error wraps core.ErrUnsupported for a device without a debug
// interface; errors of single processors are in Note.
func Take(ctx context.Context, dev core.Device, places []Place, patience time.Duration) ([]Snapshot, error) {
	tiles := map[chip.XY]*core.Tile{}
	all := make([]Snapshot, len(places))
	cores := make([]*core.Core, len(places))
	var pausing []*core.Core
	var index []int
	for i, at := range places {
		all[i] = Snapshot{Core: at.Core, Stack: Stack{Processor: at.Processor}}
		tile, ok := tiles[at.XY]
		if !ok {
			var err error
			if tile, err = core.Open(dev, at.XY); err != nil {
				return nil, err
			}
			tiles[at.XY] = tile
		}
		k, err := tile.Core(at.Processor)
		if err != nil {
			return nil, err
		}
		cores[i] = k
		held, err := k.Reset()
		switch {
		case err != nil:
			all[i].fail(err)
		case held:
			all[i].Note = "in reset"
		case !k.HasInterface():
			all[i].sample(k, "it has no debug interface")
		default:
			pausing, index = append(pausing, k), append(index, i)
		}
	}
	before := make([]core.Status, len(pausing))
	for i, k := range pausing {
		before[i], _ = k.Status()
	}
	for i, err := range core.PauseAll(ctx, patience, pausing...) {
		s, k := &all[index[i]], pausing[i]
		if err == nil {
			err = s.read(k)
		}
		stuck := errors.Is(err, core.ErrStuck)
		switch {
		case stuck:
			s.sample(k, core.ErrStuck.Error())
		case err != nil:
			s.fail(err)
		}
		if !before[i].Paused && !stuck { // a stuck one pauses later and needs slow execution mode to be resumed
			if err := k.Detach(); err != nil && s.Err == nil {
				s.fail(err)
			}
		}
	}
	return all, nil
}

func (s *Snapshot) fail(err error) { s.Err, s.Note = err, err.Error() }

func (s *Snapshot) sample(k *core.Core, why string) {
	pc, err := k.Sample()
	if err != nil {
		s.fail(err)
		return
	}
	s.PC, s.Note = pc, "only pc is known: "+why
	if !k.ReadsRunning() {
		return
	}
	start, end := k.LocalRAM()
	start = max(start, end-maxSearch)
	memory := make([]byte, end-start)
	if err := k.Read(start, memory); err == nil {
		s.Start, s.Memory, s.Note = start, memory, "guessed from pc and memory: "+why
	}
}

func (s *Snapshot) read(k *core.Core) error {
	regs, err := k.Registers()
	if err != nil {
		return err
	}
	s.PC, s.Registers = regs[core.PC], regs[:32]
	sp := regs[2]
	start, end := k.LocalRAM()
	if sp < start || sp >= end {
		return nil
	}
	memory := make([]byte, min(end-sp, maxStack))
	if err := k.Read(sp, memory); err != nil {
		return err
	}
	s.Memory = memory
	return nil
}

const (
	outermost = "firmware_main" // the base firmware's function without a caller
	entry     = "kernel_main"   // the kernels' function that outermost calls
)

var errNotKept = errors.New("the snapshot doesn't have it")

// Unwind makes the frames of a snapshot, and reports whether the processor's kernel is in the
// catalogue. It reads the tile's launch message and kernel.
func (c *Catalogue) Unwind(s *Snapshot, l *abi.Layout, read Reader) (known bool, err error) {
	if s.PC == 0 && s.Registers == nil {
		return false, nil
	}
	if s.Processor >= chip.NumProcessors {
		return false, fmt.Errorf("live: core %v: processor %d doesn't exist", s.Core, s.Processor)
	}
	space, known, err := c.modules(l, read, s.Processor)
	if err != nil {
		return false, fmt.Errorf("live: core %v %v: %w", s.Core, s.Processor, err)
	}
	if len(s.Registers) != 32 {
		var ok bool
		if s.Frames, ok = space.Search(s.PC, s.Start, s.Memory, outermost, entry); !ok {
			s.Frames = space.Unwind(stack.Registers{PC: s.PC}, nil)
		}
		return known, nil
	}
	saved := stack.Saved(s.Registers[2], s.Memory)
	s.Frames = space.Unwind(stack.All([32]uint32(s.Registers), s.PC), func(addr uint32, p []byte) error {
		err := saved(addr, p)
		if err != nil && uint64(addr)+uint64(len(p)) <= uint64(l.L1.Size) {
			return read(addr, p)
		}
		return err
	})
	return known, nil
}

// MemoryOf returns a Reader of saved pieces of L1 by address.
func MemoryOf(pieces map[uint32][]byte) Reader {
	return func(addr uint32, p []byte) error {
		for at, b := range pieces {
			if stack.Saved(at, b)(addr, p) == nil {
				return nil
			}
		}
		return errNotKept
	}
}

const patience = 2 * time.Second // to pause: an emulator on a busy machine needs its turn

// Of returns the call stack of a processor, pausing it meanwhile. A processor in reset has no
// frames; one that can't be paused has its current function.
func (c *Catalogue) Of(ctx context.Context, dev core.Device, l *abi.Layout, virtual chip.XY, p chip.Processor) (Stack, error) {
	all, err := Take(ctx, dev, []Place{{XY: virtual, Processor: p}}, patience)
	if err != nil {
		return Stack{Processor: p}, err
	}
	s := &all[0]
	if s.Err != nil {
		return s.Stack, s.Err
	}
	_, err = c.Unwind(s, l, func(addr uint32, b []byte) error { return dev.Read(virtual, uint64(addr), b) })
	return s.Stack, err
}
