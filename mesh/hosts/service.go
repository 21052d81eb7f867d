package hosts

import "fmt"

// Request is the argument of Hosts.Gather.
type Request struct {
	Round uint64
	Parts []byte // encoded
}

// Reply is the result of Hosts.Gather.
type Reply struct{ Parts []byte }

// Greeting is the argument of Hosts.Hello: the caller's Config.
type Greeting struct{ Rank, Size, Fan int }

// service is the methods that one host below calls. rank is 0 until it has called Hello; n.mu guards it.
type service struct {
	n    *Node
	rank int
}

// Hello registers the caller.
func (s *service) Hello(g *Greeting, _ *Greeting) error {
	n := s.n
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case g.Size != n.c.Size || g.Fan != n.c.Fan:
		return fmt.Errorf("%w: %d hosts with fan %d there, %d with fan %d here", ErrConfig, g.Size, g.Fan, n.c.Size, n.c.Fan)
	case g.Rank <= 0 || g.Rank >= n.c.Size || parent(g.Rank, n.c.Fan) != n.c.Rank:
		return fmt.Errorf("%w: host %d is not a child of host %d", ErrConfig, g.Rank, n.c.Rank)
	case s.rank > 0 || n.here[g.Rank]:
		return fmt.Errorf("%w: host %d has connected before: do two processes have the same rank?", ErrConfig, g.Rank)
	}
	n.here[g.Rank], s.rank = true, g.Rank
	return nil
}

// Gather adds the parts of the caller's subtree to the exchange, and returns those of all hosts.
func (s *service) Gather(q *Request, a *Reply) error {
	s.n.mu.Lock()
	rank := s.rank
	s.n.mu.Unlock()
	parts, err := decode(q.Parts)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return fmt.Errorf("%w: host %d sent no parts, not even its own", ErrConfig, rank)
	}
	for _, p := range parts {
		if rank == 0 || p.rank < 0 || p.rank >= s.n.c.Size || !inSubtree(p.rank, rank, s.n.c.Fan) {
			return fmt.Errorf("%w: host %d can't send the part of host %d", ErrConfig, rank, p.rank)
		}
	}
	r, err := s.n.give(q.Round, parts)
	if err != nil {
		return err
	}
	select {
	case <-r.done:
		a.Parts = r.all
		return r.err
	case <-s.n.stop:
		return ErrClosed
	}
}
