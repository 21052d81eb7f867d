package reprise

import (
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/dispatch"
)

type scratch struct {
	state dispatch.State // after what was recorded
	prior dispatch.State // before what was recorded last
	mem   []byte         // to record in
}

// spares keeps the memory of released traces: fresh memory is cache-cold, and Go has to clear it.
type spares struct {
	mu   sync.Mutex
	free [][]byte // most recently given, and so cache-warm, last
}

// Enough for short traces, whose capture takes as long as their memory.
const (
	mostSpares   = 32
	largestSpare = 16 << 10 // bytes
)

// take returns n bytes with arbitrary contents. Reused memory is at most twice as large.
func (s *spares) take(n int) []byte {
	s.mu.Lock()
	for i := len(s.free) - 1; i >= 0; i-- {
		if mem := s.free[i]; n <= cap(mem) && cap(mem) <= 2*n {
			s.free = slices.Delete(s.free, i, i+1)
			s.mu.Unlock()
			return mem[:n]
		}
	}
	s.mu.Unlock()
	return make([]byte, n)
}

// give adds memory that nothing refers to. A full list drops its oldest entry.
func (s *spares) give(mem []byte) {
	if cap(mem) == 0 || cap(mem) > largestSpare {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == mostSpares {
		s.free = slices.Delete(s.free, 0, 1)
	}
	s.free = append(s.free, mem)
}
