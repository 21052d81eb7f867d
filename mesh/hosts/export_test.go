package hosts

import "runtime"

// Waiting reports whether a host is in an exchange.
func (l *Local) Waiting() bool {
	runtime.Gosched()
	l.j.mu.Lock()
	defer l.j.mu.Unlock()
	return l.j.round != nil
}

// Gone reports whether a host is closed.
func (l *Local) Gone(rank int) bool {
	runtime.Gosched()
	l.j.mu.Lock()
	defer l.j.mu.Unlock()
	return l.j.gone[rank]
}
