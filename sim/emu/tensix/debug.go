package tensix

import (
	"fmt"
	"math/bits"
)

// Debug registers of a tile's engines (tt-isa-documentation
// WormholeB0/TensixTile/DebugDaisychain.md; ttsim src/tile.cpp for Blackhole).

const (
	daisyMath     = 3
	daisyCounters = 6

	signalSources  = 9 // of daisyCounters; below 6 the sets of address counters
	signalRWC      = 2 // of daisyMath
	signalRWCRest  = 3
	signalFidelity = 4
)

// signals holds 256 lines of the debug bus.
type signals [8]uint32

func (s *signals) set(line int, v uint32) {
	wide := uint64(v) << (line % 32)
	s[line/32] |= uint32(wide)
	if line/32+1 < len(s) {
		s[line/32+1] |= uint32(wide >> 32)
	}
}

// DebugBus returns one of the four words of a signal at a place of the daisy chain. It returns
// false if that is not emulated.
func (e *Engine) DebugBus(daisy, signal, word uint32) (uint32, bool) {
	var s signals
	switch {
	case daisy == daisyCounters && signal < 2*numADC:
		e.showADC(&s, signal/2, signal%2)
	case daisy == daisyCounters && signal == signalSources:
		e.showSources(&s)
	case daisy == daisyMath && signal == signalFidelity:
		line := 60
		if e.wormhole {
			line = 62
		}
		for i := range e.threads {
			s.set(line+2*i, e.threads[i].fidelity)
		}
	case daisy == daisyMath && (signal == signalRWC || signal == signalRWCRest):
		e.showRWC(&s)
		word += 4 * (signal - signalRWC)
	default:
		return 0, false
	}
	return s[word], true
}

// Thread 0's counters are shown for the unpackers, thread 2's for the packers.
func (e *Engine) showADC(s *signals, set, channel uint32) {
	thread := 0
	if set == adcPack {
		thread = 2
	}
	c := &e.threads[thread].adc[set].channel[channel]
	for i, lines := range [][2]int{{0, 18}, {64, 80}, {96, 104}, {112, 120}} {
		d, _ := c.dimension(uint32(i))
		s.counter(d, lines[0], lines[1])
	}
}

func (s *signals) counter(c *counter, value, carry int) {
	s.set(value, c.value)
	s.set(carry, c.carry)
}

func (e *Engine) showSources(s *signals) {
	bit := func(line int, on bool) {
		if on {
			s.set(line, 1)
		}
	}
	show := func(b *source, first int) {
		bit(first, !b.unpackValid())
		bit(first+1, b.matrixValid())
		bit(first+6, b.valid[1])
		bit(first+7, b.valid[0])
		s.set(first+8, b.matrix)
		s.set(first+9, b.matrix)
		s.set(first+10, b.unpack)
	}
	show(&e.srcA, 84)
	b := &e.srcB
	if e.wormhole {
		show(b, 100)
		return
	}
	s.set(100, b.matrix)
	s.set(101, b.matrix)
	s.set(102, b.unpack)
	bit(105, b.valid[0])
	bit(106, b.valid[1])
}

func (e *Engine) showRWC(s *signals) {
	for i := range e.threads {
		t := &e.threads[i]
		s.counter(&t.a, 16*i, 16*i+8)
		if e.wormhole {
			s.counter(&t.b, 16*i+48, 16*i+56)
			s.counter(&t.d, 32*i+96, 32*i+112)
		} else {
			s.counter(&t.b, 16*i+60, 16*i+68)
			s.counter(&t.d, 20*i+120, 20*i+130)
		}
	}
}

// DebugDst returns one of the eight pairs of data in a row of Dst. Wormhole shows an invalid row as
// zero, Blackhole as it is.
func (e *Engine) DebugDst(row, pair uint32) uint32 {
	if row >= dstRows || e.registers == nil || e.wormhole && !e.dst.valid[row] {
		return 0
	}
	r := &e.dst.rows[row]
	return uint32(r[2*pair%rowSize]) | uint32(r[(2*pair+1)%rowSize])<<16
}

// Waiting describes what the first instruction of thread n's queue waits for, or is empty.
func (e *Engine) Waiting(n int) string {
	t := &e.threads[n]
	if t.queue.n == 0 {
		return ""
	}
	w := t.queue.peek()
	s := fmt.Sprintf("%s %#08x waits %s", mnemonic(w), w, e.waitsFor(t, w))
	if t.queue.n > 1 {
		s += fmt.Sprintf(", %d more instructions queued", t.queue.n-1)
	}
	return s
}

func (e *Engine) waitsFor(t *thread, w uint32) string {
	switch op := w >> 24; op {
	case opSEMWAIT:
		a := e.decodeSEMWAIT(w)
		i := bits.TrailingZeros32(a.semaphores) % numSemaphores
		if a.condition == whileMax {
			return fmt.Sprintf("while semaphore %d is at its maximum, %d", i, e.sync.max[i])
		}
		return fmt.Sprintf("while semaphore %d is 0", i)
	case opATGETM:
		i := e.decodeATGETM(w).mutex % uint32(len(e.sync.owner))
		return fmt.Sprintf("for mutex %d, which thread %d has", i, int(e.sync.owner[i])-1)
	case opSTALLWAIT:
		return fmt.Sprintf("for conditions %#x: %s", e.decodeSTALLWAIT(w).wait, e.banks())
	case opUNPACR, opUNPACR_NOP:
		s, name := e.source(w >> 23 & 1)
		return fmt.Sprintf("for the matrix unit to free bank %d of %s", s.unpack, name)
	}
	for unit := range uint32(2) {
		if s, name := e.source(unit); usesSource(w, unit) && !s.matrixValid() {
			return fmt.Sprintf("for unpacker %d to fill bank %d of %s", unit, s.matrix, name)
		}
	}
	return "to be executed"
}

func usesSource(w, unit uint32) bool {
	switch w >> 24 {
	case opMOVA2D:
		return unit == 0
	case opMOVB2A, opMOVB2D, opTRNSPSRCB:
		return unit == 1
	}
	return true
}

func (e *Engine) banks() string {
	s := ""
	for unit := range uint32(2) {
		b, name := e.source(unit)
		state := map[bool]string{true: "valid", false: "free"}
		s += fmt.Sprintf("%s has bank %d for the unpacker, which is %s, and %d for the matrix unit, which is %s. ",
			name, b.unpack, state[b.unpackValid()], b.matrix, state[b.matrixValid()])
	}
	return s[:len(s)-2]
}
