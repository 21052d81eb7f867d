package ttnn

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/internal/findings"
	"github.com/reprise-tt/reprise/sim/emu"
)

// launch is what a core's launch message says of the program that it executes.
type launch struct {
	operation            uint32 // tt-metal's number of the program's operation
	enables              uint32 // a bit for each processor with a kernel
	semaphores, circular uint32 // L1 addresses
	buffers              int
}

// launchOf reads the launch message of a core, false if the layout or the memory isn't known.
func launchOf(l *abi.Layout, read stack.Memory) (out launch, ok bool) {
	if l == nil {
		return out, false
	}
	at, message := make([]byte, 4), make([]byte, l.L1.LaunchSize)
	if read(l.L1.LaunchReadPtr, at) != nil {
		return out, false
	}
	entry := binary.LittleEndian.Uint32(at) % uint32(l.L1.LaunchEntries)
	if read(l.L1.Launch+entry*l.L1.LaunchSize, message) != nil {
		return out, false
	}
	f, slot := &l.Launch, binary.LittleEndian.Uint32(message[l.Launch.ConfigBase:])
	return launch{
		operation:  binary.LittleEndian.Uint32(message[f.HostID:]),
		enables:    f.Enabled(message),
		semaphores: slot + uint32(binary.LittleEndian.Uint16(message[f.Semaphores:])),
		circular:   slot + uint32(binary.LittleEndian.Uint16(message[f.Circular:])),
		buffers:    f.CircularBuffers,
	}, true
}

const (
	semaphoreBytes = 16 // from one to the next (tt-metal L1_ALIGNMENT)
	maxSemaphores  = 16 // tt-metal NUM_SEMAPHORES
	bufferBytes    = 16 // of a circular buffer's configuration: address, bytes, pages, bytes of a page
)

// word names a word of L1 that a core waits for, "" if it is none of the program's semaphores.
func (l *launch) word(addr uint32, read stack.Memory) string {
	n := (addr - l.semaphores) / semaphoreBytes
	b := make([]byte, 4)
	if addr < l.semaphores || addr >= l.circular || n >= maxSemaphores || addr%semaphoreBytes != 0 || read(addr, b) != nil {
		return ""
	}
	return fmt.Sprintf("semaphore %d, which is %d", n, binary.LittleEndian.Uint32(b))
}

// pages says what a core waits for in a circular buffer.
func (l *launch) pages(w *emu.PageWait, read stack.Memory) string {
	what, does := "pages", "put some"
	if w.Room {
		what, does = "room", "took pages"
	}
	of, b := "", make([]byte, 4)
	if w.Stream < l.buffers && read(l.circular+uint32(w.Stream)*bufferBytes+8, b) == nil {
		of = fmt.Sprintf(" of its %d pages", binary.LittleEndian.Uint32(b))
	}
	by := "no processor of this core " + does + " so far"
	if w.Known {
		by = fmt.Sprintf("%v last %s", w.By, does)
	}
	return fmt.Sprintf("for %s in circular buffer %d:%s %d are full; %s", what, w.Stream, of, w.Put-w.Taken, by)
}

// circles returns processors that wait for each other, in order, each for the next one: in circular
// buffers for who last put pages or took some, on words of L1 for who last changed them. Compute
// processors of a tile count as one: those that poll no buffer wait for the others' engines.
func circles(states []emu.CoreState) (all [][]*emu.CoreState) {
	waiting := func(tile chip.XY, p chip.Processor) (at *emu.CoreState) {
		for i := range states {
			switch s := &states[i]; {
			case s.Tile != tile || !isWaiting(s):
			case s.Core == p:
				return s
			case isCompute(p) && isCompute(s.Core):
				at = s
			}
		}
		return at
	}
	in := map[*emu.CoreState]bool{}
	for i := range states {
		var path []*emu.CoreState
		for s := &states[i]; s != nil && isWaiting(s) && !in[s]; s = waiting(waitsFor(s)) {
			if at := slices.Index(path, s); at >= 0 {
				all = append(all, path[at:])
				break
			}
			path = append(path, s)
		}
		for _, s := range path {
			in[s] = true
		}
	}
	return all
}

func isWaiting(s *emu.CoreState) bool {
	return len(s.Pages) > 0 && s.Pages[0].Known || len(s.Changers) > 0
}

func waitsFor(s *emu.CoreState) (chip.XY, chip.Processor) {
	if len(s.Pages) > 0 && s.Pages[0].Known {
		return s.Tile, s.Pages[0].By
	}
	return s.Changers[0].Tile, s.Changers[0].Core
}

func isCompute(p chip.Processor) bool { return p >= chip.TRISC0 && p <= chip.TRISC2 }

// Operation returns a function, for package findings, that says which operation's program a tile
// executes, by the lines that the observer wrote of the operations called.
func Operation(wheel string, lines func() string) func(int, chip.XY, chip.Processor, emu.ChipView) *findings.Operation {
	return func(_ int, tile chip.XY, p chip.Processor, m emu.ChipView) *findings.Operation {
		l, ok := launchOf(abi.Of(wheel, m.Topology().Arch()), stack.Of(m.ReadCore, tile, p))
		if !ok {
			return nil
		}
		return operation(lines(), l.operation)
	}
}

// operation returns the innermost call that had a number, nil if none had.
func operation(lines string, number uint32) (out *findings.Operation) {
	for line := range strings.Lines(lines) {
		// number, name, line, function, file
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 5)
		if len(f) < 5 {
			continue
		}
		if first, err := strconv.ParseUint(f[0], 10, 32); err != nil || uint32(first) > number {
			continue
		}
		at, _ := strconv.Atoi(f[2])
		out = &findings.Operation{Name: f[1], Call: call(f[4], at, f[3])}
	}
	return out
}
