package reprise

import "testing"

// Memory that was given comes back for what it fits, the newest first, and not for what would leave
// most of it unused; only so much is kept.
func TestSpares(t *testing.T) {
	var s spares
	mem := func(n int, mark byte) []byte {
		m := make([]byte, n)
		m[0] = mark
		return m
	}
	s.give(nil)
	s.give(mem(largestSpare+1, 1))
	for _, g := range []struct {
		size int
		mark byte
	}{{4096, 2}, {1024, 3}, {4096, 4}, {8192, 5}} {
		s.give(mem(g.size, g.mark))
	}
	for _, c := range []struct {
		n    int
		mark byte
	}{{1025, 0}, {4096, 5}, {4096, 4}, {2048, 2}, {2048, 0}, {1024, 3}, {1024, 0}, {largestSpare + 1, 0}} {
		if got := s.take(c.n); len(got) != c.n || got[0] != c.mark {
			t.Errorf("asked for %d B: %d B, that were given as %d, want %d", c.n, len(got), got[0], c.mark)
		}
	}
	for i := range mostSpares + 2 {
		s.give(mem(1024, byte(i)))
	}
	if len(s.free) != mostSpares || s.free[0][0] != 2 {
		t.Errorf("%d pieces are kept, the oldest was given as %d", len(s.free), s.free[0][0])
	}
}
