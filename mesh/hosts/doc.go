// Package hosts keeps meshes on several hosts in step. Each host opens a mesh of its own chips and loads, captures and replays by
// itself. Hosts check that all have the same shape and memory ([Join], [Group.InStep]), start replays together ([Group.Replay]),
// and report failures to each other ([Group.Wait]).
//
// All of that uses one operation, [Engine].Exchange, an all-gather of a few bytes. [Listen] returns an Engine on the standard
// library's net/rpc over connections that the caller makes. Starting the processes, assigning ranks and restarting is left to an
// orchestrator (Kubernetes, Slurm); this package reads no environment. [Simulate] estimates the cost of an exchange with many
// hosts.
//
// No tensors pass between hosts: collectives stay within one host's mesh.
package hosts
