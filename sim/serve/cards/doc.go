// Package cards is the service that lets processes use one emulated card together. [Serve] offers a
// card of a modelled machine at a Unix socket; [Socket] is the target that opens it from another
// process, for kmd.Open and reprise.Open alike. The protocol is package serve's.
//
//	card := sim.Blackhole(sim.Resident())
//	d, err := card.Driver()
//	...
//	err = cards.Serve(ctx, listener, d, 0)
//
// A process that connects is a process of the driver's model, with its real number and name. It has
// one connection that lasts as long as it uses the card, and further ones for its requests, of
// which as many are under way as there are connections. When it ends, in whatever way, the kernel
// closes them, and the model does what the driver does after a process is killed: cleanup writes,
// pins, locks, windows, file by file in the kernel's order. So a kill -9 of a process that holds a
// card can be tried with real processes.
//
// Memory that a client pins becomes a file without a name that both processes map, with the same
// bytes at the same address. The pages are exchanged while they are being pinned, so nothing may
// write to them during that request; what is shared already (MAP_SHARED) can't be pinned, nor can a
// range that only partly overlaps an earlier one. Accesses to the card's memory are requests to the
// server. Peers' BARs can't be mapped. It works on Linux.
package cards
