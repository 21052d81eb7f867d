// Package hosts keeps meshes on several hosts in step. Each host opens a mesh of its own chips and
// loads, captures and replays by itself. Hosts check that all have the same shape and memory
// ([Join], [Group.InStep]), start replays together ([Group.Replay]), and report failures to each
// other ([Group.Wait]).
//
// All of that uses one operation, [Engine].Exchange, an all-gather of a few bytes. Package mpi has
// the Engine of a job that mpirun started; [InProcess] returns engines of hosts in one process, for
// tests. Starting processes and assigning ranks is left to mpirun, which Slurm and Kubernetes start
// too (docs/hosts.md).
package hosts
