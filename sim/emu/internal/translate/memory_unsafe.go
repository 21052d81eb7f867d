//go:build linux && (amd64 || arm64) && !purego

package translate

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
)

// Available reports whether this host can run translated code.
const Available = true

// Memory is taken by blocks, at most so much.
const (
	block = 256 << 10
	most  = 64 << 20
)

// Memory holds code. It isn't safe for concurrent use, and none of its code may run while more is
// made.
type Memory struct {
	blocks [][]byte
	used   int // bytes of the last block
	taken  int
}

// Translate makes code of the instructions ops of the page at base from index first on, or returns
// nil if there is no room until Close. Machines that run the code have at least the registers.
// Waits are the jumps back after which code is left.
func (m *Memory) Translate(base uint32, first int, ops []rv32.Op, r *Registers, waits []int) *Code {
	code, bodies := makeCode(&program{base, first, ops, r, waits})
	p := m.room(len(code))
	if p == nil {
		return nil
	}
	last := m.blocks[len(m.blocks)-1]
	if unix.Mprotect(last, unix.PROT_READ|unix.PROT_WRITE) != nil {
		return nil
	}
	copy(p, code)
	start := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	synchronize(start, start+uintptr(len(p)))
	if unix.Mprotect(last, unix.PROT_READ|unix.PROT_EXEC) != nil {
		return nil
	}
	return &Code{First: first, End: first + len(ops), Ops: slices.Clone(ops), Waits: waits, start: start, bodies: bodies}
}

func (m *Memory) room(n int) []byte {
	n = (n + 63) &^ 63
	if len(m.blocks) == 0 || m.used+n > len(m.blocks[len(m.blocks)-1]) {
		size := max(block, n)
		if m.taken+size > most {
			return nil
		}
		b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return nil
		}
		m.blocks, m.used, m.taken = append(m.blocks, b), 0, m.taken+size
	}
	b := m.blocks[len(m.blocks)-1]
	p := b[m.used : m.used+n]
	m.used += n
	return p
}

// Close releases the memory of all code, which must not be used any more. New code may be made.
func (m *Memory) Close() {
	for _, b := range m.blocks {
		_ = unix.Munmap(b) // it was mapped here
	}
	*m = Memory{}
}

// enter runs code from entry. It returns what code leaves in its registers.
//
//go:noescape
func enter(code, entry uintptr, m *Machine, end int32) (next, newEnd int32, why Exit)
