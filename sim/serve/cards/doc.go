// Package cards lets several processes use one emulated card. [Serve] offers a card of a modelled
// machine at a Unix socket; [Socket] is the target that opens it from another process.
//
//	card := sim.Blackhole(sim.Resident())
//	d, err := card.Driver()
//	...
//	err = cards.Serve(ctx, listener, d, 0)
//
// A client is a process of the driver's model, with its real number and name. Its first connection
// lasts as long as it uses the card; further ones carry its requests. When the client ends, the
// kernel closes them, and the model does what the driver does for a killed process: cleanup writes,
// pins, locks, windows, file by file in the kernel's order. So kill -9 can be tested with real
// processes.
//
// Pinned memory of a client becomes an anonymous file that both processes map, with the same bytes
// at the same address; nothing may write to it during the request. Shared memory (MAP_SHARED) can't
// be pinned, nor a range that partly overlaps an earlier one. Peers' BARs can't be mapped, and
// windows not exported. Package preload has a client in C. Linux only.
package cards
