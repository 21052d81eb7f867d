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

// A Stack is the call stack of one processor.
type Stack struct {
	Processor chip.Processor `json:"processor"`
	Frames    []stack.Frame  `json:"frames,omitempty"`
	// Note says why there is less than a stack, or one that is guessed: the processor has no debug
	// interface or doesn't pause, so that only pc is known, on Blackhole the stack's memory too.
	Note string `json:"note,omitempty"`
}

// A Place is one processor of a device.
type Place struct {
	Core      chip.Core // logical
	XY        chip.XY   // its tile's virtual coordinate
	Processor chip.Processor
}

// A Snapshot is what the call stack of a processor is made of, read while it was paused. Unwind
// makes the stack, then or later.
type Snapshot struct {
	Core chip.Core `json:"core"` // logical
	Stack
	PC        uint32   `json:"pc,omitempty"`
	Registers []uint32 `json:"registers,omitempty"` // x0 to x31; nil if only pc is known
	Memory    []byte   `json:"memory,omitempty"`    // from the stack pointer on, up to maxStack bytes
	// Start is the address of the memory if there are no registers: the stack ends somewhere in it.
	Start uint32 `json:"start,omitempty"`
	Err   error  `json:"-"` // why nothing could be read; Note has it as well
}

// maxStack is how much of a stack is kept, in bytes: local RAM has at most twice as much.
const maxStack = 4096

// Take takes snapshots of processors, without their frames. All of them are paused at once, unless
// they are already, and go on afterwards. It waits for those that don't pause for so long
// altogether. Such a processor pauses when its instruction ends: a request to pause can't be taken
// back. Detach of core.Core then lets it go on. The error wraps core.ErrUnsupported if the device
// has no debug interface; what is wrong with a single processor is its Note.
func Take(ctx context.Context, dev core.Device, places []Place, patience time.Duration) ([]Snapshot, error) {
	tiles := map[chip.XY]*core.Tile{}
	all := make([]Snapshot, len(places))
	cores := make([]*core.Core, len(places))
	var pausing []*core.Core
	var index []int // of each, its place
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
		before[i], _ = k.Status() // an error shows again when it is paused
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
		if !before[i].Paused && !stuck { // one that is stuck pauses later: only in slow execution mode can it be resumed then
			if err := k.Detach(); err != nil && s.Err == nil {
				s.fail(err)
			}
		}
	}
	return all, nil
}

func (s *Snapshot) fail(err error) { s.Err, s.Note = err, err.Error() }

// maxSearch is how much of the memory of a stack is kept whose end isn't known.
const maxSearch = 2048

// sample reads pc, and the memory that has the stack where it can be read while the processor runs.
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

// read reads the registers and the stack of a paused processor.
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

// outermost is the function of this runtime's base firmware that has no caller, and entry that of
// kernels which it calls.
const (
	outermost = "firmware_main"
	entry     = "kernel_main"
)

// errNotKept is the error of memory that a snapshot doesn't have.
var errNotKept = errors.New("the snapshot doesn't have it")

// Unwind makes the frames of a snapshot, with the kernels of the catalogue, and reports whether the
// processor's is among them. It reads the tile's launch message and its kernel.
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
	s.Frames = space.Unwind(stack.All([32]uint32(s.Registers), s.PC), func(addr uint32, p []byte) error {
		sp := s.Registers[2]
		if off := uint64(addr - sp); addr >= sp && off+uint64(len(p)) <= uint64(len(s.Memory)) {
			copy(p, s.Memory[off:])
			return nil
		}
		if uint64(addr)+uint64(len(p)) <= uint64(l.L1.Size) {
			return read(addr, p)
		}
		return errNotKept
	})
	return known, nil
}

// MemoryOf returns a Reader of memory that was kept: pieces of L1 at their addresses.
func MemoryOf(pieces map[uint32][]byte) Reader {
	return func(addr uint32, p []byte) error {
		for at, b := range pieces {
			if addr >= at && uint64(addr-at)+uint64(len(p)) <= uint64(len(b)) {
				copy(p, b[addr-at:])
				return nil
			}
		}
		return errNotKept
	}
}
