package tensix

import (
	"fmt"
	"math/bits"
)

// Waiting says in words what the first instruction of thread n's queue waits for, or nothing if the queue is empty.
func (e *Engine) Waiting(n int) string {
	t := &e.threads[n]
	if t.queue.n == 0 {
		return ""
	}
	w := t.queue.peek()
	s := fmt.Sprintf("%s %#08x waits %s", mnemonics[w>>24], w, e.waitsFor(t, w))
	if t.queue.n > 1 {
		s += fmt.Sprintf(", %d more instructions queued", t.queue.n-1)
	}
	return s
}

// waitsFor says why an instruction has not been done.
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

// usesSource reports whether an instruction of the matrix unit that waits needs SrcA, 0, or SrcB, 1.
func usesSource(w, unit uint32) bool {
	switch w >> 24 {
	case opMOVA2D:
		return unit == 0
	case opMOVB2A, opMOVB2D, opTRNSPSRCB:
		return unit == 1
	}
	return true
}

// banks says which banks of the sources are whose.
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
