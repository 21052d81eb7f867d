// Package cards lets several processes use one emulated card. [Serve] offers a card of a modelled
// machine at a Unix socket. [Socket] is the target that opens it from another process, for kmd.Open
// and reprise.Open. The protocol is package serve's.
//
//	card := sim.Blackhole(sim.Resident())
//	d, err := card.Driver()
//	...
//	err = cards.Serve(ctx, listener, d, 0)
//
// A client is a process of the driver's model, with its real number and name. Its first connection
// lasts as long as it uses the card. Further connections carry its requests, one at a time each.
// When the client ends, in whatever way, the kernel closes its connections. The model then does
// what the driver does for a killed process: cleanup writes, pins, locks, windows, file by file in
// the kernel's order. So kill -9 can be tested with real processes.
//
// Pinned memory of a client becomes an anonymous file that both processes map, with the same bytes
// at the same address. The request exchanges the pages, so nothing may write to them meanwhile.
// Shared memory (MAP_SHARED) can't be pinned, nor can a range that partly overlaps an earlier one.
// Each access to the card's memory is a request. Peers' BARs can't be mapped. Linux only.
package cards
