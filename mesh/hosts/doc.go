// Package hosts lets meshes on several hosts work in step. Each host opens a mesh of its own chips, loads and captures by
// itself, and replays by itself. What they need of each other is small: to know that all have the same shape and memory
// ([Join], [Group.InStep]), to start replays together ([Group.Replay]), and to hear of failures ([Group.Finish]).
//
// All of that is one operation, [Engine].Exchange: everybody gives some bytes and gets those of all. [Listen] is an Engine on
// net/rpc of the standard library over connections that the caller makes. Who starts the processes, gives them ranks and
// names, and restarts them is an orchestrator (Kubernetes, Slurm): this package has none, and reads no environment.
// [Simulate] says what an exchange costs with many hosts.
//
// Values don't pass between hosts here: collectives stay within one host's mesh.
package hosts
