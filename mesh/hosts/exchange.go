package hosts

import (
	"context"
	"fmt"
	"slices"
)

// round is an exchange that has started.
type round struct {
	parts map[int]part
	full  chan struct{} // closed when parts has the whole subtree
	done  chan struct{} // closed when all and err are set
	all   []byte        // the encoded parts of all hosts, in order
	err   error
}

// roundLocked returns an exchange by number.
func (n *Node) roundLocked(i uint64) *round {
	r := n.rounds[i]
	if r == nil {
		r = &round{parts: map[int]part{}, full: make(chan struct{}), done: make(chan struct{})}
		n.rounds[i] = r
	}
	return r
}

// give adds parts to an exchange.
func (n *Node) give(i uint64, parts []part) (*round, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil, ErrClosed
	case n.err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBroken, n.err)
	case i < n.round || i > n.round+1:
		return nil, fmt.Errorf("%w: exchange %d, the next one is %d", ErrOrder, i, n.round)
	}
	r := n.roundLocked(i)
	for _, p := range parts {
		if _, twice := r.parts[p.rank]; twice {
			return nil, fmt.Errorf("%w: host %d takes part twice in exchange %d", ErrOrder, p.rank, i)
		}
	}
	for _, p := range parts {
		r.parts[p.rank] = p
	}
	if len(r.parts) == below(n.c.Rank, n.c.Size, n.c.Fan) {
		close(r.full)
	}
	return r, nil
}

// Exchange implements Engine. Its errors are a *LostError, or wrap ErrOrder, ErrBroken, ErrClosed or the error of the
// connection.
func (n *Node) Exchange(ctx context.Context, op string, mine []byte) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("hosts: %s: %w", op, err) // the exchange has not started, so the engine stays usable
	}
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("hosts: %s: %w", op, ctx.Err()) // nor has it here
	}
	n.mu.Lock()
	i := n.round
	n.mu.Unlock()
	r, err := n.give(i, []part{{n.c.Rank, []byte(op), mine}})
	if err != nil {
		return nil, fmt.Errorf("hosts: %s: %w", op, err)
	}
	wire, all, err := n.gather(ctx, i, r, op)
	n.mu.Lock()
	r.all, r.err = wire, err
	n.round++
	delete(n.rounds, i)
	if err != nil {
		n.err = err
		for _, ahead := range n.rounds {
			ahead.err = fmt.Errorf("%w: %w", ErrBroken, err)
			close(ahead.done)
		}
		clear(n.rounds)
	}
	n.mu.Unlock()
	close(r.done)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, n.c.Size)
	for _, p := range all {
		if string(p.op) != op {
			return nil, fmt.Errorf("hosts: %w: host %d is to %s, host %d to %s", ErrOrder, n.c.Rank, op, p.rank, p.op)
		}
		out[p.rank] = p.data
	}
	return out, nil
}

// gather waits for the hosts below, then sends their parts to the host above and waits for those of all hosts. It returns the
// parts of all, encoded and decoded.
func (n *Node) gather(ctx context.Context, i uint64, r *round, op string) ([]byte, []part, error) {
	lost := func(err error) error {
		e := &LostError{Op: op, Err: err}
		n.mu.Lock()
		defer n.mu.Unlock()
		if err == nil {
			e.Err = fmt.Errorf("%w: %v", ErrGone, n.gone)
		}
		for rank := range n.c.Size {
			if _, ok := r.parts[rank]; !ok {
				e.Ranks = append(e.Ranks, rank)
			}
		}
		return e
	}
	for full := false; !full; {
		n.mu.Lock()
		gone := slices.ContainsFunc(n.gone, func(rank int) bool {
			_, ok := r.parts[rank]
			return !ok
		})
		more := n.lost
		n.mu.Unlock()
		if gone {
			return nil, nil, lost(nil)
		}
		select {
		case <-r.full:
			full = true
		case <-more:
		case <-ctx.Done():
			return nil, nil, lost(ctx.Err())
		case <-n.stop:
			return nil, nil, lost(ErrClosed)
		}
	}
	parts := make([]part, 0, len(r.parts)) // it is full, so nothing is added to it
	for _, p := range r.parts {
		parts = append(parts, p)
	}
	if n.up == nil {
		slices.SortFunc(parts, func(a, b part) int { return a.rank - b.rank })
		return encode(parts), parts, nil
	}
	var reply Reply
	if err := n.call(ctx, "Hosts.Gather", &Request{i, encode(parts)}, &reply); err != nil {
		return nil, nil, fmt.Errorf("hosts: %s: host %d through host %d: %w", op, n.c.Rank, parent(n.c.Rank, n.c.Fan), err)
	}
	parts, err := decode(reply.Parts)
	if err == nil {
		err = complete(parts, n.c.Size)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("hosts: %s: host %d through host %d: %w", op, n.c.Rank, parent(n.c.Rank, n.c.Fan), err)
	}
	return reply.Parts, parts, nil
}

// complete returns an error unless there is a part of each host, in order.
func complete(parts []part, size int) error {
	if len(parts) != size {
		return fmt.Errorf("%w: %d hosts there, %d here", ErrConfig, len(parts), size)
	}
	for i, p := range parts {
		if p.rank != i {
			return fmt.Errorf("%w: a part of host %d in place of that of host %d", ErrConfig, p.rank, i)
		}
	}
	return nil
}
