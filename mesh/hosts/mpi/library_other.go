//go:build !linux || !(amd64 || arm64 || riscv64)

package mpi

type openMPI struct{}

func load(string) (*openMPI, error) { return nil, ErrNoLibrary }

func (*openMPI) start() (communicator, error) { return nil, ErrNoLibrary }
