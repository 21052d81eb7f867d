package hosts

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Local is a host of [InProcess].
type Local struct {
	j    *job
	rank int
	turn chan struct{}
}

type job struct {
	mu    sync.Mutex
	round *round
	err   error
	gone  []bool
}

type round struct {
	ops  []string
	data [][]byte
	here []bool
	left int
	done chan struct{} // closed when all have come, or err is set
	err  error
}

// InProcess returns the engines of n > 0 hosts, by rank, that exchange through memory, for tests.
func InProcess(n int) ([]*Local, error) {
	if n < 1 {
		return nil, fmt.Errorf("hosts: in process: %w: %d hosts, want at least one", ErrConfig, n)
	}
	j := &job{gone: make([]bool, n)}
	out := make([]*Local, n)
	for i := range out {
		out[i] = &Local{j: j, rank: i, turn: make(chan struct{}, 1)}
	}
	return out, nil
}

// Rank implements Engine.
func (l *Local) Rank() int { return l.rank }

// Size implements Engine.
func (l *Local) Size() int { return len(l.j.gone) }

// Exchange implements Engine.
func (l *Local) Exchange(ctx context.Context, op string, mine []byte) ([][]byte, error) {
	fail := func(err error) ([][]byte, error) { return nil, fmt.Errorf("hosts: %s: %w", op, err) }
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return fail(ctx.Err())
	}
	r, err := l.j.enter(l.rank, op, slices.Clone(mine))
	if err != nil {
		return fail(err)
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		l.j.mu.Lock()
		if l.j.round == r {
			l.j.endLocked(r, op, ctx.Err())
		}
		l.j.mu.Unlock()
	}
	if r.err != nil {
		return nil, r.err
	}
	for i, o := range r.ops {
		if o != r.ops[0] {
			return fail(fmt.Errorf("%w: host 0 is to %s, host %d to %s", ErrOrder, r.ops[0], i, o))
		}
	}
	out := make([][]byte, len(r.data))
	for i, d := range r.data {
		out[i] = slices.Clone(d)
	}
	return out, nil
}

func (j *job) enter(rank int, op string, data []byte) (*round, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.gone[rank]:
		return nil, ErrClosed
	case j.err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBroken, j.err)
	}
	r := j.round
	if r == nil {
		n := len(j.gone)
		r = &round{ops: make([]string, n), data: make([][]byte, n), here: make([]bool, n), left: n, done: make(chan struct{})}
		j.round = r
	}
	r.ops[rank], r.data[rank], r.here[rank] = op, data, true
	r.left--
	if r.left == 0 {
		j.round = nil
		close(r.done)
		return r, nil
	}
	if slices.Contains(j.gone, true) {
		j.endLocked(r, op, ErrGone)
	}
	return r, nil
}

func (j *job) endLocked(r *round, op string, err error) {
	lost := &LostError{Op: op, Err: err}
	for rank, here := range r.here {
		if !here && (err != ErrGone || j.gone[rank]) {
			lost.Ranks = append(lost.Ranks, rank)
		}
	}
	r.err, j.err, j.round = lost, lost, nil
	close(r.done)
}

// Close ends the host.
func (l *Local) Close() error {
	j := l.j
	j.mu.Lock()
	defer j.mu.Unlock()
	j.gone[l.rank] = true
	if r := j.round; r != nil {
		op := ""
		for i, here := range r.here {
			if here {
				op = r.ops[i]
			}
		}
		j.endLocked(r, op, ErrGone)
	}
	return nil
}
