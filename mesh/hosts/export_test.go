package hosts

import "runtime"

func (l *Local) Waiting() bool {
	runtime.Gosched()
	l.j.mu.Lock()
	defer l.j.mu.Unlock()
	return l.j.round != nil
}

func (l *Local) Gone(rank int) bool {
	runtime.Gosched()
	l.j.mu.Lock()
	defer l.j.mu.Unlock()
	return l.j.gone[rank]
}
