package hosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"slices"
	"sync"
)

// Engine is what hosts need of each other. [Listen] makes one; MPI's allgather or a store of keys would do as well.
type Engine interface {
	// Rank is the number of this host, from 0.
	Rank() int
	// Size is how many hosts there are.
	Size() int
	// Exchange waits until every host has called it and returns what each gave, by rank. All must call it for the same things
	// in the same order; what says which one, and is compared (ErrOrder). Nothing passes before all have come, so it is a
	// barrier too. One that ends with its context breaks the engine (LostError, then ErrBroken).
	Exchange(ctx context.Context, what string, mine []byte) ([][]byte, error)
}

// DefaultFan is how many hosts talk to one that is above them: see docs/scale.md.
const DefaultFan = 8

// Config says which host this is and how to reach others.
type Config struct {
	Rank, Size int // of this host; how many there are
	// Fan is how many hosts call one, DefaultFan if 0. They are a tree: host r calls (r-1)/Fan. With Size-1 all call host 0.
	Fan int
	// Listener takes calls of the hosts below; nil if there are none. Close closes it. Whoever reaches it can take part: use
	// a network of the hosts' own, or a listener and a Dial with TLS.
	Listener net.Listener
	// Dial connects to a host, and tries until it is there or ctx ends. Host 0 doesn't use it.
	Dial func(ctx context.Context, rank int) (net.Conn, error)
}

// parent returns the host that a host calls.
func parent(rank, fan int) int { return (rank - 1) / fan }

// below returns how many hosts a host speaks for: itself and all that come to it.
func below(rank, size, fan int) int {
	n := 0
	for first, last := rank, rank; first < size; first, last = first*fan+1, last*fan+fan {
		n += min(last, size-1) - first + 1
	}
	return n
}

// behind says whether a host's word comes by another one.
func behind(rank, over, fan int) bool {
	for rank > over {
		rank = parent(rank, fan)
	}
	return rank == over
}

// Node is an Engine on net/rpc: a tree of hosts, of which each calls the one above it.
type Node struct {
	c    Config
	turn chan struct{} // who exchanges has it
	up   *rpc.Client   // nil on host 0
	stop chan struct{} // closed by Close
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	err    error // why the engine is broken
	round  uint64
	rounds map[uint64]*round // of the hosts below, which may be one ahead
	conns  map[net.Conn]bool
	here   map[int]bool  // hosts below that are connected
	gone   []int         // hosts below that were, and no longer are
	lost   chan struct{} // closed with the next of them
}

// round is an exchange under way.
type round struct {
	parts map[int]part
	full  chan struct{} // closed when all have come
	done  chan struct{} // closed when all and err are set
	all   []byte        // the parts of all hosts, in order, as they are on the wire
	err   error
}

// Listen connects to the host above and takes calls of those below until Close. The error wraps ErrConfig, or is Dial's; after
// one the listener is still the caller's to close.
func Listen(ctx context.Context, c Config) (*Node, error) {
	if c.Fan == 0 {
		c.Fan = DefaultFan
	}
	bad := func(format string, a ...any) error {
		return fmt.Errorf("hosts: listen: %w: %s", ErrConfig, fmt.Sprintf(format, a...))
	}
	switch {
	case c.Size < 1 || c.Size > 1<<20 || c.Rank < 0 || c.Rank >= c.Size:
		return nil, bad("rank %d of %d hosts: want one from 0 on, of at most %d hosts", c.Rank, c.Size, 1<<20)
	case c.Fan < 0 || c.Fan > 1<<20:
		return nil, bad("fan %d: want 1 to %d", c.Fan, 1<<20)
	case c.Rank > 0 && c.Dial == nil:
		return nil, bad("host %d has no Dial, to reach host %d", c.Rank, parent(c.Rank, c.Fan))
	case c.Listener == nil && below(c.Rank, c.Size, c.Fan) > 1:
		return nil, bad("host %d has no Listener, and host %d calls it", c.Rank, c.Rank*c.Fan+1)
	}
	n := &Node{c: c, turn: make(chan struct{}, 1), stop: make(chan struct{}), rounds: map[uint64]*round{},
		conns: map[net.Conn]bool{}, here: map[int]bool{}, lost: make(chan struct{})}
	if c.Rank > 0 {
		conn, err := c.Dial(ctx, parent(c.Rank, c.Fan))
		if err == nil && conn == nil {
			err = fmt.Errorf("%w: Dial gave no connection and no error", ErrConfig)
		}
		if err != nil {
			return nil, fmt.Errorf("hosts: host %d calls host %d: %w", c.Rank, parent(c.Rank, c.Fan), err)
		}
		n.up = rpc.NewClient(conn)
		if err := n.call(ctx, "Hosts.Hello", &Greeting{c.Rank, c.Size, c.Fan}, &Greeting{}); err != nil {
			return nil, errors.Join(fmt.Errorf("hosts: host %d calls host %d: %w", c.Rank, parent(c.Rank, c.Fan), err), n.up.Close())
		}
	}
	if c.Listener != nil {
		n.wg.Go(n.accept)
	}
	return n, nil
}

// call calls the host above.
func (n *Node) call(ctx context.Context, method string, args, reply any) error {
	call := n.up.Go(method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-ctx.Done():
		return ctx.Err()
	case <-n.stop:
		return ErrClosed
	}
	if text := rpc.ServerError(""); errors.As(call.Error, &text) {
		return fmt.Errorf("%w: %w", ErrElsewhere, call.Error)
	}
	return call.Error
}

func (n *Node) accept() {
	for {
		conn, err := n.c.Listener.Accept()
		if err != nil {
			return // Close closed it; hosts that come later are missed by the exchange, which says so
		}
		n.mu.Lock()
		if n.closed {
			n.mu.Unlock()
			_ = conn.Close()
			return
		}
		n.conns[conn] = true
		n.mu.Unlock()
		n.wg.Go(func() {
			s, caller := rpc.NewServer(), &service{n: n}
			if s.RegisterName("Hosts", caller) == nil {
				s.ServeConn(conn)
			}
			_ = conn.Close()
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.conns, conn)
			if caller.rank > 0 && !n.closed {
				n.gone = append(n.gone, caller.rank)
				close(n.lost)
				n.lost = make(chan struct{})
			}
		})
	}
}

// Rank implements Engine.
func (n *Node) Rank() int { return n.c.Rank }

// Size implements Engine.
func (n *Node) Size() int { return n.c.Size }

// Close ends exchanges under way, and the connections, by which the hosts above and below notice.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	close(n.stop)
	var errs []error
	if n.c.Listener != nil {
		errs = append(errs, n.c.Listener.Close())
	}
	for c := range n.conns {
		_ = c.Close()
	}
	n.mu.Unlock()
	if n.up != nil {
		if err := n.up.Close(); !errors.Is(err, rpc.ErrShutdown) {
			errs = append(errs, err)
		}
	}
	n.wg.Wait()
	return errors.Join(errs...)
}

// at returns the exchange of a number. n.mu is held.
func (n *Node) at(i uint64) *round {
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
		return nil, fmt.Errorf("%w: exchange %d, and the next one is %d", ErrOrder, i, n.round)
	}
	r := n.at(i)
	for _, p := range parts {
		if _, twice := r.parts[p.rank]; twice {
			return nil, fmt.Errorf("%w: host %d is there twice in exchange %d", ErrOrder, p.rank, i)
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

// Exchange implements Engine. Its errors are a *LostError, or wrap ErrOrder, ErrBroken, ErrClosed or what the connection
// says.
func (n *Node) Exchange(ctx context.Context, what string, mine []byte) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("hosts: %s: %w", what, err) // it has not begun, and breaks nothing
	}
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("hosts: %s: %w", what, ctx.Err()) // nor here
	}
	n.mu.Lock()
	i := n.round
	n.mu.Unlock()
	r, err := n.give(i, []part{{n.c.Rank, []byte(what), mine}})
	if err != nil {
		return nil, fmt.Errorf("hosts: %s: %w", what, err)
	}
	wire, all, err := n.gather(ctx, i, r, what)
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
		if string(p.what) != what {
			return nil, fmt.Errorf("hosts: %w: host %d is to %s, host %d to %s", ErrOrder, n.c.Rank, what, p.rank, p.what)
		}
		out[p.rank] = p.data
	}
	return out, nil
}

// gather waits for the hosts below, and has the host above wait for all. It returns the parts of all, and their bytes.
func (n *Node) gather(ctx context.Context, i uint64, r *round, what string) ([]byte, []part, error) {
	lost := func(err error) error {
		e := &LostError{What: what, Err: err}
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
	parts := make([]part, 0, len(r.parts)) // nobody adds to it any more
	for _, p := range r.parts {
		parts = append(parts, p)
	}
	if n.up == nil {
		slices.SortFunc(parts, func(a, b part) int { return a.rank - b.rank })
		return encode(parts), parts, nil
	}
	var reply Reply
	if err := n.call(ctx, "Hosts.Gather", &Request{i, encode(parts)}, &reply); err != nil {
		return nil, nil, fmt.Errorf("hosts: %s: host %d by host %d: %w", what, n.c.Rank, parent(n.c.Rank, n.c.Fan), err)
	}
	parts, err := decode(reply.Parts)
	if err == nil {
		err = complete(parts, n.c.Size)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("hosts: %s: host %d by host %d: %w", what, n.c.Rank, parent(n.c.Rank, n.c.Fan), err)
	}
	return reply.Parts, parts, nil
}

// complete says whether there is a part of each host, in order.
func complete(parts []part, size int) error {
	if len(parts) != size {
		return fmt.Errorf("%w: there it is %d hosts, here %d", ErrConfig, len(parts), size)
	}
	for i, p := range parts {
		if p.rank != i {
			return fmt.Errorf("%w: the part of host %d is in the place of host %d", ErrConfig, p.rank, i)
		}
	}
	return nil
}

// Request is a call of the host above, as it is on the wire.
type Request struct {
	Round uint64
	Parts []byte // as encode makes them
}

// Reply is its answer.
type Reply struct{ Parts []byte }

// Greeting says who calls, and how hosts are arranged where it is.
type Greeting struct{ Rank, Size, Fan int }

// service is what one host below calls. Its rank is 0 until that host has said who it is; n.mu guards it.
type service struct {
	n    *Node
	rank int
}

// Hello says who calls.
func (s *service) Hello(g *Greeting, _ *Greeting) error {
	n := s.n
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case g.Size != n.c.Size || g.Fan != n.c.Fan:
		return fmt.Errorf("%w: %d hosts with fan %d there, %d with fan %d here", ErrConfig, g.Size, g.Fan, n.c.Size, n.c.Fan)
	case g.Rank <= 0 || g.Rank >= n.c.Size || parent(g.Rank, n.c.Fan) != n.c.Rank:
		return fmt.Errorf("%w: host %d is not for host %d to speak for", ErrConfig, g.Rank, n.c.Rank)
	case s.rank > 0 || n.here[g.Rank]:
		return fmt.Errorf("%w: host %d has called before: are two processes the same host?", ErrConfig, g.Rank)
	}
	n.here[g.Rank], s.rank = true, g.Rank
	return nil
}

// Gather adds the parts of the caller and those behind it, and returns those of all.
func (s *service) Gather(q *Request, a *Reply) error {
	s.n.mu.Lock()
	rank := s.rank
	s.n.mu.Unlock()
	parts, err := decode(q.Parts)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return fmt.Errorf("%w: host %d gives nothing, not even its own part", ErrConfig, rank)
	}
	for _, p := range parts {
		if rank == 0 || p.rank < 0 || p.rank >= s.n.c.Size || !behind(p.rank, rank, s.n.c.Fan) {
			return fmt.Errorf("%w: host %d has no part of host %d", ErrConfig, rank, p.rank)
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
