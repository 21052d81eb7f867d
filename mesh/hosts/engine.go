package hosts

import "context"

// Engine exchanges bytes between all hosts: with MPI (package mpi), or in a process ([InProcess]).
type Engine interface {
	// Rank returns the number of this host, from 0.
	Rank() int
	// Size returns the number of hosts.
	Size() int
	// Exchange waits until every host has called it and returns the data of each, by rank. Hosts
	// must exchange for the same operations in the same order: if op differs, all get ErrOrder and
	// the engine stays usable. An exchange that ends with its context breaks the engine (LostError,
	// then ErrBroken), unless the context ended before it began. When an exchange fails on one
	// host, another one may have succeeded; its next one fails.
	Exchange(ctx context.Context, op string, mine []byte) ([][]byte, error)
}
