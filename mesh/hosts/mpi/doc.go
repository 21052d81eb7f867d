// Package mpi is an engine of package hosts on MPI: the processes that mpirun started exchange
// bytes through Open MPI.
//
//	e, err := mpi.Open(ctx, mpi.Options{})      // in each process of: mpirun -n 4 program
//	g, err := hosts.Join(ctx, e, m)
//
// Open loads Open MPI 4.1 or newer by the name of its library, so a program needs neither cgo nor
// MPI's headers, but the system's C library. MPICH is not supported: it has another ABI and ends a
// job whatever its error handlers say.
//
// With fault tolerance (ULFM: Open MPI 5, mpirun --with-ft ulfm) an exchange fails on all other
// hosts with a *hosts.LostError soon after a process has ended, and when a context has ended on one
// of them. Without it mpirun ends the job when a process is killed; a host whose context ends
// leaves, and the others wait until theirs do. [Engine.FaultTolerant] says which.
package mpi
