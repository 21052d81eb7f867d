package reprise

import (
	"context"
	"fmt"
	"sync"
)

// use counts who works with what a trace has in memory, so that a release waits for them. It is no lock, because who
// steps through a trace may read its results, verify or save it in between.
type use struct {
	mu       sync.Mutex
	n        int
	alone    bool          // the trace is being stepped through or checked
	idle     chan struct{} // closed when n falls to 0, if somebody waits for it
	going    bool          // a release is under way, or has failed and is to be called again
	released bool

	freeing sync.Mutex // held by a release
}

// enter begins a use. alone is for those that run the trace in pieces.
func (u *use) enter(alone bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.released || u.going {
		return ErrReleased
	}
	u.n++
	u.alone = u.alone || alone
	return nil
}

// leave ends a use.
func (u *use) leave(alone bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if alone {
		u.alone = false
	}
	if u.n--; u.n == 0 && u.idle != nil {
		close(u.idle)
		u.idle = nil
	}
}

// close says that the trace is going to be released: nobody enters any more. It waits for those who have.
func (u *use) close(ctx context.Context) error {
	u.mu.Lock()
	if u.released {
		u.mu.Unlock()
		return ErrReleased
	}
	if u.alone {
		u.mu.Unlock()
		return ErrReserved
	}
	u.going = true
	if u.n == 0 {
		u.mu.Unlock()
		return nil
	}
	if u.idle == nil {
		u.idle = make(chan struct{})
	}
	idle := u.idle
	u.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("it is in use: %w; call Release again", context.Cause(ctx))
	}
}

func (u *use) done() {
	u.mu.Lock()
	u.released = true
	u.mu.Unlock()
}

// enter begins a use of what the trace has in memory. The caller calls leave.
func (t *Trace) enter(op string) (leave func(), err error) {
	what := fmt.Sprintf("%s trace %q", op, t.name)
	for i := range t.calls {
		if err := t.calls[i].d.usable(what); err != nil {
			return nil, err
		}
	}
	u := &t.owner().use
	if err := u.enter(false); err != nil {
		return nil, fmt.Errorf("reprise: %s: %w", what, err)
	}
	return func() { u.leave(false) }, nil
}
