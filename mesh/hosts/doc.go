// Package hosts keeps meshes on several hosts in step. Each host opens a mesh of its own chips and
// loads, captures and replays by itself. Hosts check that all have the same shape and memory
// ([Join], [Group.InStep]), start replays together ([Group.Replay]), and report failures to each
// other ([Group.Wait]).
//
// All of that uses one all-gather of a few bytes, [Engine].Exchange. Package mpi has the Engine of
// a job that mpirun, Slurm or Kubernetes started (docs/hosts.md); [InProcess] returns engines for
// tests.
package hosts
