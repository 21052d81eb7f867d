package hosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
)

// Node is an Engine on net/rpc: a tree of hosts in which each host calls the one above it.
type Node struct {
	c    Config
	turn chan struct{} // holds a token while an exchange is running
	up   *rpc.Client   // nil on host 0
	stop chan struct{} // closed by Close
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	err    error // why the engine is broken
	round  uint64
	rounds map[uint64]*round // started ones; hosts below may be one ahead
	conns  map[net.Conn]bool
	here   map[int]bool  // hosts below that have connected
	gone   []int         // hosts below whose connections have ended
	lost   chan struct{} // closed when gone grows
}

// Listen connects to the host above and accepts connections of the hosts below until Close. Errors wrap ErrConfig, or the error
// of Dial or of the host above; after an error the caller still owns the listener.
func Listen(ctx context.Context, c Config) (*Node, error) {
	if c.Fan == 0 {
		c.Fan = DefaultFan
	}
	bad := func(format string, a ...any) error {
		return fmt.Errorf("hosts: listen: %w: %s", ErrConfig, fmt.Sprintf(format, a...))
	}
	switch {
	case c.Size < 1 || c.Size > 1<<20 || c.Rank < 0 || c.Rank >= c.Size:
		return nil, bad("rank %d of %d hosts: want a rank from 0 to the number of hosts, which is at most %d", c.Rank, c.Size, 1<<20)
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

// call calls a method of the host above.
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
			return // after Close, or after an error: then an exchange reports the hosts that could not connect
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

// Close aborts exchanges and closes the listener and all connections, which the hosts above and below notice.
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
