package hosts

import (
	"context"
	"net"
)

// Engine exchanges bytes between all hosts. [Listen] returns one; MPI's allgather or a key-value store can implement it too.
type Engine interface {
	// Rank returns the number of this host, from 0.
	Rank() int
	// Size returns the number of hosts.
	Size() int
	// Exchange waits until every host has called it and returns the data of each, by rank, so it is a barrier too. All hosts
	// must call it for the same operations in the same order; op names the operation and is compared (ErrOrder). An exchange
	// that ends with its context breaks the engine (LostError, then ErrBroken).
	Exchange(ctx context.Context, op string, mine []byte) ([][]byte, error)
}

// DefaultFan is the number of hosts that call one parent: see docs/scale.md.
const DefaultFan = 8

// Config is a host's place among the hosts, and how it connects to them.
type Config struct {
	Rank, Size int // number of this host, number of hosts
	// Fan is the number of hosts that call one parent, DefaultFan if 0. The hosts are a tree: host r calls host (r-1)/Fan. With
	// Size-1 all call host 0.
	Fan int
	// Listener accepts the connections of the hosts below. It may be nil on a host without any. Close closes it. Connections are
	// not authenticated: use a private network, or a listener and a Dial with TLS.
	Listener net.Listener
	// Dial connects to a host. It should retry until it succeeds or ctx ends. Host 0 doesn't use it.
	Dial func(ctx context.Context, rank int) (net.Conn, error)
}

// parent returns the host that a host calls.
func parent(rank, fan int) int { return (rank - 1) / fan }

// below returns the size of a host's subtree, itself included.
func below(rank, size, fan int) int {
	n := 0
	for first, last := rank, rank; first < size; first, last = first*fan+1, last*fan+fan {
		n += min(last, size-1) - first + 1
	}
	return n
}

// inSubtree reports whether a host is in the subtree of root.
func inSubtree(rank, root, fan int) bool {
	for rank > root {
		rank = parent(rank, fan)
	}
	return rank == root
}
