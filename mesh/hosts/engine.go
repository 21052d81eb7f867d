package hosts

import "context"

// Engine exchanges bytes between all hosts. Package mpi implements it with MPI, [InProcess] between
// goroutines.
type Engine interface {
	// Rank returns the number of this host, from 0.
	Rank() int
	// Size returns the number of hosts.
	Size() int
	// Exchange waits until every host has called it and returns the data of each, by rank, so it is
	// a barrier too. All hosts must call it for the same operations in the same order; op names the
	// operation and is compared: if the hosts do different ones, all get ErrOrder, and the engine
	// can be used. An exchange that ends with its context breaks the engine (LostError, then
	// ErrBroken); one whose context ended before it began doesn't. When an exchange fails on one
	// host, another one may have succeeded; its next one fails.
	Exchange(ctx context.Context, op string, mine []byte) ([][]byte, error)
}
